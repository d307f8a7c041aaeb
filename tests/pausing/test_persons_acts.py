"""What a person may do under a pause: everything but the acts that the pause stops."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.asking import DAY, Service, act, each_service
from tests.invoices import DUE, LADDER, make_invoice, now_there, trail
from tests.ledger.acting import Dispatch, parcel
from tests.pausing.standing import (
    ACTION,
    EVERYTHING,
    MAIL,
    Settling,
    at_first,
    elsewhere,
    lift,
    pause,
)
from tests.registering import only

pytestmark = pytest.mark.django_db

WHO: dict[str, Any] = {"by": "clerk", "reason": "because"}


@pytest.fixture(autouse=True)
def _on_the_due_day() -> Iterator[None]:
    with only(Settling), travel(DUE):
        yield


@pytest.mark.parametrize("columns", [{}, {"status": "overdue"}], ids=["open", "overdue"])
@pytest.mark.parametrize("scope", [EVERYTHING, ACTION], ids=["everything", "action"])
def test_an_act_is_answered_and_changes_nothing(
    scope: tuple[str, str], columns: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    before = Invoice.objects.values().get()
    paused = pause(*scope)
    outcome = act(invoice)
    assert (outcome.applied, outcome.reason, outcome.escalation) == (False, "paused", None)
    assert outcome.subject == invoice
    assert Invoice.objects.values().get() == before
    assert (Escalation.objects.count(), Capture.objects.count()) == (0, 0)
    lift(paused)
    assert act(invoice).applied
    assert trail(invoice) == ["escalate reminder"]


def test_an_act_that_is_no_ladders_is_answered_as_well() -> None:
    with parcel() as subject:
        pause("action", Dispatch.name)
        assert services.act(Dispatch, subject, **WHO).reason == "paused"
        assert subject.state == type(subject).objects.get().state


def test_what_a_person_saw_is_compared_first() -> None:
    invoice = make_invoice()
    pause(*EVERYTHING)
    assert act(invoice, seen=(1, "warning")).reason == "stale_view"
    assert act(invoice, seen=(1, "")).reason == "paused"


@each_service
def test_everything_else_works_under_a_pause_of_everything(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    pause(*EVERYTHING)
    assert service(invoice).applied == (service is not act)


def test_rows_are_adopted_under_a_pause() -> None:
    invoice = make_invoice()
    pause(*EVERYTHING)
    adopted = services.adopt(
        LADDER, Invoice.objects.all(), rung="reminder", next_at=DUE + DAY, **WHO
    )
    assert (adopted.applied, adopted.stopped) == (1, "")
    assert now_there(invoice).rung == "reminder"


def test_a_pause_of_an_effect_stops_no_act() -> None:
    invoice = make_invoice()
    pause(*MAIL)
    assert act(invoice).applied
    assert Capture.objects.filter(effect="ledger.mail").get().state == "pending"


def test_one_that_is_over_stops_no_act() -> None:
    invoice = make_invoice()
    pause(*EVERYTHING, until=DUE + timedelta(minutes=1))
    with travel(DUE + timedelta(minutes=1)):
        assert act(invoice).applied


@pytest.mark.django_db(transaction=True)
def test_an_act_under_way_is_finished() -> None:
    invoice = make_invoice(status="overdue")
    with at_first("escalate", lambda: elsewhere(*ACTION)):
        assert act(invoice).applied
    assert trail(invoice) == ["escalate reminder"]
