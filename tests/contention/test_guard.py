"""What changes between candidate query and lock, or while a locker waits, is seen by the guard."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from idempotent_actions import LadderAction, candidates, polling, polls, services, testing
from idempotent_actions.models import Escalation
from idempotent_actions.registry import registry
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.contention.threads import Background, until_a_backend_waits_for_a_lock

Overdue = Callable[[int], list[Invoice]]
ACTION = "escalate_overdue:billing.invoice"


class OnlyUndisputed(LadderAction):
    """Its rule looks at another table: a group named after the invoice stands for a dispute."""

    model = Invoice

    def due(self, now: Any) -> Q:
        disputes = Group.objects.filter(name=OuterRef("number"))
        return super().due(now) & Q(~Exists(disputes))


@pytest.fixture
def undisputed() -> Iterator[None]:
    """Put ``OnlyUndisputed`` in the place of the example's action."""
    registry.remove(ACTION)
    try:
        with testing.registered(OnlyUndisputed):
            yield
    finally:
        registry.add(EscalateInvoices())


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something on another connection after the candidates are read and before the lock."""
    read = candidates.candidate_pks

    def arrange(change: Callable[[], object]) -> None:
        def read_then_change(action: Any, *args: Any) -> Iterator[list[Any]]:
            for page in read(action, *args):
                if page and action.name == ACTION:
                    with Background() as background:
                        background.run(change).result(30)
                yield page

        monkeypatch.setattr(polls, "candidate_pks", read_then_change)

    return arrange


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda: Invoice.objects.filter(number="00001").update(paid_at=timezone.now()), "resolved"),
        (
            lambda: Invoice.objects.filter(number="00001").update(
                due_at=timezone.now() + timedelta(days=1)
            ),
            "not_due",
        ),
        (
            lambda: Invoice.objects.filter(number="00001").update(
                hold_until=timezone.now() + timedelta(days=1)
            ),
            "held",
        ),
        (lambda: Invoice.objects.filter(number="00001").update(status="cancelled"), "wrong_status"),
        (lambda: Invoice.objects.filter(number="00001").delete(), "gone"),
    ],
    ids=["paid", "rescheduled", "held", "cancelled", "deleted"],
)
def test_a_row_that_changes_between_poll_and_lock_is_not_touched_and_is_counted(
    overdue: Overdue, between: Any, change: Callable[[], object], reason: str
) -> None:
    overdue(3)
    between(change)
    (report,) = polling.escalate_overdue(Invoice)
    assert (report.applied, report.skipped) == (2, {reason: 1})
    assert report.selected == 3
    untouched = Invoice.objects.filter(number="00001").first()
    assert untouched is None or untouched.rung == ""


@pytest.mark.usefixtures("undisputed")
def test_a_change_in_another_table_between_poll_and_lock_is_seen(
    overdue: Overdue, between: Any
) -> None:
    overdue(3)
    between(lambda: Group.objects.create(name="00001"))
    (report,) = polling.escalate_overdue(Invoice)
    assert (report.applied, report.skipped) == (2, {"not_due": 1})


@pytest.mark.usefixtures("undisputed")
def test_a_change_in_another_table_while_waiting_for_the_lock_is_seen(overdue: Overdue) -> None:
    """One statement that locks and asks would answer the subquery from its old snapshot."""
    (invoice,) = overdue(1)
    with Background() as background:
        with transaction.atomic():
            Invoice.objects.select_for_update().get(pk=invoice.pk)
            act = background.run(lambda: services.act(ACTION, invoice, by="ann", reason="asked"))
            until_a_backend_waits_for_a_lock()
            Group.objects.create(name=invoice.number)
        outcome = act.result(30)
    assert (outcome.applied, outcome.reason) == (False, "not_due")
    assert not Escalation.objects.exists()


def test_a_caller_with_a_stale_instance_gets_the_state_under_the_lock(overdue: Overdue) -> None:
    (invoice,) = overdue(1)
    stale = Invoice.objects.get()
    polling.escalate_overdue(Invoice)
    outcome = services.act(ACTION, stale, by="ann", reason="asked")
    assert not outcome.applied
    assert outcome.subject.rung == "reminder"
    assert stale.rung == ""
    assert Escalation.objects.filter(subject_pk=str(invoice.pk)).count() == 1
