"""Errors of the database itself: a constraint that some rows break, a failure that passes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection, models

__all__ = ["constraint", "passing_failure"]

SERIALIZATION_FAILURE = "40001"


@contextmanager
def constraint(model: type[models.Model], condition: str) -> Iterator[None]:
    """Let the table of `model` refuse rows that don't fulfil the SQL `condition`."""
    table = connection.ops.quote_name(model._meta.db_table)
    _run(f"ALTER TABLE {table} ADD CONSTRAINT no_poison CHECK ({condition}) NOT VALID")
    try:
        yield
    finally:
        _run(f"ALTER TABLE {table} DROP CONSTRAINT no_poison")


@contextmanager
def passing_failure(
    model: type[models.Model], times: int, sqlstate: str = SERIALIZATION_FAILURE
) -> Iterator[Callable[[], int]]:
    """Let the first `times` UPDATEs of `model` fail, and the later ones pass.

    Yields a function that tells how many were tried: a sequence counts them, which no rollback
    puts back.
    """
    table = connection.ops.quote_name(model._meta.db_table)
    _run("CREATE SEQUENCE updates_tried")
    _run(
        "CREATE FUNCTION fail_at_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF nextval('updates_tried') <= {times} THEN"
        f"   RAISE EXCEPTION 'try again' USING ERRCODE = '{sqlstate}'; END IF;"
        " RETURN NULL; END $$"
    )
    _run(
        f"CREATE TRIGGER fail_at_first BEFORE UPDATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION fail_at_first()"
    )
    try:
        yield _updates_tried
    finally:
        _run(f"DROP TRIGGER fail_at_first ON {table}")
        _run("DROP FUNCTION fail_at_first()")
        _run("DROP SEQUENCE updates_tried")


def _updates_tried() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM updates_tried")
        (count,) = cursor.fetchone() or (0,)
    return int(count)


def _run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
