"""What a cluster's settings would lose, repeat or hang is said by the system checks."""

import os
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core import checks
from django.test import modify_settings, override_settings
from django_q.conf import Conf

from idempotent_actions import queue_checks
from idempotent_actions.queue_checks import check_clusters, check_plans
from tests.scheduling.options import GOOD, said
from tests.scheduling.rows import planning


def test_good_settings_are_passed_in_silence() -> None:
    assert said() == {}


def test_the_examples_settings_are_passed_in_silence() -> None:
    assert said(settings.Q_CLUSTER) == {}


@pytest.mark.parametrize("timeout", [None, -1, 0])
def test_e004_a_task_without_a_timeout(timeout: int | None) -> None:
    found = said({"timeout": timeout})
    assert (list(found), found["E004"].level) == (["E004"], checks.ERROR)
    assert "may run for ever" in found["E004"].msg
    assert "Set Q_CLUSTER['timeout']" in str(found["E004"].hint)


@pytest.mark.parametrize("retry", [59, 60])
def test_e004_a_timeout_that_outlasts_the_retry(retry: int) -> None:
    found = said({"retry": retry})
    assert list(found) == ["E004"], "W003 would say the same again"
    assert f"that runs {retry} s is handed out again, and may run for 60 s" in found["E004"].msg


def test_e004_without_any_settings_django_q2_has_no_timeout() -> None:
    with override_settings():
        del settings.Q_CLUSTER
        found = [str(each.id).removeprefix("idempotent_actions.") for each in check_clusters(None)]
    assert found == ["E004", "W005", "W007"]


@pytest.mark.parametrize(
    ("options", "longest"),
    [
        ({"workers": 1, "queue_limit": 50, "bulk": 10, "timeout": 3, "retry": 5}, 183),
        ({"workers": 2, "queue_limit": 1, "bulk": 1, "timeout": 60, "retry": 120}, 120),
        ({"workers": 2, "queue_limit": 1, "bulk": 2, "timeout": 60, "retry": 121}, 180),
        ({"workers": 4, "queue_limit": 1, "bulk": 1, "timeout": 60, "retry": 90}, 120),
    ],
)
def test_w003_a_task_that_may_wait_longer_than_its_retry(
    options: dict[str, Any], longest: int
) -> None:
    found = said(options)
    assert (list(found), found["W003"].level) == (["W003"], checks.WARNING)
    assert f"Set Q_CLUSTER['retry'] above {longest}" in str(found["W003"].hint)
    assert said({**options, "retry": longest + 1}) == {}


def test_w003_counts_with_django_q2s_own_defaults() -> None:
    # 4 workers and so 16 tasks, and 1 more: 5 rounds ahead of it
    assert said({"workers": 4, "retry": 361}, without="queue_limit") == {}
    assert list(said({"workers": 4, "retry": 360}, without="queue_limit")) == ["W003"]


@pytest.mark.parametrize("unlimited", [None, 0])
def test_a_queue_without_a_limit_is_longer_than_any_retry(unlimited: int | None) -> None:
    assert list(said({"workers": "4", "queue_limit": unlimited, "bulk": None})) == ["W003"]


