"""What a django-q2 worker runs: thin functions, plain dicts, ended before the worker is.

No function catches SystemExit, by which django-q2 ends a task that takes too long. None returns an
object: a result that can't be pickled makes the queue run the task again and again.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from idempotent_actions import polling
from idempotent_actions.deferring import hand_out
from idempotent_actions.delivering import deliver
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.heartbeat import check_heartbeat
from idempotent_actions.leases import Held, forget_lapsed
from idempotent_actions.nudges import LASTS, NAME
from idempotent_actions.plans import Plan, plans
from idempotent_actions.pruning import prune_captures
from idempotent_actions.reports import Report

__all__ = ["deliver_now", "run_plan"]

_SHARE = 0.75
"""Of a worker's time that a task may use. The rest is for the effects that are under way then."""

_logger = logging.getLogger("idempotent_actions")


def run_plan(plan: str, slot: str | None = None) -> dict[str, Any]:
    """Run the plan of that name in the setting ``SCHEDULES``, for the instant ``slot`` (ISO).

    Returns what it did, as plain values. A plan that is gone from the settings since it was queued
    is skipped. Raises ``InvalidSetting`` for plans that can't be read, ``InvalidInput`` for a slot.
    """
    chosen = next((each for each in plans() if each.name == plan), None)
    if chosen is None:
        # Taken out of the settings, or this process has older ones than who synced.
        told = {"action": "plan.unknown", "plan": plan}
        _logger.warning("there is no plan %s in these settings", plan, extra=told)
        return {"plan": plan, "skipped": "no such plan"}
    done = {"plan": plan, **_RUN[chosen.job](chosen, _instant(slot))}
    _logger.info("%s was run", plan, extra={"action": "plan.run", "done": done})
    return done


def deliver_now(token: str) -> dict[str, Any]:
    """Deliver what is due, asked by a nudge; the next nudge is taken from here on.

    ``token`` is that of the nudge's lease. Returns the delivery's report as plain values.
    """
    Held(NAME, UUID(token), LASTS).release()
    return deliver(give_up_at=_give_up_at()).as_dict()


def _tick(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    return _told(polling.tick(*plan.actions, **_options(plan, slot)))


def _mark_overdue(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    return _told(polling.mark_overdue(**_options(plan, slot)))


def _escalate_overdue(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    return _told(polling.escalate_overdue(**_options(plan, slot)))


def _deliver_captures(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    give_up_at, handed_out = _give_up_at(), 0
    while time.monotonic() < give_up_at and (some := hand_out()):
        handed_out += some
    return {"handed_out": handed_out, "delivery": deliver(give_up_at=give_up_at).as_dict()}


def _prune_captures(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    assert plan.older_than is not None  # noqa: S101 - plans() sees to it
    pruned = prune_captures(plan.older_than, give_up_at=_give_up_at())
    return {"pruned": pruned, "leases": forget_lapsed()}


def _check_heartbeat(plan: Plan, slot: datetime | None) -> dict[str, Any]:
    found = check_heartbeat()
    for trouble in found.alarms:
        _logger.error("%s", trouble, extra={"action": "heartbeat.trouble", "kind": trouble.kind})
    return found.as_dict()


_RUN: Mapping[str, Callable[[Plan, datetime | None], dict[str, Any]]] = {
    "tick": _tick,
    "mark_overdue": _mark_overdue,
    "escalate_overdue": _escalate_overdue,
    "deliver_captures": _deliver_captures,
    "prune_captures": _prune_captures,
    "check_heartbeat": _check_heartbeat,
}


def _options(plan: Plan, slot: datetime | None) -> polling.PollOptions:
    options: polling.PollOptions = {"slot": slot, "overlap": plan.overlap}  # type: ignore[typeddict-item]
    seconds = _seconds()
    return options if seconds is None else {**options, "seconds": seconds}


def _give_up_at() -> float:
    seconds = _seconds()
    return math.inf if seconds is None else time.monotonic() + seconds


def _seconds() -> float | None:
    """Return how long a task may take, by the worker's timeout; None where it has none."""
    from django_q.conf import Conf

    return None if Conf.TIMEOUT is None else Conf.TIMEOUT * _SHARE


def _told(reports: list[Report]) -> dict[str, Any]:
    return {"actions": [report.as_dict() for report in reports]}


def _instant(slot: str | None) -> datetime | None:
    """Return the instant that django-q2 passes as ISO text."""
    if slot is None:
        return None
    instant = parse_datetime(slot)
    if instant is None:
        raise InvalidInput(f"slot must be an ISO instant, not {slot!r}.")
    if settings.USE_TZ and timezone.is_naive(instant):
        return timezone.make_aware(instant)
    return (
        instant if settings.USE_TZ or timezone.is_naive(instant) else timezone.make_naive(instant)
    )
