"""A provider outside the database: it keeps its own books in an SQLite file and survives any kill.

It counts each call, and what it really did for each key.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

__all__ = ["BOOKS", "act", "ask", "calls", "done"]

BOOKS = "CRASH_TEST_PROVIDER"
"""The environment variable that names the file, for child processes as well."""

_PATIENCE = 60  # seconds that one process waits for another's write


def act(key: str, *, knows_keys: bool) -> str:
    """Do it, and return a reference. One that knows keys does it once a key, like Stripe."""
    with _books() as books:
        books.execute("INSERT INTO calls VALUES (?)", [key])
        before = books.execute("SELECT rowid FROM done WHERE key = ?", [key]).fetchone()
        if knows_keys and before is not None:
            return f"ref-{before[0]}"
        row = books.execute("INSERT INTO done VALUES (?) RETURNING rowid", [key]).fetchone()
    return f"ref-{row[0]}"


def ask(key: str) -> str | None:
    """Return the reference of what was done for `key`, or None."""
    with _books() as books:
        row = books.execute("SELECT rowid FROM done WHERE key = ?", [key]).fetchone()
    return None if row is None else f"ref-{row[0]}"


def calls() -> Counter[str]:
    """How often each key was called with."""
    return _count("SELECT key FROM calls")


def done() -> Counter[str]:
    """How often it was really done, by key."""
    return _count("SELECT key FROM done")


def _count(query: str) -> Counter[str]:
    with _books() as books:
        return Counter(key for (key,) in books.execute(query))


@contextmanager
def _books() -> Iterator[sqlite3.Connection]:
    """One transaction, committed when the block ends well."""
    books = sqlite3.connect(os.environ[BOOKS], timeout=_PATIENCE, isolation_level=None)
    with closing(books):
        books.execute("PRAGMA synchronous = OFF")  # processes are killed here, not the machine
        books.execute("BEGIN IMMEDIATE")
        books.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT)")
        books.execute("CREATE TABLE IF NOT EXISTS done (key TEXT)")
        yield books
        books.execute("COMMIT")
