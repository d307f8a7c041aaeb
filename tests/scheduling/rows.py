"""django-q2's rows as the tests look at them: its schedules, and what it has queued."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.test import override_settings
from django.utils import timezone
from django_q.models import OrmQ, Schedule
from django_q.scheduler import scheduler

from idempotent_actions.schedules import PREFIX

__all__ = ["MINUTE", "cells", "foreign", "ours", "overdue", "planning", "queued", "row", "schedule"]

MINUTE = timedelta(minutes=1)

NO_DEFAULTS: dict[str, Any] = {
    "tick": None,
    "deliver_captures": None,
    "prune_captures": None,
    "check_heartbeat": None,
}


@contextmanager
def planning(**schedules: Any) -> Iterator[None]:
    """Let these be all the plans there are."""
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {**NO_DEFAULTS, **schedules}}):
        yield


def ours() -> list[str]:
    """The plans that have a row, each as often as it has one."""
    names = Schedule.objects.filter(name__startswith=PREFIX).order_by("pk")
    return [str(name).removeprefix(PREFIX) for name in names.values_list("name", flat=True)]


def row(plan: str) -> Any:
    """The one row of a plan."""
    return Schedule.objects.get(name=f"{PREFIX}{plan}")


def cells() -> list[dict[str, Any]]:
    """Every column of every schedule."""
    return list(Schedule.objects.order_by("pk").values())


def foreign(**columns: Any) -> Any:
    """Store a schedule of the host's own that is due."""
    values = {
        "name": "the host's",
        "func": "builtins.print",
        "schedule_type": Schedule.HOURLY,
        "next_run": timezone.now() - MINUTE,
    }
    return Schedule.objects.create(**values | columns)


def overdue(**past: float) -> None:
    """Make all schedules due since so long."""
    Schedule.objects.update(next_run=timezone.now() - timedelta(**past or {"minutes": 1}))


def schedule() -> Sequence[str]:
    """Run django-q2's scheduler once; return the groups of the tasks that it has added."""
    before = set(OrmQ.objects.values_list("pk", flat=True))
    scheduler()
    return sorted(task["group"] for pk, task in _tasks() if pk not in before)


def queued() -> list[Any]:
    """The tasks in the queue, as the broker keeps them, in the order they came."""
    return [task for _pk, task in _tasks()]


def _tasks() -> list[tuple[int, Any]]:
    return [(each.pk, each.task) for each in OrmQ.objects.order_by("pk")]
