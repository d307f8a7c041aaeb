"""The world outside: a file that counts what was really done, and can be told to misbehave.

Each deed is committed to an SQLite file of its own before its answer is given: neither a rollback
nor a killed process undoes it. The file's name stands in the environment, so that child processes
find it. How the world behaves towards somebody ("down", "declined", ...) stands in the file too.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from idempotent_actions import NotSent, Receipt, Refused
from tests.waiting import until

__all__ = [
    "Declined",
    "Deed",
    "Down",
    "behave",
    "called",
    "deeds",
    "do",
    "find",
    "is_at_work",
    "opened",
    "reached",
]

T = TypeVar("T")

FILE = "OUTSIDE_OF_TESTS"
"""The environment variable that says where the file is."""

_TABLES = """
CREATE TABLE deed (id INTEGER PRIMARY KEY, kind TEXT, who TEXT, key TEXT, details TEXT);
CREATE TABLE call (id INTEGER PRIMARY KEY, kind TEXT, who TEXT, key TEXT, at_work INTEGER);
CREATE TABLE behaviour (kind TEXT, who TEXT, how TEXT, PRIMARY KEY (kind, who));
"""


class Down(Exception):
    """Nobody answers the door: nothing was asked, so nothing was done."""


class Declined(Exception):
    """The answer is no, and will be tomorrow. Its message is the provider's short word for why."""


@dataclass(frozen=True)
class Deed:
    """What was really done: a mail that went out, a card that was charged."""

    kind: str
    who: str
    key: str
    details: dict[str, Any]


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Let there be a world, for this process and its children, for the length of a block."""
    file = folder / "outside.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(_TABLES)
    before = os.environ.get(FILE)
    os.environ[FILE] = str(file)
    try:
        yield
    finally:
        del os.environ[FILE]
        if before is not None:
            os.environ[FILE] = before


def do(kind: str, who: object, key: str, *, keeps_keys: bool = False, **details: Any) -> str:
    """Do something to somebody, and return the world's own name of it.

    Args:
        kind: what is done ("mail", "charge").
        who: whom it is done to; with `kind` it says which behaviour applies.
        key: the idempotency key; noted in any case, heeded only with `keeps_keys`.
        keeps_keys: this provider answers a key that it knows from memory.
        details: what is noted with the deed, as JSON.

    Raises:
        Down, Declined: nothing was done.
        TimeoutError: as often as not ("lost", "unanswered") it was.
    """
    if FILE not in os.environ:
        raise Down("there is no world outside")
    call = _execute("INSERT INTO call (kind, who, key, at_work) VALUES (?, ?, ?, 1)",
                    kind, str(who), key)  # fmt: skip
    try:
        return _do(kind, str(who), key, keeps_keys, details)
    finally:
        _execute("UPDATE call SET at_work = 0 WHERE id = ?", call)


def behave(how: str, kind: str = "", who: object = "") -> None:
    """Tell the world how to behave from now on: towards one, in one kind of thing, or in all.

    Args:
        how: "down" (`Down`), "lost" (times out before it does anything), "unanswered" (times out
            after it), "hanging" (does it, but answers only when it is told to behave otherwise),
            "declined" (or another word behind "declined: "), or "well".
        kind, who: as for `do`; empty means all.
    """
    _execute("INSERT OR REPLACE INTO behaviour VALUES (?, ?, ?)", kind, str(who), how)


def deeds(kind: str = "", who: object = "") -> list[Deed]:
    """Return what was really done, in order: all, of one kind, or to one."""
    rows = _query("SELECT kind, who, key, details FROM deed WHERE ? IN ('', kind)"
                  " AND ? IN ('', who) ORDER BY id", kind, str(who))  # fmt: skip
    return [Deed(kind, who, key, json.loads(details)) for kind, who, key, details in rows]


def called(kind: str = "", who: object = "") -> int:
    """Return how often the world was asked, also where it was down or declined."""
    return len(_query("SELECT 1 FROM call WHERE ? IN ('', kind) AND ? IN ('', who)",
                      kind, str(who)))  # fmt: skip


def is_at_work() -> bool:
    """Tell whether somebody has asked and got no answer yet."""
    return bool(_query("SELECT 1 FROM call WHERE at_work = 1"))


def find(kind: str, who: object) -> Receipt | None:
    """Ask whether something was done to somebody, as a probe does. Raises `Down`."""
    if _behaviour(kind, str(who)) == "down":
        raise Down(kind)
    rows = _query("SELECT id FROM deed WHERE kind = ? AND who = ?", kind, str(who))
    return Receipt(provider_ref=f"{kind} {rows[0][0]}") if rows else None


@contextmanager
def reached() -> Iterator[None]:
    """Translate what the world says into what an effect says, where nothing else was done."""
    try:
        yield
    except Down as error:
        raise NotSent(f"down: {error}") from error
    except Declined as error:
        raise Refused(f"declined: {error}", code=str(error)) from error


def _do(kind: str, who: str, key: str, keeps_keys: bool, details: dict[str, Any]) -> str:
    how = _behaviour(kind, who)
    if how == "down":
        raise Down(kind)
    if how == "lost":
        raise TimeoutError("no answer; nobody knows that nothing was done")
    if how.startswith("declined"):
        raise Declined(how.partition(": ")[2] or how)
    _execute("INSERT INTO deed (kind, who, key, details) SELECT ?, ?, ?, ? WHERE NOT (? AND EXISTS"
             " (SELECT 1 FROM deed WHERE kind = ? AND key = ?))",
             kind, who, key, json.dumps(details, default=str), keeps_keys, kind, key)  # fmt: skip
    if how == "unanswered":
        raise TimeoutError("no answer; nobody knows that it was done")
    if how == "hanging":
        until(lambda: _behaviour(kind, who) != "hanging", "the end of a hang")
    (row,) = _query("SELECT min(id) FROM deed WHERE kind = ? AND key = ?", kind, key)
    return f"{kind} {row[0]}"


def _behaviour(kind: str, who: str) -> str:
    """The most telling word there is."""
    rows = _query("SELECT how FROM behaviour WHERE kind IN ('', ?) AND who IN ('', ?)"
                  " ORDER BY who DESC, kind DESC", kind, who)  # fmt: skip
    return str(rows[0][0]) if rows else "well"


def _execute(sql: str, *values: object) -> int:
    def work(database: sqlite3.Connection) -> int:
        with database:
            return int(database.execute(sql, values).lastrowid or 0)

    return _connected(work)


def _query(sql: str, *values: object) -> list[Any]:
    return _connected(lambda database: database.execute(sql, values).fetchall())


def _connected(work: Callable[[sqlite3.Connection], T]) -> T:
    with closing(sqlite3.connect(os.environ[FILE], timeout=timedelta(minutes=1).seconds)) as opened:
        return work(opened)
