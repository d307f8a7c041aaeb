"""What is gathered: last runs, captures by state, acts by day."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from idempotent_actions import overviews, services
from idempotent_actions.models import Pause
from idempotent_actions.overviews import DAYS, Survey, survey
from idempotent_actions.testing import travel
from tests.invoices import LADDER, make_invoice
from tests.overview.making import NO_SHOWS, NOW, make_act, make_capture, make_run

pytestmark = pytest.mark.django_db


def by_day(found: Survey) -> dict[str, tuple[int, int]]:
    return {
        f"{day.day:%m-%d}": (day.by_poll, day.by_people)
        for day in found.days
        if day.by_poll or day.by_people
    }


# -- last runs


def test_each_action_has_its_newest_run_and_its_newest_good_one() -> None:
    make_run()
    good = make_run()
    bad = make_run(stopped="error")
    runs = {each.action: each for each in survey().ran}
    assert (runs[LADDER].run, runs[LADDER].good) == (bad, good)
    assert (runs[NO_SHOWS].run, runs[NO_SHOWS].good) == (None, None)


def test_a_detection_is_told_of_when_it_has_run_alone() -> None:
    assert {each.action for each in survey().ran} == {LADDER, NO_SHOWS, "charge_orders"}
    run = make_run("mark_overdue:billing.invoice")
    (alone,) = [each for each in survey().ran if each.alone]
    assert alone.run == run


def test_runs_of_actions_that_are_gone_are_left_out() -> None:
    make_run("gone")
    assert "gone" not in {each.action for each in survey().ran}


def test_the_heartbeat_is_the_commands_own() -> None:
    late = {"SCHEDULES": {"tick": {"every": timedelta(minutes=10), "actions": [LADDER]}}}
    make_run(finished_at=NOW - timedelta(minutes=21))
    dead = make_run(finished_at=None, beat_at=NOW - timedelta(minutes=11))
    with override_settings(IDEMPOTENT_ACTIONS=late):
        troubles = [(each.kind, each.name, each.since) for each in survey().troubles]
    assert troubles == [
        ("stale", LADDER, NOW - timedelta(minutes=21)),
        ("died", LADDER, dead.beat_at),
    ]


def test_plans_that_cant_be_read_are_told_and_nothing_raises() -> None:
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"tick": {"every": 5}}}):
        assert "every" in survey().unreadable


# -- captures


def test_open_captures_are_all_counted_and_finished_ones_among_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overviews, "NEWEST", 3)
    for number, state in enumerate(["unknown", "succeeded", "succeeded", "review", "void"]):
        make_capture(number, state)
    found = survey().captures
    assert dict(found.open) == {("billing.charge", "unknown"): 1, ("billing.charge", "review"): 1}
    assert {state: count for (_, state), count in found.newest.items()} == {
        "succeeded": 1,
        "review": 1,
        "void": 1,
    }
    assert found.looked_at == 3


def test_a_hook_error_is_counted_whatever_its_capture_came_to() -> None:
    make_capture(1, "succeeded", hook_error="ValueError: x")
    make_capture(2, "failed", hook_error="ValueError: x")
    make_capture(3, "failed")
    found = survey().captures
    assert (found.hook_errors, found.waiting("failed")) == (2, 2)


# -- days


def test_what_the_poll_did_and_what_people_did_are_two_numbers_of_a_day() -> None:
    make_act(1)
    make_act(2, transition="exhaust")
    make_act(3, actor="clerk", transition="hold")
    make_act(4, actor="clerk", transition="resolve")
    make_act(5, NOW - timedelta(days=1))
    assert by_day(survey()) == {"03-03": (2, 2), "03-02": (1, 0)}


def test_what_the_poll_resolves_is_no_escalation() -> None:
    make_act(1, transition="resolve")
    assert by_day(survey()) == {}


def test_the_days_are_thirty_and_end_today() -> None:
    make_act("today", NOW)
    make_act("first", NOW.replace(hour=0, minute=0) - timedelta(days=DAYS - 1))
    make_act("before", NOW.replace(hour=0, minute=0) - timedelta(days=DAYS - 1, microseconds=1))
    found = survey()
    assert len(found.days) == DAYS
    assert found.days[-1].day == NOW.date()
    assert by_day(found) == {"03-03": (1, 0), "02-02": (1, 0)}


def test_a_day_begins_at_midnight_where_the_viewer_is() -> None:
    make_act(1, NOW.replace(hour=23))  # the day after, in Tokyo
    with timezone.override("Asia/Tokyo"):
        found = survey()
    assert by_day(found) == {}, "which is tomorrow there"
    with travel(NOW + timedelta(hours=20)), timezone.override("Asia/Tokyo"):
        assert by_day(survey()) == {"03-04": (1, 0)}


def test_of_very_many_acts_the_newest_are_counted_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overviews, "MOST_ACTS", 2)
    make_act(1)
    assert not survey().cut_short
    make_act(2)
    make_act(3, NOW - timedelta(days=1))
    found = survey()
    assert found.cut_short
    assert by_day(found) == {"03-03": (2, 0)}


# -- pauses


def test_only_pauses_that_are_on_are_told() -> None:
    def pause(**columns: Any) -> Pause:
        given: dict[str, Any] = {"scope": "everything", "reason": "r", "actor": "a"}
        return Pause.objects.create(paused_at=NOW, **given | columns)

    on = [pause(), pause(until=NOW + timedelta(hours=1))]
    pause(until=NOW)
    pause(lifted_at=NOW)
    assert survey().pauses == list(reversed(on))


# -- cleared


def test_a_persons_resolving_is_cleared_where_the_subject_stood() -> None:
    invoice = make_invoice(status="escalated", rung="warning")
    services.resolve(invoice, by="clerk", reason="paid")
    (funnel, _) = survey().funnels
    assert {place.name: place.cleared for place in funnel.places if place.cleared} == {"warning": 1}
