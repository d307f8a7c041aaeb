"""Adopting rows that were overdue before this app came: in place, audited, and nothing goes out."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidInput, UnknownAction, UnknownRung
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from idempotent_actions.testing import tick, travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.asking import DAY, WEEK
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there, trail
from tests.oddities.models import DispatchParcels, Parcel
from tests.registering import only

pytestmark = pytest.mark.django_db

TODAY = DUE + timedelta(days=100)
NEXT = TODAY + WEEK


@pytest.fixture(autouse=True)
def today() -> Iterator[None]:
    with travel(TODAY):
        yield


def adopt(rows: Any = None, **request: Any) -> Report:
    given = {"next_at": NEXT, "by": "ada", "reason": "the day we began", **request}
    return services.adopt(LADDER, Invoice.objects.all() if rows is None else rows, **given)


@pytest.mark.parametrize(("rung", "then"), [("", "reminder"), ("reminder", "warning")])
def test_adopted_rows_wait_until_the_instant_given_and_then_climb_the_rung_above(
    rung: str, then: str
) -> None:
    invoices = [make_invoice(number) for number in range(5)]
    report = adopt(rung=rung)
    assert (report.selected, report.applied, report.failed) == (5, 5, 0)
    for moment, rungs in (
        (timedelta(0), []),
        (WEEK - timedelta(microseconds=1), []),
        (WEEK, [then]),
    ):
        with travel(TODAY + moment):
            tick(LADDER)
            tick(LADDER)
        assert [climbed(invoice) for invoice in invoices] == [rungs] * 5


def test_an_adopted_row_has_an_audit_row_in_full() -> None:
    invoice = make_invoice(status="overdue", rung="warning")
    adopt(rung="reminder")
    (row,) = Escalation.objects.values()
    del row["id"], row["key"]
    assert row == {
        "action": LADDER,
        "transition": "adopt",
        "subject_model": "billing.invoice",
        "subject_pk": str(invoice.pk),
        "from_status": "overdue",
        "to_status": "escalated",
        "from_rung": "warning",
        "rung": "reminder",
        "cycle": 1,
        "revision": 1,
        "next_at": NEXT,
        "hold_until": None,
        "actor": "ada",
        "reason": "the day we began",
        "acted_at": TODAY,
        "run_id": None,
    }


def test_stepping_back_does_not_make_the_next_climb_a_duplicate() -> None:
    invoice = make_invoice()
    tick(LADDER)
    adopt(rung="")
    with travel(NEXT):
        tick(LADDER)
        tick(LADDER)
    assert trail(invoice) == ["escalate reminder", "adopt", "escalate reminder"]


@pytest.mark.parametrize("status", ["resolved", "cancelled"])
def test_what_is_over_is_passed_by(status: str) -> None:
    over, live = make_invoice(1, status=status), make_invoice(2)
    report = adopt(rung="reminder")
    assert (report.applied, dict(report.skipped)) == (1, {"wrong_status": 1})
    assert (trail(over), now_there(over).status) == ([], status)
    assert trail(live) == ["adopt reminder"]


def test_only_the_rows_of_the_queryset_are_adopted() -> None:
    chosen, other = make_invoice("old"), make_invoice("new")
    adopt(Invoice.objects.filter(number="old"))
    tick(LADDER)
    assert (climbed(chosen), climbed(other)) == ([], ["reminder"])


def test_a_hold_outlives_adoption() -> None:
    invoice = make_invoice(hold_until=NEXT + DAY, hold_reason="a promise")
    adopt()
    with travel(NEXT):
        tick(LADDER)
    assert climbed(invoice) == []
    with travel(NEXT + DAY):
        tick(LADDER)
    assert climbed(invoice) == ["reminder"]


def test_many_rows_are_adopted_in_batches() -> None:
    for number in range(7):
        make_invoice(number)
    with override_settings(IDEMPOTENT_ACTIONS={"BATCH_SIZE": 3}):
        assert adopt().applied == 7
    assert set(Invoice.objects.values_list("next_at", flat=True)) == {NEXT}


def test_a_rung_that_is_not_declared_places_nobody() -> None:
    invoice = make_invoice()
    before = Invoice.objects.values().get()
    with pytest.raises(UnknownRung, match="No rung 'final'"):
        adopt(rung="final")
    assert (Invoice.objects.values().get(), trail(invoice)) == (before, [])


@pytest.mark.parametrize("next_at", [TODAY, TODAY - DAY])
def test_the_wait_must_end_in_the_future(next_at: datetime) -> None:
    make_invoice()
    with pytest.raises(InvalidInput, match="next_at must lie in the future"):
        adopt(next_at=next_at)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"next_at": NEXT.replace(tzinfo=None)}, "next_at must carry a time zone"),
        ({"now": TODAY.replace(tzinfo=None)}, "now must carry a time zone"),
        ({"reason": ""}, "reason must be a text"),
        ({"by": None}, "by must be a text"),
        ({"rows": Parcel.objects.all()}, "queryset must hold rows of billing.Invoice"),
        ({"rows": [1, 2]}, "queryset must hold rows of billing.Invoice"),
    ],
)
def test_what_it_can_not_take_is_refused_and_nothing_written(
    request_: dict[str, Any], message: str
) -> None:
    make_invoice()
    with pytest.raises(InvalidInput, match=message):
        adopt(**request_)
    assert not Escalation.objects.exists()


def test_only_a_registered_ladder_adopts() -> None:
    everything: Any = {"next_at": NEXT, "by": "ada", "reason": "because"}
    with only(DispatchParcels):
        with pytest.raises(InvalidInput, match="dispatch_parcels is no ladder"):
            services.adopt(DispatchParcels, Parcel.objects.all(), **everything)
        with pytest.raises(UnknownAction):
            services.adopt(EscalateInvoices, Invoice.objects.all(), **everything)
