"""What a person wants to know in the morning: what ran, what stands where, what needs a decision.

A fixed number of statements, whatever is registered, and each reads a limited number of rows,
however large the tables are.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, Count, ExpressionWrapper, Q
from django.db.models.functions import TruncDate
from django.utils import timezone

from idempotent_actions import clock
from idempotent_actions.actions import POLL
from idempotent_actions.delivering import home
from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.funnels import Funnel, funnels, place
from idempotent_actions.heartbeat import Trouble, check_heartbeat
from idempotent_actions.models.capture import LIVE_CAPTURES, Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.pause import Pause
from idempotent_actions.models.run import GOOD_ENDS, Run
from idempotent_actions.registry import registry
from idempotent_actions.tallies import tally

__all__ = ["DAYS", "MOST_ACTS", "NEWEST", "Captures", "Day", "Ran", "Survey", "survey"]

DAYS = 30
"""That the chart of escalations covers, today included."""

MOST_ACTS = 100_000
"""Audit rows that are counted, the newest first."""

NEWEST = 10_000
"""Captures that are counted by state: finished ones are kept, so all of them are too many."""

_CLEARING = ("resolve", "cancel")


@dataclass(frozen=True, slots=True)
class Ran:
    """An action, or a pass of one that also runs alone: its last run, and its last good one."""

    action: str
    run: Run | None
    good: Run | None
    alone: bool = False


@dataclass(slots=True)
class Captures:
    """Captures by (effect, state): all ``open`` ones, and the ``newest``, ``looked_at`` in all.

    Open is what isn't finished, what failed, and what has a hook error (``hook_errors``).
    """

    open: Counter[tuple[str, str]] = field(default_factory=Counter)
    newest: Counter[tuple[str, str]] = field(default_factory=Counter)
    hook_errors: int = 0

    @property
    def looked_at(self) -> int:
        """The number of captures among which the newest were counted."""
        return self.newest.total()

    def waiting(self, state: str) -> int:
        """Return how many open ones are in ``state``."""
        return sum(count for (_, each), count in self.open.items() if each == state)


@dataclass(slots=True)
class Day:
    """What was escalated on a day: by the poll, and what people did on top of it."""

    day: date
    by_poll: int = 0
    by_people: int = 0


@dataclass(slots=True)
class Survey:
    """All of it, at the instant ``now``.

    ``unreadable``: why nobody can tell what should have run. ``cut_short``: there were more acts in
    these days than ``MOST_ACTS``, the oldest of which aren't counted.
    """

    now: datetime
    ran: list[Ran]
    captures: Captures
    pauses: list[Pause]
    days: list[Day]
    cut_short: bool
    funnels: list[Funnel]
    troubles: list[Trouble] = field(default_factory=list)
    unreadable: str = ""


def survey() -> Survey:
    """Look at everything. Raises nothing for what a host has declared or written wrongly."""
    using = home()
    now = clock.now(using)
    ran = _ran(using)
    days, cleared, counted = _acts(now, using)
    found = Survey(
        now=now,
        ran=ran,
        captures=_captures(using),
        pauses=list(Pause.objects.using(using).active(now).order_by("-id")),
        days=days,
        cut_short=counted >= MOST_ACTS,
        funnels=funnels(cleared),
    )
    try:
        good = {each.action: each.good for each in ran if each.good is not None}
        found.troubles = check_heartbeat(now, good).troubles
    except IdempotentActionsError as error:
        found.unreadable = str(error)
    return found


def _ran(using: str) -> list[Ran]:
    """Return every action, and of the passes beside them those that have run alone."""
    names = [action.name for action in registry]
    passes = [action.detection.name for action in registry.ladders()]
    runs = Run.objects.using(using)
    rows = runs.newest([*names, *passes]) | runs.good().newest([*names, *passes])
    newest, good = {}, {}
    for run in rows.defer("errors").order_by("id"):
        newest[run.action] = run
        if run.finished_at is not None and run.stopped in GOOD_ENDS:
            good[run.action] = run
    found = [Ran(name, newest.get(name), good.get(name)) for name in names]
    return found + [
        Ran(name, newest[name], good.get(name), True) for name in passes if name in newest
    ]


def _captures(using: str) -> Captures:
    captures = Capture.objects.using(using)
    found = Captures()
    opened = captures.filter(state__in=LIVE_CAPTURES) | captures.for_a_person()
    groups = opened.order_by().values_list("effect", "state")
    hooks = Count("id", filter=~Q(hook_error=""))
    for effect, state, count, hook_errors in groups.annotate(Count("id"), hooks=hooks):
        found.open[effect, state] = count
        found.hook_errors += hook_errors
    for effect, state, count in tally(captures.order_by("-id")[:NEWEST], "effect", "state"):
        found.newest[effect, state] = count
    return found


def _acts(now: datetime, using: str) -> tuple[list[Day], dict[str, Counter[str]], int]:
    """Return the days, how many subjects of each action were cleared where, and what was counted.

    A day is the viewer's: it begins at midnight in the current time zone.
    """
    zone = timezone.get_current_timezone() if settings.USE_TZ else None
    today = now.astimezone(zone).date() if zone else now.date()
    dates = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    since = datetime.combine(dates[0], time(), tzinfo=zone)
    # Conditions become columns: a statement is grouped by what it selects.
    rows = (
        Escalation.objects.using(using)
        .filter(acted_at__gte=since)
        .annotate(
            ia_day=TruncDate("acted_at"),
            ia_by_poll=ExpressionWrapper(Q(actor=POLL), output_field=BooleanField()),
            ia_clears=ExpressionWrapper(Q(transition__in=_CLEARING), output_field=BooleanField()),
            ia_place=place("from_status", "rung"),
        )
    )
    columns = ("ia_day", "ia_by_poll", "ia_clears", "action", "ia_place")
    found = {each: Day(each) for each in dates}
    cleared: dict[str, Counter[str]] = {}
    counted = 0
    for on, by_poll, clears, action, where, count in tally(
        rows.order_by("-acted_at")[:MOST_ACTS], *columns
    ):
        counted += count
        if clears:
            cleared.setdefault(action, Counter())[where] += count
        day = found.get(_as_date(on))
        if day is None:
            continue
        if not by_poll:
            day.by_people += count
        elif not clears:
            day.by_poll += count
    return list(found.values()), cleared, counted


def _as_date(value: Any) -> Any:
    """Return what a database gives for a day: SQLite has no dates, but texts."""
    return date.fromisoformat(value) if isinstance(value, str) else value
