"""The report of a day to 40 readers, counted at the post: each gets it once, also the refused."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest

from idempotent_actions import services, testing
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome
from tests.hosts import outside
from tests.hosts.report.actions import SendReports
from tests.hosts.report.models import DailyReport, Recipient

pytestmark = pytest.mark.django_db(transaction=True)

READERS = 40
WRONG = "reader7@exmaple.org"
MORNING = datetime(2026, 3, 10, 6, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _readers() -> None:
    days = [MORNING.date() - n * DAY for n in range(2, 30)]
    DailyReport.objects.bulk_create(DailyReport(day=day, state="sent") for day in days)
    addresses = [f"reader{n}@example.org" for n in range(READERS)]
    addresses[7] = WRONG
    Recipient.objects.bulk_create(Recipient(email=each) for each in addresses)
    outside.behave("declined: no_such_mailbox", "report", WRONG)


def tick_at(now: datetime, workers: int = 0) -> None:
    with testing.travel(now):
        testing.tick(SendReports, workers=workers)


def mailed(day: str = "2026-03-09") -> Counter[str]:
    """How often each address got the report of the day."""
    return Counter(each.who for each in outside.deeds("report") if each.details["day"] == day)


def refused() -> Capture:
    return Capture.objects.get(state="failed", escalation__subject_pk="2026-03-09")


def correct() -> None:
    Recipient.objects.filter(email=WRONG).update(email="reader7@example.org")


def retry(refresh: bool = True, seen: Capture | None = None) -> Outcome:
    """What an editor decides about the refused mail."""
    with testing.travel(MORNING):
        return services.retry_new_key(
            seen or refused(), refresh=refresh, note="corrected", by="editor"
        )


def test_one_refused_recipient_of_forty_leaves_thirty_nine_sent_once_each() -> None:
    for hours in range(24):
        tick_at(MORNING + timedelta(hours=hours) / 2)
    assert len(mailed()) == READERS - 1
    assert set(mailed().values()) == {1}
    assert outside.called("report", WRONG) == 1
    assert (refused().error or {})["code"] == "no_such_mailbox"


def test_workers_that_settle_at_the_same_time_count_each_reader_once() -> None:
    for _ in range(READERS):
        tick_at(MORNING, workers=4)
    report = DailyReport.objects.get(day=date(2026, 3, 9))
    assert set(mailed().values()) == {1}
    assert (report.readers, report.reached) == (READERS, READERS - 1)


def test_one_tick_with_four_workers_reaches_all_forty() -> None:
    tick_at(MORNING, workers=4)
    assert outside.called("report") == READERS


def test_a_corrected_address_sends_the_fortieth() -> None:
    tick_at(MORNING)
    correct()

    assert retry()
    for minutes in (5, 10):
        tick_at(MORNING + timedelta(minutes=minutes))

    assert len(mailed()) == READERS
    assert set(mailed().values()) == {1}
    assert WRONG not in mailed()
    assert DailyReport.objects.get(day=date(2026, 3, 9)).reached == READERS


def test_a_corrected_address_is_used_the_next_day_without_anybody_asking() -> None:
    tick_at(MORNING)
    correct()
    tick_at(MORNING + DAY)
    assert len(mailed("2026-03-10")) == READERS
    assert len(mailed()) == READERS - 1


def test_without_refresh_the_old_address_is_tried_again() -> None:
    tick_at(MORNING)
    correct()
    assert retry(refresh=False)
    tick_at(MORNING + timedelta(minutes=5))
    assert outside.called("report", WRONG) == 2
    assert len(mailed()) == READERS - 1


def test_a_decision_taken_on_an_old_page_changes_nothing() -> None:
    tick_at(MORNING)
    seen = refused()
    correct()
    assert retry(seen=seen)
    again = retry(seen=seen)
    assert (again.applied, again.reason) == (False, "stale_view")
    tick_at(MORNING + timedelta(minutes=5))
    assert (len(mailed()), set(mailed().values())) == (READERS, {1})


def test_a_reader_who_has_left_can_not_be_refreshed_and_is_given_up() -> None:
    tick_at(MORNING)
    Recipient.objects.filter(email=WRONG).delete()
    with pytest.raises(InvalidInput, match="no longer yields mail_report"):
        retry()
    assert services.void(refused(), note="has left", by="editor")
    assert not Capture.objects.for_a_person().exists()


def test_a_reader_who_comes_after_the_act_gets_the_next_report_not_this_one() -> None:
    tick_at(MORNING)
    Recipient.objects.create(email="late@example.org")
    correct()
    assert retry()
    tick_at(MORNING + timedelta(minutes=5))
    assert (mailed()["reader7@example.org"], mailed()["late@example.org"]) == (1, 0)
    tick_at(MORNING + DAY)
    assert mailed("2026-03-10")["late@example.org"] == 1


def test_one_who_can_not_be_reached_today_holds_up_nobody_else() -> None:
    outside.behave("down", "report", "reader3@example.org")
    tick_at(MORNING)
    assert len(mailed()) == READERS - 2
    outside.behave("well", "report", "reader3@example.org")
    for hours in (1, 2):
        tick_at(MORNING + timedelta(hours=hours))
    assert mailed()["reader3@example.org"] == 1
    assert set(mailed().values()) == {1}
