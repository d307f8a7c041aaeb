"""Trials T7 and T10: several at once for one key, between looking it up and claiming it."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from idempotent_actions import Park, Receipt, Reconcile, Replay, crashpoints, effect, services
from idempotent_actions.effects import Call, Effect
from idempotent_actions.exceptions import KeyReused
from idempotent_actions.models import Capture, CaptureAttempt, Escalation
from project.billing.models import Invoice
from tests.contention.threads import Background, race, until_a_backend_waits_for_a_lock
from tests.hosts import outside
from tests.invoices import LADDER, climbed, make_invoice
from tests.processes import Meet, in_processes
from tests.registering import only
from tests.trials.posting import PostNotices, notices
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 6


def charge(call: Call) -> Receipt:
    return Receipt(outside.do("charge", call.params["card"], call.idempotency_key))


def find(call: Call) -> Receipt | None:
    return outside.find("charge", call.params["card"])


EFFECTS = [
    effect(name="trials.charge_parked", recovery=Park())(charge),
    effect(name="trials.charge_replayed", recovery=Replay())(charge),
    effect(name="trials.charge_reconciled", recovery=Reconcile(find))(charge),
]
each_recovery = pytest.mark.parametrize("effect", EFFECTS, ids=str)
CARD = {"card": "4242"}


@pytest.fixture
def all_have_looked() -> Iterator[None]:
    """Nobody claims before all have read that there is something to claim."""
    barrier = Barrier(AT_ONCE, timeout=30)

    def meet(point: str) -> None:
        if point == "after_intent":
            barrier.wait()

    crashpoints.install(meet)
    yield
    crashpoints.install(None)


def perform(effect: Effect) -> Capture:
    return services.perform(effect, key=("order", 1), params=CARD)


@each_recovery
def test_t10_performed_by_several_at_once_one_insert_wins_and_no_loser_sees_an_exception(
    effect: Effect,
) -> None:
    answers = race([partial(perform, effect)] * AT_ONCE)
    assert len(outside.deeds()) == outside.called() == 1
    assert {each.pk for each in answers} == {Capture.objects.get().pk}
    assert {each.state for each in answers} <= {"succeeded", "sending"}
    assert CaptureAttempt.objects.count() == 1


@each_recovery
def test_t10_who_comes_while_the_winner_is_at_it_is_told_so_and_later_what_came_of_it(
    effect: Effect,
) -> None:
    outside.behave("hanging")
    with Background(1) as background:
        winner = background.run(partial(perform, effect))
        until(outside.is_at_work, "the charge to be made")
        assert [each.state for each in race([partial(perform, effect)] * 3)] == ["sending"] * 3
        outside.behave("well")
        assert winner.result(30).state == "succeeded"
    assert perform(effect).provider_ref == "charge 1"
    assert outside.called() == 1


@pytest.mark.usefixtures("all_have_looked")
@pytest.mark.parametrize("by", [perform, lambda effect: services.deliver(workers=0)])
@each_recovery
def test_t10_all_have_read_the_request_before_one_claims_it(
    effect: Effect, by: Callable[[Effect], Any]
) -> None:
    services.request(effect, key=("order", 1), params=CARD)
    race([partial(by, effect)] * AT_ONCE)
    assert len(outside.deeds()) == outside.called() == 1
    capture = Capture.objects.get()
    assert (capture.state, capture.token, capture.attempts) == ("succeeded", 1, 1)


@pytest.mark.usefixtures("all_have_looked")
def test_t10_all_have_read_an_unknown_outcome_before_one_repeats_it() -> None:
    replayed = EFFECTS[1]
    outside.behave("lost")
    assert perform(replayed).state == "unknown"  # a new key looks nothing up: no barrier
    outside.behave("well")
    now = timezone.now() + timedelta(hours=1)
    race([partial(services.deliver, workers=0, now=now)] * AT_ONCE)
    assert (len(outside.deeds()), outside.called()) == (1, 2)
    assert Capture.objects.get().token == 2


@each_recovery
def test_t10_a_request_that_somebody_is_just_committing_is_waited_for_and_performed_once(
    effect: Effect,
) -> None:
    with Background(1) as background:
        with transaction.atomic():
            services.request(effect, key=("order", 1), params=CARD)
            performing = background.run(partial(perform, effect))
            until_a_backend_waits_for_a_lock()
            assert outside.called() == 0
        assert performing.result(30).state == "succeeded"
    assert len(outside.deeds()) == Capture.objects.count() == 1


@each_recovery
def test_t10_a_request_that_is_rolled_back_leaves_the_key_to_the_other_one(effect: Effect) -> None:
    with Background(1) as background:
        with transaction.atomic():
            services.request(effect, key=("order", 1), params=CARD)
            performing = background.run(partial(perform, effect))
            until_a_backend_waits_for_a_lock()
            transaction.set_rollback(True)
        assert performing.result(30).state == "succeeded"
    assert len(outside.deeds()) == Capture.objects.count() == 1


def test_t10_requested_by_several_at_once_it_is_one_capture_and_no_exception() -> None:
    def ask() -> int:
        with transaction.atomic():
            return services.request(EFFECTS[0], key=("order", 1), params=CARD).pk

    assert len(set(race([ask] * AT_ONCE))) == 1
    services.deliver()
    assert outside.called() == 1


def test_t10_the_same_key_for_something_else_is_an_error_for_all_but_the_first() -> None:
    def ask(card: str) -> str:
        try:
            return str(services.perform(EFFECTS[0], key="order", params={"card": card}).state)
        except KeyReused:
            return "reused"

    answers = race([partial(ask, f"card {n}") for n in range(AT_ONCE)])
    assert sorted(answers) == ["reused"] * (AT_ONCE - 1) + ["succeeded"]
    assert outside.called() == 1


def act_and_deliver(meet: Meet, pk: int) -> list[Any]:
    """Runs in a child: load the instance, wait for the others, act, and deliver what came of it."""
    with only(PostNotices):
        invoice = Invoice.objects.get(pk=pk)
        meet()
        outcome = services.act(LADDER, invoice, by="clerk", reason="a double click")
        meet()
        report = services.deliver(workers=1)
        meet()
        report = services.deliver(workers=1)  # whoever met at the row
    return [outcome.applied, outcome.reason, report.not_done]


def test_t7_three_processes_with_a_loaded_instance_have_one_effect() -> None:
    invoice = make_invoice(due_at=timezone.now() - timedelta(days=1))
    target = f"{__name__}.{act_and_deliver.__name__}"
    outcomes = in_processes(target, *[[invoice.pk]] * 3)
    losers = [[False, "not_due", 0]] * 2
    assert sorted(outcomes) == [*losers, [True, "", 0]]
    assert notices(invoice) == climbed(invoice) == ["reminder"]
    assert outside.called() == Capture.objects.count() == Escalation.objects.count() == 1
