"""Trials T30, T34, T35, T37 and T38: a ladder over weeks, missed ticks and deployments."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import Q

from idempotent_actions import Ladder, LadderAction, Rung, services
from idempotent_actions.testing import tick, travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there, trail
from tests.registering import only

pytestmark = pytest.mark.django_db

WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)


def tick_often(start: datetime, times: int, every: timedelta) -> None:
    for count in range(times):
        with travel(start + count * every):
            tick(LADDER)


@pytest.mark.parametrize("by_the_host", [True, False], ids=["paid_at", "services"])
def test_t30_a_reopened_invoice_gets_its_first_rung_once_per_cycle(by_the_host: bool) -> None:
    invoice = make_invoice()
    tick_often(DUE, 3, timedelta(hours=1))

    with travel(DUE + WEEK):
        if by_the_host:
            Invoice.objects.update(paid_at=DUE + WEEK)
            tick(LADDER)
            Invoice.objects.update(paid_at=None)
        else:
            assert services.resolve(invoice, by="clerk", reason="paid")
        assert now_there(invoice).status == "resolved"
        tick(LADDER)
        assert services.reopen(invoice, by="clerk", reason="the bank took it back")
        assert now_there(invoice).status == "open"
    tick_often(DUE + WEEK, 3, timedelta(hours=1))

    assert climbed(invoice) == ["reminder", "reminder"]
    first, second = ["escalate reminder", "resolve reminder"], ["reopen", "escalate reminder"]
    assert trail(invoice) == first + second
    assert now_there(invoice).cycle == 2


class TwentyDaysLate(EscalateInvoices):
    """A rule that is written as a distance from the due date."""

    def due(self, now: datetime) -> Q:
        return super().due(now) & Q(due_at__lte=now - timedelta(days=20))


@pytest.mark.parametrize(
    ("action", "due_on"), [(TwentyDaysLate, 3), (EscalateInvoices, 23)], ids=["rule", "due_at"]
)
def test_t34_a_tick_missed_on_the_day_is_made_up_for_on_the_next(
    action: type[LadderAction], due_on: int
) -> None:
    third = datetime(2026, 3, 3, tzinfo=UTC)
    invoice = make_invoice(due_at=third.replace(day=due_on))
    with only(action):
        tick_often(third.replace(day=20), 3, timedelta(days=1))  # 20, 21, 22; none on the 23rd
        assert climbed(invoice) == []
        tick_often(third.replace(day=24), 6, timedelta(hours=4))
        assert climbed(invoice) == ["reminder"]


def test_t35_after_an_outage_past_all_deadlines_one_rung_is_climbed_and_its_wait_is_full() -> None:
    invoice = make_invoice()
    back = DUE + timedelta(days=100, hours=2, minutes=7)

    tick_often(back, 5, timedelta(minutes=12))
    assert climbed(invoice) == ["reminder"]
    assert now_there(invoice).next_at == back + WEEK

    tick_often(back + WEEK - MOMENT, 1, WEEK)
    assert climbed(invoice) == ["reminder"]
    tick_often(back + WEEK, 5, timedelta(minutes=12))
    assert climbed(invoice) == ["reminder", "warning"]


def test_t35_each_wait_counts_from_the_actual_notice_after_each_outage() -> None:
    invoice = make_invoice()
    notices = [DUE + timedelta(days=days) for days in (1, 40, 47, 90)]
    for at in notices:
        tick_often(at, 5, timedelta(minutes=12))

    assert trail(invoice) == [
        "escalate reminder",
        "escalate warning",
        "escalate final_notice",
        "exhaust final_notice",
    ]


@pytest.mark.parametrize("late", [timedelta(seconds=59), timedelta(seconds=1), timedelta(0)])
def test_t35_a_tick_some_seconds_earlier_than_the_last_is_not_a_day_late(late: timedelta) -> None:
    invoice = make_invoice()
    tick_often(DUE + late, 1, WEEK)
    tick_often(DUE + WEEK, 1, WEEK)
    assert climbed(invoice) == ["reminder", "warning"]


def test_t37_thirty_ticks_over_a_year_send_three_notices_and_then_exhaust() -> None:
    invoice = make_invoice()
    reports = []
    for count in range(30):
        with travel(DUE + count * timedelta(days=12)):
            reports += tick(LADDER)

    assert trail(invoice) == [
        "escalate reminder",
        "escalate warning",
        "escalate final_notice",
        "exhaust final_notice",
    ]
    assert now_there(invoice).status == "exhausted"
    assert sum(report.applied for report in reports) == 4
    assert sum(report.exhausted for report in reports) == 1
    assert sum(report.failed for report in reports) == 0


RENAMED = Ladder(Rung("friendly_reminder", WEEK), Rung("warning", WEEK))
DELETED = Ladder(Rung("warning", WEEK), Rung("final_notice", WEEK))


@pytest.mark.parametrize("ladder", [RENAMED, DELETED], ids=["renamed", "deleted"])
def test_t38_a_subject_on_a_rung_that_is_gone_stays_there_and_the_reason_is_shown(
    ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranded, other = make_invoice(1), make_invoice(2, due_at=DUE + WEEK)
    tick_often(DUE, 1, WEEK)
    assert climbed(stranded) == ["reminder"]

    monkeypatch.setattr(Invoice, "ladder", ladder)
    shown, complaints = StringIO(), StringIO()
    for _ in range(3):
        with travel(DUE + WEEK):
            call_command(
                "escalate_overdue", model=Invoice, no_deliver=True, stdout=shown, stderr=complaints
            )

    assert climbed(stranded) == ["reminder"]
    assert shown.getvalue().count("1 skipped (unknown_rung)") == 3
    assert complaints.getvalue() == ""
    assert climbed(other) == [ladder.rungs[0].name]


def test_t38_a_persons_act_on_a_rung_that_is_gone_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invoice = make_invoice()
    tick_often(DUE, 1, WEEK)
    monkeypatch.setattr(Invoice, "ladder", DELETED)
    with travel(DUE + WEEK):
        outcome = services.act(LADDER, invoice, by="clerk", reason="button")
    assert (outcome.applied, outcome.reason) == (False, "unknown_rung")
    assert climbed(invoice) == ["reminder"]


def test_t38_a_rung_that_comes_back_is_climbed_from(monkeypatch: pytest.MonkeyPatch) -> None:
    invoice = make_invoice()
    tick_often(DUE, 1, WEEK)
    with monkeypatch.context() as deployed:
        deployed.setattr(Invoice, "ladder", DELETED)
        tick_often(DUE + WEEK, 2, WEEK)
    tick_often(DUE + 3 * WEEK, 1, WEEK)
    assert climbed(invoice) == ["reminder", "warning"]
