"""A person's moves along the ladder: a rung skipped, a rung taken back."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from idempotent_actions.exceptions import InvalidInput, LadderExhausted
from idempotent_actions.models import Capture
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests import asking
from tests.asking import DAY, ON_REMINDER, WEEK, Service, skip_rung, step_back
from tests.invoices import DUE, climbed, make_invoice, now_there, trail

pytestmark = pytest.mark.django_db

each_move = pytest.mark.parametrize("move", [skip_rung, step_back])


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


def sent(invoice: Invoice) -> list[str]:
    """The notices that went out, in order."""
    notices = Capture.objects.about(invoice).filter(state="succeeded")
    return [capture.params["rung"] for capture in notices]


def tick_at(instant: datetime) -> None:
    with travel(instant):
        tick()


def test_a_skipped_rung_sends_nothing_and_the_next_one_comes_when_it_would_have() -> None:
    invoice = make_invoice(due_at=DUE + DAY)

    assert skip_rung(invoice)

    for instant in (DUE, DUE + DAY, DUE + DAY + WEEK - timedelta(minutes=1)):
        tick_at(instant)
        assert sent(invoice) == []
    tick_at(DUE + DAY + WEEK)
    assert sent(invoice) == ["warning"]
    assert trail(invoice) == ["skip_rung reminder", "escalate warning"]


def test_an_overdue_subject_waits_the_skipped_rungs_time_from_now_on() -> None:
    invoice = make_invoice(due_at=DUE - 30 * DAY)
    assert skip_rung(invoice)
    assert now_there(invoice).next_at == DUE + WEEK


def test_a_rung_may_be_skipped_while_the_one_before_it_waits() -> None:
    invoice = make_invoice(**ON_REMINDER)  # the warning would come in a week
    assert skip_rung(invoice)
    assert now_there(invoice).next_at == DUE + 2 * WEEK
    tick_at(DUE + 2 * WEEK)
    assert climbed(invoice) == ["final_notice"]


def test_what_the_rung_before_has_not_sent_is_no_longer_sent() -> None:
    invoice = make_invoice()
    asking.act(invoice)  # its notice is not delivered yet

    assert skip_rung(now_there(invoice))
    tick()

    assert sent(invoice) == []
    assert [capture.state for capture in Capture.objects.about(invoice)] == ["void"]
    assert now_there(invoice).next_at == DUE + WEEK


def test_a_rung_taken_back_is_climbed_and_sent_once_more() -> None:
    invoice = make_invoice()
    tick()
    tick_at(DUE + WEEK)
    assert sent(invoice) == ["reminder", "warning"]

    with travel(DUE + WEEK):
        assert step_back(now_there(invoice))

    tick_at(DUE + 2 * WEEK - timedelta(minutes=1))
    assert sent(invoice) == ["reminder", "warning"]
    tick_at(DUE + 2 * WEEK)
    assert sent(invoice) == ["reminder", "warning", "warning"]
    assert trail(invoice)[2:] == ["step_back reminder", "escalate warning"]


def test_below_the_first_rung_the_next_poll_climbs_it_again() -> None:
    invoice = make_invoice(**ON_REMINDER, escalated_at=DUE)
    assert step_back(invoice)
    there = now_there(invoice)
    assert (there.status, there.rung, there.next_at, there.escalated_at) == ("open", "", None, None)
    tick()
    assert climbed(invoice) == ["reminder"]


def test_from_the_ladders_end_it_goes_back_by_one_rung() -> None:
    invoice = make_invoice(status="exhausted", rung="final_notice")
    assert step_back(invoice)
    there = now_there(invoice)
    assert (there.status, there.rung, there.next_at) == ("escalated", "warning", DUE + WEEK)
    tick_at(DUE + WEEK)
    assert climbed(invoice) == ["final_notice"]


def test_below_the_first_rung_there_is_nothing_to_take_back() -> None:
    outcome = step_back(make_invoice(status="overdue"))
    assert (outcome.applied, outcome.reason) == (False, "below_first")


def test_past_the_end_there_is_nothing_to_skip() -> None:
    with pytest.raises(LadderExhausted):
        skip_rung(make_invoice(status="escalated", rung="final_notice", next_at=DUE + DAY))


@each_move
def test_from_a_rung_that_is_no_longer_declared_there_is_no_way(move: Service) -> None:
    outcome = move(make_invoice(status="escalated", rung="gone", next_at=DUE))
    assert (outcome.applied, outcome.reason) == (False, "unknown_rung")


@each_move
@pytest.mark.parametrize("status", ["resolved", "cancelled"])
def test_what_is_over_is_not_moved(move: Service, status: str) -> None:
    outcome = move(make_invoice(status=status, rung="warning"))
    assert (outcome.applied, outcome.reason) == (False, "wrong_status")


@each_move
def test_without_what_the_person_saw_a_second_click_would_move_twice(move: Service) -> None:
    invoice = make_invoice(**ON_REMINDER)
    with pytest.raises(InvalidInput, match=r"needs seen=\(cycle, rung\)"):
        move(invoice, seen=None)
    assert trail(invoice) == []


@each_move
def test_a_second_click_moves_nothing(move: Service) -> None:
    invoice = make_invoice(**ON_REMINDER)
    assert move(invoice)
    again = move(invoice)
    assert (again.applied, again.reason) == (False, "stale_view")
    assert len(trail(invoice)) == 1


@each_move
def test_a_stale_write_after_a_move_is_healed(move: Service) -> None:
    invoice = make_invoice(status="escalated", rung="warning", next_at=DUE + WEEK)
    assert move(invoice)
    moved: dict[str, Any] = {**Invoice.objects.filter(pk=invoice.pk).values().get()}
    before = {"status": "overdue", "rung": "warning", "revision": 0, "next_at": DUE}
    Invoice.objects.filter(pk=invoice.pk).update(**before)

    tick()

    moved["escalated_at"] = now_there(invoice).escalated_at
    assert Invoice.objects.filter(pk=invoice.pk).values().get() == moved
    assert climbed(invoice) == []
