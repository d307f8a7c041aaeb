"""What a poll reads: buffers in proportion to what is due, whatever the table's size."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection, models
from django.utils import timezone

from idempotent_actions import polling
from idempotent_actions.actions import Action, Branch
from idempotent_actions.candidates import candidate_query
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.registry import registry
from project.billing.models import Invoice
from tests.scale.models import Chase

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

ROWS = 1_000_000
LEFT_OPEN = 20_000  # paid, but their ladder was never told
PER_DUE_ROW = 2
CONSTANT = 100  # the way down the indexes, and their pages in between

# 1 in 10 waits on its first rung, 3 in 10 are over, the rest are not due yet. Tomorrow
# about a thousand of them are due, each on a page of its own: the worst that a table can do.
STATES = """
    CASE WHEN g <= {left_open} THEN 'open' WHEN g % 10 < 3 THEN 'resolved'
         WHEN g % 10 = 3 THEN 'escalated' ELSE 'open' END,
    CASE WHEN g <= {left_open} OR g % 10 <= 3 THEN now() - interval '30 days'
         WHEN g % 2000 = 1004 THEN now() + interval '1 day'
         ELSE now() + interval '30 days' END + g * interval '1 millisecond',
    CASE WHEN g > {left_open} AND g % 10 = 3 THEN
         now() + CASE WHEN g % 2000 = 1003 THEN interval '1 day' ELSE interval '30 days' END END
"""


def fill_own_table() -> None:
    execute(
        """
        INSERT INTO billing_invoice
            (number, customer, email, amount, paid_at, status, due_at, next_at)
        SELECT 'n' || g, repeat('x', 60), 'a@example.org', 1,
               CASE WHEN g <= {left_open} OR g % 10 < 3 THEN now() END, {states}
        FROM generate_series(1, {rows}) g
        """
    )


def fill_side_rows() -> None:
    execute(
        """
        INSERT INTO scale_account (id, settled, padding)
        SELECT g, g <= {left_open} OR g % 10 < 3, repeat('x', 60)
        FROM generate_series(1, {rows}) g
        """
    )
    execute(
        """
        INSERT INTO scale_chase (account_id, status, due_at, next_at)
        SELECT g, {states} FROM generate_series(1, {rows}) g
        """
    )


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        states = STATES.format(left_open=LEFT_OPEN)
        cursor.execute(statement.format(rows=ROWS, left_open=LEFT_OPEN, states=states))


def passes(action: LadderAction, now: datetime) -> Iterator[tuple[Action, Branch]]:
    for each in (action.detection, action):
        for branch in each.branches(now):
            yield each, branch


def explain(action: Action, branch: Branch) -> tuple[int, int]:
    """Return the rows that the candidate query found and the buffers that it touched."""
    page = candidate_query(action, branch)[:10_000]
    (plan,) = json.loads(page.explain(analyze=True, buffers=True, format="json"))
    top = plan["Plan"]
    return top["Actual Rows"], top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def vacuum(*tables: str) -> None:
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"VACUUM ANALYZE {table}")


@pytest.mark.parametrize(
    ("model", "fill", "tables"),
    [
        (Invoice, fill_own_table, ("billing_invoice",)),
        (Chase, fill_side_rows, ("scale_account", "scale_chase")),
    ],
    ids=["own table", "side row"],
)
def test_the_poll_reads_in_proportion_to_what_is_due(
    model: type[models.Model], fill: object, tables: tuple[str, ...]
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("EXPLAIN (ANALYZE, BUFFERS) is PostgreSQL's")
    assert callable(fill)
    fill()
    vacuum(*tables)
    action = registry.ladder_for(model)
    assert action is not None
    due = ROWS // 1_000 - LEFT_OPEN // 1_000  # none of those left open

    (report,) = polling.escalate_overdue(model)  # once: the paid ones left open are ended
    assert (report.resolved, report.marked, report.applied) == (LEFT_OPEN, 0, 0)

    vacuum(*tables)  # as autovacuum does after so many updates

    tomorrow = timezone.now() + timedelta(days=1, hours=1)
    found = touched = 0
    for each, branch in passes(action, tomorrow):
        rows, buffers = explain(each, branch)
        print(f"{each.name} {branch.order_by}: {rows} rows, {buffers} buffers")
        found, touched = found + rows, touched + buffers
    assert found == due
    assert touched <= PER_DUE_ROW * due + CONSTANT

    (report,) = polling.mark_overdue(model, now=tomorrow)
    assert report.marked == due
    rows, buffers = explain(action, action.branches(tomorrow)[0])
    print(f"{action.name}: {rows} rows, {buffers} buffers")
    assert rows == due
    assert buffers <= PER_DUE_ROW * due + CONSTANT
