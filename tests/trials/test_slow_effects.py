"""Trial T1: a handler that takes longer than its lease, and is redelivered meanwhile and after."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from django.core import checks
from django.utils import timezone

from idempotent_actions import Park, Receipt, Reconcile, Replay, clock, effect, polling
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Effect, Intent, Recovery, all_effects
from idempotent_actions.models import Capture, CaptureAttempt, Escalation
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.contention.threads import Background
from tests.hosts import outside
from tests.invoices import LADDER, climbed, make_invoice, now_there
from tests.registering import only
from tests.waiting import until

MOMENT = timedelta(milliseconds=1)
LEASE = timedelta(milliseconds=100)


def handle(call: Call) -> Receipt:
    number = call.params["number"]
    return Receipt(outside.do("slow", number, call.idempotency_key, keeps_keys=True))


def look(call: Call) -> Receipt | None:
    return outside.find("slow", call.params["number"])


def slow(name: str, recovery: Recovery) -> Effect:
    return effect(name=f"trials.slow_{name}", recovery=recovery, timeout=MOMENT, lease=LEASE)(
        handle
    )


EFFECTS = {
    "park": slow("park", Park()),
    "replay": slow("replay", Replay()),
    "reconcile": slow("reconcile", Reconcile(look, settle_time=timedelta(0))),
}


def action_with(handler: Effect) -> type[EscalateInvoices]:
    class Slow(EscalateInvoices):
        def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
            yield handler(number=invoice.number)

    return Slow


def deliver() -> int:
    (report,) = polling.tick(LADDER, workers=0)
    assert report.failed == 0, report.errors
    return report.delivery.performed if report.delivery else 0


def lease_is_over() -> bool:
    return Capture.objects.filter(state="sending", wake_at__lte=clock.now()).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", EFFECTS)
def test_t1_redelivered_in_the_middle_and_after_the_end_it_is_one_effect_one_rung_one_capture(
    kind: str,
) -> None:
    invoice = make_invoice(due_at=timezone.now() - timedelta(days=1))
    outside.behave("hanging", "slow")
    with only(action_with(EFFECTS[kind])), Background(2) as background:
        first = background.run(deliver)
        until(outside.is_at_work, "the handler to be at work")
        until(lease_is_over, "the end of the lease")
        second = background.run(deliver)
        if kind == "replay":  # asked again, under the key that the provider knows
            until(lambda: outside.called() == 2, "the redelivery")
        else:
            assert second.result(30) == 0
        assert outside.is_at_work()
        assert climbed(invoice) == ["reminder"]
        outside.behave("well", "slow")
        assert first.result(30) == 1
        assert second.result(30) == (kind == "replay")
        for _ in range(3):
            assert deliver() == 0

    assert len(outside.deeds("slow")) == 1
    assert Escalation.objects.count() == Capture.objects.count() == 1
    assert Capture.objects.get().state == "succeeded"
    assert now_there(invoice).next_at is not None


@pytest.mark.django_db(transaction=True)
def test_t1_before_the_lease_ends_a_redelivery_finds_nothing_to_do() -> None:
    make_invoice(due_at=timezone.now() - timedelta(days=1))
    patient = effect(name="trials.slow_patient", timeout=timedelta(minutes=1))(handle)
    outside.behave("hanging", "slow")
    with only(action_with(patient)), Background(1) as background:
        first = background.run(deliver)
        until(outside.is_at_work, "the handler to be at work")
        assert [deliver() for _ in range(3)] == [0, 0, 0]
        assert Capture.objects.get().token == 1
        outside.behave("well", "slow")
        assert first.result(30) == 1
    assert outside.called() == 1


@pytest.mark.django_db(transaction=True)
def test_t1_the_late_truth_of_a_worker_that_was_given_up_stands_on_its_attempt() -> None:
    make_invoice(due_at=timezone.now() - timedelta(days=1))
    outside.behave("hanging", "slow")
    with only(action_with(EFFECTS["reconcile"])), Background(1) as background:
        first = background.run(deliver)
        until(lease_is_over, "the end of the lease")
        until(outside.is_at_work, "the handler to be at work")
        deliver()  # the provider says that it is done
        settled = Capture.objects.get()
        assert settled.state == "succeeded"
        outside.behave("well", "slow")
        first.result(30)
    capture, attempt = Capture.objects.get(), CaptureAttempt.objects.get()
    assert (capture.state, capture.finished_at) == ("succeeded", settled.finished_at)
    assert (attempt.outcome, attempt.late) == ("succeeded", True)


def nothing(call: Call) -> None:
    """Never called."""


@pytest.mark.parametrize(
    ("timeout", "lease", "warns"),
    [
        (3 * MOMENT, 2 * MOMENT, True),
        (3 * MOMENT, 3 * MOMENT, True),
        (3 * MOMENT, 4 * MOMENT, False),
        (timedelta(days=2), None, False),
    ],
)
def test_t1_a_system_check_warns_of_a_lease_that_does_not_outlast_its_effect(
    timeout: timedelta, lease: timedelta | None, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {each.name: each for each in all_effects()}
    monkeypatch.setattr("idempotent_actions.effects._effects", known)
    effect(name="trials.leased", timeout=timeout, lease=lease)(nothing)
    told = [each for each in checks.run_checks() if "trials.leased" in str(each.msg)]
    assert [each.id for each in told] == (["idempotent_actions.W002"] if warns else [])
