"""Doing something at the one moment that counts, on another connection."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, TypeVar

from django.db import connection, models, transaction

from tests.contention.threads import Background

__all__ = ["before_inserting", "before_locking", "elsewhere", "under_way"]

T = TypeVar("T")

PATIENCE = 30  # seconds


def elsewhere(work: Callable[[], T]) -> T:
    """Run ``work`` on another connection, wait for it, and return what it returns."""
    with Background(1) as background:
        return background.run(work).result(PATIENCE)


@contextmanager
def under_way(work: Callable[[], object]) -> Iterator[None]:
    """Let ``work`` be done elsewhere, in a transaction that commits when the block ends."""
    done, go_on = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            work()
            done.set()
            assert go_on.wait(PATIENCE)

    with Background(1) as background:
        holding = background.run(hold)
        try:
            assert done.wait(PATIENCE)
            yield
        finally:
            go_on.set()
            holding.result(PATIENCE)


@contextmanager
def before_locking(
    model: type[models.Model], do: Callable[[], object], nth: int = 1
) -> Iterator[None]:
    """Run ``do`` elsewhere just before this connection locks rows of ``model`` the nth time.

    By then the candidates have been read. Raises ``AssertionError`` if the moment never came.
    """
    locks = rf".* FROM {_table(model)} .* FOR NO KEY UPDATE( SKIP LOCKED)?"
    with _before(locks, do, nth):
        yield


@contextmanager
def before_inserting(model: type[models.Model], do: Callable[[], object]) -> Iterator[None]:
    """Run ``do`` elsewhere just before this connection first inserts rows of ``model``."""
    with _before(rf"INSERT INTO {_table(model)} .*", do, nth=1):
        yield


@contextmanager
def _before(statement: str, do: Callable[[], object], nth: int) -> Iterator[None]:
    seen = 0

    def interpose(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        nonlocal seen
        if re.fullmatch(statement, sql, re.DOTALL):
            seen += 1
            if seen == nth:
                elsewhere(do)
        return execute(sql, *rest)

    with connection.execute_wrapper(interpose):
        yield
    assert seen >= nth, f"{statement} came {seen} times, not {nth} times or more"


def _table(model: type[models.Model]) -> str:
    return re.escape(connection.ops.quote_name(model._meta.db_table))
