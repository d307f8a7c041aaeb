"""Schedules: django-q2's rows for the plans, one for each, made and kept by ``sync_schedules``."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from django.apps import apps
from django.db import router, transaction

from idempotent_actions import clock
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import retry_transient
from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.models.lease import Lease
from idempotent_actions.plans import Plan, plans
from idempotent_actions.registry import registry
from idempotent_actions.running import worker

if TYPE_CHECKING:
    from django_q.models import Schedule

__all__ = ["FUNCTION", "PREFIX", "differences", "own_rows", "planned", "sync_schedules"]

PREFIX = "idempotent_actions:"
"""A row of django-q2 whose name begins so is ours: all but its ``next_run`` is set by its plan."""

FUNCTION = "idempotent_actions.tasks.run_plan"

_LOCK = "sync_schedules"
"""The lease row that one sync updates first, so that the next waits for the end of it."""

_RHYTHM = {"schedule_type", "minutes", "cron"}

_BLANK_IS_NULL = {"hook", "kwargs", "cron"}
"""The admin saves an empty text where nothing was. As a cluster's name it would count: no cluster
is called so, and the row would never run."""

_logger = logging.getLogger("idempotent_actions")


def sync_schedules(*, dry_run: bool = False) -> dict[str, list[str]]:
    """Make django-q2's schedules as the setting ``SCHEDULES`` has them planned.

    Creates, changes and removes only rows that are ours by their name. ``next_run`` of an unchanged
    one is left alone, so that a deploy neither repeats nor puts off a run. ``dry_run`` writes
    nothing. Syncs at the same time wait for each other, and for a scheduler that is at these rows.

    Returns the plans' names under ``created``, ``updated``, ``removed`` (a plan that is gone, or a
    second row of one) and ``unchanged``. Raises ``InvalidSetting`` before anything is written.
    """
    if not apps.is_installed("django_q"):
        raise InvalidSetting(
            "Schedules are django-q2's: add 'django_q' to INSTALLED_APPS and run migrate; or leave "
            "it out, and let cron run `manage.py tick`."
        )
    from django_q.models import Schedule

    wanted = planned()
    using = router.db_for_write(Schedule)
    if dry_run:
        return _told(_compared(wanted, own_rows(using), clock.now(using)))
    tries = get_settings().MAX_TRIES
    done = _told(retry_transient(partial(_sync, wanted, using), using=using, tries=tries))
    if done["created"] or done["updated"] or done["removed"]:
        _logger.info("schedules changed", extra={"action": "schedules.synced", "done": done})
    return done


def planned() -> list[Plan]:
    """Return the plans. Raises ``InvalidSetting``, also for an action that nobody registered."""
    wanted = plans()
    known = [action.name for action in registry]
    for plan in wanted:
        for name in plan.actions:
            if name not in known:
                raise InvalidSetting(
                    f"IDEMPOTENT_ACTIONS['SCHEDULES'][{plan.name!r}] names the action {name!r}, "
                    f"which isn't registered. Registered: {', '.join(sorted(known)) or 'none'}."
                )
    return wanted


def own_rows(using: str, *, lock: bool = False) -> list["Schedule"]:
    """Return the rows that are ours; with ``lock``, until the transaction ends."""
    from django_q.models import Schedule

    # In the order in which the scheduler locks what is due, else they would deadlock.
    rows = Schedule.objects.using(using).filter(name__startswith=PREFIX).order_by("next_run", "pk")
    found = rows.select_for_update() if lock else rows
    return [row for row in found if row.name.startswith(PREFIX)]  # SQLite compares without case


def differences(row: "Schedule", plan: Plan) -> dict[str, Any]:
    """Return what the row's columns should be for the plan, where they are something else."""
    return {
        column: value
        for column, value in _columns(plan).items()
        if getattr(row, column) != value
        and not (value is None and column in _BLANK_IS_NULL and not getattr(row, column))
    }


@dataclass(frozen=True, slots=True)
class _Change:
    """What becomes of one row."""

    kind: Literal["created", "updated", "removed", "unchanged"]
    plan: str
    pk: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


