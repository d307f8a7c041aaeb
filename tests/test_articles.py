"""The two tests that every article on this subject ends with, in this project's terms."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django_fsm import TransitionNotAllowed
from django_fsm.signals import post_transition

from idempotent_actions import services
from idempotent_actions.exceptions import LadderExhausted
from idempotent_actions.models import Escalation
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there, trail

pytestmark = pytest.mark.django_db


@contextmanager
def transitions() -> Iterator[list[str]]:
    """Collect the state changes of invoices, like "overdue -> escalated"."""
    seen: list[str] = []

    def note(source: Any, target: Any, **kwargs: Any) -> None:
        seen.append(f"{source} -> {target}")

    post_transition.connect(note, sender=Invoice)
    try:
        yield seen
    finally:
        post_transition.disconnect(note, sender=Invoice)


def test_acting_twice_in_a_row_gives_one_status_change_one_rung_one_audit_row() -> None:
    invoice = make_invoice(status="overdue")
    with travel(DUE), transitions() as seen:
        first = services.act(LADDER, invoice, by="clerk", reason="button")
        second = services.act(LADDER, invoice, by="clerk", reason="button")

    assert (first.applied, second.applied, second.reason) == (True, False, "not_due")
    assert seen == ["overdue -> escalated"]
    assert now_there(invoice).rung == "reminder"
    assert Escalation.objects.count() == 1


def test_ticking_twice_in_a_row_gives_one_status_change_one_rung_one_audit_row() -> None:
    invoice = make_invoice(status="overdue")
    with travel(DUE), transitions() as seen:
        (first,) = tick(LADDER)
        (second,) = tick(LADDER)

    assert (first.applied, second.applied, second.selected) == (1, 0, 0)
    assert seen == ["overdue -> escalated"]
    assert now_there(invoice).rung == "reminder"
    assert Escalation.objects.count() == 1


def test_a_button_after_a_tick_and_a_tick_after_a_button_do_nothing_more() -> None:
    invoice = make_invoice()
    with travel(DUE):
        tick(LADDER)
        assert not services.act(LADDER, invoice, by="clerk", reason="button")
        tick(LADDER)
    assert trail(invoice) == ["escalate reminder"]


def at_the_end(number: int = 1) -> Invoice:
    return make_invoice(number, status="overdue", rung="final_notice")


def test_escalate_at_the_ladders_end_raises_from_the_model_and_changes_nothing() -> None:
    invoice = at_the_end()
    with pytest.raises(LadderExhausted, match="'final_notice' is the last rung"):
        invoice.escalate()
    assert (invoice.status, invoice.rung) == ("overdue", "final_notice")
    assert (invoice.next_at, invoice.escalated_at) == (None, None)


def test_acting_at_the_ladders_end_raises_from_the_service_and_writes_nothing() -> None:
    invoice = at_the_end()
    with travel(DUE), pytest.raises(LadderExhausted, match="'final_notice' is the last rung"):
        services.act(LADDER, invoice, by="clerk", reason="button")
    assert now_there(invoice).status == "overdue"
    assert trail(invoice) == []


def test_a_poll_at_the_ladders_end_exhausts_that_row_and_goes_on_with_the_others() -> None:
    ended, *others = at_the_end(1), make_invoice(2), make_invoice(3)
    with travel(DUE):
        (report,) = tick(LADDER)

    assert (report.applied, report.exhausted, report.failed) == (3, 1, 0)
    assert now_there(ended).status == "exhausted"
    assert trail(ended) == ["exhaust final_notice"]
    assert [climbed(other) for other in others] == [["reminder"], ["reminder"]]


def test_an_exhausted_row_stays_so_whatever_is_asked() -> None:
    invoice = at_the_end()
    with travel(DUE):
        tick(LADDER)
        (report,) = tick(LADDER)
        outcome = services.act(LADDER, invoice, by="clerk", reason="button")

    assert report.selected == 0
    assert (outcome.applied, outcome.reason) == (False, "wrong_status")
    assert trail(invoice) == ["exhaust final_notice"]


def test_the_model_refuses_to_escalate_from_a_state_that_is_not_overdue() -> None:
    invoice = make_invoice()
    with pytest.raises(TransitionNotAllowed):
        invoice.escalate()
    assert (invoice.status, invoice.rung) == ("open", "")
