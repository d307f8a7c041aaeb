"""Plans: what is to be run how often. Read from the setting ``SCHEDULES``; nothing runs here."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from idempotent_actions.conf import get_settings
from idempotent_actions.exceptions import InvalidSetting

__all__ = ["DEFAULTS", "JOBS", "Plan", "plans"]

JOBS = (
    "tick",
    "mark_overdue",
    "escalate_overdue",
    "deliver_captures",
    "prune_captures",
    "check_heartbeat",
)
"""What can be planned: the commands of the same names."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "tick": {"every": timedelta(hours=1)},  # every action: detection and escalation among them
    "deliver_captures": {"every": timedelta(minutes=1)},
    "prune_captures": {"every": timedelta(days=1), "older_than": timedelta(days=365)},
    "check_heartbeat": {"every": timedelta(minutes=5)},
}

_LONGEST = timedelta(minutes=32767)
"""What django-q2's column for minutes holds."""

_LONGEST_TEXT = 100
"""Characters; what its columns for a cron expression and a cluster's name hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One entry of ``SCHEDULES``: a job, and ``every`` so long or by a ``cron`` expression.

    ``actions`` narrows a ``tick`` to some; ``overlap`` says what a poll does while another run of
    the same action is under way (``skip``: nothing; ``share``: they share the rows); ``cluster`` is
    the django-q2 cluster that runs it, empty for the default one.
    """

    name: str
    job: str
    every: timedelta | None = None
    cron: str = ""
    actions: tuple[str, ...] = ()
    overlap: str = "skip"
    older_than: timedelta | None = None
    cluster: str = ""

    def missed(self, now: datetime) -> datetime:
        """Return since when two runs have been due by ``now``: a run before that is too old."""
        if self.every is not None:
            return now - 2 * self.every
        from croniter import croniter

        moments = croniter(self.cron, now.astimezone(_zone()) if settings.USE_TZ else now)
        moments.get_prev(datetime)
        before: datetime = moments.get_prev(datetime)
        return before


def _zone() -> ZoneInfo:
    """Return the zone in which django-q2 reads cron expressions."""
    options = getattr(settings, "Q_CLUSTER", {})
    return ZoneInfo(options.get("time_zone", settings.TIME_ZONE))


def plans() -> list[Plan]:
    """Return what is planned: the defaults, overlaid with the setting ``SCHEDULES``.

    Raises ``InvalidSetting`` with what to write instead.
    """
    given = get_settings().SCHEDULES
    merged = {**DEFAULTS, **given}
    return [_plan(name, entry) for name, entry in merged.items() if entry is not None]


def _plan(name: str, entry: Any) -> Plan:
    known = {field.name for field in fields(Plan)} - {"name"}
    if not isinstance(name, str) or not 0 < len(name) <= 60 or not name.isprintable():
        raise InvalidSetting(
            f"A name in SCHEDULES is printable text of 1 to 60 characters, not {name!r}."
        )
    if not isinstance(entry, Mapping):
        _refuse(name, f"must be a dict like {{'every': timedelta(hours=1)}}, or None: {entry!r}")
    if unknown := sorted(set(entry) - known, key=repr):
        _refuse(name, f"has no option {unknown[0]!r}; it knows: {', '.join(sorted(known))}")
    actions = _names(name, entry.get("actions", ()))
    given: dict[str, Any] = {"job": name, **entry, "name": name, "actions": actions}
    plan = Plan(**given)
    if plan.job not in JOBS:
        _refuse(name, f"needs a job, one of {', '.join(JOBS)}; not {plan.job!r}")
    _check_rhythm(plan)
    if plan.actions and plan.job != "tick":
        _refuse(name, "takes actions only for the job 'tick'")
    if plan.overlap not in ("skip", "share"):
        _refuse(name, f"takes overlap 'skip' or 'share', not {plan.overlap!r}")
    if (plan.older_than is not None) != (plan.job == "prune_captures"):
        _refuse(name, "takes older_than, a timedelta, for the job 'prune_captures' and no other")
    if plan.older_than is not None and not _is_length(plan.older_than):
        _refuse(name, f"takes older_than as a timedelta above zero, not {plan.older_than!r}")
    if not _is_cluster(given.get("cluster", "")):
        _refuse(name, f"takes cluster as the name of a django-q2 cluster, not {plan.cluster!r}")
    return plan


def _check_rhythm(plan: Plan) -> None:
    if (plan.every is None) == (not plan.cron):
        _refuse(plan.name, "needs either every, a timedelta, or cron, an expression")
    if plan.every is not None:
        if not _is_length(plan.every) or plan.every % timedelta(minutes=1) or plan.every > _LONGEST:
            _refuse(
                plan.name,
                f"takes every as a timedelta of whole minutes up to {_LONGEST.days} days, not "
                f"{plan.every!r}",
            )
        return
    if importlib.util.find_spec("croniter") is None:
        _refuse(plan.name, "has a cron expression, which needs croniter: pip install croniter")
    from croniter import croniter

    expression: Any = plan.cron
    if not isinstance(expression, str) or not croniter.is_valid(expression):
        _refuse(plan.name, f"takes cron as an expression like '0 3 * * *', not {plan.cron!r}")
    if len(expression) > _LONGEST_TEXT:
        _refuse(plan.name, f"takes a cron expression of at most {_LONGEST_TEXT} characters")
    # One that has no next time stops django-q2's scheduler, for everybody's schedules.
    if len(expression.split()) > 6:
        _refuse(plan.name, f"takes no years in its cron expression, which end: {expression!r}")
    try:
        croniter(expression, datetime.now(UTC)).get_next(datetime)
    except ValueError:
        _refuse(plan.name, f"has a cron expression that never comes true: {expression!r}")


def _names(name: str, given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    if not all(isinstance(each, str) for each in names):
        _refuse(name, f"takes actions as a list of names, not {given!r}")
    return names


def _is_cluster(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT and value.isprintable()


def _is_length(value: Any) -> bool:
    return isinstance(value, timedelta) and value > timedelta(0)


def _refuse(name: str, why: str) -> None:
    raise InvalidSetting(f"IDEMPOTENT_ACTIONS['SCHEDULES'][{name!r}] {why}.")
