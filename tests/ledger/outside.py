"""The world outside the database: a book of what was really done, and effects that write in it.

What an effect does at its next call is put on `plan` by the test; once that is empty, it does what
it is for.
"""

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from idempotent_actions import NotSent, Park, Receipt, Reconcile, Refused, Replay, effect
from idempotent_actions.effects import Call

__all__ = [
    "BOOK",
    "SETTLE_TIME",
    "WINDOW",
    "Behaviour",
    "ask_first",
    "ask_later",
    "book",
    "charge",
    "declined",
    "done",
    "dropped_after",
    "dropped_before",
    "mail",
    "not_reached",
    "plan",
    "post",
    "probe",
    "raising",
    "returning",
    "send_twice_at_most",
]

Behaviour = Callable[[Call], Any]

BOOK = "LEDGER_TEST_BOOK"
"""The environment variable that names the book's file, for child processes as well."""

WINDOW = timedelta(hours=23)
SETTLE_TIME = timedelta(minutes=5)

plan: list[Behaviour] = []
"""What the next calls of an effect do, first one first."""


def book() -> list[dict[str, Any]]:
    """What was really done, in order: effect's key, provider's key, parameters."""
    path = Path(os.environ[BOOK])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def done(call: Call) -> Any:
    """Do it, and say so."""
    entry = {"key": call.key, "provider_key": call.idempotency_key, **call.params}
    _write(json.dumps(entry, default=str))
    return Receipt(provider_ref=f"ref-{len(book())}", result={"number": len(book())})


def declined(call: Call) -> Any:
    raise Refused("Your card was declined.", code="card_declined")


def not_reached(call: Call) -> Any:
    raise NotSent("connection refused")


def dropped_before(call: Call) -> Any:
    raise ConnectionError("it broke before anything was done, which nobody here knows")


def dropped_after(call: Call) -> Any:
    done(call)
    raise ConnectionError("it broke after the work")


def returning(value: Any) -> Behaviour:
    """Do it, and return `value`."""

    def behave(call: Call) -> Any:
        done(call)
        return value

    return behave


def raising(error: BaseException) -> Behaviour:
    """Do it, and raise `error`."""

    def behave(call: Call) -> Any:
        done(call)
        raise error

    return behave


def probe(call: Call) -> Receipt | None:
    """Look into the book, as one asks a provider."""
    found = [each for each in book() if each["provider_key"] == call.idempotency_key]
    return Receipt(provider_ref="found in the book") if found else None


def _act(call: Call) -> Any:
    return plan.pop(0)(call) if plan else done(call)


@effect(name="ledger.charge", recovery=Replay(window=WINDOW))
def charge(call: Call) -> Any:
    """A provider that takes idempotency keys, and forgets them."""
    return _act(call)


@effect(name="ledger.ask_first", recovery=Reconcile(probe, settle_time=SETTLE_TIME))
def ask_first(call: Call) -> Any:
    """A provider that can be asked."""
    return _act(call)


@effect(name="ledger.ask_later", recovery=Replay(WINDOW, then=Reconcile(probe, SETTLE_TIME)))
def ask_later(call: Call) -> Any:
    """A provider that takes keys, and can be asked once it has forgotten them."""
    return _act(call)


@effect(name="ledger.mail", recovery=Park())
def mail(call: Call) -> Any:
    """A provider that neither knows keys nor can be asked."""
    return _act(call)


@effect(name="ledger.send_twice_at_most", max_attempts=2)
def send_twice_at_most(call: Call) -> Any:
    """One that is given up after two tries."""
    return _act(call)


@effect(name="ledger.post", per="recipient")
def post(call: Call) -> Any:
    """One that an act calls once for each recipient."""
    return _act(call)


def _write(line: str) -> None:
    file = os.open(os.environ[BOOK], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{line}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
