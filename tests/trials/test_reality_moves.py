"""Trials T40, T41 and T45: reality changes under the poll, and zones differ."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from idempotent_actions import services
from idempotent_actions.actions import Action, Branch
from idempotent_actions.candidates import candidate_pks
from idempotent_actions.models import Escalation
from idempotent_actions.testing import tick, travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only
from tests.threads import DEADLINE, somebody_waits_for_me, together
from tests.waiting import until

WEEK = timedelta(days=7)


def pay(invoice: Invoice) -> None:
    Invoice.objects.filter(pk=invoice.pk).update(paid_at=DUE)


def reschedule(invoice: Invoice) -> None:
    Invoice.objects.filter(pk=invoice.pk).update(due_at=DUE + WEEK)


def hold(invoice: Invoice) -> None:
    assert services.hold(invoice, DUE + WEEK, by="clerk", reason="a promise to pay")


def resolve(invoice: Invoice) -> None:
    assert services.resolve(invoice, by="clerk", reason="paid in cash")


def climb(invoice: Invoice) -> None:
    assert services.act(LADDER, invoice, by="clerk", reason="button")


def delete(invoice: Invoice) -> None:
    Invoice.objects.filter(pk=invoice.pk).delete()


@pytest.fixture
def after_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    """Do something on a second connection when a pass has read its candidates and locked none."""

    def arrange(transition: str, happening: Callable[[], Any]) -> None:
        def pages(action: Action, branch: Branch, page_size: int) -> Iterator[list[Any]]:
            for page in candidate_pks(action, branch, page_size):
                if page and action.transition == transition:
                    together(happening)
                yield page

        monkeypatch.setattr("idempotent_actions.polls.candidate_pks", pages)

    return arrange


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("read_by", ["mark_overdue", "escalate"])
@pytest.mark.parametrize(
    ("happening", "reason"),
    [
        (pay, "resolved"),
        (reschedule, "not_due"),
        (hold, "held"),
        (resolve, "wrong_status"),
        (delete, "gone"),
    ],
)
def test_t40_what_changes_between_candidate_query_and_lock_is_left_alone_and_counted(
    happening: Callable[[Invoice], None],
    reason: str,
    read_by: str,
    after_reading: Callable[[str, Callable[[], Any]], None],
) -> None:
    invoice, other = make_invoice(1), make_invoice(2)
    calls = iter([partial(happening, invoice)])
    after_reading(read_by, lambda: next(calls, lambda: None)())

    with travel(DUE):
        (report,) = tick(LADDER)

    assert climbed(invoice) == []
    assert climbed(other) == ["reminder"]
    assert (report.applied, dict(report.skipped)) == (1, {reason: 1})


@pytest.mark.django_db(transaction=True)
def test_t40_a_rung_climbed_by_a_button_between_query_and_lock_is_not_climbed_again(
    after_reading: Callable[[str, Callable[[], Any]], None],
) -> None:
    invoice = make_invoice()
    after_reading("escalate", partial(climb, invoice))
    with travel(DUE):
        (report,) = tick(LADDER)
    assert climbed(invoice) == ["reminder"]
    assert (report.applied, dict(report.skipped)) == (0, {"wrong_status": 1})


@pytest.mark.django_db(transaction=True)
def test_t40_another_table_that_the_rule_looks_at_is_read_again_under_the_lock(
    after_reading: Callable[[str, Callable[[], Any]], None],
) -> None:
    parcel = Parcel.objects.create(name="books")
    seal = Seal.objects.create(parcel=parcel)
    after_reading("dispatch", lambda: Seal.objects.filter(pk=seal.pk).update(broken=True))
    with only(DispatchParcels):
        (report,) = tick()
    parcel.refresh_from_db()
    assert parcel.state == "waiting"
    assert dict(report.skipped) == {"not_due": 1}


@pytest.mark.django_db(transaction=True)
def test_t40_another_table_is_read_anew_after_a_wait_for_the_lock() -> None:
    parcel = Parcel.objects.create(name="books")
    Seal.objects.create(parcel=parcel)
    locked = Event()

    def break_the_seal() -> None:
        with transaction.atomic():
            Parcel.objects.select_for_update().get()
            locked.set()
            until(somebody_waits_for_me, "the act to wait for the lock")
            Seal.objects.update(broken=True)

    def dispatch() -> str:
        assert locked.wait(DEADLINE)
        return services.act(DispatchParcels, parcel, by="clerk", reason="button").reason

    with only(DispatchParcels):
        assert together(break_the_seal, dispatch) == [None, "not_due"]
    parcel.refresh_from_db()
    assert parcel.state == "waiting"
    assert not Escalation.objects.exists()


@pytest.mark.django_db
def test_t41_a_held_subject_gets_no_further_notice_until_it_is_released() -> None:
    invoice = make_invoice()
    with travel(DUE):
        tick(LADDER)
        services.hold(invoice, DUE + 20 * WEEK, by="clerk", reason="a promise to pay")
    for week in range(1, 10):
        with travel(DUE + week * WEEK):
            tick(LADDER)
    assert climbed(invoice) == ["reminder"]

    with travel(DUE + 10 * WEEK):
        assert services.release(invoice, by="clerk", reason="the promise was broken")
        tick(LADDER)
        tick(LADDER)
    assert climbed(invoice) == ["reminder", "warning"]


disputed: set[str] = set()


class MindDisputes(EscalateInvoices):
    """The host's veto in Python."""

    def why_not(self, subject: Invoice, now: datetime) -> str:
        return "disputed" if subject.number in disputed else ""


