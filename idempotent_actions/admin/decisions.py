"""A person's decisions about a capture: who may, from where, and what each would mean now."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django_fsm import can_proceed

from idempotent_actions import services
from idempotent_actions.actions import Reason
from idempotent_actions.barrier import is_as_seen
from idempotent_actions.delivering import home
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome

__all__ = ["DECISIONS", "Decision", "answer", "decide_page", "possible", "recovery_in_words"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One button: its words, the permission it needs, the service behind it.

    ``means`` says what it would come to for a capture at an instant. ``asks`` names what its page
    asks for beside a note. ``alone``: it is about one capture at a time.
    """

    label: str
    permission: str
    done: str
    perform: Callable[..., Outcome]
    means: Callable[[Capture, datetime], str]
    allows: Callable[[Capture], bool]
    asks: tuple[str, ...] = ()
    alone: bool = False


def decide_page(site_name: str, decision: str, *pks: Any) -> str:
    """Return the address of the page that confirms ``decision`` about these captures."""
    address = reverse(f"{site_name}:idempotent_actions_capture_decide", args=[decision])
    return f"{address}?{urlencode([('id', pk) for pk in pks])}"


def possible(capture: Capture) -> dict[str, Decision]:
    """Return the decisions that the capture's state allows, by name."""
    return {name: each for name, each in DECISIONS.items() if each.allows(capture)}


def answer(decision: Decision, outcome: Outcome) -> str:
    """Say in a sentence what came of it."""
    if outcome.applied:
        return decision.done
    why = _ANSWERS.get(outcome.reason, f"The answer was “{outcome.reason}”")
    return f"{why}: nothing was done."


def recovery_in_words(capture: Capture) -> str:
    """Say what the capture's own policy does about an unknown outcome."""
    return _recovery(capture.policy.get("recovery", {}))


_ANSWERS = {
    Reason.STALE_VIEW: "It has moved since you looked",
    Reason.GONE: "It is gone",
    Reason.WRONG_STATUS: "Its state doesn't allow that",
    "pruned": "Its parameters were pruned, so nobody knows what to send",
    "no_hook_error": "No hook has failed",
    "hook_error": "The hook failed again",
}


def _recovery(policy: dict[str, Any]) -> str:
    match policy:
        case {"kind": "replay", "window": seconds, "then": then}:
            return (
                f"For {_length(seconds)} after the first try it is sent again with the same key, "
                f"which the provider knows. After that: {_recovery(then)}"
            )
        case {"kind": "reconcile", "settle_time": seconds}:
            return (
                f"The provider is asked, from {_length(seconds)} after the last try on; what it "
                f"doesn't know is sent again."
            )
    return "A person decides: it is never sent again by itself."


def _length(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:.3g} hours"


def _retry_same_key(capture: Capture, now: datetime) -> str:
    sent = (
        "It is sent again with the next delivery, under the provider key it had; before that it is "
        "asked once more whether it is still wanted."
    )
    if not capture.in_doubt:
        return f"{sent} It is known not to have happened so far."
    if _is_remembered(capture, now):
        return f"{sent} The provider still knows that key: if it has happened, it isn't done twice."
    return (
        f"{sent} It may have happened already. If so, and the provider doesn't know the key (any "
        f"more), it happens twice: look it up first."
    )


def _is_remembered(capture: Capture, now: datetime) -> bool:
    policy = capture.policy.get("recovery", {})
    if policy.get("kind") != "replay" or capture.first_sent_at is None:
        return False
    return now < capture.first_sent_at + timedelta(seconds=policy["window"])


def _retry_new_key(capture: Capture, now: datetime) -> str:
    sent = "It is sent again with the next delivery, to the provider as another request."
    if capture.in_doubt:
        return f"{sent} It may have happened already: if so, it happens twice."
    return f"{sent} It is known not to have happened so far."


def _mark_succeeded(capture: Capture, now: datetime) -> str:
    after = f" {capture.action} is told, and its subject goes on." if capture.action else ""
    return f"It has happened, and the provider's reference shows it.{after} That is final."


def _mark_failed(capture: Capture, now: datetime) -> str:
    after = {
        "wait": " Its subject waits until somebody sends it again or gives it up.",
        "proceed": " Its subject goes on without it.",
    }
    told = after.get(capture.policy.get("on_failed", ""), "") if capture.action else ""
    return f"It has not happened, and won't by itself.{told}"


def _void(capture: Capture, now: datetime) -> str:
    after = " Its subject goes on as if it were settled." if capture.action else ""
    doubt = " It may have happened nevertheless." if capture.in_doubt else ""
    return f"It is given up: nothing is sent.{after}{doubt} That is final."


def _rerun(capture: Capture, now: datetime) -> str:
    return (
        "Its subject is told once more what came of it: its next deadline is set, and the action's "
        "settled() runs. Nothing is sent."
    )


def _rerun_hook(seen: Capture, *, note: str, by: Any) -> Outcome:
    """Run the hook of the capture as it was seen: the service itself takes it as it is."""
    capture = Capture.objects.using(home()).filter(pk=seen.pk).first()
    if capture is None or not is_as_seen(capture, seen):
        return Outcome(False, Reason.STALE_VIEW)
    return services.rerun_hook(capture)


DECISIONS = {
    "retry_same_key": Decision(
        "Retry with the same key",
        "decide_capture",
        "It is sent again with the next delivery.",
        services.retry_same_key,
        _retry_same_key,
        lambda capture: can_proceed(capture.retry) and capture.pruned_at is None,
    ),
    "mark_succeeded": Decision(
        "Mark succeeded",
        "decide_capture",
        "It counts as done.",
        services.mark_succeeded,
        _mark_succeeded,
        lambda capture: can_proceed(capture.mark_succeeded),
        asks=("provider_ref",),
        alone=True,
    ),
    "mark_failed": Decision(
        "Mark failed",
        "decide_capture",
        "It counts as not done.",
        services.mark_failed,
        _mark_failed,
        lambda capture: can_proceed(capture.mark_failed),
    ),
    "retry_new_key": Decision(
        "Retry with a new key",
        "renew_capture",
        "It is sent again with the next delivery, under a new key.",
        services.retry_new_key,
        _retry_new_key,
        lambda capture: can_proceed(capture.retry),
        asks=("refresh",),
        alone=True,
    ),
    "void": Decision(
        "Void",
        "decide_capture",
        "It is given up.",
        services.void,
        _void,
        lambda capture: can_proceed(capture.void),
    ),
    "rerun_hook": Decision(
        "Run the hook again",
        "decide_capture",
        "The hook has run, and nothing is left of its error.",
        _rerun_hook,
        _rerun,
        lambda capture: bool(capture.hook_error),
    ),
}
