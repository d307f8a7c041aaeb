"""Tallies: rows counted by some of their columns, no more of them than a limit.

A million rows aren't read for a page. Django groups a whole table or nothing: it refuses to group
what is limited.
"""

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections, models

__all__ = ["statement", "tally"]


def tally(rows: models.QuerySet[Any], *columns: str) -> list[tuple[Any, ...]]:
    """Count ``rows``, limited by a slice, by their ``columns``.

    A column is an annotation, or a field stored under its own name. Returns tuples of their values,
    as the database has them, with the count at the end.
    """
    try:
        inner, params = statement(rows, *columns)
    except EmptyResultSet:
        return []
    connection = connections[rows.db]
    names = ", ".join(connection.ops.quote_name(each) for each in columns)
    outer = f"SELECT {names}, COUNT(*) FROM ({inner}) limited GROUP BY {names}"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(outer, params)
        return list(cursor.fetchall())


def statement(rows: models.QuerySet[Any], *columns: str) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL that selects ``columns`` of ``rows``, and its parameters.

    Raises ``EmptyResultSet`` where no row can be found, as Django does.
    """
    compiler = rows.values_list(*columns).query.get_compiler(rows.db)
    sql, params = compiler.as_sql()
    return sql, tuple(params)
