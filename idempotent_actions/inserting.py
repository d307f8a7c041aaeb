"""Inserting many rows of the app's own tables: COPY where there is one, bulk_create elsewhere."""

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import JSONField

__all__ = ["insert_rows"]

_COPY_FROM = 20
"""Rows. Below, a plain INSERT is as fast, and it tells the new primary keys."""


def insert_rows(rows: Sequence[Any], using: str, *, keys_needed: bool = False) -> None:
    """Insert unsaved ``rows`` of one model, inside the caller's transaction.

    Raises ``IntegrityError`` as an INSERT does. Rows that went by COPY don't learn their primary
    key unless ``keys_needed``.
    """
    if not rows:
        return
    connection = connections[using]
    if connection.vendor == "postgresql" and len(rows) >= _COPY_FROM:
        if keys_needed:
            _reserve_keys(rows, connection)
        _copy(rows, connection, with_keys=keys_needed)
    else:
        type(rows[0])._base_manager.using(using).bulk_create(rows)


def _reserve_keys(rows: Sequence[Any], connection: Any) -> None:
    """Take the next primary keys out of the sequence, as the INSERT would have."""
    key = rows[0]._meta.pk
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)",
            [connection.ops.quote_name(rows[0]._meta.db_table), key.column, len(rows)],
        )
        for row, (value,) in zip(rows, cursor.fetchall(), strict=True):
            row.pk = value


def _copy(rows: Sequence[Any], connection: Any, *, with_keys: bool) -> None:
    from psycopg import sql

    table = rows[0]._meta
    fields = [each for each in table.concrete_fields if with_keys or not each.primary_key]
    jsons = {each.attname for each in fields if isinstance(each, JSONField)}
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
            copy.write_row(
                [
                    field.get_db_prep_save(values[field.attname], connection)
                    if field.attname in jsons
                    else values[field.attname]
                    for field in fields
                ]
            )
