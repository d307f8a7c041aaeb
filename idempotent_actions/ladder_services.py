"""A person's acts on a ladder: where a subject stands, whether it waits, and that it is over.

Each locks the row, compares it with what the person saw, heals it where it is behind its own trail,
and writes state and audit row together. The arguments and answers are described at ``Request`` and
``Outcome``.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Unpack

from django_fsm import can_proceed

from idempotent_actions import clock
from idempotent_actions.actions import Reason
from idempotent_actions.acts import Asked, audit_row, heal, newest_acts
from idempotent_actions.asking import Outcome, Request, asked_by, check_subject, in_transaction
from idempotent_actions.exceptions import InvalidInput, UnknownAction, UnknownRung
from idempotent_actions.guards import lock_one
from idempotent_actions.keys import make_key
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LIVE, LadderModel
from idempotent_actions.nudges import nudge
from idempotent_actions.registry import registry
from idempotent_actions.writing import Change, snapshot, write

__all__ = [
    "cancel",
    "hold",
    "lock_as_seen",
    "release",
    "reopen",
    "resolve",
    "skip_rung",
    "step_back",
]

Mutation = Callable[[Any, Asked], str]


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


def skip_rung(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """Put ``subject`` on its next rung without its effects; the later rungs keep their dates.

    ``seen`` is needed. What the present rung has not sent yet is no longer sent. Raises
    ``LadderExhausted`` at the ladder's end.
    """
    return _move(subject, "skip_rung", request)


def step_back(subject: LadderModel, **request: Unpack[Request]) -> Outcome:
    """Put ``subject`` one rung lower, so that the one it leaves is climbed, and sent, once more.

    ``seen`` is needed. The subject waits as long as after the lower rung's notice; below the first
    rung it climbs at the next poll that finds it due (``below_first`` if it stands there already).
    """
    return _move(subject, "step_back", request)


def lock_as_seen(subject: LadderModel, seen: Any, using: str) -> tuple[Any, Outcome | None]:
    """Lock the row and read it as it is now; the outcome says why not to go on, if so.

    Must run inside a transaction. ``seen``: the (cycle, rung) that the person saw, or None.
    """
    fresh = lock_one(subject, using)
    if fresh is None:
        return None, Outcome(False, Reason.GONE)
    if seen is not None and (fresh.cycle, fresh.rung) != tuple(seen):
        return fresh, Outcome(False, Reason.STALE_VIEW, subject=fresh)
    return fresh, None


def _move(subject: LadderModel, transition: str, request: Any) -> Outcome:
    if request.get("seen") is None:
        raise InvalidInput(
            f"{transition} needs seen=(cycle, rung), what the person saw: a second click would "
            f"otherwise move the subject twice."
        )

    def mutate(fresh: Any, asked: Asked) -> str:
        method = getattr(fresh, transition)
        if not can_proceed(method, check_conditions=False):
            return Reason.WRONG_STATUS
        if not can_proceed(method):
            return Reason.CONDITION
        if transition == "step_back" and not fresh.rung:
            return "below_first"
        try:
            method(now=asked.now)
        except UnknownRung:
            return Reason.UNKNOWN_RUNG
        return ""

    return _change(subject, transition, mutate, request)


def _change(subject: LadderModel, name: str, mutate: Mutation, request: Any) -> Outcome:
    """Lock, look, mutate, write: the path of every act that isn't the action itself."""
    check_subject(subject, LadderModel)
    action = registry.ladder_for(type(subject))
    if action is None:
        raise UnknownAction(f"No LadderAction is registered for {subject._meta.label}.")
    asked = asked_by(action, request)

    def work() -> Outcome:
        fresh, refused = lock_as_seen(subject, request.get("seen"), action.using)
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
    """A cycle is resolved, cancelled and begun once; a hold follows the act that came before it.

    Each move within a cycle has a revision of its own.
    """
    parts: list[str | int] = [subject.cycle, f"@{name}"]
    if name in ("skip_rung", "step_back"):
        parts.append(subject.revision)
    if name in ("hold", "release"):
        last = Escalation.objects.using(action.using).about(subject).last()
        parts.append(last.pk if last else 0)
    return make_key(action.model._meta.label_lower, subject.pk, action.name, *parts)