def _sync(wanted: Sequence[Plan], using: str) -> list[_Change]:
    from django_q.models import Schedule

    home = router.db_for_write(Lease)
    rows = Schedule.objects.using(using)
    with transaction.atomic(using=home), transaction.atomic(using=using):
        _wait_for_others(home)
        changes = _compared(wanted, own_rows(using, lock=True), clock.now(using))
        rows.filter(pk__in=[each.pk for each in changes if each.kind == "removed"]).delete()
        for each in changes:
            if each.kind == "updated":
                rows.filter(pk=each.pk).update(**each.columns)
        # Not by save(), which reads the host's clock for the next run of a cron expression.
        rows.bulk_create(Schedule(**each.columns) for each in changes if each.kind == "created")
    return changes


def _wait_for_others(home: str) -> None:
    """Hold the one row that every sync writes, until the transaction ends.

    Written and not only locked: under REPEATABLE READ the one that waited then starts again, and
    doesn't compare with rows as they were before. It lapses at once, and is forgotten by and by.
    """
    now = clock.now(home)
    columns = {"token": uuid4(), "owner": worker(), "taken_at": now, "expires_at": now}
    leases = Lease.objects.using(home)
    while not leases.filter(name=_LOCK).update(**columns):
        leases.bulk_create([Lease(name=_LOCK, **columns)], ignore_conflicts=True)


def _compared(wanted: Sequence[Plan], rows: Sequence["Schedule"], now: datetime) -> list[_Change]:
    return [*_kept(wanted, rows, now), *_removed(wanted, rows)]


def _kept(wanted: Sequence[Plan], rows: Sequence["Schedule"], now: datetime) -> Iterator[_Change]:
    oldest = _oldest(rows)
    for plan in wanted:
        name = f"{PREFIX}{plan.name}"
        row = oldest.get(name)
        if row is None:
            start = {"name": name, "next_run": _first_run(plan, now)}
            yield _Change("created", plan.name, columns={**_columns(plan), **start})
            continue
        changed = differences(row, plan)
        if row.next_run is None or changed.keys() & _RHYTHM:
            changed["next_run"] = _first_run(plan, now)
        yield _Change("updated" if changed else "unchanged", plan.name, row.pk, changed)


def _removed(wanted: Sequence[Plan], rows: Sequence["Schedule"]) -> Iterator[_Change]:
    oldest = _oldest(rows)
    names = {f"{PREFIX}{plan.name}" for plan in wanted}
    for row in rows:
        if row.name not in names or row is not oldest[row.name]:
            yield _Change("removed", row.name.removeprefix(PREFIX), row.pk)


def _oldest(rows: Sequence["Schedule"]) -> dict[str, "Schedule"]:
    return {row.name: row for row in sorted(rows, key=lambda row: row.pk, reverse=True)}


def _columns(plan: Plan) -> dict[str, Any]:
    """Return what the plan sets of its row: all but the next run and the last task."""
    from django_q.models import Schedule

    return {
        "func": FUNCTION,
        "hook": None,
        "args": repr((plan.name,)),
        "kwargs": None,
        "schedule_type": Schedule.CRON if plan.cron else Schedule.MINUTES,
        "minutes": None if plan.every is None else plan.every // timedelta(minutes=1),
        "cron": plan.cron or None,
        "repeats": -1,  # for ever
        "cluster": plan.cluster or None,
        "intended_date_kwarg": "slot",
    }


def _first_run(plan: Plan, now: datetime) -> datetime:
    if plan.every is not None:
        return now
    from croniter import croniter
    from django_q.utils import localtime

    # In the zone in which django-q2 goes on from there.
    following: datetime = croniter(plan.cron, localtime(now)).get_next(datetime)
    return following


def _told(changes: Sequence[_Change]) -> dict[str, list[str]]:
    return {
        kind: [each.plan for each in changes if each.kind == kind]
        for kind in ("created", "updated", "removed", "unchanged")
    }
