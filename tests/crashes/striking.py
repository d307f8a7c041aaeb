"""The four ways to crash: killed, an exception, a dropped connection, the answer of a commit lost.

Each strikes once, at a named point of a delivery.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from idempotent_actions import crashpoints
from idempotent_actions.models import Capture
from tests.crashes.table import LOST

__all__ = ["Crash", "at"]

Strike = Callable[[], object]

_ONE_STATEMENT = {"before_barrier_commit": "WITH new AS", "before_settle_commit": "WITH done AS"}
"""How a statement begins that is a commit in itself: no point lies before its commit."""


class Crash(Exception):
    """Something that nobody has foreseen."""


@contextmanager
def at(point: str, crash: str) -> Iterator[list[str]]:
    """Let `crash` strike at `point`, once; the list that it yields says when it has."""
    struck: list[str] = []
    with _losing(point, struck) if crash == LOST else _striking(point, _STRIKES[crash], struck):
        try:
            yield struck
        finally:
            crashpoints.install(None)


@contextmanager
def _striking(point: str, strike: Strike, struck: list[str]) -> Iterator[None]:
    def pass_by(name: str) -> None:
        if name == point and not struck:
            struck.append(name)
            strike()

    crashpoints.install(pass_by)
    yield


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise Crash


def _drop() -> None:
    """End this thread's own backend, from another connection; wait until it is gone."""
    own = connection.connection
    with psycopg.connect(os.environ["DATABASE_URL"]) as other:
        query = "SELECT pg_terminate_backend(%s, 30000)"
        assert other.execute(query, [own.info.backend_pid]).fetchone() == (True,)


_STRIKES: dict[str, Strike] = {"killed": _kill, "exception": _raise, "connection dropped": _drop}


@contextmanager
def _losing(point: str, struck: list[str]) -> Iterator[None]:
    """Lose the answer of the commit at `point`: it is committed, and the caller sees an error."""
    armed = False
    captures = Capture.objects.count()

    def pass_by(name: str) -> None:
        nonlocal armed
        armed = armed or (name == point and point != "after_intent")

    def commit(wrapper: BaseDatabaseWrapper) -> None:
        wanted = armed or (point == "after_intent" and _seen_by(wrapper) > captures)
        real_commit(wrapper)
        if wanted and not struck:
            lose()

    def execute(real: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        wanted = sql.startswith(_ONE_STATEMENT.get(point, "nothing")) and not struck
        wanted = wanted and not connection.in_atomic_block
        if wanted and point == "before_barrier_commit":
            wanted = _seen_by(connection) == captures  # else it finds the key, and claims nothing
        result = real(sql, params, many, context)
        if wanted:
            lose()
        return result

    def lose() -> None:
        struck.append(point)
        _drop()
        raise OperationalError("server closed the connection unexpectedly")

    crashpoints.install(pass_by)
    real_commit: Callable[[BaseDatabaseWrapper], None] = BaseDatabaseWrapper._commit  # type: ignore[attr-defined]
    setattr(BaseDatabaseWrapper, "_commit", commit)  # noqa: B010 - it is no public name
    try:
        with connection.execute_wrapper(execute):
            yield
    finally:
        setattr(BaseDatabaseWrapper, "_commit", real_commit)  # noqa: B010


def _seen_by(wrapper: Any) -> int:
    """How many captures its transaction sees, its own among them."""
    own: Any = wrapper.connection
    return int(own.execute("SELECT count(*) FROM idempotent_actions_capture").fetchone()[0])
