"""What should have happened by now, and has not, is named."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from idempotent_actions import services
from idempotent_actions.heartbeat import SILENT_AFTER, STUCK_AFTER, check_heartbeat
from idempotent_actions.models import DeferredCall, Run
from idempotent_actions.polling import tick
from idempotent_actions.registry import registry
from idempotent_actions.testing import travel
from tests.hosts.trials.actions import ExpireTrials
from tests.ledger.acting import Dunning
from tests.ledger.moments import FAR, NOW, after
from tests.ledger.outside import charge
from tests.registering import only

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def troubles(**later: float) -> list[tuple[str, str]]:
    with after(**later):
        return [(each.kind, each.name) for each in check_heartbeat().troubles]


@pytest.fixture(autouse=True)
def _one_action() -> Any:
    with only(Dunning):
        yield


def name() -> str:
    (action,) = registry
    return action.name


def test_an_action_that_never_ran_is_named() -> None:
    assert troubles() == [("stale", name())]


def test_an_action_is_stale_when_it_missed_two_of_its_periods() -> None:
    with after():
        tick(deliver=False)
    assert troubles(hours=2) == []
    assert troubles(hours=2, seconds=1) == [("stale", name())]


@pytest.mark.parametrize(
    "columns", [{"finished_at": None}, {"stopped": "error"}, {"stopped": "lease_lost"}]
)
def test_a_run_that_came_to_no_good_end_doesnt_count(columns: dict[str, Any]) -> None:
    with after():
        tick(deliver=False)
    Run.objects.update(**columns)
    assert ("stale", name()) in troubles(minutes=1)


def test_a_run_with_a_poison_row_does_count() -> None:
    with after():
        tick(deliver=False)
    Run.objects.update(failed=3, selected=3)
    assert troubles(minutes=1) == []


def test_the_period_is_that_of_the_most_frequent_plan() -> None:
    often = {"often": {"job": "escalate_overdue", "every": timedelta(minutes=10)}}
    with after():
        tick(deliver=False)
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": often}):
        assert troubles(minutes=20) == []
        assert troubles(minutes=21) == [("stale", name())]


def test_by_cron_it_is_stale_when_two_planned_runs_were_missed() -> None:
    office = {"tick": {"cron": "0 9-17 * * *"}}
    with after(hours=8):  # the last of that day
        tick(deliver=False)
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": office}):
        assert troubles(hours=23) == []
        assert troubles(hours=24, minutes=59) == []
        assert troubles(hours=25, minutes=1) == [("stale", name())]


def test_an_action_whose_rule_raises_is_stale_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(*args: Any) -> Any:
        raise ValueError("a rule that raises")

    with after():
        services.request(charge, key="one")
    monkeypatch.setattr(Dunning, "branches", raises)
    assert troubles(hours=1) == [("stale", name()), ("stuck", charge.name)]


def test_what_no_plan_polls_is_not_waited_for() -> None:
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"tick": None}}):
        assert troubles() == []


def test_a_plan_of_some_actions_waits_for_those() -> None:
    only_one = name()
    plan = {"tick": {"every": HOUR, "actions": [only_one]}}
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": plan}), only(Dunning, ExpireTrials):
        assert troubles() == [("stale", only_one)]


def test_a_run_whose_process_died_is_named_until_another_made_up_for_it() -> None:
    with after():
        tick(deliver=False)
        Run.objects.update(finished_at=None)
    silent = SILENT_AFTER.total_seconds()
    died = ("died", name())
    assert died not in troubles(seconds=silent)
    assert died in troubles(seconds=silent + 1)
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"tick": None}}):
        assert died not in troubles(hours=1), "nobody plans to run it any more"
    with after(hours=1):
        tick(deliver=False)
    assert died not in troubles(hours=1, minutes=1)


def test_captures_that_nobody_delivers_are_named_by_their_effect() -> None:
    with after():
        tick(deliver=False)
        services.request(charge, key="one")
        services.request(charge, key="two")
    stuck = STUCK_AFTER.total_seconds()
    assert troubles(seconds=stuck - 1) == []
    with after(seconds=stuck):
        (trouble,) = check_heartbeat().troubles
    assert (trouble.kind, trouble.name, trouble.count, trouble.since) == (
        "stuck",
        charge.name,
        2,
        NOW,
    )


def test_calls_that_nobody_makes_are_named_by_their_function() -> None:
    with after():
        tick(deliver=False)
    DeferredCall.objects.create(name="x", function="a.b", asked_at=NOW, latest_at=NOW, due_at=NOW)
    assert troubles(seconds=STUCK_AFTER.total_seconds()) == [("not_called", "a.b")]


def test_calls_that_fail_again_and_again_are_named() -> None:
    with after():
        tick(deliver=False)
    there = {"function": "a.b", "asked_at": NOW, "latest_at": NOW, "due_at": FAR}
    DeferredCall.objects.create(name="x", tries=2, **there)
    assert troubles(minutes=1) == []
    DeferredCall.objects.create(name="y", tries=3, **there)
    assert troubles(minutes=1) == [("failing", "a.b")]


def test_the_command_names_them_and_fails() -> None:
    out, err = StringIO(), StringIO()
    with travel(NOW), pytest.raises(CommandError) as caught:
        call_command("check_heartbeat", "--json", stdout=out, stderr=err)
    assert caught.value.returncode == 1
    assert f"{name()}: no good run ever" in err.getvalue()
    assert json.loads(out.getvalue().splitlines()[-1]) == {
        "ok": False,
        "now": NOW.isoformat(),
        "troubles": [{"kind": "stale", "name": name(), "since": None, "count": 1}],
    }


def test_the_command_says_when_all_is_well() -> None:
    out = StringIO()
    with after():
        tick(deliver=False)
        call_command("check_heartbeat", stdout=out)
    assert out.getvalue() == "all is well\n"


def test_settings_that_cant_be_read_are_bad_usage() -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"tick": {"every": 5}}}),
        pytest.raises(CommandError, match="takes every as a timedelta") as caught,
    ):
        call_command("check_heartbeat")
    assert caught.value.returncode == 2
