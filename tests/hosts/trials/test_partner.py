"""A partner who takes no idempotency keys: it is asked before it is called again."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Capture
from tests.hosts import outside
from tests.hosts.trials import effects
from tests.hosts.trials.actions import ConvertPaidTrials
from tests.hosts.trials.models import PaidTrial, Trial

pytestmark = pytest.mark.django_db(transaction=True)

APRIL = datetime(2026, 4, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def trial() -> PaidTrial:
    return PaidTrial.objects.create(
        code="007", ends_on=date(2026, 4, 30), charge_on=APRIL.date(), card="4242"
    )


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often the partner was asked what it knows."""
    count = 0
    find = outside.find

    def counting(kind: str, who: object) -> object:
        nonlocal count
        count += 1
        return find(kind, who)

    monkeypatch.setattr(outside, "find", counting)
    return lambda: count


def tick_at(now: datetime) -> None:
    with testing.travel(now):
        testing.tick(ConvertPaidTrials)


def account() -> Capture:
    return Capture.objects.get()


def test_who_answers_at_once_is_called_once_and_asked_nothing(asked: Callable[[], int]) -> None:
    for minutes in range(0, 60, 5):
        tick_at(APRIL + minutes * MINUTE)
    assert (outside.called("account"), asked()) == (1, 0)
    assert account().state == "succeeded"


def test_what_was_done_without_an_answer_is_found_and_not_done_again(
    asked: Callable[[], int],
) -> None:
    outside.behave("unanswered", "account")
    tick_at(APRIL)
    outside.behave("well", "account")
    for minutes in range(1, 30):
        tick_at(APRIL + minutes * MINUTE)
    assert (outside.called("account"), asked()) == (1, 1)
    assert len(outside.deeds("account", "007")) == 1
    assert (account().state, account().provider_ref) == ("succeeded", "account 1")


def test_what_was_lost_on_the_way_is_asked_for_and_then_called_for_again(
    asked: Callable[[], int],
) -> None:
    outside.behave("lost", "account")
    tick_at(APRIL)
    outside.behave("well", "account")
    for minutes in range(1, 30):
        tick_at(APRIL + minutes * MINUTE)
    assert (outside.called("account"), asked()) == (2, 1)
    assert len(outside.deeds("account", "007")) == 1
    assert account().state == "succeeded"


def test_a_call_may_still_be_on_its_way_so_nobody_asks_too_soon(asked: Callable[[], int]) -> None:
    outside.behave("lost", "account")
    tick_at(APRIL)
    tick_at(APRIL + effects.SETTLE_TIME - timedelta(seconds=1))
    assert (outside.called("account"), asked(), account().state) == (1, 0, "unknown")


def test_while_the_partner_can_not_be_asked_it_is_not_called_either(
    asked: Callable[[], int],
) -> None:
    outside.behave("unanswered", "account")
    tick_at(APRIL)
    outside.behave("down", "account")
    for minutes in range(6, 600, 6):
        tick_at(APRIL + minutes * MINUTE)
    assert (outside.called("account"), account().state) == (1, "unknown")
    assert asked() > 1
    assert (account().waiting_for, (account().error or {})["class"]) == ("probe_failed", "Down")

    outside.behave("well", "account")
    tick_at(APRIL + timedelta(days=1))
    assert (outside.called("account"), account().state) == (1, "succeeded")


def test_a_trial_that_ends_before_the_partner_is_called_opens_no_account() -> None:
    with testing.travel(APRIL):
        testing.tick(ConvertPaidTrials, deliver=False)
        Trial.objects.update(state="expired")
        services.deliver()
    assert (outside.called(), account().state) == (0, "void")


def test_a_trial_that_ends_while_nobody_knows_is_left_to_a_person() -> None:
    outside.behave("lost", "account")
    tick_at(APRIL)
    Trial.objects.update(state="expired")
    outside.behave("well", "account")
    tick_at(APRIL + timedelta(hours=1))
    tick_at(APRIL + timedelta(hours=2))
    assert outside.deeds() == []
    assert account().state in ("void", "review")  # known to be absent, and no longer wanted
