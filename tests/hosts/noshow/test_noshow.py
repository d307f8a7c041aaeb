"""A ladder for each student and programme: its rule looks at many sessions, and climbs once."""

from datetime import UTC, datetime, timedelta

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from tests.hosts.moments import before_locking
from tests.hosts.noshow import register
from tests.hosts.noshow.actions import EscalateAbsences
from tests.hosts.noshow.models import Enrolment, Holiday, Programme, Session

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 9, 7, 14, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def ada() -> Enrolment:
    return enrol("Ada")


def enrol(student: str, title: str = "Reading club") -> Enrolment:
    programme, _ = Programme.objects.get_or_create(title=title)
    return Enrolment.objects.create(student=student, programme=programme)


def session(enrolment: Enrolment, starts_at: datetime) -> Session:
    return Session.objects.create(enrolment=enrolment, starts_at=starts_at)


def miss(enrolment: Enrolment, *days: datetime) -> None:
    for day in days:
        register.missed(session(enrolment, day))


def tick_at(now: datetime, batch_size: int | None = None) -> Report:
    with testing.travel(now):
        (report,) = testing.tick(EscalateAbsences, batch_size=batch_size)
    return report


def rungs(enrolment: Enrolment) -> list[str]:
    climbs = Escalation.objects.about(enrolment).filter(transition="escalate")
    return [each.rung for each in climbs]


def test_one_missed_session_is_one_notice(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    assert [tick_at(MONDAY + DAY).applied for _ in range(3)] == [1, 0, 0]
    assert rungs(ada) == ["parent_notice"]


def test_ten_missed_sessions_within_a_tick_are_one_notice(ada: Enrolment) -> None:
    miss(ada, *(MONDAY + n * timedelta(hours=2) for n in range(10)))

    report = tick_at(MONDAY + DAY)

    assert (report.selected, report.marked, report.applied) == (1, 1, 1)
    assert rungs(ada) == ["parent_notice"]


def test_many_students_with_many_sessions_climb_once_each_in_small_batches() -> None:
    students = [enrol(f"Student {n}") for n in range(50)]
    for student in students:
        miss(student, MONDAY, MONDAY + DAY, MONDAY + 2 * DAY)

    report = tick_at(MONDAY + 3 * DAY, batch_size=1)

    assert (report.selected, report.applied) == (50, 50)
    assert [rungs(each) for each in students] == [["parent_notice"]] * 50


def test_a_dry_run_lists_a_student_once_however_many_sessions_were_missed(ada: Enrolment) -> None:
    miss(ada, *(MONDAY + n * timedelta(hours=2) for n in range(10)))
    with testing.travel(MONDAY + DAY):
        (report,) = testing.tick(EscalateAbsences, dry_run=True)
    assert [each.subject for each in report.planned] == [f"host_noshow.enrolment:{ada.pk}"]


def test_each_programme_has_a_ladder_of_its_own(ada: Enrolment) -> None:
    chess = enrol("Ada", "Chess")
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY)
    assert (rungs(ada), rungs(chess)) == (["parent_notice"], [])


def test_the_next_rung_takes_another_missed_session_and_the_full_wait(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY)
    assert tick_at(MONDAY + 9 * DAY).applied == 0  # waited, but nothing missed since

    miss(ada, MONDAY + 10 * DAY, MONDAY + 11 * DAY)
    assert tick_at(MONDAY + 12 * DAY).applied == 1

    miss(ada, MONDAY + 13 * DAY)
    assert tick_at(MONDAY + 14 * DAY).applied == 0  # missed, but the wait of five days runs
    assert tick_at(MONDAY + 17 * DAY).applied == 1
    assert rungs(ada) == ["parent_notice", "counselor_referral", "administrator_review"]


def test_an_excuse_in_time_is_no_notice(ada: Enrolment) -> None:
    monday = session(ada, MONDAY)
    register.missed(monday)
    register.excused(monday)
    assert tick_at(MONDAY + DAY).applied == 0


@pytest.mark.django_db(transaction=True)
def test_an_excuse_between_candidate_query_and_lock_is_no_notice(ada: Enrolment) -> None:
    monday = session(ada, MONDAY)
    register.missed(monday)

    with before_locking(Enrolment, lambda: register.excused(monday), nth=2):
        report = tick_at(MONDAY + DAY)

    assert (report.applied, report.skipped) == (0, {"not_due": 1})
    assert rungs(ada) == []


