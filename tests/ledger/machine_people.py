"""The ledger's state machine, second half: what people decide, correct and prune."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from idempotent_actions import services
from idempotent_actions.asking import Outcome
from idempotent_actions.models import Capture, CaptureDecision
from tests.ledger.machine_workers import WorkerRules, which
from tests.oddities.models import Parcel

__all__ = ["PeopleRules"]

REASON: dict[str, Any] = {"note": "because", "by": "clerk"}

_DECISIONS: dict[str, Callable[..., Outcome]] = {
    "mark_succeeded": partial(services.mark_succeeded, provider_ref="looked up"),
    "mark_failed": services.mark_failed,
    "retry_same_key": services.retry_same_key,
    "retry_new_key": services.retry_new_key,
    "refresh": services.retry_new_key,
    "void": services.void,
}

decisions = st.sampled_from(sorted(_DECISIONS))
ages = st.sampled_from([timedelta(minutes=1), timedelta(hours=1)])


class PeopleRules(WorkerRules):
    """A person decides about a capture as it is, or as it was when its page was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[Capture] = []
        self.newest: dict[int, CaptureDecision] = {}

    @rule(number=which)
    def open_page(self, number: int) -> None:
        if capture := self.one_of(number):
            self.pages.append(capture)

    @rule(number=which, decision=decisions)
    def decide(self, number: int, decision: str) -> None:
        if capture := self.one_of(number, state__in=["pending", "unknown", "review", "failed"]):
            self._decide(capture, decision)

    @precondition(lambda self: self.pages)
    @rule(number=which, decision=decisions)
    def decide_late(self, number: int, decision: str) -> None:
        self._decide(self.pages.pop(number % len(self.pages)), decision)

    @rule(number=which, address=st.sampled_from(["a", "b"]))
    def correct_the_address(self, number: int, address: str) -> None:
        if capture := self.one_of(number, action="sim_dispatch"):
            kind = capture.effect
            Parcel.objects.filter(pk=capture.subject_pk).update(name=f"{kind} {address}")

    @rule(number=which)
    def call_back(self, number: int) -> None:
        """The subject leaves the state that its act led to: the effect is no longer wanted."""
        if capture := self.one_of(number, action="sim_dispatch"):
            Parcel.objects.filter(pk=capture.subject_pk).update(state="waiting", trip=2)

    @rule(age=ages)
    def prune(self, age: timedelta) -> None:
        services.prune_captures(age)

    def everybody_is_late(self) -> None:
        """A person gives up waiting for a worker, which comes back just then."""
        waited_for = [worker.claim.capture.pk for worker in self.workers]
        for capture in Capture.objects.filter(pk__in=waited_for, state__in=["review", "failed"]):
            self._decide(capture, "retry_new_key")
        super().everybody_is_late()

    def _decide(self, seen: Capture, decision: str) -> None:
        if decision == "retry_same_key" and self.may_be_done(seen.provider_key):
            return  # an honest person has looked
        refresh = decision == "refresh" and bool(seen.action)
        if refresh:
            outcome = services.retry_new_key(seen, refresh=True, **REASON)
        else:
            outcome = _DECISIONS[decision](seen, **REASON)
        written = CaptureDecision.objects.filter(capture=seen.pk).order_by("-id").first()
        assert (written != self.newest.get(seen.pk)) == bool(outcome)
        if written is None or not outcome:
            return
        self.newest[seen.pk] = written
        self.decided.add(seen.pk)
        self.ever_decided.add(seen.pk)
        if refresh:
            self.refreshed.add(seen.pk)
        assert (written.from_state, written.token) == (seen.state, seen.token)
