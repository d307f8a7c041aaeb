"""The heartbeat: what should have happened by now, and has not.

The only way to see a queue that hangs: it reports nothing, and nothing fails. So it is to be asked
from outside of the queue as well, by cron or by what watches the hosts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Count, Min

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.delivering import home
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.lease import DeferredCall
from idempotent_actions.models.run import Run
from idempotent_actions.passes import MarkOverdue
from idempotent_actions.plans import Plan, plans
from idempotent_actions.registry import registry

__all__ = ["SILENT_AFTER", "STUCK_AFTER", "Heartbeat", "Trouble", "check_heartbeat"]

SILENT_AFTER = timedelta(minutes=10)
"""Without a sign of life before a run's process counts as dead. A batch takes some 50 ms."""

STUCK_AFTER = timedelta(minutes=15)
"""That something due was left alone, or two runs of its delivery where those take longer."""

FAILING = 3
"""Tries in a row that a call which was put off may fail before it is named."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that should have happened by now.

    ``kind``: ``stale`` (an action whose last two runs came to nothing), ``died`` (a run that ended
    without a word), ``stuck`` (captures that nobody delivers), ``not_called`` and ``failing``
    (calls that were put off). ``name`` is the action's, the effect's or the function's. ``since``
    is None for never.
    """

    kind: str
    name: str
    since: datetime | None
    count: int = 1

    def __str__(self) -> str:
        since = "ever" if self.since is None else f"since {self.since.isoformat()}"
        match self.kind:
            case "stale":
                return f"{self.name}: no good run {since}"
            case "died":
                return f"{self.name}: a run ended without a word, its last sign was {since}"
            case "stuck":
                return f"{self.name}: {self.count} captures wait for delivery {since}"
            case "failing":
                return f"{self.name}: {self.count} calls fail again and again, asked for {since}"
        return f"{self.name}: {self.count} calls that were put off wait {since}"


@dataclass(slots=True)
class Heartbeat:
    """What a look found. True when all is well."""

    now: datetime
    troubles: list[Trouble] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.troubles

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return {
            "ok": bool(self),
            "now": self.now.isoformat(),
            "troubles": [
                {
                    "kind": each.kind,
                    "name": each.name,
                    "since": None if each.since is None else each.since.isoformat(),
                    "count": each.count,
                }
                for each in self.troubles
            ],
        }


def check_heartbeat(now: datetime | None = None) -> Heartbeat:
    """Look for what should have happened by now, as the setting ``SCHEDULES`` has it planned.

    ``now`` is the instant of a simulation. Returns a heartbeat, true when all is well. Raises
    ``InvalidSetting`` for plans that can't be read, ``UnknownAction`` for one that names no action,
    and ``InvalidInput`` for a ``now`` that can't be compared.
    """
    using = home()
    if now is not None:
        clock.check_instant(now, "now")
    found = Heartbeat(now or clock.now(using))
    planned = plans()
    expected = _expected(planned, found.now)
    found.troubles += _stale(expected, using)
    found.troubles += _died(expected, found.now, using)
    missed = [plan.missed(found.now) for plan in planned if plan.job == "deliver_captures"]
    before = min([found.now - STUCK_AFTER, *missed])
    captures = Capture.objects.using(using).due(before)
    found.troubles += _grouped("stuck", captures, "effect", "wake_at")
    calls = DeferredCall.objects.using(using)
    found.troubles += _grouped("not_called", calls.due(before), "function", "due_at")
    failing = calls.filter(tries__gte=FAILING)
    found.troubles += _grouped("failing", failing, "function", "asked_at")
    return found


def _expected(planned: list[Plan], now: datetime) -> dict[str, datetime]:
    """Return since when each action should have had a good run, by its name."""
    expected: dict[str, datetime] = {}
    for plan in planned:
        for name in _polled_by(plan, now):
            missed = plan.missed(now)
            expected[name] = max(missed, expected.get(name, missed))
    return expected


def _polled_by(plan: Plan, now: datetime) -> Iterator[str]:
    if plan.job == "tick":
        actions = [registry.get(name) for name in plan.actions] or list(registry)
        yield from (action.name for action in actions if _is_polled(action, now))
    elif plan.job == "escalate_overdue":
        yield from (action.name for action in registry.ladders())
    elif plan.job == "mark_overdue":
        yield from (MarkOverdue(action, alone=True).name for action in registry.ladders())


def _is_polled(action: Action, now: datetime) -> bool:
    try:
        return bool(action.branches(now))
    except Exception:
        return True  # its rule raises: no run of it is a good one, and it is named as stale


def _stale(expected: dict[str, datetime], using: str) -> Iterator[Trouble]:
    for name, since in expected.items():
        good = Run.objects.using(using).good().filter(action=name).order_by("-id")
        last = good.values_list("finished_at", flat=True).first()
        if last is None or last < since:
            yield Trouble("stale", name, last)


def _died(expected: dict[str, datetime], now: datetime, using: str) -> Iterator[Trouble]:
    """Yield the dead runs of planned actions that no good run of the same has made up for."""
    runs = Run.objects.using(using).filter(action__in=list(expected))
    made_up = runs.good().filter(action=models.OuterRef("action"), id__gt=models.OuterRef("id"))
    dead = runs.silent(now - SILENT_AFTER).exclude(models.Exists(made_up)).order_by("id")
    for name, beat_at in dead.values_list("action", "beat_at"):
        yield Trouble("died", name, beat_at)


def _grouped(kind: str, rows: models.QuerySet[Any], by: str, since: str) -> Iterator[Trouble]:
    groups = rows.order_by(by).values_list(by).annotate(Count("id"), Min(since))
    for name, count, first in groups:
        yield Trouble(kind, name, first, count)
