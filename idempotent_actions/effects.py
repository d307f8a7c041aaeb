"""Effects: what is done outside this database, and what follows an unknown outcome. Pure.

An effect function gets one argument, a ``Call``. It returns a ``Receipt``, any JSON value or
nothing when it is done; it raises ``NotSent`` or ``Refused`` when it is *certain* that nothing has
happened.
Every other error means that nobody knows, and the effect's recovery policy takes over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, overload

from idempotent_actions.exceptions import InvalidEffect
from idempotent_actions.policies import (
    MAX_EFFECT_NAME,
    Call,
    NotSent,
    Park,
    Receipt,
    Reconcile,
    Recovery,
    Refused,
    Replay,
)

__all__ = [
    "LEASE_MARGIN",
    "Call",
    "Effect",
    "Intent",
    "NotSent",
    "Park",
    "Receipt",
    "Reconcile",
    "Recovery",
    "Refused",
    "Replay",
    "all_effects",
    "effect",
    "find_effect",
]

LEASE_MARGIN = timedelta(seconds=30)
"""What a lease lasts beyond the effect's timeout: time to write down what came of it."""


_PARK = Park()


@dataclass(frozen=True, slots=True)
class Intent:
    """An effect with its parameters: what ``Action.effects`` yields. Nothing has happened yet."""

    effect: Effect
    params: dict[str, Any]

    @property
    def key_parts(self) -> tuple[Any, ...]:
        """What tells this intent from the others of the same act."""
        if not self.effect.per:
            return (self.effect.name,)
        if self.effect.per not in self.params:
            raise InvalidEffect(
                f"{self.effect.name} is told apart per {self.effect.per!r}, which is not among its "
                f"parameters: {', '.join(sorted(self.params)) or 'none'}."
            )
        return self.effect.name, self.params[self.effect.per]


@dataclass(frozen=True, eq=False)
class Effect:
    """A registered effect. Calling it makes an ``Intent``; only delivery runs the function."""

    name: str
    function: Callable[[Call], Any]
    recovery: Recovery
    timeout: timedelta
    lease: timedelta
    per: str
    on_failed: Literal["wait", "proceed"]
    max_attempts: int | None
    secret: tuple[str, ...]

    def __call__(self, **params: Any) -> Intent:
        """Return an intent with these parameters, which must be storable as JSON."""
        return Intent(self, params)

    def __repr__(self) -> str:
        return f"<effect {self.name}>"

    @property
    def policy(self) -> dict[str, Any]:
        """What is copied into each capture, so that a deploy doesn't change what was promised."""
        return {
            "recovery": self.recovery.as_dict(),
            "on_failed": self.on_failed,
            "max_attempts": self.max_attempts,
        }

    @property
    def probe(self) -> Callable[[Call], Receipt | None] | None:
        """The question to the provider, where the policy has one."""
        policy = self.recovery.then if isinstance(self.recovery, Replay) else self.recovery
        return policy.probe if isinstance(policy, Reconcile) else None


_effects: dict[str, Effect] = {}


@overload
def effect(function: Callable[[Call], Any], /) -> Effect: ...


@overload
def effect(
    *,
    name: str = "",
    recovery: Recovery = _PARK,
    timeout: timedelta = timedelta(seconds=30),
    lease: timedelta | None = None,
    per: str = "",
    on_failed: Literal["wait", "proceed"] = "wait",
    max_attempts: int | None = None,
    secret: Sequence[str] = (),
) -> Callable[[Callable[[Call], Any]], Effect]: ...


def effect(
    function: Callable[[Call], Any] | None = None,
    /,
    *,
    name: str = "",
    recovery: Recovery = _PARK,
    timeout: timedelta = timedelta(seconds=30),
    lease: timedelta | None = None,
    per: str = "",
    on_failed: Literal["wait", "proceed"] = "wait",
    max_attempts: int | None = None,
    secret: Sequence[str] = (),
) -> Any:
    """Declare a function as an effect, to be delivered at most once per key.

    ``name`` is stored with each capture and is the function's own unless given. ``recovery`` says
    what to do about an unknown outcome. ``timeout`` is handed to the function and sizes the lease,
    which is the timeout and ``LEASE_MARGIN`` unless given. ``per`` names a parameter that joins the
    key, so that one act may call the effect once for each value of it. ``on_failed`` says whether a
    ladder waits for a person after a refusal, or proceeds. ``max_attempts`` bounds the tries after
    ``NotSent``; None: no bound. ``secret`` names parameters that are never shown.

    Raises ``InvalidEffect`` for values that can't work, or a name that another function has.
    """

    def declare(function: Callable[[Call], Any]) -> Effect:
        declared = Effect(
            name or function.__name__,
            function,
            recovery,
            timeout,
            _lease(timeout) if lease is None else lease,
            per,
            on_failed,
            max_attempts,
            _names(secret),
        )
        _check(declared)
        _effects[declared.name] = declared
        return declared

    return declare if function is None else declare(function)


def find_effect(name: str) -> Effect | None:
    """Return the effect called ``name``, or None when the code no longer declares it."""
    return _effects.get(name)


def all_effects() -> Iterator[Effect]:
    """Yield every declared effect."""
    yield from _effects.values()


def _check(new: Effect) -> None:
    if not new.name.strip() or len(new.name) > MAX_EFFECT_NAME:
        raise InvalidEffect(f"An effect's name has 1 to {MAX_EFFECT_NAME} characters: {new.name!r}")
    _check_function(new.name, new.function)
    if not isinstance(new.recovery, Recovery):
        raise InvalidEffect(
            f"{new.name}: recovery is Replay(...), Reconcile(...) or Park(), not {new.recovery!r}."
        )
    for what in ("timeout", "lease"):
        value = getattr(new, what)
        if not isinstance(value, timedelta) or value <= timedelta(0):
            raise InvalidEffect(f"{new.name}: {what} is a timedelta above zero, not {value!r}.")
    if new.on_failed not in ("wait", "proceed"):
        raise InvalidEffect(f'{new.name}: on_failed is "wait" or "proceed", not {new.on_failed!r}.')
    if not isinstance(new.per, str) or new.per in new.secret:
        raise InvalidEffect(
            f"{new.name}: per names one parameter, which is no secret: it joins the key."
        )
    most = new.max_attempts
    if most is not None and (not isinstance(most, int) or most < 1):
        raise InvalidEffect(f"{new.name}: max_attempts is at least 1, or None for no bound.")
    other = _effects.get(new.name)
    if other is not None and _origin(other.function) != _origin(new.function):
        raise InvalidEffect(
            f"Two effects are called {new.name!r}: {_origin(other.function)} and "
            f"{_origin(new.function)}. Give one of them a name=."
        )


def _check_function(name: str, function: Callable[[Call], Any]) -> None:
    strange = (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )
    if strange:
        raise InvalidEffect(
            f"{name} is a coroutine or generator function: calling it would do nothing. Make it a "
            f"plain function."
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise InvalidEffect(f"{name} must take one argument, the Call.") from None


def _lease(timeout: timedelta) -> timedelta:
    if not isinstance(timeout, timedelta):
        raise InvalidEffect(f"timeout is a timedelta, not {timeout!r}.")
    return timeout + LEASE_MARGIN


def _names(secret: Sequence[str]) -> tuple[str, ...]:
    if isinstance(secret, str):
        raise InvalidEffect(f"secret is a list of names, like [{secret!r}].")
    return tuple(secret)


def _origin(function: Callable[[Call], Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