@pytest.mark.django_db
@pytest.mark.parametrize("opened_after", [timedelta(hours=1), WEEK], ids=["waiting", "overdue"])
def test_t41_a_disputed_subject_gets_no_further_notice_until_the_dispute_is_over(
    opened_after: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.disputed", set())
    invoice = make_invoice()
    with only(MindDisputes):
        with travel(DUE):
            tick()
        disputed.add(invoice.number)
        if opened_after == WEEK:  # detection was faster than the customer
            Invoice.objects.update(status="overdue", next_at=DUE)
        for week in range(1, 10):
            with travel(DUE + week * WEEK):
                (report,) = tick()
                outcome = services.act(MindDisputes, invoice, by="clerk", reason="button")
            assert (report.applied, dict(report.skipped)) == (0, {"disputed": 1})
            assert outcome.reason == "disputed"
        assert climbed(invoice) == ["reminder"]

        disputed.clear()
        with travel(DUE + 10 * WEEK):
            tick()
        assert climbed(invoice) == ["reminder", "warning"]


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["UTC", "America/Chicago", "Asia/Kolkata", "Pacific/Kiritimati"])
def test_t45_a_bill_due_on_the_31st_in_chicago_lapses_when_that_day_ends_there(zone: str) -> None:
    end_of_day = datetime(2026, 4, 1, tzinfo=ZoneInfo("America/Chicago"))
    with override_settings(TIME_ZONE=zone), timezone.override(zone):
        invoice = make_invoice(due_at=end_of_day)
        with travel(datetime(2026, 4, 1, 0, 30, tzinfo=UTC)):
            (report,) = tick(LADDER)
            assert (report.marked, report.applied) == (0, 0)
        with travel(datetime(2026, 4, 1, 5, 1, tzinfo=UTC)):
            (report,) = tick(LADDER)
            assert (report.marked, report.applied) == (1, 1)
            tick(LADDER)
    assert climbed(invoice) == ["reminder"]
    assert now_there(invoice).next_at == datetime(2026, 4, 8, 5, 1, tzinfo=UTC)


@pytest.mark.django_db
def test_t45_a_deadline_has_lapsed_at_its_very_instant_and_not_before() -> None:
    invoice = make_invoice()
    with travel(DUE - timedelta(microseconds=1)):
        tick(LADDER)
        assert climbed(invoice) == []
    with travel(DUE):
        tick(LADDER)
    assert climbed(invoice) == ["reminder"]
