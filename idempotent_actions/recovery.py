"""Recovery: what follows when nobody can say whether an effect has happened.

The policy was copied into the capture when it was requested: a deploy in between doesn't turn
"leave it to a person" into "send it again".
"""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from idempotent_actions import clock
from idempotent_actions.actions import Reason
from idempotent_actions.barrier import (
    action_of,
    is_as_seen,
    left_alone,
    lock_capture,
    lock_subject_of,
)
from idempotent_actions.consequences import follow_up
from idempotent_actions.effects import Receipt, find_effect
from idempotent_actions.models.capture import PENDING, SENDING, UNKNOWN, Capture
from idempotent_actions.running import call_of, describe, receipt_of
from idempotent_actions.settling import pause_after

__all__ = ["recover"]

_LAPSED = {
    "class": "LeaseLapsed",
    "code": "lapsed",
    "message": "The worker was killed or hangs: its lease ended before it said what came of it.",
}


def recover(capture: Capture, fixed: datetime | None, using: str) -> str:
    """Bring a lapsed or unknown ``capture`` one step on, without sending anything.

    Returns ``pending`` (provably not done: send it), ``replay`` (send it again as it is), or the
    state or reason it is left with.
    """
    now = fixed or clock.now(using)
    if capture.wake_at is None or capture.wake_at > now:
        return "taken"  # by a sweep that read the same list, and has come to it first
    if capture.state == SENDING:
        return _lapse(capture, now, using)
    policy = capture.policy["recovery"]
    if policy["kind"] == "replay":
        if now < _first_sent(capture) + timedelta(seconds=policy["window"]):
            return "replay"
        policy = policy["then"]
        if policy["kind"] == "park":
            return _park(capture, "window_over", using)
    if policy["kind"] == "park":
        return _park(capture, "unknown", using)
    return _ask(capture, timedelta(seconds=policy["settle_time"]), fixed, using)


def _lapse(seen: Capture, now: datetime, using: str) -> str:
    """The lease is over and nobody has settled: from sending to unknown, never to pending."""
    with transaction.atomic(using=using):
        capture = _lock_as_seen(seen, using)
        if capture is None:
            return "taken"
        recovery = capture.policy["recovery"]
        absent_from = (capture.wake_at or now) + timedelta(seconds=recovery.get("settle_time", 0))
        capture.lose_track(absent_from, _LAPSED)
        if recovery["kind"] == "park":
            capture.park("unknown")
        capture.save()
    return "again" if capture.state == UNKNOWN and absent_from <= now else str(capture.state)


def _park(seen: Capture, reason: str, using: str) -> str:
    with transaction.atomic(using=using):
        capture = _lock_as_seen(seen, using)
        if capture is None:
            return "taken"
        capture.park(reason)
        capture.save()
    return str(capture.state)


def _ask(capture: Capture, settle_time: timedelta, fixed: datetime | None, using: str) -> str:
    """Reconcile: the probe runs outside every transaction; its word is written by token."""
    effect = find_effect(capture.effect)
    if effect is None or effect.probe is None:
        return _wait(capture, Reason.FORGOTTEN if effect is None else "no_probe", fixed, using)
    counts_from = _last_end(capture, effect.lease, using) + settle_time
    if (fixed or clock.now(using)) < counts_from:
        return _wait(capture, "settle_time", fixed, using, wake_at=counts_from)
    try:
        answer: Any = effect.probe(call_of(capture, effect, _subject(capture)))
        if not isinstance(answer, Receipt | None):
            raise TypeError(f"a probe returns a Receipt or None, not {answer!r}")
    except Exception as error:
        return _wait(capture, "probe_failed", fixed, using, describe(error))
    return _write_answer(capture, answer, fixed, using)


def _write_answer(
    seen: Capture, receipt: Receipt | None, fixed: datetime | None, using: str
) -> str:
    action = action_of(seen)
    with transaction.atomic(using=using):
        subject, _why = lock_subject_of(seen, action, wait=True)
        capture = _lock_as_seen(seen, using)
        if capture is None:
            return "taken"
        now = fixed or clock.now(using)
        if receipt is None:
            capture.find_absent(now)
            capture.save()
            return PENDING
        verdict = receipt_of(receipt)
        capture.succeed(now, verdict.receipt, verdict.is_repr)
        capture.save()
        follow_up(capture, action, subject, now, using)
    return str(capture.state)


def _wait(
    seen: Capture,
    reason: str,
    fixed: datetime | None,
    using: str,
    error: dict[str, str] | None = None,
    wake_at: datetime | None = None,
) -> str:
    with transaction.atomic(using=using):
        capture = _lock_as_seen(seen, using)
        if capture is None:
            return "taken"
        now = fixed or clock.now(using)
        capture.wake_at = wake_at or capture.wake_at
        if error is not None:
            capture.error = error
            capture.wake_at = now + pause_after(capture.attempts)
        return left_alone(capture, reason, now)


def _lock_as_seen(seen: Capture, using: str) -> Capture | None:
    """Lock the row if it still is what was judged: nobody has claimed, settled or decided it."""
    capture = lock_capture(seen.pk, using, wait=False)
    return capture if capture is not None and is_as_seen(capture, seen) else None


def _subject(capture: Capture) -> Any:
    action = action_of(capture)
    if action is None:
        return capture.subject
    rows = action.get_queryset().using(action.using)
    return rows.filter(pk=capture.subject_pk).first()


def _last_end(capture: Capture, lease: timedelta, using: str) -> datetime:
    """Return when the last try has ended, or its lease has: until then it may have sent."""
    last = capture.tries.using(using).order_by("token").last()
    assert last is not None  # noqa: S101 - the barrier wrote one
    return last.finished_at or last.started_at + lease


def _first_sent(capture: Capture) -> datetime:
    assert capture.first_sent_at is not None  # noqa: S101 - a constraint holds it
    return capture.first_sent_at
