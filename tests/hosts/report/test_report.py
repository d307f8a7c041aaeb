"""The report of a day: its row appears by itself and is sent once, however many ticks there are."""

from datetime import UTC, date, datetime, timedelta

import pytest

from idempotent_actions import testing
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from tests.contention.threads import race
from tests.hosts.report.actions import CAUGHT_UP, SendReports
from tests.hosts.report.models import DailyReport, Recipient

pytestmark = pytest.mark.django_db

READERS = 40
MORNING = datetime(2026, 3, 10, 6, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _readers() -> None:
    Recipient.objects.bulk_create(Recipient(email=f"reader{n}@example.org") for n in range(READERS))


@pytest.fixture
def up_to_date() -> None:
    """All reports up to that of 8 March have gone out."""
    days = [MORNING.date() - n * DAY for n in range(2, 30)]
    DailyReport.objects.bulk_create(DailyReport(day=day, state="sent") for day in days)


def tick_at(now: datetime) -> Report:
    with testing.travel(now):
        (report,) = testing.tick(SendReports)
    return report


def sent() -> list[date]:
    """The days whose report went out, in that order."""
    days = Escalation.objects.order_by("id").values_list("subject_pk", flat=True)
    return [date.fromisoformat(day) for day in days]


@pytest.mark.usefixtures("up_to_date")
def test_ninety_six_ticks_in_a_day_send_one_report_to_everybody() -> None:
    applied = [tick_at(MORNING + n * timedelta(minutes=10)).applied for n in range(96)]

    assert applied == [1] + [0] * 95
    assert sent() == [date(2026, 3, 9)]
    assert DailyReport.objects.get(day=date(2026, 3, 9)).readers == READERS


@pytest.mark.usefixtures("up_to_date")
def test_a_tick_every_few_hours_for_a_week_sends_each_day_once() -> None:
    for n in range(27):
        tick_at(MORNING + n * timedelta(hours=6))
    assert sent() == [date(2026, 3, day) for day in range(9, 16)]


@pytest.mark.usefixtures("up_to_date")
def test_days_without_a_tick_are_caught_up_oldest_first() -> None:
    tick_at(MORNING)
    assert tick_at(MORNING + 4 * DAY).applied == 4
    assert sent() == [date(2026, 3, day) for day in range(9, 14)]


@pytest.mark.usefixtures("up_to_date")
def test_a_day_that_is_not_over_has_no_report() -> None:
    assert tick_at(datetime(2026, 3, 9, 23, 59, tzinfo=UTC)).applied == 0
    assert tick_at(datetime(2026, 3, 10, tzinfo=UTC)).applied == 1


def test_on_the_first_tick_ever_only_the_last_days_are_sent() -> None:
    assert tick_at(MORNING).applied == CAUGHT_UP
    assert sent()[0] == date(2026, 3, 3)


@pytest.mark.usefixtures("up_to_date")
def test_a_dry_run_names_the_reports_that_do_not_exist_yet_and_makes_none() -> None:
    with testing.travel(MORNING + DAY):
        (dry,) = testing.tick(SendReports, dry_run=True)
    assert not DailyReport.objects.filter(state="pending").exists()

    tick_at(MORNING + DAY)

    assert [each.subject for each in dry.planned] == [
        f"host_report.dailyreport:{day}" for day in sent()
    ]


def test_a_dry_run_with_a_limit_names_the_oldest_as_the_tick_does() -> None:
    DailyReport.objects.create(day=date(2026, 3, 9))
    with testing.travel(MORNING):
        (dry,) = testing.tick(SendReports, dry_run=True, limit=2)
        testing.tick(SendReports, limit=2)
    assert [each.subject for each in dry.planned] == [
        f"host_report.dailyreport:{day}" for day in sent()
    ]


@pytest.mark.usefixtures("up_to_date")
def test_only_what_was_really_missing_is_counted_as_missing() -> None:
    assert [tick_at(MORNING).missing for _ in range(2)] == [1, 0]


@pytest.mark.usefixtures("up_to_date")
def test_without_readers_it_waits_for_one() -> None:
    Recipient.objects.update(active=False)
    assert tick_at(MORNING).skipped == {"condition": 1}
    Recipient.objects.filter(email="reader7@example.org").update(active=True)
    assert tick_at(MORNING).applied == 1
    assert DailyReport.objects.latest("day").readers == 1


@pytest.mark.django_db(transaction=True)
def test_ticks_at_the_same_time_make_one_row_for_each_day_and_send_it_once() -> None:
    def poll() -> Report:
        (report,) = testing.tick(SendReports)
        return report

    with testing.travel(MORNING):
        reports = race([poll] * 8)
        last = poll()

    assert sum(each.applied for each in reports) + last.applied == CAUGHT_UP
    assert DailyReport.objects.filter(state="sent").count() == CAUGHT_UP
    assert sorted(sent()) == [date(2026, 3, day) for day in range(3, 10)]
