"""Threads on connections of their own, started at one barrier; what fails in one fails the test."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Barrier, Thread
from typing import TypeVar

from django.db import connection, connections

__all__ = ["DEADLINE", "somebody_waits_for_me", "together"]

T = TypeVar("T")

DEADLINE = 30.0  # seconds


def together(*works: Callable[[], T]) -> list[T]:
    """Run each of `works` in a thread of its own; return what they return, in their order."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], T], future: Future[T]) -> None:
        try:
            barrier.wait(DEADLINE)
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        finally:
            connections.close_all()

    futures: list[Future[T]] = [Future() for _ in works]
    # Daemons, not an executor's threads: one that hangs fails the test, and holds up nothing else.
    threads = [
        Thread(target=run, args=pair, daemon=True) for pair in zip(works, futures, strict=True)
    ]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + 2 * DEADLINE
    for thread in threads:
        thread.join(max(0.0, give_up_at - time.monotonic()))
    return [future.result(timeout=0) for future in futures]


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
