"""`manage.py sync_schedules` as a person, a deploy script and a shell see it."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import modify_settings

from idempotent_actions.plans import DEFAULTS
from idempotent_actions.schedules import sync_schedules
from tests.processes import manage
from tests.scheduling.rows import cells, ours, planning

ALL = list(DEFAULTS)


def run(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("sync_schedules", *arguments, stdout=out)
    return out.getvalue().splitlines()


@pytest.mark.django_db
def test_json_is_the_last_line_and_says_what_it_did() -> None:
    assert json.loads(run("--json")[-1]) == {
        "created": ALL,
        "updated": [],
        "removed": [],
        "unchanged": [],
    }
    assert json.loads(run("--json")[-1])["unchanged"] == ALL


@pytest.mark.django_db
def test_each_change_has_a_line_and_a_summary_follows() -> None:
    tick = {"job": "tick", "every": timedelta(hours=1)}
    with planning(old=tick, slow=tick, same=tick):
        sync_schedules()
    with planning(slow={**tick, "every": timedelta(hours=2)}, same=tick, fresh=tick):
        assert run("--dry-run") == [
            "fresh: would be created",
            "slow: would be updated",
            "old: would be removed",
            "schedules: 1 created, 1 updated, 1 removed, 1 unchanged (dry run)",
        ]
        assert sorted(ours()) == ["old", "same", "slow"]
        assert run() == [
            "fresh: created",
            "slow: updated",
            "old: removed",
            "schedules: 1 created, 1 updated, 1 removed, 1 unchanged",
        ]
        assert run() == ["schedules: 0 created, 0 updated, 0 removed, 3 unchanged"]


@pytest.mark.django_db
@pytest.mark.parametrize("arguments", [(), ("--dry-run",), ("--json",)])
def test_settings_that_cant_be_used_are_2(arguments: tuple[str, ...]) -> None:
    with planning(tick={"every": 5}), pytest.raises(CommandError, match="whole minutes") as caught:
        run(*arguments)
    assert caught.value.returncode == 2
    assert cells() == []


@pytest.mark.django_db
def test_without_django_q2_it_is_2() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": "django_q"}),
        pytest.raises(CommandError, match="add 'django_q' to INSTALLED_APPS") as caught,
    ):
        run()
    assert caught.value.returncode == 2


@pytest.mark.django_db(transaction=True)
def test_what_a_shell_sees() -> None:
    first, second = manage("sync_schedules", "--json"), manage("sync_schedules", "--json")
    assert (first.returncode, first.stderr, second.returncode) == (0, "", 0)
    said: list[Any] = [json.loads(each.stdout.splitlines()[-1]) for each in (first, second)]
    assert (said[0]["created"], said[1]["unchanged"]) == (ALL, ALL)
    refused = manage("sync_schedules", "--jsno")
    assert (refused.returncode, refused.stdout) == (2, "")


@pytest.mark.django_db(transaction=True)
def test_what_a_shell_sees_of_settings_that_cant_be_used() -> None:
    done = manage("sync_schedules", settings="tests.scheduling.bad_settings")
    assert (done.returncode, done.stdout) == (2, "")
    assert "['tick'] takes every as a timedelta of whole minutes" in done.stderr
    assert "Traceback" not in done.stderr
    assert cells() == []
