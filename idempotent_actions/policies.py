"""What an effect is told and says, and what follows when its outcome is unknown. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from idempotent_actions.exceptions import IdempotentActionsError, InvalidEffect

__all__ = [
    "MAX_EFFECT_NAME",
    "Call",
    "NotSent",
    "Park",
    "Receipt",
    "Reconcile",
    "Recovery",
    "Refused",
    "Replay",
]

MAX_EFFECT_NAME = 100
"""Characters of an effect's name: it is part of every key."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an effect, or the probe of ``Reconcile``, brings back of work that is done.

    ``provider_ref``: the provider's own name of it, at most 255 characters. ``result``: any JSON
    value; it is stored and given to every later caller of the same key.
    """

    provider_ref: str = ""
    result: Any = None


class NotSent(IdempotentActionsError):
    """The effect has definitely not happened, and is worth another try later.

    ``retry_after`` says when; without it the pause doubles from a minute to an hour.
    """

    def __init__(self, message: str | None = None, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Refused(IdempotentActionsError):
    """The effect has definitely not happened and won't: a declined card, an unknown address.

    ``code`` is the provider's short word for it ("card_declined").
    """

    def __init__(self, message: str | None = None, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Park:
    """Leave an unknown outcome to a person: it is never sent again by itself."""

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as it is copied into each capture."""
        return {"kind": "park"}


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Ask the provider: ``probe(call)`` returns a ``Receipt`` (done), None (absent), or raises.

    Absence counts only ``settle_time`` after the last attempt can have ended: before, a request may
    still be on its way. Absent means: sent again, with the same provider key.
    """

    probe: Callable[[Call], Receipt | None]
    settle_time: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if not callable(self.probe):
            raise InvalidEffect(f"Reconcile needs a function that asks, not {self.probe!r}.")
        if not isinstance(self.settle_time, timedelta) or self.settle_time < timedelta(0):
            raise InvalidEffect(f"settle_time is a timedelta, not {self.settle_time!r}.")

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as it is copied into each capture; the probe stays in the code."""
        return {"kind": "reconcile", "settle_time": self.settle_time.total_seconds()}


@dataclass(frozen=True, slots=True)
class Replay:
    """Send again with the same provider key, to a provider that answers a known key from memory.

    ``window``: how long after the first attempt the provider still remembers; Stripe promises 24
    hours (https://docs.stripe.com/api/idempotent_requests). Past it, ``then`` takes over.
    """

    window: timedelta = timedelta(hours=23)
    then: Reconcile | Park = field(default_factory=Park)

    def __post_init__(self) -> None:
        if not isinstance(self.window, timedelta) or self.window <= timedelta(0):
            raise InvalidEffect(f"window is a timedelta above zero, not {self.window!r}.")
        if not isinstance(self.then, Reconcile | Park):
            raise InvalidEffect(f"then is Reconcile(...) or Park(), not {self.then!r}.")

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as it is copied into each capture."""
        window = self.window.total_seconds()
        return {"kind": "replay", "window": window, "then": self.then.as_dict()}


Recovery = Park | Reconcile | Replay


@dataclass(frozen=True, slots=True)
class Call:
    """What an effect function is told. The same values at each attempt, but for ``attempt``."""

    params: dict[str, Any]
    """The frozen parameters, as they were when the act was committed."""
    idempotency_key: str
    """For the provider: opaque, 36 characters, the same at each attempt of this generation."""
    timeout: float
    """Seconds; hand it to the socket. The lease outlasts it."""
    key: str
    """The capture's own key, made of business facts."""
    subject: Any = None
    """The subject as it was at the barrier, or None."""
    attempt: int = 1
    """Counts from 1, anew for each generation."""
    first_sent_at: datetime | None = None
    """When the first attempt of this generation began."""
