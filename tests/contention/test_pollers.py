"""Several polls over the same rows, in processes and in threads, and beside a person's act."""

from collections.abc import Callable

import pytest
from django.db import transaction

from idempotent_actions import polling, services
from idempotent_actions.models import Escalation, Run
from project.billing.models import Invoice
from tests.contention.children import start_together
from tests.contention.threads import Background, race, until_a_backend_waits_for_a_lock

ACTION = "escalate_overdue:billing.invoice"

POLL = """
from idempotent_actions.polling import escalate_overdue
from project.billing.models import Invoice
(report,) = escalate_overdue(Invoice, batch_size=40)
print(json.dumps({"applied": report.applied, "failed": report.failed}))
"""

Overdue = Callable[[int], list[Invoice]]
Climbs = Callable[[], dict[str, int]]


@pytest.mark.slow
def test_eight_processes_share_two_hundred_due_rows_and_double_none(
    overdue: Overdue, climbs: Climbs
) -> None:
    overdue(200)
    results = start_together([POLL] * 8)
    assert sum(each["applied"] for each in results) == 200
    assert sum(each["failed"] for each in results) == 0
    assert sorted(climbs().values()) == [1] * 200
    assert Invoice.objects.filter(status="escalated", rung="reminder").count() == 200


def test_eight_threads_share_two_hundred_due_rows_and_double_none(
    overdue: Overdue, climbs: Climbs
) -> None:
    overdue(200)
    reports = race([lambda: polling.escalate_overdue(Invoice, batch_size=40)[0]] * 8)
    assert sum(report.applied for report in reports) == 200
    assert sum(report.failed for report in reports) == 0
    assert sorted(climbs().values()) == [1] * 200
    for report in reports:
        assert report.selected == report.applied + sum(report.skipped.values())
        assert report.run is not None
        run = Run.objects.get(pk=report.run)
        assert (run.applied, run.skipped) == (report.applied, dict(report.skipped))


def test_a_poll_passes_by_a_row_that_a_host_has_locked_and_does_the_rest(
    overdue: Overdue, climbs: Climbs
) -> None:
    first, *rest = overdue(5)
    polling.mark_overdue(Invoice)
    with Background() as background, transaction.atomic():
        Invoice.objects.select_for_update().get(number=first.number)
        (report,) = background.run(lambda: polling.escalate_overdue(Invoice)).result(30)
    assert report.applied == 4
    assert report.skipped == {"locked": 1}
    assert set(climbs()) == {str(each.pk) for each in rest}


def test_a_persons_act_waits_for_the_lock_and_then_climbs(overdue: Overdue, climbs: Climbs) -> None:
    (invoice,) = overdue(1)
    with Background() as background:
        with transaction.atomic():
            Invoice.objects.select_for_update().get(number=invoice.number)
            act = background.run(lambda: services.act(ACTION, invoice, by="ann", reason="asked"))
            until_a_backend_waits_for_a_lock()
            assert not climbs()
        assert act.result(30).applied
    assert climbs() == {str(invoice.pk): 1}


def test_a_poll_and_a_persons_act_on_one_row_are_one_climb(overdue: Overdue) -> None:
    def poll() -> int:
        return sum(report.applied for report in polling.escalate_overdue(Invoice, limit=1))

    for invoice in overdue(25):

        def act(invoice: Invoice = invoice) -> int:
            outcome = services.act(ACTION, invoice, by="ann", reason="asked", seen=(1, ""))
            return int(outcome.applied)

        before = Escalation.objects.count()
        polled, acted = race([poll, act])
        assert Escalation.objects.filter(subject_pk=str(invoice.pk)).count() <= 1
        assert Escalation.objects.count() - before == polled + acted
    polling.escalate_overdue(Invoice)
    assert Escalation.objects.count() == 25
