"""A person's decisions about a capture that goes no further by itself.

Each takes the capture *as the person saw it*: if it has moved since, the answer is ``stale_view``
and nothing changes. Each locks the subject, then the capture, needs a note, and leaves a
``CaptureDecision``.
"""

from collections.abc import Callable
from typing import Any

from django_fsm import can_proceed

from idempotent_actions import clock, machines
from idempotent_actions.actions import Action, Reason, Step
from idempotent_actions.asking import Outcome, actor_of, check_text, in_transaction
from idempotent_actions.barrier import action_of, lock_capture, lock_subject_of
from idempotent_actions.consequences import follow_up
from idempotent_actions.delivering import home
from idempotent_actions.effects import find_effect
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.intents import captures_of, intents_of
from idempotent_actions.models.attempt import CaptureDecision
from idempotent_actions.models.capture import PENDING, Capture
from idempotent_actions.nudges import nudge

__all__ = [
    "mark_failed",
    "mark_succeeded",
    "rerun_hook",
    "retry_new_key",
    "retry_same_key",
    "void",
]

Change = Callable[[Capture, Action | None, Any, Any], str | None]


def mark_succeeded(capture: Capture, *, provider_ref: str, note: str, by: Any) -> Outcome:
    """Note that the effect has happened; ``provider_ref`` is the provider's name of it.

    From ``unknown``, ``review`` or ``failed``. ``note`` says how it is known; ``by`` is a user or a
    text of at most 150 characters. Returns an outcome, true when it was applied; else its reason is
    ``stale_view``, ``wrong_status`` or ``gone``. Raises ``InvalidInput`` for texts that are empty
    or too long (255 characters), before anything is written.
    """
    check_text("provider_ref", provider_ref, 255)

    def change(fresh: Capture, action: Action | None, subject: Any, now: Any) -> None:
        fresh.mark_succeeded(now, provider_ref)

    return _decide(capture, "mark_succeeded", change, note, by, provider_ref)


def mark_failed(capture: Capture, *, note: str, by: Any) -> Outcome:
    """Note that the effect has not happened and won't. From ``unknown`` or ``review``.

    Arguments, answers and errors as for ``mark_succeeded``.
    """

    def change(fresh: Capture, action: Action | None, subject: Any, now: Any) -> None:
        fresh.mark_failed(now)

    return _decide(capture, "mark_failed", change, note, by)


def void(capture: Capture, *, note: str, by: Any) -> Outcome:
    """Give the effect up; a ladder goes on. From ``pending``, ``review`` or ``failed``.

    Arguments, answers and errors as for ``mark_succeeded``.
    """

    def change(fresh: Capture, action: Action | None, subject: Any, now: Any) -> None:
        fresh.void(now, "decided")

    return _decide(capture, "void", change, note, by)


def retry_same_key(capture: Capture, *, note: str, by: Any) -> Outcome:
    """Send it again with the provider key it had: a provider that knows the key does it once.

    From ``review`` or ``failed``. Answers ``pruned`` where its parameters are gone; the rest is as
    for ``mark_succeeded``.
    """

    def change(fresh: Capture, action: Action | None, subject: Any, now: Any) -> str | None:
        if fresh.pruned_at is not None:
            return "pruned"
        _retry(fresh, action, subject, now)
        return None

    return _decide(capture, "retry", change, note, by)


def retry_new_key(capture: Capture, *, refresh: bool = False, note: str, by: Any) -> Outcome:
    """Send it again under a new provider key: to the provider this is another request.

    Only for what is known not to have happened: if it did after all, it happens twice. From
    ``review`` or ``failed``. ``refresh`` takes today's parameters from ``Action.effects`` (a
    corrected address, a new card) instead of the frozen ones. Answers ``pruned`` where those are
    gone. Raises ``InvalidInput`` where there is nothing to refresh from.
    """

    def change(fresh: Capture, action: Action | None, subject: Any, now: Any) -> str | None:
        if fresh.pruned_at is not None and not refresh:
            return "pruned"
        params, fingerprint = fresh.params, fresh.fingerprint
        if refresh:
            today = _today(fresh, action, subject, now)
            params, fingerprint = today.params, today.fingerprint
        _retry(fresh, action, subject, now)
        fresh.begin_generation(params, fingerprint)
        return None

    return _decide(capture, "retry", change, note, by, decision="retry_new_key")


