"""Waiting for what another process does, without guessing how long it takes."""

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["until"]

T = TypeVar("T")

PAUSE = 0.005  # seconds between two looks


def until(look: Callable[[], T | None], what: str, deadline: float = 30) -> T:
    """Look again and again until there is something to see, and return it.

    Args:
        look: returns something true when the wait is over.
        what: the thing waited for, for the error message.
        deadline: seconds after which the wait has failed.

    Raises:
        AssertionError: it did not come about in time.
    """
    give_up_at = time.monotonic() + deadline
    while not (seen := look()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"waited {deadline} s in vain for {what}")
        time.sleep(PAUSE)
    return seen
