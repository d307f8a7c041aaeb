"""Several effects on a rung, effects that fail, none at all: when the next rung may come."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from idempotent_actions import Receipt, effect, polling, services
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Effect, Intent
from idempotent_actions.models import Capture
from idempotent_actions.testing import travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, climbed, make_invoice, now_there, trail
from tests.registering import only
from tests.trials.posting import DAY, HOUR, WEEK, PostNotices, notices, post, tick_at

pytestmark = pytest.mark.django_db(transaction=True)


def deed(kind: str, call: Call) -> Receipt:
    with outside.reached():
        return Receipt(outside.do(kind, call.params["number"], call.idempotency_key))


@effect(name="trials.text", on_failed="proceed")
def text(call: Call) -> Receipt:
    """A text message, which may well fail."""
    return deed("text", call)


@effect(name="trials.register", on_failed="wait")
def register(call: Call) -> Receipt:
    """An entry in a register, without which nothing goes on."""
    return deed("entry", call)


@effect(name="trials.call", max_attempts=3)
def call_up(call: Call) -> Receipt:
    """A call, tried three times."""
    return deed("call", call)


@effect(name="trials.farewell")
def farewell(call: Call) -> Receipt:
    """What is done when nothing is left to climb."""
    return deed("farewell", call)


def ladder(*effects: Effect) -> type[EscalateInvoices]:
    class Several(EscalateInvoices):
        def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
            return [each(number=invoice.number) for each in effects]

    return Several


def next_at() -> datetime | None:
    return Invoice.objects.get().next_at


def capture(of: Effect) -> Capture:
    return Capture.objects.filter(effect=of.name).latest("id")


@pytest.fixture(autouse=True)
def invoice() -> Invoice:
    return make_invoice()


class TestOneThatFails:
    def test_on_failed_proceed_the_ladder_goes_on(self, invoice: Invoice) -> None:
        outside.behave("declined")
        with only(ladder(text)):
            for day in range(60):
                tick_at(DUE + day * DAY)
        assert climbed(invoice) == ["reminder", "warning", "final_notice"]
        assert outside.called("text") == 4  # at the three rungs, and at the end

    def test_on_failed_wait_it_waits_for_a_person(self, invoice: Invoice) -> None:
        outside.behave("declined")
        with only(ladder(register)):
            for day in range(60):
                tick_at(DUE + day * DAY)
        assert (climbed(invoice), next_at(), outside.called()) == (["reminder"], None, 1)
        assert [each.state for each in Capture.objects.for_a_person()] == ["failed"]

    def test_a_persons_void_lets_the_ladder_go_on_from_then(self, invoice: Invoice) -> None:
        outside.behave("declined")
        with only(ladder(register)):
            tick_at(DUE)
            decided = DUE + 9 * DAY
            with travel(decided):
                assert services.void(capture(register), note="never mind", by="clerk")
            assert next_at() == decided + WEEK
            tick_at(decided + WEEK - timedelta(seconds=1))
            assert climbed(invoice) == ["reminder"]
            tick_at(decided + WEEK)
            assert climbed(invoice) == ["reminder", "warning"]
        assert outside.deeds() == []

    def test_a_persons_word_that_it_was_done_lets_it_go_on_as_well(self, invoice: Invoice) -> None:
        outside.behave("lost")
        with only(ladder(register)):
            tick_at(DUE)
            with travel(DUE + DAY):
                assert capture(register).state == "review"
                done = {"provider_ref": "entry 7", "note": "it is there", "by": "clerk"}
                assert services.mark_succeeded(capture(register), **done)
        assert next_at() == DUE + DAY + WEEK

    @pytest.mark.parametrize(("of", "goes_on"), [(text, True), (register, False)])
    def test_a_persons_word_that_it_has_failed_counts_as_a_failure(
        self, of: Effect, goes_on: bool
    ) -> None:
        outside.behave("lost")
        with only(ladder(of)):
            tick_at(DUE)
            with travel(DUE + DAY):
                assert services.mark_failed(capture(of), note="it is not there", by="clerk")
        assert next_at() == (DUE + DAY + WEEK if goes_on else None)

    def test_not_reached_three_times_it_has_failed(self, invoice: Invoice) -> None:
        outside.behave("down")
        with only(ladder(call_up)):
            for day in range(10):
                tick_at(DUE + day * DAY)
            assert (outside.called(), capture(call_up).state) == (3, "failed")
            assert next_at() is None

    def test_retried_by_a_person_it_counts_from_the_notice(self, invoice: Invoice) -> None:
        outside.behave("declined")
        with only(ladder(register)):
            tick_at(DUE)
            outside.behave("well")
            with travel(DUE + 9 * DAY):
                assert services.retry_same_key(capture(register), note="again", by="clerk")
            assert next_at() is None
            tick_at(DUE + 10 * DAY)
        assert next_at() == DUE + 10 * DAY + WEEK
        assert len(outside.deeds()) == 1


class TestTwoOnOneRung:
    @pytest.mark.parametrize("late", ["text", "entry"])
    def test_the_wait_counts_from_the_last_to_settle(self, late: str) -> None:
        outside.behave("down", late)
        with only(ladder(text, register)):
            tick_at(DUE)
            assert next_at() is None
            outside.behave("well", late)
            tick_at(DUE + 3 * DAY)
        assert next_at() == DUE + 3 * DAY + WEEK
        assert len(outside.deeds()) == 2

    def test_one_that_is_done_is_not_done_again_for_the_others_sake(self) -> None:
        outside.behave("down", "entry")
        with only(ladder(text, register)):
            for day in range(30):
                tick_at(DUE + day * DAY)
        assert (outside.called("text"), len(outside.deeds())) == (1, 1)

    def test_they_have_different_keys(self) -> None:
        with only(ladder(text, register)):
            tick_at(DUE)
        assert len({each.key for each in outside.deeds()}) == 2

    def test_one_that_may_fail_and_one_that_waits_for_a_person(self, invoice: Invoice) -> None:
        outside.behave("declined", "text")
        with only(ladder(text, register)):
            tick_at(DUE)
            assert next_at() == DUE + WEEK
        outside.behave("declined", "entry")
        with only(ladder(text, register)):
            tick_at(DUE + WEEK)
        assert (climbed(invoice), next_at()) == (["reminder", "warning"], None)

    def test_settled_by_two_workers_at_once_the_deadline_is_set(self) -> None:
        with only(ladder(text, register)), travel(DUE):
            for _ in range(2):  # what one leaves because the other had the row
                polling.tick(workers=2)
        assert next_at() == DUE + WEEK


class TestTheEndOfTheLadder:
    def test_it_may_have_effects_of_its_own_once(self, invoice: Invoice) -> None:
        class AtTheEnd(EscalateInvoices):
            def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
                if step.exhausted:
                    assert step.rung is None
                    yield farewell(number=invoice.number)

        with only(AtTheEnd):
            for day in range(90):
                tick_at(DUE + day * DAY)
        assert trail(invoice)[-1] == "exhaust final_notice"
        assert len(outside.deeds("farewell")) == len(outside.deeds()) == 1
        assert (now_there(invoice).status, next_at()) == ("exhausted", None)

    def test_settled_before_it_is_delivered_nothing_is_sent(self, invoice: Invoice) -> None:
        Invoice.objects.update(status="overdue", rung="final_notice")
        with only(ladder(farewell)):
            tick_at(DUE, deliver=False)
            assert now_there(invoice).status == "exhausted"
            Invoice.objects.update(paid_at=DUE)
            tick_at(DUE + DAY)
        assert outside.called() == 0
        assert capture(farewell).state == "void"


class TestNone:
    @pytest.mark.parametrize("effects", [(), [], None], ids=repr)
    def test_a_rung_without_effects_sets_the_deadline_at_once(self, effects: Any) -> None:
        class Silent(EscalateInvoices):
            def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
                if effects is None:
                    return
                yield from effects

        with only(Silent):
            tick_at(DUE + timedelta(seconds=30), deliver=False)
        assert next_at() == DUE + WEEK
        assert not Capture.objects.exists()

    def test_rungs_with_and_without_take_turns(self, invoice: Invoice) -> None:
        class Second(PostNotices):
            def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
                if step.rung and step.rung.name == "warning":
                    yield post(number=invoice.number, rung="warning", amount=invoice.amount)

        with only(Second):
            for hours in range(0, 24 * 40, 12):
                tick_at(DUE + hours * HOUR)
        assert notices(invoice) == ["warning"]
        assert now_there(invoice).status == "exhausted"
