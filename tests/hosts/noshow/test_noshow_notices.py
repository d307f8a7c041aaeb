"""The notices about absences, counted at the telephone: once each, to whose turn it is."""

from datetime import UTC, datetime, timedelta

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Capture
from tests.hosts import outside
from tests.hosts.moments import elsewhere
from tests.hosts.noshow import register
from tests.hosts.noshow.actions import EscalateAbsences
from tests.hosts.noshow.models import Enrolment, Programme, Session

pytestmark = pytest.mark.django_db(transaction=True)

MONDAY = datetime(2026, 9, 7, 14, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def ada() -> Enrolment:
    programme = Programme.objects.create(title="Reading club")
    return Enrolment.objects.create(student="Ada", programme=programme)


def session(enrolment: Enrolment, starts_at: datetime) -> Session:
    return Session.objects.create(enrolment=enrolment, starts_at=starts_at)


def miss(enrolment: Enrolment, *days: datetime) -> None:
    for day in days:
        register.missed(session(enrolment, day))


def tick_at(now: datetime, *, deliver: bool = True) -> None:
    with testing.travel(now):
        testing.tick(EscalateAbsences, deliver=deliver)


def notices() -> list[str]:
    return [each.details["rung"] for each in outside.deeds("notice", "Ada")]


def test_ten_missed_sessions_within_a_tick_are_one_call(ada: Enrolment) -> None:
    miss(ada, *(MONDAY + n * timedelta(hours=2) for n in range(10)))
    for hours in range(12):
        tick_at(MONDAY + DAY + timedelta(hours=hours))
    assert notices() == ["parent_notice"]


def test_who_comes_back_between_commit_and_delivery_is_not_called_about(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY, deliver=False)
    register.attended(session(ada, MONDAY + DAY))
    for days in range(1, 20):
        tick_at(MONDAY + days * DAY)
    assert notices() == []
    assert Capture.objects.get().state == "void"
    ada.refresh_from_db()
    assert ada.status == "resolved"


def test_who_stays_away_again_after_that_is_called_about_once(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY, deliver=False)
    register.attended(session(ada, MONDAY + DAY))
    elsewhere(lambda: miss(ada, MONDAY + 2 * DAY))
    for days in range(2, 4):
        tick_at(MONDAY + days * DAY + timedelta(hours=1))
    assert notices() == ["parent_notice"]
    ada.refresh_from_db()
    assert ada.cycle == 2
    first, second = Capture.objects.about(ada)
    assert (first.state, second.state) == ("void", "succeeded")
    assert first.provider_key != second.provider_key


def test_nobody_climbs_while_nobody_could_be_called(ada: Enrolment) -> None:
    miss(ada, *(MONDAY + n * DAY for n in range(20)))
    outside.behave("down", "notice")
    for days in range(1, 20):
        tick_at(MONDAY + days * DAY)
    ada.refresh_from_db()
    assert (ada.rung, ada.next_at, notices()) == ("parent_notice", None, [])

    outside.behave("well", "notice")
    back = MONDAY + 20 * DAY
    tick_at(back)
    miss(ada, back + DAY)
    tick_at(back + 2 * DAY - timedelta(minutes=1))
    assert notices() == ["parent_notice"]
    tick_at(back + 2 * DAY)
    assert notices() == ["parent_notice", "counselor_referral"]


def test_a_teachers_button_and_the_tick_call_once(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    with testing.travel(MONDAY + DAY):
        outcome = services.act(EscalateAbsences, ada, by="teacher", reason="worried")
        assert outcome
        services.deliver(escalation=outcome.escalation)
        testing.tick(EscalateAbsences)
    assert notices() == ["parent_notice"]


def test_the_last_wait_over_calls_nobody_any_more(ada: Enrolment) -> None:
    for day in range(60):
        miss(ada, MONDAY + day * DAY)
        tick_at(MONDAY + day * DAY + timedelta(hours=1))
    assert notices() == ["parent_notice", "counselor_referral", "administrator_review"]
    ada.refresh_from_db()
    assert ada.status == "exhausted"
    assert Capture.objects.count() == 3
