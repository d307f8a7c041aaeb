"""Syncs at the same time, and a sync beside a scheduler: no row twice, and no change lost."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event
from typing import Any

import django_q.scheduler
import pytest
from django.db import connection
from django_q.models import Schedule
from django_q.scheduler import scheduler
from django_q.tasks import async_task

from idempotent_actions import schedules
from idempotent_actions.models import Lease
from idempotent_actions.plans import DEFAULTS
from idempotent_actions.schedules import sync_schedules
from tests.scheduling.rows import ours, overdue, planning, queued, row
from tests.threads import DEADLINE, somebody_waits_for_me, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

ALL = list(DEFAULTS)
HOUR = timedelta(hours=1)
HANDS = 4


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Hold the first sync, its rows read, until another connection waits for it; set then."""
    first = Event()
    compared = schedules._compared

    def compare(*given: Any) -> Any:
        changes = compared(*given)
        if not first.is_set():
            first.set()
            until(somebody_waits_for_me, "another to wait for this sync")
        return changes

    monkeypatch.setattr(schedules, "_compared", compare)
    return first


def after(event: Event, work: Callable[[], Any]) -> Callable[[], Any]:
    def late() -> Any:
        assert event.wait(DEADLINE)
        return work()

    return late


@pytest.mark.parametrize("locked_before", [True, False])
def test_syncs_at_once_make_each_row_once(locked_before: bool) -> None:
    for _ in range(5):
        Schedule.objects.all().delete()
        if not locked_before:
            Lease.objects.all().delete()
        said = together(*[sync_schedules] * HANDS)
        assert sorted(ours()) == sorted(ALL)
        assert [each["created"] for each in said].count(ALL) == 1
        assert [each["unchanged"] for each in said].count(ALL) == HANDS - 1


def test_a_sync_that_waited_sees_what_the_other_has_done(held_up: Event) -> None:
    first, second = together(sync_schedules, after(held_up, sync_schedules))
    assert (first["created"], second["unchanged"]) == (ALL, ALL)
    assert sorted(ours()) == sorted(ALL)


@pytest.mark.parametrize("synced_before", [True, False])
def test_also_where_transactions_see_only_what_was_there_at_their_start(
    synced_before: bool, held_up: Event
) -> None:
    def repeatable() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"
            )
        return sync_schedules()

    if synced_before:  # and so the row by which they wait for each other is there
        held_up.set()
        sync_schedules()
        held_up.clear()
        Schedule.objects.all().delete()
    first, second = together(repeatable, after(held_up, repeatable))
    assert (first["created"], second["unchanged"]) == (ALL, ALL)
    assert sorted(ours()) == sorted(ALL)


def test_a_sync_waits_for_the_scheduler_and_its_change_is_not_written_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with planning(tick={"every": HOUR}):
        sync_schedules()
    overdue(minutes=1)
    at_it = Event()

    def slowly(*args: Any, **kwargs: Any) -> Any:
        at_it.set()
        until(somebody_waits_for_me, "the sync to wait for the scheduler")
        return async_task(*args, **kwargs)

    monkeypatch.setattr(django_q.scheduler, "async_task", slowly)
    with planning(tick={"every": 2 * HOUR}):
        _none, said = together(scheduler, after(at_it, sync_schedules))
    assert said["updated"] == ["tick"]
    assert (row("tick").minutes, len(queued())) == (120, 1)


def test_a_scheduler_that_waited_for_a_sync_goes_by_what_it_wrote(held_up: Event) -> None:
    with planning(tick={"every": HOUR}):
        held_up.set()
        sync_schedules()
        held_up.clear()
    overdue(minutes=1)
    with planning(tick={"every": 2 * HOUR}):
        said, _none = together(sync_schedules, after(held_up, scheduler))
    assert said["updated"] == ["tick"]
    (task,) = queued()
    began = datetime.fromisoformat(task["kwargs"]["slot"])
    assert (row("tick").minutes, row("tick").next_run) == (120, began + 2 * HOUR)
