"""Inserting many rows of the app's own tables: COPY where there is one, bulk_create elsewhere."""

from collections.abc import Sequence
from typing import Any

from django.db import connections

__all__ = ["insert_rows"]

_COPY_FROM = 20
"""Rows. Below, a plain INSERT is as fast, and it tells the new primary keys."""


def insert_rows(rows: Sequence[Any], using: str) -> None:
    """Insert unsaved ``rows`` of one model, inside the caller's transaction.

    Raises ``IntegrityError`` as an INSERT does. Rows that went by COPY don't learn their key.
    """
    if not rows:
        return
    connection = connections[using]
    if connection.vendor == "postgresql" and len(rows) >= _COPY_FROM:
        _copy(rows, connection)
    else:
        type(rows[0])._base_manager.using(using).bulk_create(rows)


def _copy(rows: Sequence[Any], connection: Any) -> None:
    from psycopg import sql

    table = rows[0]._meta
    fields = [each for each in table.concrete_fields if not each.primary_key]
    columns = [sql.Identifier(field.column) for field in fields]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.db_table), sql.SQL(", ").join(columns)
    )
    # psycopg's own errors come out of COPY: unlike execute(), Django doesn't wrap it.
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for row in rows:
            values = row.__dict__
            copy.write_row([values[field.attname] for field in fields])
