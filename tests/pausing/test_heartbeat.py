"""What stands still by a person's word is no alarm, and no longer than it stands."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings

from idempotent_actions import services, tasks
from idempotent_actions.heartbeat import STUCK_AFTER, check_heartbeat
from idempotent_actions.polling import mark_overdue, tick
from tests.invoices import LADDER
from tests.ledger.moments import NOW, after
from tests.ledger.outside import charge, mail
from tests.pausing.standing import ACTION, CHARGE, EVERYTHING, MAIL, Settling, lift, pause
from tests.registering import only

pytestmark = pytest.mark.django_db

STALE = ("stale", LADDER)


@pytest.fixture(autouse=True)
def _one_action() -> Iterator[None]:
    with only(Settling):
        yield


def troubles(**later: float) -> list[tuple[str, str]]:
    with after(**later):
        return [(each.kind, each.name) for each in check_heartbeat().troubles]


@pytest.mark.parametrize("scope", [EVERYTHING, ACTION], ids=["everything", "action"])
def test_a_paused_action_is_not_stale_until_two_periods_after_it(scope: tuple[str, str]) -> None:
    with after():
        tick(deliver=False)
        made = pause(*scope)
    paused = ("paused", scope[1] or scope[0])
    assert troubles(hours=5) == [paused]
    with after(hours=10):
        lift(made)
    assert troubles(hours=11, minutes=59) == []
    assert troubles(hours=12) == [STALE]


def test_one_that_ends_by_itself_is_the_same() -> None:
    with after():
        tick(deliver=False)
        pause(*ACTION, until=NOW + timedelta(hours=10))
    assert troubles(hours=9) == [("paused", LADDER)]
    assert troubles(hours=11, minutes=59) == []
    assert troubles(hours=12) == [STALE]


def test_a_pause_of_something_else_excuses_nothing() -> None:
    with after():
        tick(deliver=False)
        pause(*MAIL)
    assert troubles(hours=5) == [STALE, ("paused", "ledger.mail")]


def test_detection_alone_is_excused_by_its_ladders_pause() -> None:
    alone = {"tick": None, "detect": {"job": "mark_overdue", "every": timedelta(hours=1)}}
    with after():
        mark_overdue()
        pause(*ACTION)
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": alone}):
        assert troubles(hours=5) == [("paused", LADDER)]


@pytest.mark.parametrize(
    ("scope", "stuck"),
    [(EVERYTHING, []), (MAIL, ["ledger.charge"]), (CHARGE, ["ledger.mail"])],
)
def test_paused_captures_are_not_stuck_and_the_others_are(
    scope: tuple[str, str], stuck: list[str]
) -> None:
    with after():
        tick(deliver=False)
        services.request(mail, key="m")
        services.request(charge, key="c")
        made = pause(*scope)
    minutes = STUCK_AFTER.total_seconds() / 60
    held = [name for kind, name in troubles(minutes=minutes) if kind == "stuck"]
    assert held == stuck
    with after(hours=1):
        lift(made)
    assert [name for kind, name in troubles(hours=1, minutes=minutes - 1) if kind == "stuck"] == (
        stuck
    )
    found = [name for kind, name in troubles(hours=1, minutes=minutes) if kind == "stuck"]
    assert found == ["ledger.charge", "ledger.mail"]


def test_the_watchdog_raises_no_alarm_for_it(caplog: pytest.LogCaptureFixture) -> None:
    with after():
        tick(deliver=False)
        pause(*EVERYTHING)
    with after(hours=5):
        told = tasks.run_plan("check_heartbeat")
    assert (told["ok"], [each["kind"] for each in told["troubles"]]) == (True, ["paused"])
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
