"""A person's acts: each locks the row, asks the guard again, writes state and audit row together.

A duplicate is an answer (``Outcome``), not an error. ``InvalidInput`` is raised for arguments that
a service can't take, before anything is written. Services join a transaction of the caller's.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Unpack

from django.db import models
from django_fsm import can_proceed

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import Asked, act_on, audit_row, heal, newest_acts
from idempotent_actions.asking import (
    Outcome,
    Request,
    asked_by,
    check_subject,
    in_transaction,
    registered,
)
from idempotent_actions.candidates import in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.guards import lock_one
from idempotent_actions.keys import make_key
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.ladders import Ladder
from idempotent_actions.models.escalation import Escalation, subject_ref
from idempotent_actions.models.ladder import LIVE, LadderModel
from idempotent_actions.passes import Adopt
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report
from idempotent_actions.subjects import insert_missing
from idempotent_actions.writing import Change, snapshot, write

__all__ = ["Outcome", "Request", "act", "adopt", "cancel", "hold", "release", "reopen", "resolve"]

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


def adopt(
    action: str | type[Action],
    queryset: models.QuerySet[Any],
    *,
    next_at: datetime,
    rung: str = "",
    by: Any,
    reason: str,
    now: datetime | None = None,
) -> Report:
    """Put existing rows in place on a ladder, so that nothing goes out for them on the first tick.

    Every live row of ``queryset`` stands on ``rung`` (below the first when empty) and is not due
    before ``next_at``. Side rows that ``missing_subjects`` yields are inserted first. Each row gets
    an audit row and no effect. ``by``, ``reason``, ``now``: as for ``act``.

    Returns a report: ``applied`` rows, ``skipped`` by reason (``wrong_status`` or ``resolved`` for
    those that are over), ``failed`` ones with their errors. Raises ``InvalidInput`` for a
    ``next_at`` that isn't in the future or a queryset of another model.
    """
    chosen = registered(action)
    if not isinstance(chosen, LadderAction):
        raise InvalidInput(f"{chosen.name} is no ladder: there is nothing to adopt onto.")
    if not isinstance(queryset, models.QuerySet) or queryset.model is not chosen.model:
        raise InvalidInput(f"queryset must hold rows of {chosen.model._meta.label}.")
    asked = asked_by(chosen, {"by": by, "reason": reason, "now": now}, poll=True)
    if clock.check_instant(next_at, "next_at") <= asked.now:
        raise InvalidInput(f"next_at must lie in the future, not at {next_at.isoformat()}.")
    settings = get_settings()
    ladder = getattr(chosen.model, "ladder", None)
    if rung and isinstance(ladder, Ladder):
        ladder.get(rung)  # one misspelt for all of them is told at once
    adoption = Adopt(chosen, rung, next_at)
    report = Report(adoption.name)
    for _count, failures in insert_missing(chosen, asked.now, settings.BATCH_SIZE):
        for failure in failures:
            report.add_error(subject_ref(failure.subject), failure.error, settings.ERRORS_KEPT)
    pks = list(queryset.using(chosen.using).values_list("pk", flat=True))
    for batch in in_batches(pks, settings.BATCH_SIZE):
        result = in_transaction(partial(act_on, adoption, batch, asked), chosen.using)
        report.count(result, settings.ERRORS_KEPT)
    return report


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