def rerun_hook(capture: Capture) -> Outcome:
    """Run ``Action.settled`` and the next deadline again after ``hook_error``; it may fail again.

    Returns an outcome: true when nothing is left of the error, ``no_hook_error`` when there was
    none, ``hook_error`` when it failed again.
    """
    using = home()

    def work() -> Outcome:
        action = action_of(capture)
        subject, _why = lock_subject_of(capture, action, wait=True)
        fresh = lock_capture(capture.pk, using, wait=True)
        if fresh is None or not fresh.hook_error:
            return Outcome(False, "no_hook_error", capture=fresh)
        follow_up(fresh, action, subject, clock.now(using), using)
        why = "hook_error" if fresh.hook_error else ""
        return Outcome(not why, why, subject=subject, capture=fresh)

    return in_transaction(work, using)


def _decide(
    seen: Capture,
    transition: str,
    change: Change,
    note: str,
    by: Any,
    provider_ref: str = "",
    decision: str = "",
) -> Outcome:
    if not isinstance(seen, Capture) or seen.pk is None:
        raise InvalidInput(f"capture must be a stored Capture, not {seen!r}.")
    actor = actor_of(by)
    check_text("note", note, 255)
    using = home()

    def work() -> Outcome:
        action = action_of(seen)
        subject, _why = lock_subject_of(seen, action, wait=True)
        fresh = lock_capture(seen.pk, using, wait=True)
        if fresh is None:
            return Outcome(False, Reason.GONE)
        was = fresh.state
        if (was, fresh.token, fresh.generation) != (seen.state, seen.token, seen.generation):
            return Outcome(False, Reason.STALE_VIEW, subject=subject, capture=fresh)
        if not can_proceed(getattr(fresh, transition)):
            return Outcome(False, Reason.WRONG_STATUS, subject=subject, capture=fresh)
        now = clock.now(using)
        if why := change(fresh, action, subject, now):
            return Outcome(False, why, subject=subject, capture=fresh)
        fresh.save(using=using)
        CaptureDecision.objects.using(using).create(
            capture=fresh,
            decision=decision or transition,
            from_state=was,
            to_state=fresh.state,
            token=fresh.token,
            generation=fresh.generation,
            provider_ref=provider_ref,
            actor=actor,
            note=note,
            decided_at=now,
        )
        if fresh.finished_at is not None:
            follow_up(fresh, action, subject, now, using)
        if fresh.state == PENDING:
            nudge(using)
        return Outcome(True, subject=subject, capture=fresh)

    return in_transaction(work, using)


def _retry(capture: Capture, action: Action | None, subject: Any, now: Any) -> None:
    capture.retry(now)
    if action is not None and subject is not None:
        # It is wanted where the subject stands now: a hook may have moved it on meanwhile.
        capture.expects = str(machines.state_of(subject, action.state_field))


def _today(capture: Capture, action: Action | None, subject: Any, now: Any) -> Capture:
    """Return the capture that the action would request today for the same act and key."""
    climb = capture.escalation
    if action is None or subject is None or climb is None:
        raise InvalidInput(
            f"{capture.key} belongs to no act whose effects could be asked again: leave refresh "
            f"out, or perform the effect with another key."
        )
    rung = subject.ladder.get(climb.rung) if climb.rung else None
    exhausted = climb.transition == "exhaust"
    step = Step(climb.acted_at, climb.actor, climb.reason, None if exhausted else rung, exhausted)
    for each in captures_of(action, intents_of(action, subject, step), climb, now):
        if each.key == capture.key:
            return each
    effect = find_effect(capture.effect)
    hint = f" Its key holds {effect.per!r}: that must not change." if effect and effect.per else ""
    raise InvalidInput(f"{action.name} no longer yields {capture.effect} for this act.{hint}")
