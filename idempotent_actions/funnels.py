"""The funnel of a ladder: how many stand on each rung, since when, and how many left it there.

The rows are those that the ladder's action sees. What a host wrote in its model or its queryset may
fail: that is told in the place of its funnel, and hides no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import DatabaseError, connections, models
from django.db.models import Case, Count, F, Value, When

from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.ladders import Ladder
from idempotent_actions.models.ladder import LIVE, Status
from idempotent_actions.registry import registry
from idempotent_actions.reports import describe_error
from idempotent_actions.tallies import statement

__all__ = ["EXHAUSTED", "MOST_SUBJECTS", "Funnel", "Place", "funnels", "place"]

EXHAUSTED = "@exhausted"
"""Where a subject stands at the ladder's end; no rung's name begins like this."""

MOST_SUBJECTS = 200_000
"""Subjects on a ladder that are looked at, and as many that are open and stand below it. Elsewhere
than on PostgreSQL it is all of them."""

Standing = dict[str, tuple[int, datetime | None]]
"""By place: how many stand there, and since when half of them have."""

Selected = tuple[str, tuple[Any, ...]]
"""A statement, and its parameters."""


@dataclass(slots=True)
class Place:
    """A rung, or what lies below the first ("") or behind the last one (``EXHAUSTED``).

    ``since``: half of those standing there have stood there since then, or for longer. ``cleared``:
    how many were resolved or cancelled there. ``declared``: False for a rung found in the data that
    the model's ladder doesn't name.
    """

    name: str
    declared: bool
    standing: int = 0
    since: datetime | None = None
    cleared: int = 0


@dataclass(slots=True)
class Funnel:
    """The places of one ladder, from below its first rung to its end.

    ``capped``: there are more subjects than were looked at. ``error``: why nothing is known.
    """

    action: str
    subjects: str
    places: list[Place] = field(default_factory=list)
    capped: bool = False
    error: str = ""


def place(status: str, rung: str) -> Case:
    """Return the place of a row as an expression, by the names of its two columns."""
    return Case(
        When(**{status: Status.EXHAUSTED.value}, then=Value(EXHAUSTED)),
        default=F(rung),
        output_field=models.CharField(),
    )


def funnels(cleared: Mapping[str, Mapping[str, int]]) -> list[Funnel]:
    """Return the funnel of each ladder; ``cleared`` has counts by action and place."""
    actions = registry.ladders()
    standing = _standing(actions)
    return [_funnel(each, standing[each.name], cleared.get(each.name, {})) for each in actions]


def _funnel(
    action: LadderAction, standing: Standing | Exception, cleared: Mapping[str, int]
) -> Funnel:
    funnel = Funnel(action.name, str(action.model._meta.verbose_name_plural))
    if isinstance(standing, Exception):
        funnel.error = describe_error(standing)
        return funnel
    ladder = getattr(action.model, "ladder", None)  # a property: each row has a ladder of its own
    rungs = [rung.name for rung in ladder] if isinstance(ladder, Ladder) else []
    found = sorted((standing.keys() | cleared.keys()) - {"", EXHAUSTED, *rungs})
    for name in ("", *rungs, *found, EXHAUSTED):
        count, since = standing.get(name, (0, None))
        declared = name not in found or not rungs
        funnel.places.append(Place(name, declared, count, since, cleared.get(name, 0)))
    below = standing.get("", (0, None))[0]
    above = sum(count for name, (count, _) in standing.items() if name)
    funnel.capped = _is_limited(action.using) and max(below, above) >= MOST_SUBJECTS
    return funnel


def _standing(actions: list[LadderAction]) -> dict[str, Standing | Exception]:
    """Return where the subjects of each action stand, or what keeps that from being known."""
    together: dict[str, dict[str, Selected]] = {}
    found: dict[str, Standing | Exception] = {}
    for action in actions:
        try:
            rows = _rows(action)
            if _is_limited(action.using):
                together.setdefault(action.using, {})[action.name] = _limited(rows)
            else:
                found[action.name] = _one_by_one(rows)
        except EmptyResultSet:
            found[action.name] = {}
        except Exception as error:  # of the host's get_queryset(), or its table isn't there
            found[action.name] = _tolerable(error, action.using)
    for using, selected in together.items():
        found |= _all_at_once(selected, using)
    return found


def _is_limited(using: str) -> bool:
    """Tell whether one statement answers for all ladders, and reads so many rows at most."""
    return connections[using].vendor == "postgresql"


def _rows(action: LadderAction) -> models.QuerySet[Any]:
    rows = action.get_queryset().using(action.using).order_by()
    if rows.query.distinct:  # two subjects that stand alike would count as one
        rows = models.QuerySet(action.model).using(action.using).filter(pk__in=rows.values("pk"))
    placed: models.QuerySet[Any] = rows.annotate(ia_place=place("status", "rung"))
    return placed.filter(status__in=LIVE)


def _limited(rows: models.QuerySet[Any]) -> Selected:
    """Select place and instant of the live rows. Of the open ones, which stand below, there may be
    any number: they don't crowd out those on the ladder."""
    opened = rows.filter(status=Status.OPEN)[:MOST_SUBJECTS]
    on_ladder = rows.exclude(status=Status.OPEN)[:MOST_SUBJECTS]
    columns = ("ia_place", "escalated_at")
    both = [statement(each, *columns) for each in (opened, on_ladder)]
    return " UNION ALL ".join(f"({sql})" for sql, _ in both), both[0][1] + both[1][1]


def _all_at_once(
    selected: Mapping[str, Selected], using: str
) -> Mapping[str, Standing | Exception]:
    """Ask for all ladders in one statement; one by one, where that fails, to tell which is ill."""
    try:
        return _grouped(selected, using)
    except DatabaseError as error:
        if len(selected) == 1:
            return dict.fromkeys(selected, _tolerable(error, using))
    found: dict[str, Standing | Exception] = {}
    for name, each in selected.items():
        found |= _all_at_once({name: each}, using)
    return found


def _grouped(selected: Mapping[str, Selected], using: str) -> Mapping[str, Standing]:
    # percentile_disc, not _cont: the latter knows no instants, and one that exists will do.
    one = (
        "SELECT %s, place, COUNT(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY since)"
        " FROM ({}) AS live (place, since) GROUP BY place"
    )
    sql = " UNION ALL ".join(one.format(each) for each, _ in selected.values())
    params = [each for name, (_, given) in selected.items() for each in (name, *given)]
    found: dict[str, Standing] = {name: {} for name in selected}
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        for name, where, count, since in cursor.fetchall():
            found[name][where] = (count, since)
    return found


def _one_by_one(rows: models.QuerySet[Any]) -> Standing:
    """Count the rows of each place and look up the one in the middle: two plain questions."""
    found: Standing = {}
    groups = rows.values_list("ia_place").annotate(all=Count("*"), dated=Count("escalated_at"))
    for where, count, dated in list(groups):
        there = rows.filter(ia_place=where, escalated_at__isnull=False).order_by("escalated_at")
        middle = (dated - 1) // 2
        since = there.values_list("escalated_at", flat=True)[middle : middle + 1] if dated else ()
        found[where] = (count, next(iter(since), None))
    return found


def _tolerable(error: Exception, using: str) -> Exception:
    """Return the error to be shown; raise it where it has spoilt the caller's transaction."""
    if isinstance(error, DatabaseError) and connections[using].in_atomic_block:
        raise error
    return error