@pytest.mark.django_db(transaction=True)
def test_another_missed_session_between_candidate_query_and_lock_is_still_one_notice(
    ada: Enrolment,
) -> None:
    miss(ada, MONDAY)
    with before_locking(Enrolment, lambda: miss(ada, MONDAY + timedelta(hours=2)), nth=2):
        report = tick_at(MONDAY + DAY)
    assert (report.selected, report.applied) == (1, 1)
    assert rungs(ada) == ["parent_notice"]


def test_nobody_is_written_to_during_the_programmes_holiday(ada: Enrolment) -> None:
    chess = enrol("Ada", "Chess")
    Holiday.objects.create(
        programme=ada.programme, first_day=MONDAY.date(), last_day=(MONDAY + 7 * DAY).date()
    )
    for each in (ada, chess):
        miss(each, MONDAY)

    assert tick_at(MONDAY + 7 * DAY).applied == 1
    assert (rungs(ada), rungs(chess)) == ([], ["parent_notice"])

    assert tick_at(MONDAY + 8 * DAY).applied == 1
    assert rungs(ada) == ["parent_notice"]


def test_coming_back_ends_the_ladder(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY)
    register.attended(session(ada, MONDAY + 2 * DAY))

    report = tick_at(MONDAY + 4 * DAY)

    assert (report.resolved, report.applied) == (1, 0)
    ada.refresh_from_db()
    assert ada.status == "resolved"


def test_a_session_attended_before_the_first_missed_one_ends_nothing(ada: Enrolment) -> None:
    register.attended(session(ada, MONDAY - 7 * DAY))
    miss(ada, MONDAY, MONDAY + timedelta(hours=2))
    report = tick_at(MONDAY + DAY)
    assert (report.resolved, report.applied) == (0, 1)


def test_missed_before_attended_within_one_tick_is_no_notice(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    register.attended(session(ada, MONDAY + timedelta(hours=2)))
    assert tick_at(MONDAY + DAY).applied == 0
    assert rungs(ada) == []


def test_who_stays_away_again_gets_the_first_notice_again_once(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY)
    register.attended(session(ada, MONDAY + 2 * DAY))
    tick_at(MONDAY + 4 * DAY)

    miss(ada, MONDAY + 7 * DAY)
    assert [tick_at(MONDAY + 8 * DAY).applied for _ in range(2)] == [1, 0]

    assert rungs(ada) == ["parent_notice", "parent_notice"]
    ada.refresh_from_db()
    assert ada.cycle == 2


def test_who_comes_once_and_stays_away_again_before_any_tick_gets_the_first_notice_again(
    ada: Enrolment,
) -> None:
    miss(ada, MONDAY)
    tick_at(MONDAY + DAY)
    register.attended(session(ada, MONDAY + 2 * DAY))
    miss(ada, MONDAY + 3 * DAY)
    tick_at(MONDAY + 4 * DAY)
    assert rungs(ada) == ["parent_notice", "parent_notice"]


def test_the_button_asks_the_same_sessions_as_the_poll(ada: Enrolment) -> None:
    with testing.travel(MONDAY + DAY):
        outcome = services.act(EscalateAbsences, ada, by="teacher", reason="worried")
        assert (outcome.applied, outcome.reason) == (False, "not_due")

        miss(ada, MONDAY, MONDAY + timedelta(hours=2))
        assert services.act(EscalateAbsences, ada, by="teacher", reason="worried").applied
        assert not services.act(EscalateAbsences, ada, by="teacher", reason="worried").applied
    assert rungs(ada) == ["parent_notice"]


def test_a_dry_run_counts_who_came_back_as_the_tick_does(ada: Enrolment) -> None:
    miss(ada, MONDAY)
    for day in (2, 3):
        register.attended(session(ada, MONDAY + day * DAY))
    with testing.travel(MONDAY + 4 * DAY):
        (dry,) = testing.tick(EscalateAbsences, dry_run=True)
    assert (dry.resolved, tick_at(MONDAY + 4 * DAY).resolved) == (1, 1)
