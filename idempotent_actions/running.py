"""Running an effect's function, outside every transaction, and saying what came of it."""

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import DatabaseError, connections

from idempotent_actions.databases import inside_transaction
from idempotent_actions.effects import Call, Effect, NotSent, Receipt, Refused
from idempotent_actions.exceptions import InsideTransaction
from idempotent_actions.models.capture import Capture
from idempotent_actions.parameters import is_shallow, thaw

__all__ = [
    "HIDDEN",
    "Verdict",
    "as_repr",
    "call_of",
    "describe",
    "inside_any_transaction",
    "receipt_of",
    "refuse_inside_transaction",
    "run_effect",
    "worker",
]

HIDDEN = "•••"
"""Stands for the value of a parameter that an effect declares secret."""

_LONGEST = 1000
"""Characters of an error's message that are kept."""

_LONGEST_REF = 255

_LONGEST_PAUSE = timedelta(days=365)
"""That a provider may ask for: longer than that, and the sum leaves the calendar."""

_to_json = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a worker knows after an effect.

    ``outcome`` is ``succeeded``, ``not_sent``, ``refused`` or ``unknown``. ``interrupt`` is what
    ended the effect from outside (SystemExit, KeyboardInterrupt), to be raised again once the
    verdict is written down.
    """

    outcome: str
    receipt: Receipt = field(default_factory=Receipt)
    is_repr: bool = False
    error: dict[str, str] | None = None
    retry_after: timedelta | None = None
    interrupt: BaseException | None = None


def refuse_inside_transaction() -> None:
    """Raise ``InsideTransaction`` if the caller holds one open, on any database."""
    if inside_any_transaction():
        raise InsideTransaction


def inside_any_transaction() -> bool:
    """Tell whether the caller holds a transaction open, on any database."""
    opened = connections.all(initialized_only=True)
    return any(inside_transaction(connection.alias) for connection in opened)


def run_effect(effect: Effect, call: Call) -> Verdict:
    """Run the effect and translate what it returns or raises. Raises nothing.

    Only ``NotSent`` and ``Refused`` say that nothing has happened. Everything else, a refused
    connection included, may have come after half of the work.
    """
    secrets = [call.params[name] for name in effect.secret if name in call.params]
    try:
        result = effect.function(call)
    except NotSent as error:
        told = describe(error, secrets)
        return Verdict("not_sent", error=told, retry_after=_pause(error.retry_after))
    except Refused as error:
        return Verdict("refused", error=describe(error, secrets))
    except Exception as error:
        return Verdict("unknown", error=describe(error, secrets))
    except BaseException as error:
        return Verdict("unknown", error=describe(error, secrets), interrupt=error)
    return receipt_of(result)


def receipt_of(result: Any) -> Verdict:
    """Return the verdict of an effect that is done, whatever it returned.

    A result that can't be stored doesn't undo the effect: its ``repr`` is kept instead.
    """
    receipt = result if isinstance(result, Receipt) else Receipt(result=result)
    ref = _text(receipt.provider_ref or "", _LONGEST_REF)
    try:
        return Verdict("succeeded", Receipt(ref, _as_json(receipt.result)))
    except Exception:  # whatever it is that a strange object raises
        return as_repr(Verdict("succeeded", Receipt(ref, receipt.result)))


def as_repr(verdict: Verdict) -> Verdict:
    """Return ``verdict`` with the ``repr`` of its result instead of the result."""
    result = _text(verdict.receipt.result, 10 * _LONGEST)
    return replace(verdict, receipt=replace(verdict.receipt, result=result), is_repr=True)


def call_of(capture: Capture, effect: Effect, subject: Any) -> Call:
    """Return what the effect, or its probe, is told of ``capture``."""
    return Call(
        params=thaw(capture.params),
        idempotency_key=capture.provider_key,
        timeout=effect.timeout.total_seconds(),
        key=capture.key,
        subject=subject,
        attempt=capture.attempts,
        first_sent_at=capture.first_sent_at,
    )


def describe(error: BaseException, secrets: Sequence[Any] = ()) -> dict[str, str]:
    """Return an error as class, code and message: never pickled, without its traceback.

    Providers quote what they were sent: what is among ``secrets`` is blotted out.
    """
    message = _text(error, 10 * _LONGEST)
    if isinstance(error, DatabaseError):
        message = message.partition("\n")[0]  # the lines behind it quote the row
    for secret in secrets:
        if text := str(secret or ""):
            message = message.replace(text, HIDDEN)
    try:
        code = getattr(error, "code", "")
    except Exception:  # a property of the host's
        code = ""
    return {
        "class": type(error).__name__,
        "code": _text(code, 100) if isinstance(code, str) else "",
        "message": message[:_LONGEST],
    }


def worker() -> str:
    """Name this process, for the record of an attempt."""
    return f"{_host()}:{os.getpid()}"


@cache
def _host() -> str:
    return socket.gethostname()[:80]


def _pause(value: Any) -> timedelta | None:
    """Return a pause to reckon with, or None: what an effect knows isn't lost by a wrong unit."""
    if not isinstance(value, timedelta) or value <= timedelta(0):
        return None
    return min(value, _LONGEST_PAUSE)


def _as_json(value: Any) -> Any:
    """Return ``value`` as it will be read back (a tuple is a list); raise if it can't be stored."""
    if not is_shallow(value):
        raise ValueError("nested too deeply")
    text = _to_json(value)
    text.encode()  # fails for a lone surrogate
    if "\\u0000" in text:
        raise ValueError("a NUL")
    return json.loads(text)


def _text(value: Any, longest: int) -> str:
    """Return ``value`` as text that every database takes, and never raise."""
    try:
        text = str(value) if isinstance(value, str | BaseException) else repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    text = text.replace("\0", "\ufffd")[:longest]
    return text.encode(errors="replace").decode()
