"""Statements that the ledger repeats are prepared, if the host lets them be."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from idempotent_actions.databases import repeating_cursor

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL prepares"),
]

STATEMENT = "SELECT %s::int + 1"


@pytest.fixture
def raw() -> Iterator[Any]:
    """The psycopg connection, with the host's own threshold put back at the end."""
    connection.ensure_connection()
    found: Any = connection.connection
    threshold = found.prepare_threshold
    yield found
    found.prepare_threshold = threshold


def repeat() -> int:
    """Send the statement some times; return how often it is prepared on the connection."""
    for number in range(7):
        with repeating_cursor(connection) as cursor:
            cursor.execute(STATEMENT, [number])
            assert cursor.fetchone() == (number + 1,)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int + 1'"
        )
        (count,) = cursor.fetchone()
    return int(count)


@pytest.mark.parametrize(("threshold", "prepared"), [(None, 0), (3, 1)])
def test_statements_are_prepared_where_the_host_says_so(
    raw: Any, threshold: int | None, prepared: int
) -> None:
    raw.prepare_threshold = threshold
    assert repeat() == prepared


@pytest.mark.parametrize("threshold", [None, 3])
def test_they_are_logged_as_all_others(raw: Any, threshold: int | None) -> None:
    raw.prepare_threshold = threshold
    with CaptureQueriesContext(connection) as queries:
        repeat()
    assert len(queries) == 8
