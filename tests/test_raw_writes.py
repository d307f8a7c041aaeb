"""Writes that go past `save()`: an old state is healed, a row without our columns works."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django_fsm.signals import pre_transition

from idempotent_actions import polling, services
from idempotent_actions.models import Escalation, Run
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import DAY, WEEK
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there, trail
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only

pytestmark = pytest.mark.django_db

STATE = ("status", "rung", "cycle", "revision", "next_at")
OWN = (*STATE, "escalated_at", "hold_until", "hold_reason")
ASKED: Any = {"by": "clerk", "reason": "because"}

Happening = Callable[[], None]


def mark() -> None:
    polling.mark_overdue(Invoice)


def climb() -> None:
    tick(LADDER)


def climb_by_button() -> None:
    for invoice in Invoice.objects.all():
        assert services.act(LADDER, invoice, **ASKED)


def hold() -> None:
    for invoice in Invoice.objects.all():
        assert services.hold(invoice, DUE + 30 * DAY, **ASKED)


def resolve() -> None:
    for invoice in Invoice.objects.all():
        assert services.resolve(invoice, **ASKED)


def cancel() -> None:
    for invoice in Invoice.objects.all():
        assert services.cancel(invoice, **ASKED)


def reopen() -> None:
    for invoice in Invoice.objects.all():
        assert services.reopen(invoice, **ASKED)


def adopt() -> None:
    rows = Invoice.objects.all()
    services.adopt(LADDER, rows, rung="warning", next_at=DUE + 60 * DAY, **ASKED)


# What has happened to the rows, with the weeks after the due day on which it did.
HISTORIES: dict[str, list[tuple[int, Happening]]] = {
    "one rung": [(0, mark), (0, climb)],
    "a button": [(0, climb_by_button)],
    "two rungs": [(0, mark), (0, climb), (1, mark), (1, climb)],
    "the end": [(0, climb), (1, climb), (2, climb), (4, mark), (4, climb)],
    "held": [(0, mark), (0, climb), (0, hold)],
    "resolved": [(0, mark), (0, climb), (0, resolve)],
    "resolved below the first rung": [(0, mark), (0, resolve)],
    "cancelled": [(0, mark), (0, climb), (0, cancel)],
    "second cycle": [(0, mark), (0, climb), (0, resolve), (0, reopen), (0, climb)],
    "adopted": [(0, mark), (0, adopt)],
}


def dated_trail(invoice: Invoice) -> list[str]:
    rows = Escalation.objects.about(invoice)
    return [f"{row.acted_at:%d %b}: {row.transition} {row.rung}" for row in rows]


@pytest.mark.parametrize("columns", [("status",), ("status", "rung"), STATE, OWN])
@pytest.mark.parametrize("history", HISTORIES)
def test_a_raw_update_of_an_old_state_changes_nothing_in_what_goes_out_and_when(
    history: str, columns: tuple[str, ...]
) -> None:
    control = make_invoice("control")
    rows = [make_invoice(number) for number, _ in enumerate(HISTORIES[history])]
    old_states = []
    at = DUE
    for weeks, happening in HISTORIES[history]:
        at = DUE + weeks * WEEK
        old_states.append(Invoice.objects.values(*OWN).get(pk=control.pk))
        with travel(at):
            happening()

    for row, old in zip(rows, old_states, strict=True):
        if old["status"] != "resolved":  # a poll looks at no row that is over
            written = {name: old[name] for name in columns}
            Invoice.objects.filter(pk=row.pk).update(**written)
    for week in range(12):
        for hour in range(1, 4):
            with travel(at + week * WEEK + timedelta(hours=hour)):
                tick(LADDER)

    expected = dated_trail(control)
    for row, old in zip(rows, old_states, strict=True):
        assert dated_trail(row) == expected, old


PUT_BACK: list[dict[str, Any]] = [
    {"status": "overdue", "rung": ""},
    {"status": "overdue", "rung": "", "next_at": None},
    {"status": "open", "rung": "", "next_at": None},
    {"status": "open", "rung": "", "next_at": None, "escalated_at": None, "hold_until": None},
    {"status": "escalated", "rung": "", "next_at": DUE},
]


@pytest.mark.parametrize("old", PUT_BACK)
@pytest.mark.parametrize("rungs", [1, 2, 3])
def test_a_row_that_was_put_back_is_healed_at_the_next_tick_without_a_new_audit_row(
    rungs: int, old: dict[str, Any]
) -> None:
    invoice = make_invoice()
    for week in range(rungs):
        with travel(DUE + week * WEEK):
            tick(LADDER)
    there, audited = Invoice.objects.values(*STATE).get(), trail(invoice)

    Invoice.objects.update(**old)
    with travel(DUE + rungs * WEEK - DAY):
        (report,) = tick(LADDER)
        assert dict(report.skipped) == {"healed": 1}
        assert Invoice.objects.values(*STATE).get() == there
        (report,) = tick(LADDER)
        assert report.selected == 0
    assert trail(invoice) == audited
    assert Run.objects.order_by("id")[rungs].skipped == {"healed": 1}


def test_healing_fires_no_transition_and_takes_nothing_of_the_limit() -> None:
    put_back, other = make_invoice(1, due_at=DUE - DAY), make_invoice(2)
    with travel(DUE - DAY):
        tick(LADDER)
    Invoice.objects.filter(pk=put_back.pk).update(status="overdue", rung="", next_at=None)
    fired: list[str] = []

    def note(instance: Invoice, **kwargs: Any) -> None:
        fired.append(instance.number)

    pre_transition.connect(note, sender=Invoice)
    try:
        with travel(DUE):
            (report,) = tick(LADDER, limit=1, batch_size=1)
    finally:
        pre_transition.disconnect(note, sender=Invoice)
    assert (report.applied, dict(report.skipped)) == (1, {"healed": 1})
    assert set(fired) == {"2"}
    assert (climbed(put_back), climbed(other)) == (["reminder"], ["reminder"])


def test_a_button_on_a_row_that_was_put_back_heals_it_and_says_so() -> None:
    invoice = make_invoice()
    with travel(DUE):
        tick(LADDER)
        Invoice.objects.update(status="overdue", rung="", next_at=None)
        outcome = services.act(LADDER, invoice, **ASKED)
    assert (outcome.applied, outcome.reason) == (False, "healed")
    assert (outcome.subject.status, outcome.subject.rung) == ("escalated", "reminder")
    assert trail(invoice) == ["escalate reminder"]


@pytest.mark.parametrize("service", [services.resolve, services.cancel])
def test_resolving_again_after_a_raw_update_heals_and_says_so(service: Any) -> None:
    invoice = make_invoice()
    with travel(DUE):
        assert service(invoice, **ASKED)
        there = Invoice.objects.values(*STATE).get()
        Invoice.objects.update(status="overdue")
        outcome = service(invoice, **ASKED)
    assert (outcome.applied, outcome.reason) == (False, "healed")
    assert Invoice.objects.values(*STATE).get() == there
    assert len(trail(invoice)) == 1


def test_a_plain_action_is_healed_to_where_its_trail_says_it_stands() -> None:
    parcel = Parcel.objects.create(name="books")
    Seal.objects.create(parcel=parcel)
    with only(DispatchParcels):
        tick()
        Parcel.objects.update(state="waiting")
        (report,) = tick()
        assert dict(report.skipped) == {"healed": 1}
        parcel.refresh_from_db()
        assert parcel.state == "sent"
        parcel.recall()
        parcel.save()
        (report,) = tick()
    assert report.applied == 1
    assert trail(parcel) == ["dispatch", "dispatch"]


@pytest.fixture
def raw_row() -> Invoice:
    """A row inserted by code that knows nothing of the ladder's columns."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_invoice (number, customer, email, amount, due_at)"
            " VALUES ('raw', 'A. Customer', 'a@example.org', 100, %s)",
            [DUE],
        )
    return Invoice.objects.get()


