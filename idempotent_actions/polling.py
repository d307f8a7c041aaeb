"""The poll as a service: read current state, act on it, deliver what follows."""

import math
import time
from typing import Any, Unpack

from django.db import models

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import reconnect_if_lost
from idempotent_actions.delivering import deliver, home
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.run import Run
from idempotent_actions.passes import MarkOverdue
from idempotent_actions.pausing import paused_by
from idempotent_actions.polls import Poll, PollOptions
from idempotent_actions.previews import preview
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report
from idempotent_actions.running import inside_any_transaction
from idempotent_actions.turns import Turn

__all__ = ["PollOptions", "escalate_overdue", "mark_overdue", "run_action", "tick"]


def tick(*names: str, **options: Unpack[PollOptions]) -> list[Report]:
    """Run every registered action, or the named ones, each through all its passes, then deliver.

    Effects that became due earlier are delivered too. Inside a transaction nothing is: a later
    ``deliver_captures`` finds them after the commit. Without names, effects requested outside of
    actions are delivered as well, and reported as ``captures``.

    Returns a report for each action. One that can't run at all is reported as failed and keeps no
    other from running. Raises ``UnknownAction`` or ``InvalidInput`` before anything runs.
    """
    actions = [registry.get(name) for name in names] if names else list(registry)
    options = _started(options)
    if "give_up_at" in options:
        actions.sort(key=_last_whole_run)  # else the last ones might never have their turn
    reports = [_run(action, options) for action in actions]
    _deliver(reports, options)
    if not names:
        others = Report("captures")
        _deliver([others], options, of=[""])
        if others.failed or (others.delivery is not None and others.delivery.count_of_all):
            reports.append(others)
    return reports


def escalate_overdue(
    model: type[models.Model] | None = None, **options: Unpack[PollOptions]
) -> list[Report]:
    """Run the ladders, or the one of ``model``, and deliver their effects: the main job.

    Returns and raises as ``tick`` does.
    """
    options = _started(options)
    reports = [_run(action, options) for action in _ladders(model)]
    _deliver(reports, options)
    return reports


def mark_overdue(
    model: type[models.Model] | None = None, **options: Unpack[PollOptions]
) -> list[Report]:
    """Run detection alone; ``Report.marked`` says how many deadlines had lapsed.

    Returns and raises as ``tick`` does.
    """
    options = _started(options)
    return [_run(MarkOverdue(each, alone=True), options) for each in _ladders(model)]


def run_action(action: Action, **options: Unpack[PollOptions]) -> Report:
    """Poll one action: insert missing subjects, resolve, detect, act. It delivers nothing.

    Returns a report. Raises ``InvalidInput`` for options it can't take. An error of the database or
    of the action's own rules is reported as one failed row, named after the model.
    """
    return _run(action, _started(options))


def _last_whole_run(action: Action) -> int:
    """Return the number of the action's last run that looked at everything; 0 for none."""
    runs = Run.objects.using(action.using).filter(action=action.name, stopped="")
    whole = runs.filter(finished_at__isnull=False).order_by("-id")
    return whole.values_list("id", flat=True).first() or 0


def _run(action: Action, options: PollOptions) -> Report:
    report = Report(action.name, dry_run=options.get("dry_run", False))
    try:
        now = options.get("now") or clock.now(action.using)
        if not action.branches(now):
            return report  # never polled: started by services.act only
        if report.dry_run:
            if paused_by(action.using, now, action=action.audit_name):
                report.stopped = Reason.PAUSED  # what it lists follows once the pause is over
            preview(action, now, report, options.get("limit"), options.get("mark", True))
            return report
        overlap, slot = options.get("overlap", "share"), options.get("slot")
        turn = Turn(action, overlap, slot, options.get("give_up_at", math.inf))
        run = turn.begin(now)
        report.stopped = turn.stopped
        if run is not None:
            Poll(action, run, turn, report, options).run()
        turn.end()  # a run that is interrupted leaves its lease to lapse
    except Exception as error:
        report.add_error(action.model._meta.label_lower, error, get_settings().ERRORS_KEPT)
        report.stopped = "error"
    return report


def _deliver(reports: list[Report], options: PollOptions, of: list[str] | None = None) -> None:
    """Deliver for each report what its action has due; all polls are over by then."""
    if not options.get("deliver", True) or options.get("dry_run") or inside_any_transaction():
        return
    for report in reports:
        try:
            report.delivery = deliver(
                actions=of or [report.action],
                workers=options.get("workers"),
                now=options.get("now"),
                give_up_at=options.get("give_up_at", math.inf),
            )
        except Exception as error:
            reconnect_if_lost(home())
            report.add_error("captures", error, get_settings().ERRORS_KEPT)


def _ladders(model: type[models.Model] | None) -> list[LadderAction]:
    if model is None:
        return registry.ladders()
    action = registry.ladder_for(model)
    if action is None:
        raise UnknownAction(
            f"No LadderAction is registered for {model._meta.label}. Write one with @register in "
            f"an installed app's actions.py."
        )
    return [action]


def _started(options: PollOptions) -> PollOptions:
    """Check the options, and let their time begin. Raises what is wrong with them."""
    if unknown := set(options) - set(PollOptions.__annotations__):
        raise TypeError(f"unknown option {unknown.pop()!r}; see PollOptions")
    for name, least in (("limit", 0), ("batch_size", 1), ("workers", 0)):
        value: Any = options.get(name)
        if value is not None and (not isinstance(value, int) or value < least):
            raise InvalidInput(f"{name} must be a whole number of at least {least}, not {value!r}.")
    for name in ("now", "slot"):
        instant: Any = options.get(name)
        if instant is not None:
            clock.check_instant(instant, name)
    overlap = options.get("overlap", "share")
    if overlap not in ("share", "skip"):
        raise InvalidInput(f"overlap must be 'share' or 'skip', not {overlap!r}.")
    if overlap == "skip" and inside_any_transaction():
        raise InvalidInput(
            "overlap='skip' takes a lease, which can't be done inside a transaction."
        )
    seconds: Any = options.get("seconds")
    if seconds is None:
        return options
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidInput(f"seconds must be a number above zero, not {seconds!r}.")
    return {**options, "give_up_at": time.monotonic() + seconds}
