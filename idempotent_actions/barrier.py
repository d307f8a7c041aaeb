"""The barrier: the last short transaction before an effect.

It locks the subject, then the capture, asks whether the effect is still wanted, and commits the
mark ``sending`` with a new token and a lease. Before that commit the effect has provably not
happened; after it, nobody but the worker with that token can say.
"""

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import OperationalError, connections, transaction

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import heal, newest_acts
from idempotent_actions.conf import get_settings
from idempotent_actions.consequences import follow_up
from idempotent_actions.crashpoints import crash_point
from idempotent_actions.databases import is_lock_timeout, retry_transient, wait_briefly
from idempotent_actions.effects import Effect, find_effect
from idempotent_actions.exceptions import UnknownAction
from idempotent_actions.guards import lock_subject
from idempotent_actions.ledger import open_attempt
from idempotent_actions.models.capture import PENDING, UNKNOWN, Capture
from idempotent_actions.pausing import paused_by
from idempotent_actions.registry import registry
from idempotent_actions.writing import Change, snapshot, write

__all__ = [
    "Claim",
    "action_of",
    "is_as_seen",
    "left_alone",
    "lock_capture",
    "lock_subject_of",
    "pass_barrier",
]

LONGEST_WAIT = timedelta(minutes=10)
"""A capture that has to wait is asked again after a tenth of the time it has waited so far, and at
the latest after this: a crowd of held ones doesn't cost a transaction each, each minute."""


@dataclass(slots=True)
class Claim:
    """A capture that this worker alone may act on, until its lease ends."""

    capture: Capture
    effect: Effect
    action: Action | None
    subject: Any
    claimed_at: datetime
    fixed: datetime | None = None
    settled: Capture | None = None
    """As this worker has written it; None before that, or where it has to be read again."""
    _started: float = field(default_factory=time.monotonic)

    def now(self) -> datetime:
        """Return the database's time, without asking it again."""
        return self.fixed or clock.later(self.claimed_at, self._started)


def pass_barrier(
    capture: Capture, fixed: datetime | None, using: str, *, patient: bool = False
) -> Claim | str:
    """Claim ``capture``, as read a moment ago, or say in a word why not.

    ``fixed``: the instant of a simulation. ``patient``: wait a moment for the subject if somebody
    else has it locked. Returns ``taken`` if somebody else is at it, ``locked`` if the subject is,
    ``void`` or ``review`` if it is no longer wanted, else what it waits for. A pause is read under
    the locks: one that was committed while they were waited for counts.
    """

    @transaction.atomic(using=using)
    def work() -> Claim | str:
        wait = patient and wait_briefly(using)
        claim = _claim(capture, fixed, using, wait=wait)
        crash_point("before_barrier_commit")
        return claim

    try:
        claim = retry_transient(work, using=using, tries=get_settings().MAX_TRIES)
    except OperationalError as error:
        if not is_lock_timeout(error):
            raise
        return Reason.LOCKED
    crash_point("after_barrier_commit")
    return claim


def action_of(capture: Capture) -> Action | None:
    """Return the action that the capture's act belongs to; None when the code lost it, or none."""
    try:
        return registry.get(capture.action) if capture.action else None
    except UnknownAction:
        return None


def lock_subject_of(capture: Capture, action: Action | None, *, wait: bool) -> tuple[Any, str]:
    """Lock the capture's subject, always before the capture itself. As ``lock_subject``."""
    if action is None:
        return None, Reason.UNKNOWN_ACTION if capture.action else ""
    if action.model._meta.label_lower != capture.subject_model:
        return None, Reason.UNKNOWN_ACTION
    try:
        pk = action.model._meta.pk.to_python(capture.subject_pk)
    except ValidationError:
        return None, Reason.GONE
    return lock_subject(action, pk, wait=wait)


def lock_capture(pk: Any, using: str, *, wait: bool) -> Capture | None:
    """Lock the capture's row and read it as it is now; None if somebody else has it locked.

    It may be saved whole then: a list of columns would forget one that a transition sets.
    """
    skip = not wait and connections[using].features.has_select_for_update_skip_locked
    return Capture.objects.using(using).select_for_update(skip_locked=skip).filter(pk=pk).first()


def is_as_seen(capture: Capture, seen: Capture) -> bool:
    """Tell whether the locked row is still what was judged: not claimed, settled or decided since.

    An unknown capture that was read as pending must not be sent without asking its policy.
    """
    judged = (seen.state, seen.token, seen.generation)
    return (capture.state, capture.token, capture.generation) == judged


def left_alone(capture: Capture, reason: str, now: datetime) -> str:
    """Let a capture wait: note what for, and when to ask again. Returns ``reason``."""
    if capture.waiting_for != reason or capture.waiting_since is None:
        capture.waiting_for, capture.waiting_since = reason, now
    pause = min((now - capture.waiting_since) / 10, LONGEST_WAIT)
    capture.wake_at = max(now + pause, capture.wake_at or now)
    capture.save()
    return reason


def _claim(seen: Capture, fixed: datetime | None, using: str, *, wait: bool) -> Claim | str:
    action = action_of(seen)
    subject, missing = lock_subject_of(seen, action, wait=wait)
    if missing == Reason.LOCKED:
        return missing
    capture = lock_capture(seen.pk, using, wait=False)
    now = fixed or clock.now(using)
    if capture is None or not is_as_seen(capture, seen) or not _is_due(capture, now):
        return "taken"
    if paused_by(using, now, action=capture.action, effect=capture.effect):
        return Reason.PAUSED  # left untouched, so that it is due at once when the pause is over
    if missing == Reason.GONE:
        return _give_up(capture, Reason.GONE, now, None, None, using)
    effect = find_effect(capture.effect)
    if missing or effect is None:
        return left_alone(capture, missing or Reason.FORGOTTEN, now)
    if action is not None and capture.escalation is not None:
        why = action.moved_on(subject, capture)
        if why and _put_forward(action, subject, now, using):
            why = action.moved_on(subject, capture)
        if why:
            return _give_up(capture, why, now, action, subject, using)
        if why := action.held_back(subject, now):
            return left_alone(capture, why, now)
    if not capture.action:
        subject = capture.subject  # requested outside of actions: nobody locks it
    capture.claim(now, effect.lease)
    capture.save()
    open_attempt(capture, now, using)
    return Claim(capture, effect, action, subject, now, fixed)


def _is_due(capture: Capture, now: datetime) -> bool:
    claimable = capture.state in (PENDING, UNKNOWN)
    return claimable and capture.wake_at is not None and capture.wake_at <= now


def _put_forward(action: Action, subject: Any, now: datetime, using: str) -> bool:
    """Heal a row that a stale write has put back before the act: its effects are still wanted."""
    newest = newest_acts(action, [subject.pk]).get(subject.pk)
    if newest is None or not action.was_put_back(subject, newest, now):
        return False
    before = snapshot(subject)
    heal(action, subject, newest)
    for failure in write([Change(subject, before)], using):
        raise failure.error
    return True


def _give_up(
    capture: Capture, why: str, now: datetime, action: Action | None, subject: Any, using: str
) -> str:
    """No longer wanted. Only what was provably never sent is void; a doubtful one is a person's."""
    if capture.state == UNKNOWN or capture.in_doubt:
        capture.park(why)
        capture.save()
        return str(capture.state)
    capture.void(now, why)
    capture.save()
    follow_up(capture, action, subject, now, using)
    return str(capture.state)
