"""Threads on connections of their own, started at one barrier; what fails in one fails the test."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection, connections

__all__ = ["DEADLINE", "somebody_waits_for_me", "together"]

T = TypeVar("T")

DEADLINE = 30.0  # seconds


def together(*works: Callable[[], T]) -> list[T]:
    """Run each of `works` in a thread of its own; return what they return, in their order."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        try:
            barrier.wait(DEADLINE)
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
    return [future.result() for future in futures]


def somebody_waits_for_me() -> bool:
    """Tell whether another connection waits for a lock that this one's transaction holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )
        (count,) = cursor.fetchone() or (0,)
    return bool(count)
