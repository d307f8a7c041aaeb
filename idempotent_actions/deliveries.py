"""Delivering one capture: recover it if need be, pass the barrier, run the effect, settle."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from idempotent_actions.actions import Reason
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.crashpoints import crash_point
from idempotent_actions.models.capture import LIVE_CAPTURES, PENDING, Capture, CaptureState
from idempotent_actions.pausing import paused_by
from idempotent_actions.recovery import recover
from idempotent_actions.running import call_of, run_effect
from idempotent_actions.settling import settle

__all__ = ["Delivered", "carry_out", "deliver_one"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What came of one capture.

    ``state`` is the state it was left in, ``late`` if another worker had it meanwhile, or ``""``
    for one that waits; ``waiting_for`` then says what for. ``performed``: the effect was run.
    ``capture``: as this worker wrote it; None where it has to be read again.
    """

    key: str
    state: str = ""
    waiting_for: str = ""
    performed: bool = False
    error: dict[str, str] | None = None
    interrupt: BaseException | None = None
    capture: Capture | None = None


def deliver_one(
    pk: Any, fixed: datetime | None, using: str, *, patient: bool = False
) -> Delivered | None:
    """Bring one capture as far as it goes now; None if there is nothing to do about it.

    ``fixed``: the instant of a simulation, or None for the database's clock. ``patient``: wait a
    moment for a subject that somebody else has locked.

    Raises what the database raises: the capture is then as an earlier step left it, to be found by
    the next sweep.
    """
    capture = Capture.objects.using(using).filter(pk=pk).first()
    if capture is None or capture.state not in LIVE_CAPTURES:
        return None
    while capture.state != PENDING:
        if paused_by(using, fixed, action=capture.action, effect=capture.effect):
            return _left(capture, Reason.PAUSED)
        word = recover(capture, fixed, using)
        if word == "taken":
            return None
        if word == "replay":
            break
        capture.refresh_from_db()
        if word not in ("again", PENDING):
            return _left(capture, word)
    crash_point("after_intent")
    claim = pass_barrier(capture, fixed, using, patient=patient)
    if claim == "taken":
        return None
    if isinstance(claim, str):
        return _left(capture, claim)
    return carry_out(claim, using)


def carry_out(claim: Claim, using: str) -> Delivered:
    """Run the effect of a claimed capture and settle it."""
    verdict = run_effect(claim.effect, call_of(claim.capture, claim.effect, claim.subject))
    crash_point("after_effect")
    state = settle(claim, verdict, using)
    error = verdict.error
    if claim.settled is not None and claim.settled.hook_error:
        error = {"class": "hook_error", "code": "hook_error", "message": claim.settled.hook_error}
    return Delivered(
        claim.capture.key,
        state,
        performed=True,
        error=error,
        interrupt=verdict.interrupt,
        capture=claim.settled,
    )


_AT_FAULT = {
    Reason.FORGOTTEN: "The code declares no effect {0.effect!r}: it waits until one is back.",
    Reason.UNKNOWN_ACTION: "No action {0.action!r} is registered for it: it waits until one is.",
    "no_probe": "The effect {0.effect!r} has no probe any more: it waits until one is back.",
}
"""What only a developer can mend; anything else that is waited for passes by itself."""


def _left(capture: Capture, word: str) -> Delivered:
    if word in (CaptureState.SUCCEEDED, CaptureState.VOID):
        return Delivered(capture.key, word)
    if word in CaptureState.values:
        return Delivered(capture.key, word, error=capture.error)
    error = capture.error if word == "probe_failed" else None
    if word in _AT_FAULT:
        error = {"class": word, "code": word, "message": _AT_FAULT[word].format(capture)}
    return Delivered(capture.key, waiting_for=word, error=error)
