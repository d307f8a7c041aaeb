"""The plans: defaults, the setting over them, and what is refused with what to write instead."""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.plans import DEFAULTS, Plan, plans
from tests.scheduling.rows import planning

HOUR = timedelta(hours=1)


def test_without_a_setting_the_defaults_are_planned() -> None:
    assert [plan.name for plan in plans()] == list(DEFAULTS)
    assert {plan.name: plan.every for plan in plans()} == {
        "tick": HOUR,
        "deliver_captures": timedelta(minutes=1),
        "prune_captures": timedelta(days=1),
        "check_heartbeat": timedelta(minutes=5),
    }


def test_the_setting_adds_replaces_and_takes_away() -> None:
    schedules = {
        "tick": {"every": 2 * HOUR},
        "prune_captures": None,
        "nightly": {"job": "tick", "cron": "0 3 * * *", "actions": ["a"], "overlap": "share"},
    }
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": schedules}):
        planned = {plan.name: plan for plan in plans()}
    assert list(planned) == ["tick", "deliver_captures", "check_heartbeat", "nightly"]
    assert planned["tick"] == Plan("tick", "tick", every=2 * HOUR)
    assert planned["nightly"] == Plan(
        "nightly", "tick", cron="0 3 * * *", actions=("a",), overlap="share"
    )


def test_two_runs_were_missed_since_the_last_but_one_that_was_planned() -> None:
    office = {"job": "tick", "cron": "*/5 9-17 * * *"}
    hourly = {"job": "tick", "every": HOUR}
    with planning(a=office, b=hourly), override_settings(TIME_ZONE="Europe/Berlin"):
        morning = datetime(2026, 3, 3, 8, 1, tzinfo=UTC)  # 9:01 there
        assert [plan.missed(morning) for plan in plans()] == [
            datetime(2026, 3, 2, 16, 55, tzinfo=UTC),
            datetime(2026, 3, 3, 6, 1, tzinfo=UTC),
        ]


REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"": {"every": HOUR}}, "printable text of 1 to 60 characters, not ''"),
    ({"n" * 61: {"every": HOUR}}, "printable text of 1 to 60 characters"),
    ({"a\0b": {"every": HOUR}}, "printable text of 1 to 60 characters"),
    ({7: {"every": HOUR}}, "printable text of 1 to 60 characters, not 7"),
    ({"tick": HOUR}, "['tick'] must be a dict like"),
    ({"tick": {"evry": HOUR, 7: 1}}, "['tick'] has no option 'evry'; it knows: actions, cluster"),
    ({"nightly": {"every": HOUR}}, "['nightly'] needs a job, one of tick, mark_overdue"),
    ({"tick": {"job": ["tick"], "every": HOUR}}, "['tick'] needs a job, one of"),
    ({"tick": {}}, "needs either every, a timedelta, or cron"),
    ({"tick": {"every": HOUR, "cron": "0 3 * * *"}}, "needs either every, a timedelta, or cron"),
    ({"tick": {"every": 3600}}, "takes every as a timedelta of whole minutes"),
    ({"tick": {"every": timedelta()}}, "takes every as a timedelta of whole minutes"),
    ({"tick": {"every": -HOUR}}, "takes every as a timedelta of whole minutes"),
    ({"tick": {"every": timedelta(seconds=90)}}, "takes every as a timedelta of whole minutes"),
    ({"tick": {"every": timedelta(days=23)}}, "whole minutes up to 22 days"),
    ({"tick": {"cron": "at noon"}}, "takes cron as an expression like '0 3 * * *', not 'at noon'"),
    ({"tick": {"cron": 5}}, "takes cron as an expression like '0 3 * * *', not 5"),
    ({"tick": {"cron": "0,0" + ",0" * 50 + " * * * *"}}, "of at most 100 characters"),
    ({"tick": {"cron": "0 0 30 2 *"}}, "never comes true: '0 0 30 2 *'"),
    ({"tick": {"every": HOUR, "actions": [1]}}, "takes actions as a list of names, not [1]"),
    ({"tick": {"every": HOUR, "actions": None}}, "takes actions as a list of names, not None"),
    ({"deliver_captures": {"every": HOUR, "actions": ["a"]}}, "actions only for the job 'tick'"),
    ({"tick": {"every": HOUR, "overlap": "wait"}}, "takes overlap 'skip' or 'share', not 'wait'"),
    ({"prune_captures": {"every": HOUR}}, "takes older_than, a timedelta, for the job"),
    ({"tick": {"every": HOUR, "older_than": HOUR}}, "takes older_than, a timedelta, for the job"),
    ({"prune_captures": {"every": HOUR, "older_than": 365}}, "older_than as a timedelta above"),
    ({"tick": {"every": HOUR, "cluster": None}}, "takes cluster as the name of a django-q2"),
    ({"tick": {"every": HOUR, "cluster": "c" * 101}}, "takes cluster as the name of a django-q2"),
]


@pytest.mark.parametrize(("schedules", "message"), REFUSED)
def test_what_cant_be_planned_is_refused_with_what_to_write(
    schedules: dict[Any, Any], message: str
) -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": schedules}),
        pytest.raises(InvalidSetting) as caught,
    ):
        plans()
    assert message in str(caught.value)


def test_years_are_refused_as_they_end_and_the_scheduler_with_them() -> None:
    with planning(tick={"cron": "0 0 1 1 * 0 2020-2099"}), pytest.raises(InvalidSetting) as caught:
        plans()
    # A croniter before 3 doesn't know them at all.
    assert re.search("takes no years in its cron|takes cron as an expression", str(caught.value))


def test_without_croniter_a_cron_expression_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "croniter", None)
    assert len(plans()) == len(DEFAULTS), "the defaults do without"
    with planning(tick={"cron": "0 3 * * *"}), pytest.raises(InvalidSetting) as caught:
        plans()
    assert "['tick'] has a cron expression, which needs croniter: pip install croniter" in str(
        caught.value
    )
