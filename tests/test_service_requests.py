"""What the services refuse to take, before anything is written, and how an actor is named."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from idempotent_actions import captures, services
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.models import Escalation
from idempotent_actions.testing import travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.asking import DAY, WEEK, Service, act, each_service, hold
from tests.invoices import DUE, make_invoice, now_there
from tests.oddities.models import DispatchParcels, Parcel
from tests.registering import only

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


@each_service
@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize("text", ["", "  ", "\n", "n" * 256, "a\0b", None, 7, AnonymousUser()])
def test_who_asks_and_why_must_be_said(
    service: Service, columns: dict[str, Any], changed: dict[str, Any], name: str, text: Any
) -> None:
    invoice = make_invoice(**columns)
    with pytest.raises(InvalidInput, match=f"{name} must be a text of 1 to"):
        service(invoice, **{name: text})
    assert not Escalation.objects.exists()


@each_service
def test_a_naive_instant_is_refused(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    with pytest.raises(InvalidInput, match="now must carry a time zone"):
        service(invoice, now=DUE.replace(tzinfo=None))
    with pytest.raises(InvalidInput, match="until must carry a time zone"):
        hold(invoice, DUE.replace(tzinfo=None) + DAY)
    assert not Escalation.objects.exists()


@pytest.mark.parametrize("until", [DUE, DUE - DAY])
def test_a_hold_must_end_in_the_future(until: datetime) -> None:
    invoice = make_invoice()
    with pytest.raises(InvalidInput, match="until must lie in the future"):
        hold(invoice, until)
    assert now_there(invoice).hold_until is None


@each_service
def test_a_user_is_named_by_the_user_name(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert service(make_invoice(**columns), by=User(username="ada"))
    assert Escalation.objects.get().actor == "ada"


def test_an_act_happens_at_the_instant_it_is_given() -> None:
    invoice = make_invoice()
    assert act(invoice, now=DUE + DAY)
    assert Escalation.objects.get().acted_at == DUE + DAY
    assert now_there(invoice).next_at is None  # its notice is still to be sent
    captures.deliver(now=DUE + 2 * DAY)
    assert now_there(invoice).next_at == DUE + 2 * DAY + WEEK


@each_service
def test_only_a_stored_subject_of_the_right_model_is_taken(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="save it first"):
        service(Invoice(number="new"))
    for stranger in (Parcel(pk=1), None, 1):
        with pytest.raises(InvalidInput, match="subject must be a"):
            service(stranger)


@each_service
def test_without_a_ladder_registered_the_answer_is_an_error(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    with only(DispatchParcels), pytest.raises(UnknownAction):
        service(invoice)
    with only(DispatchParcels), pytest.raises(UnknownAction, match="Decorate it with @register"):
        services.act(EscalateInvoices, invoice, by="clerk", reason="because")
