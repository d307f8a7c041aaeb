"""A child under multi-table inheritance: its state lives in the parent's table, which is locked."""

from datetime import UTC, date, datetime

import pytest

from idempotent_actions import testing
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from idempotent_actions.services import act
from tests.contention.threads import race
from tests.hosts.moments import before_locking, under_way
from tests.hosts.trials.actions import ConvertPaidTrials, ExpireTrials
from tests.hosts.trials.models import PaidTrial, Trial

pytestmark = pytest.mark.django_db

APRIL = datetime(2026, 4, 1, 12, tzinfo=UTC)


def make_paid_trial(code: str = "007") -> PaidTrial:
    return PaidTrial.objects.create(
        code=code, ends_on=date(2026, 4, 30), charge_on=APRIL.date(), card="4242"
    )


def tick() -> Report:
    with testing.travel(APRIL):
        (report,) = testing.tick(ConvertPaidTrials)
    return report


def test_columns_of_both_tables_are_written_once() -> None:
    make_paid_trial()
    assert [tick().applied for _ in range(2)] == [1, 0]

    trial = PaidTrial.objects.get()
    assert (trial.state, trial.charges, trial.ends_on) == ("active", 1, date(2027, 4, 1))


def test_the_audit_row_is_about_the_child() -> None:
    trial = make_paid_trial()
    tick()
    (row,) = Escalation.objects.about(trial)
    assert (row.subject_model, row.subject_pk) == ("host_trials.paidtrial", "007")
    assert row.subject == trial


def test_a_trial_without_a_card_is_not_converted() -> None:
    Trial.objects.create(code="7", ends_on=date(2026, 4, 30))
    make_paid_trial("007")
    assert tick().applied == 1
    assert Trial.objects.get(code="7").state == "trial"


def test_an_action_of_the_parent_acts_on_the_child_too() -> None:
    make_paid_trial()
    tick()
    with testing.travel(datetime(2027, 4, 2, tzinfo=UTC)):
        (report,) = testing.tick(ExpireTrials)
    assert report.applied == 1
    assert PaidTrial.objects.get().state == "expired"


@pytest.mark.django_db(transaction=True)
def test_a_trial_that_expires_between_candidate_query_and_lock_is_not_converted() -> None:
    make_paid_trial()

    def expire() -> None:
        act(
            ExpireTrials,
            Trial.objects.get(),
            by="x",
            reason="y",
            now=datetime(2027, 1, 1, tzinfo=UTC),
        )

    with before_locking(Trial, expire):
        report = tick()

    assert (report.applied, report.skipped) == (0, {"wrong_status": 1})
    assert PaidTrial.objects.get().charges == 0


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_parents_row_under_way_keeps_the_tick_away_until_it_is_done() -> None:
    make_paid_trial()

    def move_the_end() -> None:
        Trial.objects.update(ends_on=date(2026, 5, 31))

    with under_way(move_the_end):
        report = tick()

    assert (report.applied, report.skipped) == (0, {"locked": 1})
    assert tick().applied == 1


@pytest.mark.django_db(transaction=True)
def test_ticks_at_the_same_time_convert_each_trial_once() -> None:
    for number in range(40):
        make_paid_trial(f"{number}")

    def poll() -> Report:
        (report,) = testing.tick(ConvertPaidTrials, batch_size=7)
        return report

    with testing.travel(APRIL):
        reports = race([poll] * 6)
        last = poll()

    assert sum(each.applied for each in reports) + last.applied == 40
    assert set(PaidTrial.objects.values_list("charges", flat=True)) == {1}
