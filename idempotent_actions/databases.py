"""What this app asks of a database connection: which error passes, and what is undone."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections

__all__ = [
    "inside_transaction",
    "is_lock_timeout",
    "is_transient",
    "is_unique_violation",
    "lazy_savepoint",
    "reconnect_if_lost",
    "repeating_cursor",
    "retry_transient",
    "wait_briefly",
]

T = TypeVar("T")

# PostgreSQL: serialization failure, deadlock. MariaDB and MySQL: deadlock, lock wait timeout.
# SQLite: SQLITE_BUSY. In each the transaction is gone and may be run again from its start.
_TRANSIENT_SQLSTATES = {"40001", "40P01"}
_TRANSIENT_MYSQL_CODES = {1213, 1205}
_SQLITE_BUSY = 5

_UNIQUE_SQLSTATE = "23505"
_UNIQUE_MYSQL_CODE = 1062
_UNIQUE_SQLITE_CODES = {2067, 1555}  # SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_PRIMARYKEY

_LOCK_TIMEOUT_SQLSTATE = "55P03"

_BRIEF_WAIT = 2000
"""Milliseconds. A batch, a barrier or a settle holds a subject for some 30; a host that holds it
for longer than this is not waited for."""

_LONGEST_PAUSE = 0.5
"""Seconds. Enough to let the other side of a deadlock commit; a batch takes some 30 ms."""


def inside_transaction(using: str = DEFAULT_DB_ALIAS) -> bool:
    """Tell whether the caller holds a transaction open on the alias ``using``.

    Judged as Django's ``atomic(durable=True)`` does: the block that a TestCase or pytest-django's
    ``db`` fixture opens doesn't count.
    """
    connection = connections[using]
    blocks: list[Any] = connection.atomic_blocks
    if blocks:
        return not blocks[-1]._from_testcase
    # set_autocommit(False): the first statement opens a transaction that Django doesn't manage.
    return connection.connection is not None and not connection.autocommit


def repeating_cursor(connection: Any) -> Any:
    """Return a cursor for statements that are sent again and again in the same words.

    PostgreSQL then plans each once in a connection, if the host lets statements be prepared
    (``OPTIONS = {"prepare_threshold": 5}``). Django's default doesn't, for the sake of poolers, and
    neither do cursors that put the parameters into the text. Elsewhere it is an ordinary cursor.
    """
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    if getattr(connection.connection, "prepare_threshold", None) is None:
        return connection.cursor()
    from psycopg import Cursor  # not needed, and maybe not loadable, on other databases

    make = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    return make(Cursor(connection.connection))


def is_transient(error: BaseException) -> bool:
    """Tell whether running the same transaction again may succeed (deadlock, serialization)."""
    cause = error.__cause__
    if not isinstance(error, DatabaseError) or cause is None:
        return False
    if getattr(cause, "sqlstate", None) in _TRANSIENT_SQLSTATES:
        return True
    if getattr(cause, "sqlite_errorcode", None) == _SQLITE_BUSY:
        return True
    return bool(cause.args) and cause.args[0] in _TRANSIENT_MYSQL_CODES


def retry_transient(work: Callable[[], T], *, using: str, tries: int) -> T:
    """Run ``work``, a whole transaction on the alias ``using``, at most ``tries`` times.

    Runs again after a deadlock or serialization failure only, with a jittered pause, and never
    inside a caller's transaction: what the caller did before would be lost. Returns what ``work``
    returns; raises its last error.
    """
    attempts = 1 if inside_transaction(using) else tries
    for attempt in range(1, attempts + 1):
        try:
            return work()
        except DatabaseError as error:
            if attempt == attempts or not is_transient(error):
                raise
            ceiling = min(_LONGEST_PAUSE, 0.01 * 2**attempt)
            time.sleep(random.uniform(0, ceiling))  # noqa: S311 - jitter, not a secret
    raise AssertionError("unreachable: the last attempt returns or raises")


class Traces:
    """What a block has left in the transaction: SQL it ran, or hooks for after the commit.

    ``sent`` says at once that a statement was sent, ``left`` in the end what there is to undo.
    """

    sent = False
    left = False


@contextmanager
def lazy_savepoint(using: str) -> Iterator[Traces]:
    """Undo the database work of the block alone when it raises, inside an open transaction.

    The savepoint is set just before the block's first SQL statement. Most transitions run none,
    and for them this costs nothing, where ``atomic()`` costs two round trips for each row. The
    object it yields tells afterwards whether anything was left that only a rollback can undo.
    """
    connection = connections[using]
    traces = Traces()
    hooks = len(connection.run_on_commit)
    savepoint: str | None = None
    opening = False

    def before_first_statement(
        execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        nonlocal savepoint, opening
        if not opening:
            opening = True  # first: setting the savepoint comes through here again
            traces.sent = True
            savepoint = connection.savepoint()
        return execute(sql, params, many, context)

    try:
        with connection.execute_wrapper(before_first_statement):
            yield traces
        traces.left = savepoint is not None or len(connection.run_on_commit) > hooks
        if savepoint is not None:
            # Fails where the block has swallowed a database error: the row is at fault as well.
            connection.savepoint_commit(savepoint)
    except Exception:
        # A nested atomic(savepoint=False) that failed, like that of any save(), condemns the whole
        # transaction, and Django then sends no statement, not even this one. What it did is undone
        # now. Hooks registered by the block must not outlive it either.
        connection.set_rollback(False)
        if savepoint is not None:
            connection.savepoint_rollback(savepoint)
        del connection.run_on_commit[hooks:]
        raise


def is_unique_violation(error: BaseException) -> bool:
    """Tell whether ``error`` says that a row with the same unique value is there already."""
    cause = error.__cause__
    if not isinstance(error, DatabaseError) or cause is None:
        return False
    if getattr(cause, "sqlstate", None) == _UNIQUE_SQLSTATE:
        return True
    if getattr(cause, "sqlite_errorcode", None) in _UNIQUE_SQLITE_CODES:
        return True
    return bool(cause.args) and cause.args[0] == _UNIQUE_MYSQL_CODE


def is_lock_timeout(error: BaseException) -> bool:
    """Tell whether ``error`` says that a lock wasn't had in the time set by ``wait_briefly``."""
    return getattr(error.__cause__, "sqlstate", None) == _LOCK_TIMEOUT_SQLSTATE


def wait_briefly(using: str) -> bool:
    """Let locks of this transaction be waited for, but not for long; False: not possible here."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{_BRIEF_WAIT} ms'")
    return True


def reconnect_if_lost(using: str) -> None:
    """Close a connection that an error has made unusable: the next statement opens a new one."""
    connection = connections[using]
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
