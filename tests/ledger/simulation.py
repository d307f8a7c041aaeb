"""A simulated provider, and workers that send to it or die, for the ledger's state machine.

What the design assumes of them, and nothing else, is built in: a request arrives before the lease
of its worker, or the settle time after it, is over; a provider that takes keys knows one for longer
than the window that was declared; a person sends something again only where it was not done.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from idempotent_actions import NotSent, Park, Receipt, Reconcile, Refused, Replay, effect
from idempotent_actions.barrier import Claim
from idempotent_actions.effects import Call, Recovery

__all__ = [
    "KINDS",
    "LEASE",
    "SETTLE_TIME",
    "SLOWEST",
    "WINDOW",
    "Provider",
    "Worker",
    "say",
    "world",
]

LEASE = timedelta(minutes=1)
WINDOW = timedelta(hours=1)
SETTLE_TIME = timedelta(minutes=5)

SLOWEST = timedelta(minutes=10)
"""How old the view of a capture can be with which a worker comes to the barrier."""

MEMORY = WINDOW + SLOWEST + LEASE + SETTLE_TIME
"""How long the provider knows a key: declared is less, as a window must be."""


@dataclass
class Provider:
    """What was really done, by the provider's key; it replays a key that it remembers."""

    effects: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    answer: Callable[[Call], Any] = lambda call: None
    """What comes of a call: set by each step that runs an effect."""
    unwanted: list[Call] = field(default_factory=list)
    """Calls about a subject that had left the state which its act had led to."""

    def receive(self, kind: str, key: str, now: datetime) -> None:
        done = self.effects[key]
        remembers = kind.startswith("sim.replay") and done and now < done[0] + MEMORY
        if not remembers:
            done.append(now)

    def has_done(self, key: str) -> bool:
        return bool(self.effects[key])

    def clear(self) -> None:
        self.effects.clear()
        self.unwanted.clear()


world = Provider()


@dataclass(eq=False)
class Worker:
    """One that holds a claim. What it sends arrives by `until`, or never."""

    claim: Claim
    until: datetime
    sent: bool = False

    @property
    def key(self) -> str:
        return self.claim.capture.provider_key

    @property
    def kind(self) -> str:
        return self.claim.effect.name

    def send(self, now: datetime) -> None:
        world.receive(self.kind, self.key, now)
        self.sent = True


def say(answer: str) -> Receipt:
    """Return or raise what an effect does for this word of a rule."""
    if answer == "not sent":
        raise NotSent("connection refused")
    if answer == "refused":
        raise Refused("declined")
    if answer in ("dropped", "lost"):
        raise ConnectionError("nobody knows")
    return Receipt("done")


def _ask(call: Call) -> Receipt | None:
    return Receipt("found") if world.has_done(call.idempotency_key) else None


def _run(call: Call) -> Any:
    if call.subject is not None and call.subject.state != "sent":
        world.unwanted.append(call)
    return world.answer(call)


_ASK = Reconcile(_ask, settle_time=SETTLE_TIME)
_TIMEOUT = timedelta(seconds=30)

_POLICIES: dict[str, Recovery] = {
    "sim.park": Park(),
    "sim.reconcile": _ASK,
    "sim.replay": Replay(window=WINDOW),
    "sim.replay_then_ask": Replay(window=WINDOW, then=_ASK),
}

KINDS = {
    name: effect(name=name, recovery=recovery, timeout=_TIMEOUT, lease=LEASE)(_run)
    for name, recovery in _POLICIES.items()
}