def test_a_raw_insert_without_the_apps_columns_gets_their_defaults(raw_row: Invoice) -> None:
    assert Invoice.objects.values(*OWN).get() == {
        "status": "open", "rung": "", "cycle": 1, "revision": 0, "next_at": None,
        "escalated_at": None, "hold_until": None, "hold_reason": "",
    }  # fmt: skip
    with travel(DUE):
        tick(LADDER)
    assert climbed(raw_row) == ["reminder"]


def test_rows_of_a_bulk_create_climb_like_others() -> None:
    values: Any = {"email": "a@example.org", "amount": 100, "due_at": DUE}
    rows = Invoice.objects.bulk_create([Invoice(number=str(n), **values) for n in range(3)])
    with travel(DUE):
        assert services.hold(rows[0], DUE + DAY, **ASKED)
        tick(LADDER)
    assert [climbed(row) for row in rows] == [[], ["reminder"], ["reminder"]]
    assert [now_there(row).status for row in rows] == ["open", "escalated", "escalated"]


def test_a_second_audit_row_for_the_same_act_can_not_be_written_at_all() -> None:
    make_invoice()
    with travel(DUE):
        tick(LADDER)
    row = Escalation.objects.get()
    row.pk = None
    with pytest.raises(Exception, match="idempotent_escalation_key"):
        row.save(force_insert=True)
