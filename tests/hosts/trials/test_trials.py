"""An existing model with a text key whose state can come back: each occasion is acted on once."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from idempotent_actions import Action, testing
from idempotent_actions.exceptions import InvalidAction
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from idempotent_actions.services import Outcome, act
from tests.contention.threads import race
from tests.hosts.trials.actions import ExpireTrials
from tests.hosts.trials.models import Trial

pytestmark = pytest.mark.django_db

END = date(2026, 3, 31)
APRIL = datetime(2026, 4, 1, 12, tzinfo=UTC)
JULY = datetime(2026, 7, 1, 12, tzinfo=UTC)


def make_trial(code: str = "A1", **values: Any) -> Trial:
    return Trial.objects.create(**{"code": code, "ends_on": END, **values})


def tick_at(now: datetime, **options: Any) -> Report:
    with testing.travel(now):
        (report,) = testing.tick(ExpireTrials, **options)
    return report


def renew(code: str, until: date) -> None:
    trial = Trial.objects.get(code=code)
    trial.renew(until)
    trial.save()


def expirations(code: str) -> int:
    return Escalation.objects.about(Trial(code=code)).count()


def test_a_trial_expires_after_its_last_day_once() -> None:
    make_trial()
    assert tick_at(datetime(2026, 3, 31, 23, 59, tzinfo=UTC)).applied == 0
    assert [tick_at(APRIL).applied for _ in range(3)] == [1, 0, 0]
    assert Trial.objects.get().state == "expired"
    assert expirations("A1") == 1


def test_an_expiration_after_a_renewal_is_another_occasion() -> None:
    make_trial()
    tick_at(APRIL)
    renew("A1", until=date(2026, 6, 30))

    assert tick_at(APRIL).applied == 0
    assert [tick_at(JULY).applied for _ in range(2)] == [1, 0]

    trial = Trial.objects.get()
    assert (trial.state, trial.times_expired) == ("expired", 2)
    assert expirations("A1") == 2


def test_a_renewal_before_the_end_just_moves_the_end() -> None:
    make_trial()
    renew("A1", until=date(2026, 6, 30))
    assert tick_at(APRIL).applied == 0
    assert tick_at(JULY).applied == 1
    assert expirations("A1") == 1


@pytest.mark.parametrize("state", [Trial.State.TRIAL, Trial.State.ACTIVE])
def test_the_same_occasion_is_never_acted_on_twice(state: str) -> None:
    make_trial()
    tick_at(APRIL)
    Trial.objects.update(state=state)  # by hand, without a new end

    report = tick_at(APRIL)

    assert (report.applied, report.skipped) == (0, {"healed": 1})
    trial = Trial.objects.get()
    assert (trial.state, trial.times_expired) == ("expired", 1)
    assert expirations("A1") == 1


def test_a_stale_save_does_not_expire_it_again() -> None:
    stale = make_trial()
    tick_at(APRIL)
    stale.save()  # writes every column as it was, the state included

    assert tick_at(APRIL).skipped == {"healed": 1}
    assert Trial.objects.get().state == "expired"
    assert expirations("A1") == 1


def test_the_button_acts_once_on_an_occasion_as_well() -> None:
    trial = make_trial()

    def press() -> Outcome:
        return act(ExpireTrials, trial, by="support", reason="asked to leave", now=APRIL)

    assert press().applied
    assert press().reason == "wrong_status"
    Trial.objects.update(state="trial")
    assert press().reason == "healed"
    assert tick_at(APRIL).selected == 0
    assert expirations("A1") == 1


def test_without_a_word_on_what_is_a_new_occasion_it_can_not_be_registered() -> None:
    class ExpireOnce(Action):
        name = "expire_once"
        model = Trial
        transition = "expire"

        def due(self, now: datetime) -> Any:
            return ExpireTrials().due(now)

    with pytest.raises(InvalidAction, match="occurrence"), testing.registered(ExpireOnce):
        pass  # not reached


def test_codes_that_look_alike_are_different_subjects() -> None:
    codes = ["7", "07", "007", "7 ", "A:1", "A%3A1", "a:1", "-7", "'7", "é", "e\u0301"]
    for code in codes:
        make_trial(code)

    assert tick_at(APRIL).applied == len(codes)
    assert tick_at(APRIL).applied == 0
    assert [expirations(code) for code in codes] == [1] * len(codes)

    renew("007", until=date(2026, 6, 30))
    assert tick_at(JULY).applied == 1
    assert (expirations("7"), expirations("007")) == (1, 2)


def test_every_trial_is_found_once_when_many_end_on_the_same_day_and_batches_are_small() -> None:
    Trial.objects.bulk_create(Trial(code=f"{n:x}", ends_on=END) for n in range(100))
    report = tick_at(APRIL, batch_size=1)
    assert (report.selected, report.applied) == (100, 100)


@pytest.mark.django_db(transaction=True)
def test_ticks_at_the_same_time_expire_each_trial_once() -> None:
    Trial.objects.bulk_create(Trial(code=f"{n:x}", ends_on=END) for n in range(60))

    def poll() -> Report:
        (report,) = testing.tick(ExpireTrials, batch_size=7)
        return report

    with testing.travel(APRIL):
        reports = race([poll] * 6)
        last = poll()

    assert sum(each.applied for each in reports) + last.applied == 60
    assert set(Trial.objects.values_list("state", "times_expired")) == {("expired", 1)}
    assert Escalation.objects.count() == 60
