"""What the benchmarks share: a test database of their own, legs in turn, medians, a table."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["medians", "rate", "server", "table", "test_database", "turns"]


@contextmanager
def test_database() -> Iterator[None]:
    """Let the block work on a test database that is dropped behind it."""
    from django.test.utils import setup_databases, teardown_databases

    databases: Any = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        teardown_databases(databases, verbosity=0)


def server() -> dict[str, str]:
    """Return the server's version and what decides how much a commit costs."""
    from django.db import connection

    names = ["server_version", "fsync", "synchronous_commit"]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}")
        return dict(zip(names, cursor.fetchone(), strict=True))


def turns(legs: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield each leg once a round, and another one first each time."""
    for number in range(rounds):
        first = number % len(legs)
        for leg in [*legs[first:], *legs[:first]]:
            yield number, leg


def rate(work: Callable[[], object], count: int) -> float:
    """Return how many of ``count`` pieces of ``work`` are done in a second."""
    gc.collect()  # of what the leg before has left
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def medians(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the median rate of each leg."""
    return {leg: round(statistics.median(rates), 1) for leg, rates in samples.items()}


def table(rows: Sequence[Sequence[object]]) -> str:
    """Return ``rows``, the first of which is the head, as text in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in cells]  # fmt: skip
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
