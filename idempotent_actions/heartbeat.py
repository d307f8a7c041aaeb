"""The heartbeat: what should have happened by now, and has not.

The only way to see a queue that hangs: it reports nothing, and nothing fails. So it is to be asked
from outside of the queue as well, by cron or by what watches the hosts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Count, Min, Q

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.delivering import home
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.lease import DeferredCall
from idempotent_actions.models.pause import EVERYTHING, Pause, PauseScope
from idempotent_actions.models.run import Run
from idempotent_actions.passes import MarkOverdue
from idempotent_actions.pausing import held_captures
from idempotent_actions.plans import Plan, plans
from idempotent_actions.registry import registry

__all__ = ["SILENT_AFTER", "STUCK_AFTER", "Heartbeat", "Trouble", "check_heartbeat", "last_good"]

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
    (calls that were put off). ``paused`` is a person's doing and no alarm: what it stops is named
    neither stale nor stuck. ``name`` is the action's, the effect's, the function's or
    ``everything``. ``since`` is None for never.
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
            case "paused":
                return f"{self.name}: paused {since}"
        return f"{self.name}: {self.count} calls that were put off wait {since}"


@dataclass(slots=True)
class Heartbeat:
    """What a look found. True when all is well, but for what a person has paused."""

    now: datetime
    troubles: list[Trouble] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.alarms

    @property
    def alarms(self) -> list[Trouble]:
        """The troubles that nobody wants: all but the pauses."""
        return [each for each in self.troubles if each.kind != "paused"]

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


def check_heartbeat(
    now: datetime | None = None, good: Mapping[str, Run] | None = None
) -> Heartbeat:
    """Look for what should have happened by now, as the setting ``SCHEDULES`` has it planned.

    ``now`` is the instant of a simulation; ``good`` the last good run of every action, as
    ``last_good`` returns it, where the caller has asked already. Returns a heartbeat, true when all
    is well. Raises ``InvalidSetting`` for plans that can't be read, ``UnknownAction`` for one that
    names no action, and ``InvalidInput`` for a ``now`` that can't be compared.
    """
    using = home()
    if now is not None:
        clock.check_instant(now, "now")
    found = Heartbeat(now or clock.now(using))
    planned = plans()
    expected = _expected(planned, found.now)
    if good is None:
        good = last_good(expected, using)
    missed = [plan.missed(found.now) for plan in planned if plan.job == "deliver_captures"]
    before = min([found.now - STUCK_AFTER, *missed])
    pauses = list(Pause.objects.using(using).since(min([before, *expected.values()])))
    found.troubles += _stale(expected, good, pauses)
    found.troubles += _died(expected, good, found.now, using)
    held = held_captures(each for each in pauses if _lasted(each, before))
    captures = Capture.objects.using(using).due(before).exclude(held)
    found.troubles += _grouped("stuck", captures, "effect", "wake_at")
    found.troubles += _calls(before, using)
    found.troubles += _paused(pauses, found.now)
    return found


def last_good(actions: Iterable[str], using: str) -> dict[str, Run]:
    """Return the last good run of each of these actions that has had one, by its name."""
    runs = Run.objects.using(using).good().newest(actions)
    return {run.action: run for run in runs.only("action", "finished_at")}


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


def _stale(
    expected: dict[str, datetime], good: Mapping[str, Run], pauses: Sequence[Pause]
) -> Iterator[Trouble]:
    """Yield the actions without a good run, unless a pause gave them less than that time for it."""
    of_ladder = {MarkOverdue(each, alone=True).name: each.name for each in registry.ladders()}
    for name, since in expected.items():
        last = good[name].finished_at if name in good else None
        stops = (EVERYTHING, ""), (PauseScope.ACTION, of_ladder.get(name, name))
        paused = any((each.scope, each.name) in stops and _lasted(each, since) for each in pauses)
        if (last is None or last < since) and not paused:
            yield Trouble("stale", name, last)


def _lasted(pause: Pause, since: datetime) -> bool:
    """Tell whether ``pause`` has stopped something after ``since``."""
    return all(end is None or end > since for end in (pause.until, pause.lifted_at))


def _paused(pauses: Sequence[Pause], now: datetime) -> Iterator[Trouble]:
    for each in pauses:
        if each.is_active(now):
            yield Trouble("paused", each.name or each.scope, each.paused_at)


def _died(
    expected: dict[str, datetime], good: Mapping[str, Run], now: datetime, using: str
) -> Iterator[Trouble]:
    """Yield the dead runs of planned actions that no good run of the same has made up for."""
    later = [Q(action=name, id__gt=good[name].pk if name in good else 0) for name in expected]
    if not later:
        return
    runs = Run.objects.using(using).filter(Q(*later, _connector=Q.OR))
    dead = runs.silent(now - SILENT_AFTER).order_by("id")
    for name, beat_at in dead.values_list("action", "beat_at"):
        yield Trouble("died", name, beat_at)


def _calls(before: datetime, using: str) -> Iterator[Trouble]:
    """Yield the calls that were put off and wait since ``before``, then those that fail."""
    late, fails = Q(due_at__lte=before), Q(tries__gte=FAILING)
    calls = DeferredCall.objects.using(using).filter(late | fails).order_by("function")
    groups = calls.values_list("function").annotate(
        late=Count("id", filter=late),
        late_since=Min("due_at", filter=late),
        fails=Count("id", filter=fails),
        fails_since=Min("asked_at", filter=fails),
    )
    found = list(groups)
    yield from (Trouble("not_called", name, at, n) for name, n, at, _, _ in found if n)
    yield from (Trouble("failing", name, at, n) for name, _, _, n, at in found if n)


def _grouped(kind: str, rows: models.QuerySet[Any], by: str, since: str) -> Iterator[Trouble]:
    groups = rows.order_by(by).values_list(by).annotate(Count("id"), Min(since))
    for name, count, first in groups:
        yield Trouble(kind, name, first, count)
