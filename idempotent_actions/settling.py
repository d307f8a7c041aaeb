"""The settle: the short transaction after an effect, in which what is known is written down.

Subject first, then the capture by its token. No rows means that another worker was given the token
meanwhile: the late truth is kept on the attempt.
"""

import random
import time
from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from typing import Any

from django.db import DataError, InterfaceError, InternalError, OperationalError, transaction

from idempotent_actions.barrier import Claim, lock_subject_of
from idempotent_actions.consequences import follow_up
from idempotent_actions.crashpoints import crash_point
from idempotent_actions.databases import inside_transaction, reconnect_if_lost
from idempotent_actions.ledger import write_settled
from idempotent_actions.models.capture import Capture
from idempotent_actions.running import Verdict, as_repr

__all__ = ["pause_after", "settle"]

FIRST_PAUSE = timedelta(minutes=1)
"""Until the second try of what was not sent; it doubles with each try."""

LONGEST_PAUSE = timedelta(hours=1)

PATIENCE = 20.0
"""Seconds that a settle is tried again over a lost connection: a server restarts in less, and the
lease goes on for longer (``LEASE_MARGIN``)."""


def settle(claim: Claim, verdict: Verdict, using: str) -> str:
    """Write down ``verdict``; return the state that came of it, or ``late``.

    Repeats after a deadlock or a lost connection, since the truth exists nowhere else; a repetition
    finds what an earlier one has written, if only its answer was lost. Raises the last error.
    """
    give_up_at = time.monotonic() + PATIENCE
    while True:
        try:
            state = _settle(claim, verdict, using)
            crash_point("after_settle_commit")
            return state
        except DataError:
            if verdict.outcome != "succeeded" or verdict.is_repr:
                raise
            verdict = as_repr(verdict)  # a result that this database doesn't take
        except (OperationalError, InterfaceError, InternalError):
            if inside_transaction(using) or time.monotonic() > give_up_at:
                raise
            reconnect_if_lost(using)
            time.sleep(random.uniform(0.01, 0.5))  # noqa: S311 - jitter, not a secret


def pause_after(attempts: int) -> timedelta:
    """Return how long to wait after so many tries: from a minute up to an hour."""
    doubled: timedelta = FIRST_PAUSE * 2 ** min(attempts - 1, 10)
    return min(doubled, LONGEST_PAUSE)


def _settle(claim: Claim, verdict: Verdict, using: str) -> str:
    if claim.action is None:
        return _told(claim, *_write(claim, verdict, using))
    with transaction.atomic(using=using):
        subject, _why = lock_subject_of(claim.capture, claim.action, wait=True)
        capture, answer = _write(claim, verdict, using)
        interrupt = None
        if answer == "settled":
            interrupt = follow_up(capture, claim.action, subject, claim.now(), using)
        crash_point("before_settle_commit")
    if interrupt is not None:
        raise interrupt  # only now: what is known is committed
    return _told(claim, capture, answer)


def _told(claim: Claim, capture: Capture, answer: str) -> str:
    if answer == "settled":
        claim.settled = capture
    return "late" if answer == "late" else str(capture.state)


def _write(claim: Claim, verdict: Verdict, using: str) -> tuple[Capture, str]:
    """Fire the transition on a copy of the claimed capture, and write it."""
    capture, now = _copy(claim.capture), claim.now()
    accepted = _fire(capture, verdict, now)
    told = {
        "finished_at": now,
        "outcome": verdict.outcome,
        "provider_ref": verdict.receipt.provider_ref,
        "error": verdict.error,
    }
    return capture, write_settled(capture, accepted, told, using)


def _fire(capture: Capture, verdict: Verdict, now: datetime) -> list[str]:
    """Fire what ``verdict`` means; return the states in which the row accepts it."""
    error = verdict.error or {}
    match verdict.outcome:
        case "succeeded":
            capture.succeed(now, verdict.receipt, verdict.is_repr)
            return _sources(Capture.succeed)
        case "refused" if capture.in_doubt:
            capture.lose_track(now, error)  # this try was refused, an earlier one may have done it
            capture.park("refused_in_doubt")
            return _sources(Capture.lose_track)
        case "refused":
            capture.refuse(now, error)
            return _sources(Capture.refuse)
        case "not_sent":
            most = capture.policy.get("max_attempts")
            if most is not None and capture.attempts >= most and not capture.in_doubt:
                capture.refuse(now, error)
                return _sources(Capture.refuse)
            wake_at = now + (verdict.retry_after or pause_after(capture.attempts))
            if capture.in_doubt and capture.policy["recovery"]["kind"] == "replay":
                capture.lose_track(wake_at, error)  # of the earlier try it says nothing
                return _sources(Capture.lose_track)
            capture.put_off(wake_at, error)
            return _sources(Capture.put_off)
    capture.lose_track(now + _settle_time(capture), error)
    if capture.policy["recovery"]["kind"] == "park":
        capture.park("unknown")
    return _sources(Capture.lose_track)


def _settle_time(capture: Capture) -> timedelta:
    """How long to leave an unknown outcome alone: a request may still be on its way."""
    recovery = capture.policy["recovery"]
    if recovery["kind"] == "reconcile":
        return timedelta(seconds=recovery["settle_time"])
    return pause_after(capture.attempts)


def _sources(transition: Callable[..., Any]) -> list[str]:
    return list(transition._django_fsm.transitions)  # type: ignore[attr-defined]


def _copy(capture: Capture) -> Capture:
    """A settle may run twice; each time it starts from the capture as it was claimed."""
    fresh = Capture.__new__(Capture)
    fresh.__dict__.update(capture.__dict__)
    fresh._state = copy(capture._state)
    fresh._state.fields_cache = dict(capture._state.fields_cache)
    return fresh
