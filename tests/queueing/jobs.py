"""Functions for the queue. They note how they were called, and do what a test has planned."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction

from idempotent_actions import effect, overlaps

__all__ = [
    "MINUTE",
    "alone",
    "alone_by_key",
    "called",
    "eventually",
    "fail",
    "job",
    "lazy",
    "notify",
    "other",
    "plan",
    "roll_back",
    "shared_one",
    "shared_two",
    "strict",
]

MINUTE = timedelta(minutes=1)

called: list[Any] = []
"""The arguments of each call, in order."""

plan: list[Callable[[], Any]] = []
"""What the next calls do and return, one each; nothing more than noting by default."""


def job(*args: Any, **kwargs: Any) -> Any:
    """Take anything."""
    called.append((*args, kwargs) if kwargs else args)
    return plan.pop(0)() if plan else None


def fail() -> None:
    """Raise an error of its own."""
    raise ZeroDivisionError("no")


def roll_back(work: Callable[[], None]) -> None:
    """Do the work in a transaction, and undo it."""
    with suppress(ZeroDivisionError), transaction.atomic():
        work()
        fail()


def other(*args: Any) -> Any:
    """Be another function than `job`."""
    return job("other", *args)


def strict(number: int) -> None:
    """Take one argument."""
    job(number)


async def lazy() -> None:
    """Do nothing when called."""


@effect
def notify(call: Any) -> None:
    """Be an effect."""


@overlaps.no_overlap(lease=MINUTE)
def alone(*args: Any) -> Any:
    """Skip while busy."""
    return job(*args)


@overlaps.no_overlap(lambda number, **_: ("order", number), lease=MINUTE)
def alone_by_key(number: int, **_: Any) -> Any:
    """Skip while busy with the same number."""
    return job(number)


@overlaps.no_overlap(lease=MINUTE, when_busy="retry")
def eventually(*args: Any) -> Any:
    """Try again while busy."""
    return job(*args)


@overlaps.no_overlap("ledger", shared=True, lease=MINUTE)
def shared_one() -> Any:
    """Keep `shared_two` off."""
    return job("one")


@overlaps.no_overlap("ledger", shared=True, lease=MINUTE)
def shared_two() -> Any:
    """Keep `shared_one` off."""
    return job("two")
