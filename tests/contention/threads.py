"""Threads that start at one barrier; what fails in one of them fails the test."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from django.db import connection, connections

from tests.waiting import until

__all__ = ["Background", "race", "until_a_backend_waits_for_a_lock"]

T = TypeVar("T")

DEADLINE = 60  # seconds


def race(works: Sequence[Callable[[], T]]) -> list[T]:
    """Run all ``works`` in threads of their own from one barrier on; return their results."""
    barrier = threading.Barrier(len(works), timeout=DEADLINE)

    def run(work: Callable[[], T]) -> T:
        barrier.wait()
        return work()

    with Background(len(works)) as background:
        futures = [background.run(partial(run, work)) for work in works]
        return [future.result(DEADLINE) for future in futures]


class Background:
    """A pool of threads that close their database connections behind each piece of work."""

    def __init__(self, size: int = 2) -> None:
        self._pool = ThreadPoolExecutor(size)

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._pool.shutdown(wait=True)

    def run(self, work: Callable[[], T]) -> "Future[T]":
        """Start ``work`` in a thread; ask the future for its result or its error."""

        def closing() -> T:
            try:
                return work()
            finally:
                connections.close_all()

        return self._pool.submit(closing)


def until_a_backend_waits_for_a_lock() -> None:
    """Return once another connection waits for a lock that this thread's connection holds.

    pg_locks, not pg_stat_activity: a transaction sees the latter as it first looked at it.
    """

    def look() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks"
                " WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            )
            return bool(cursor.fetchone()[0])

    until(look, "a blocked backend")
