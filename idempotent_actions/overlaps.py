"""``no_overlap``: a function that isn't run while it still runs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar
from uuid import uuid4

from idempotent_actions.deferring import check_storable, put_off
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.keys import check_key
from idempotent_actions.leases import check_lasting, take
from idempotent_actions.queued import Key, is_lazy, let_go, path_of, require_queue, short_name

__all__ = ["RETRY_PAUSE", "no_overlap"]

RETRY_PAUSE = timedelta(minutes=1)
"""Until a busy function is asked again. The sweep that hands out comes each minute."""

P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger("idempotent_actions")


def no_overlap(
    key: Key | Callable[..., Key] | None = None,
    *,
    lease: timedelta,
    shared: bool = False,
    when_busy: Literal["skip", "retry"] = "skip",
) -> Callable[[Callable[P, R]], Callable[P, R | dict[str, Any]]]:
    """Decorate a function so that it isn't called while another call of it is under way.

    ``key`` narrows it to calls with the same key: text, a sequence of parts, or a function of the
    call's arguments that returns one. ``shared``: all functions with that key keep each other off,
    not only this one. ``lease`` is for how long a call keeps others off: longer than it ever takes.
    It is let go at the call's end; a process that is killed keeps others off until the lease ends.

    ``when_busy``: with ``skip`` the call isn't made, and returns ``{"skipped": "busy", "lease":
    ...}``. With ``retry`` it returns the same with ``"again_at"``, and the queue makes it later,
    asking every ``RETRY_PAUSE`` until the way is free. A wait is no attempt: it counts towards no
    limit. That needs django-q2 and arguments that can be stored (text, numbers, dates, UUIDs, lists
    and mappings of them). Every skip is logged (``no_overlap.skipped``).

    A call that must be made takes ``retry``: ``skip`` also drops the queue's second try of a call
    whose worker was killed, while the dead one's lease lasts.

    Guaranteed: two calls whose leases haven't ended don't run at once, on any number of hosts that
    share the database. Not guaranteed: that a call which outlasts its lease runs alone (a warning
    is logged at its end), that each call is made (``skip``), in which order (``retry``), or that
    what is done is done once. It makes no operation idempotent: a call that is killed half-way has
    done half of its work, and the next does it again. What leaves the database and must not happen
    twice is an effect with a capture: ``services.request`` or ``services.perform``.

    Raises ``InvalidInput`` or ``InvalidKey`` for arguments that can't work. A call raises
    ``InsideTransaction`` inside a transaction; with ``retry`` also ``InvalidInput`` for arguments
    that can't be stored and ``InvalidSetting`` without django-q2, busy or not.
    """
    check_lasting(lease, "lease")
    if when_busy not in ("skip", "retry"):
        raise InvalidInput(f'when_busy is "skip" or "retry", not {when_busy!r}.')
    if shared and key is None:
        raise InvalidInput("shared needs a key: the name that the functions share.")
    if key is not None and not callable(key):
        check_key(key)

    def decorate(function: Callable[P, R]) -> Callable[P, R | dict[str, Any]]:
        if not callable(function) or is_lazy(function):
            raise InvalidInput(
                f"no_overlap takes plain functions, not {function!r}: a call of a coroutine or "
                f"generator function is over before its work begins."
            )
        where = "shared" if shared else f"{function.__module__}.{function.__qualname__}"
        rule = _Rule(where, key, lease, when_busy == "retry")

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | dict[str, Any]:
            name = rule.name(*args, **kwargs)
            stored = rule.stored(call, args, kwargs)
            held = take(name, lease)
            if held is None:
                return _skip(name, stored)
            try:
                return function(*args, **kwargs)
            finally:
                if not let_go(held):
                    _warn(name)

        return call

    return decorate


@dataclass(frozen=True, slots=True)
class _Rule:
    where: str
    key: Key | Callable[..., Key] | None
    lease: timedelta
    retries: bool

    def name(self, *args: Any, **kwargs: Any) -> str:
        if self.key is None:
            return short_name(f"no_overlap:{self.where}")
        key = self.key(*args, **kwargs) if callable(self.key) else self.key
        return short_name(f"no_overlap:{self.where}:{check_key(key)}")

    def stored(self, call: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """Return the call as a row stores it, where it may have to be put off."""
        if not self.retries:
            return None
        require_queue('no_overlap(when_busy="retry")')
        return {"function": path_of(call), "arguments": check_storable(args, kwargs)}


def _skip(name: str, stored: dict[str, Any] | None) -> dict[str, Any]:
    answer = {"skipped": "busy", "lease": name}
    if stored is not None:
        again_at = put_off(f"retry:{uuid4()}", **stored, wait=RETRY_PAUSE, max_wait=RETRY_PAUSE)
        answer["again_at"] = again_at.isoformat()
    told = {"action": "no_overlap.skipped", **answer}
    _logger.info("%s is busy", name, extra=told)
    return answer


def _warn(name: str) -> None:
    told = {"action": "no_overlap.overran", "lease": name}
    _logger.warning(
        "%s ran longer than its lease, another may have run beside it", name, extra=told
    )