def test_a_cluster_of_another_name_runs_no_schedules_of_ours() -> None:
    assert list(said({"cluster_name": "other"})) == ["W009"]
    assert said({"name": "same", "cluster_name": "same"}) == {}
    workers = os.cpu_count() or 1
    rounds = 1 + -(-(workers**2 + 1) // workers)
    few = {key: GOOD[key] for key in ("orm", "timeout", "max_attempts", "catch_up")}
    for retry, ids in ((60 * rounds, ["W003"]), (60 * rounds + 1, [])):
        with override_settings(Q_CLUSTER={**few, "retry": retry}):
            assert [each.id for each in check_clusters(None)] == [
                f"idempotent_actions.{each}" for each in ids
            ]


def test_the_defaults_are_those_of_the_django_q2_that_is_installed() -> None:
    # Conf holds what the tests' settings leave out as django-q2 has it.
    assert not {"ack_failures", "sync", "scheduler"} & set(settings.Q_CLUSTER)
    assert (Conf.ACK_FAILURES, Conf.SYNC, Conf.SCHEDULER) == (False, False, True)


def test_w004_a_failing_task_that_is_run_for_ever() -> None:
    for attempts in ({"max_attempts": 0}, {"max_attempts": None}, {"ack_failures": False}):
        found = said(attempts, without="" if "max_attempts" in attempts else "max_attempts")
        assert list(found) == ["W004"]
    assert said({"ack_failures": True}, without="max_attempts") == {}


def test_w005_a_burst_after_an_outage() -> None:
    assert list(said({"catch_up": True})) == ["W005"]
    assert list(said(without="catch_up")) == ["W005"]


def test_e006_tasks_that_run_in_whoever_enqueues_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said({"sync": True}) == {}, "in tests that is what it is for"
    monkeypatch.setattr(queue_checks, "_testing", lambda: False)
    found = said({"sync": True})
    assert (list(found), found["E006"].level) == (["E006"], checks.ERROR)
    assert said({"sync": False}) == {}


def test_e006_djangos_test_command_counts_as_testing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pytest")
    monkeypatch.setattr(sys, "argv", ["manage.py", "qcluster"])
    assert list(said({"sync": True})) == ["E006"]
    monkeypatch.setattr(sys, "argv", ["manage.py", "test", "billing"])
    assert said({"sync": True}) == {}


@pytest.mark.parametrize(
    "broker",
    [
        {"redis": {"host": "127.0.0.1"}},
        {"django_redis": "default"},
        {},
        {"broker_class": "django_q.brokers.redis_broker.Redis"},
    ],
)
def test_w007_a_broker_without_receipts(broker: dict[str, Any]) -> None:
    # What it never hands out again needs no retry and no end of it.
    found = said(broker, {"retry": 61, "max_attempts": 0}, without="orm")
    assert (list(found), found["W007"].level) == (["W007"], checks.WARNING)
    assert "the next tick and the minute's delivery make up for" in str(found["W007"].hint)


@pytest.mark.parametrize(
    "broker", [{"sqs": {"x": 1}}, {"mongo": {"x": 1}}, {"broker_class": "my.own.Broker"}]
)
def test_w007_is_silent_on_brokers_with_receipts(broker: dict[str, Any]) -> None:
    assert said(broker, without="orm") == {}


def test_w009_nobody_schedules() -> None:
    found = said({"scheduler": False})
    assert (list(found), found["W009"].level) == (["W009"], checks.WARNING)
    assert said({"scheduler": True}) == {}


def test_an_alternative_cluster_is_looked_at_with_what_it_takes_from_the_main_one() -> None:
    long = {"timeout": 600, "retry": 700, "scheduler": False}
    with override_settings(Q_CLUSTER={**GOOD, "ALT_CLUSTERS": {"long": long, "short": {}}}):
        (message,) = check_clusters(None)
    assert message.id == "idempotent_actions.W003"
    assert message.msg.startswith("In ALT_CLUSTERS['long']: A task may be handed out again")
    # What is wrong with the main one is said once.
    options = {"catch_up": True, "ALT_CLUSTERS": {"long": {"retry": 700}}}
    with override_settings(Q_CLUSTER={**GOOD, **options}):
        assert [each.id for each in check_clusters(None)] == ["idempotent_actions.W005"]


# -- plans


def test_e007_plans_that_cant_be_read() -> None:
    with planning(tick={"every": 3600}):
        found = said()
    assert (list(found), found["E007"].level) == (["E007"], checks.ERROR)
    assert "['tick'] takes every as a timedelta of whole minutes" in found["E007"].msg


def test_e007_an_action_that_nobody_registered() -> None:
    with planning(tick={"every": timedelta(hours=1), "actions": ["expire_trails"]}):
        found = said()
    assert list(found) == ["E007"]
    assert "names the action 'expire_trails', which isn't registered" in found["E007"].msg


def test_e007_croniter_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "croniter", None)
    assert said() == {}
    with planning(tick={"cron": "0 3 * * *"}):
        assert "needs croniter: pip install croniter" in said()["E007"].msg


def test_without_django_q2_all_are_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_checks, "_testing", lambda: False)
    bad = {"orm": "elsewhere", "sync": True, "scheduler": False}
    with (
        modify_settings(INSTALLED_APPS={"remove": "django_q"}),
        override_settings(Q_CLUSTER=bad),
        planning(tick={"every": 5}),
    ):
        assert [*check_clusters(None), *check_plans(None)] == []
