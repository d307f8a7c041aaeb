"""A person's acts: each locks the row, asks the guard again, writes state and audit row together.

A duplicate is an answer (``Outcome``), not an error. ``InvalidInput`` is raised for arguments that
a service can't take, before anything is written. Services join a transaction of the caller's.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Unpack

from django.db import models
from django_fsm import can_proceed

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import Asked, act_on, audit_row, heal, newest_acts
from idempotent_actions.adopting import adopt
from idempotent_actions.asking import (
    Outcome,
    Request,
    asked_by,
    check_subject,
    in_transaction,
    registered,
)
from idempotent_actions.captures import deliver, perform, request
from idempotent_actions.decisions import (
    mark_failed,
    mark_succeeded,
    rerun_hook,
    retry_new_key,
    retry_same_key,
    void,
)
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.guards import lock_one
from idempotent_actions.keys import make_key
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LIVE, LadderModel
from idempotent_actions.nudges import nudge
from idempotent_actions.pruning import prune_captures
from idempotent_actions.registry import registry
from idempotent_actions.writing import Change, snapshot, write

__all__ = [
    "Outcome",
    "Request",
    "act",
    "adopt",
    "cancel",
    "deliver",
    "hold",
    "mark_failed",
    "mark_succeeded",
    "perform",
    "prune_captures",
    "release",
    "reopen",
    "request",
    "rerun_hook",
    "resolve",
    "retry_new_key",
    "retry_same_key",
    "void",
]

Mutation = Callable[[Any, Asked], str]


def act(action: str | type[Action], subject: models.Model, **request: Unpack[Request]) -> Outcome:
    """Apply ``action`` to ``subject`` now: the way in of a button or an API, on the poll's path.

    ``action`` is a registered name or class; ``request`` is described at ``Request``. A subject
    whose deadline has lapsed but which no poll has marked yet is marked first.

    Raises ``LadderExhausted`` at the ladder's end, ``UnknownAction``, and what the transition
    raises.
    """
    chosen = registered(action)
    check_subject(subject, chosen.model)
    asked = asked_by(chosen, request)
    seen = request.get("seen")
    if seen is not None and not isinstance(chosen, LadderAction):
        raise InvalidInput(f"seen is the (cycle, rung) of a ladder, and {chosen.name} is none.")

    def work() -> Outcome:
        if seen is not None and isinstance(subject, LadderModel):
            _, refused = _locked(subject, seen, chosen.using)
            if refused is not None:
                return refused
        marking = None
        if isinstance(chosen, LadderAction):
            marking = act_on(chosen.detection, [subject.pk], asked)
            for failure in marking.failures:
                raise failure.error
        result = act_on(chosen, [subject.pk], asked)
        for failure in result.failures:
            raise failure.error
        rows: models.QuerySet[Any] = models.QuerySet(chosen.model).using(chosen.using)
        fresh = rows.filter(pk=subject.pk).first()
        if result.applied:
            nudge(chosen.using)
            return Outcome(True, escalation=result.applied[0].escalation, subject=fresh)
        (why,) = result.skipped
        if why == Reason.WRONG_STATUS and marking is not None and marking.skipped:
            (why,) = marking.skipped  # detection knows why it isn't overdue
        return Outcome(False, why, subject=fresh)

    return in_transaction(work, chosen.using)


def hold(subject: LadderModel, until: datetime, **request: Unpack[Request]) -> Outcome:
    """Stop the ladder for ``subject`` until the instant ``until``, when it goes on by itself.

    Holding again until the same instant changes nothing (``held``).
    """
    clock.check_instant(until, "until")

    def mutate(fresh: Any, asked: Asked) -> str:
        if until <= asked.now:
            raise InvalidInput(f"until must lie in the future, not at {until.isoformat()}.")
        if fresh.status not in LIVE:
            return Reason.WRONG_STATUS
        if fresh.hold_until == until:
            return Reason.HELD
        fresh.hold_until, fresh.hold_reason = until, asked.reason
        return ""

    return _change(subject, "hold", mutate, request)


def release(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """Let the ladder of a held ``subject`` go on at the next poll (``not_held`` if it isn't)."""

    def mutate(fresh: Any, asked: Asked) -> str:
        if fresh.hold_until is None:
            return "not_held"
        fresh.hold_until, fresh.hold_reason = None, ""
        # What waited for this is delivered by the next sweep, not when it would be asked again.
        held = Capture.objects.using(fresh._state.db).about(fresh).filter(waiting_for=Reason.HELD)
        held.filter(wake_at__gt=asked.now).update(wake_at=asked.now)
        nudge(fresh._state.db)
        return ""

    return _change(subject, "release", mutate, request)


def resolve(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """End the cycle of ``subject`` as settled, from any live state."""
    return _change(subject, "resolve", _fire("resolve"), request)


def cancel(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """End the cycle of ``subject`` without settlement, from any live state."""
    return _change(subject, "cancel", _fire("cancel"), request)


def reopen(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """Begin the next cycle of a resolved or cancelled ``subject``, below the first rung."""
    return _change(subject, "reopen", _fire("reopen"), request)


def _change(subject: LadderModel, name: str, mutate: Mutation, request: Any) -> Outcome:
    """Lock, look, mutate, write: the path of every act that isn't the action itself."""
    check_subject(subject, LadderModel)
    action = registry.ladder_for(type(subject))
    if action is None:
        raise UnknownAction(f"No LadderAction is registered for {subject._meta.label}.")
    asked = asked_by(action, request)

    def work() -> Outcome:
        fresh, refused = _locked(subject, request.get("seen"), action.using)
        if refused is not None:
            return refused
        stored = snapshot(fresh)
        newest = newest_acts(action, [fresh.pk]).get(fresh.pk)
        behind = newest is not None and action.is_behind(fresh, newest, asked.now)
        if newest is not None and behind:
            heal(action, fresh, newest)  # first, so that the act is done on what is true
        before = snapshot(fresh)
        if why := mutate(fresh, asked):
            _write([Change(fresh, stored)] if behind else [], action.using)
            return Outcome(False, Reason.HEALED if behind else why, subject=fresh)
        row = audit_row(action, fresh, before, name, _person_key(action, fresh, name), asked)
        _write([Change(fresh, stored, row)], action.using)
        return Outcome(True, escalation=row, subject=fresh)

    return in_transaction(work, action.using)


def _write(changes: list[Change], using: str) -> None:
    for failure in write(changes, using):
        raise failure.error


def _fire(transition: str) -> Mutation:
    def mutate(fresh: Any, asked: Asked) -> str:
        method = getattr(fresh, transition)
        if not can_proceed(method, check_conditions=False):
            return Reason.WRONG_STATUS
        if not can_proceed(method):
            return Reason.CONDITION
        method()
        return ""

    return mutate


def _person_key(action: LadderAction, subject: LadderModel, name: str) -> str:
    """A cycle is resolved, cancelled and begun once; a hold follows the act that came before it."""
    parts: list[str | int] = [subject.cycle, f"@{name}"]
    if name in ("hold", "release"):
        last = Escalation.objects.using(action.using).about(subject).last()
        parts.append(last.pk if last else 0)
    return make_key(action.model._meta.label_lower, subject.pk, action.name, *parts)


def _locked(subject: LadderModel, seen: Any, using: str) -> tuple[Any, Outcome | None]:
    fresh = lock_one(subject, using)
    if fresh is None:
        return None, Outcome(False, Reason.GONE)
    if seen is not None and (fresh.cycle, fresh.rung) != tuple(seen):
        return fresh, Outcome(False, Reason.STALE_VIEW, subject=fresh)
    return fresh, None
