"""SIGKILL in the middle of a batch: nothing is lost, nothing is doubled."""

import signal
from collections.abc import Callable

import pytest

from idempotent_actions import polling
from idempotent_actions.models import Escalation, Run
from project.billing.models import Invoice
from tests.contention.children import go, read_line, start

POLL_UNTIL = """
from django.db import connection
from idempotent_actions.polling import escalate_overdue
from project.billing.models import Invoice

def stop_here():
    print("here", flush=True)
    sys.stdin.read()

{setup}
escalate_overdue(Invoice, batch_size=20)
"""

IN_A_TRANSITION = """
from django_fsm.signals import post_transition
climbed = []
def count(sender, name, **kwargs):
    climbed.extend([name] if name == "escalate" else [])
    if len(climbed) == 30:
        stop_here()
post_transition.connect(count, weak=False)
"""

BEFORE_A_STATEMENT = """
seen = []
def watch(execute, sql, params, many, context):
    seen.append(sql)
    if {condition}:
        stop_here()
    return execute(sql, params, many, context)
connection.execute_wrappers.append(watch)
"""

UPDATES = "sum('UPDATE \"billing_invoice\"' in each for each in seen)"

KILL_POINTS = {
    "in the second batch's transitions": IN_A_TRANSITION,
    "after the UPDATE, before its COMMIT": BEFORE_A_STATEMENT.format(
        condition=f"{UPDATES} == 2 and sql.startswith('RELEASE')"
    ),
    "after the COMMIT, before its counts": BEFORE_A_STATEMENT.format(
        condition=f"{UPDATES} == 2 and 'UPDATE \"idempotent_actions_run\"' in sql"
    ),
}


@pytest.mark.parametrize("point", KILL_POINTS)
def test_a_poller_killed_mid_batch_loses_nothing_and_doubles_nothing(
    overdue: Callable[[int], list[Invoice]], climbs: Callable[[], dict[str, int]], point: str
) -> None:
    overdue(50)
    polling.mark_overdue(Invoice)
    child = start(POLL_UNTIL.format(setup=KILL_POINTS[point]))
    go(child)
    assert read_line(child) == "here"
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL

    after_the_kill = Escalation.objects.count()
    assert after_the_kill == Invoice.objects.filter(rung="reminder").count()
    assert 0 < after_the_kill < 50, "the kill came outside of the work"
    (killed,) = Run.objects.filter(finished_at=None)
    assert killed.outcome == "unfinished"
    assert killed.applied <= after_the_kill

    (report,) = polling.escalate_overdue(Invoice)
    assert report.applied == 50 - after_the_kill
    assert sorted(climbs().values()) == [1] * 50
