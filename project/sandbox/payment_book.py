"""What the payment sandbox really did, and the answers that it gave, in one SQLite file."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from project.sandbox.payment_errors import Answer, Body, Refused, error
from project.sandbox.sqlite_file import SqliteFile

__all__ = ["Call", "Counts", "PaymentBook", "write_act"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its parameters are flat, as the form spells them: ``metadata[order]``."""

    method: str
    path: str
    key: str
    params: dict[str, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was really done. Amounts are in the currency's smallest unit.

    A charge is money taken, at once or by a capture. ``..._by_key`` goes by the idempotency key of
    the request that did it, ``..._by_order`` by the payment's ``metadata["order"]``; what has none
    is in the total alone.
    """

    charges: int
    charged: int
    charges_by_key: dict[str, int]
    charges_by_order: dict[str, int]
    authorizations: int
    captures: int
    cancels: int
    declines: int
    refunds: int
    refunded: int
    refunds_by_key: dict[str, int]
    refunds_by_order: dict[str, int]
    requests: int
    requests_by_key: dict[str, int]


Act = Callable[[sqlite3.Connection], Answer]


class PaymentBook(SqliteFile):
    """The book that server, demo and tests open, each for itself."""

    schema = """
        CREATE TABLE IF NOT EXISTS requests (
            id INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS answers (
            key TEXT PRIMARY KEY, path TEXT NOT NULL, params TEXT NOT NULL,
            status INTEGER NOT NULL, body TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS objects (
            id TEXT PRIMARY KEY, object TEXT NOT NULL, intent TEXT NOT NULL, body TEXT NOT NULL
        );
        CREATE INDEX IF NOT EXISTS objects_intent ON objects (object, intent);
        CREATE TABLE IF NOT EXISTS metadata (
            intent TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL
        );
        CREATE INDEX IF NOT EXISTS metadata_value ON metadata (name, value);
        CREATE TABLE IF NOT EXISTS acts (
            id INTEGER PRIMARY KEY, act TEXT NOT NULL, key TEXT NOT NULL, "order" TEXT NOT NULL,
            amount INTEGER NOT NULL
        )
    """

    def note(self, call: Call) -> None:
        """Count a request that has come in, whatever becomes of it."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO requests (method, path, key) VALUES (?, ?, ?)",
                (call.method, call.path, call.key),
            )

    def answer(self, call: Call, act: Act) -> Answer:
        """Act and store the answer in one transaction, or repeat the answer that is stored.

        Args:
            call: the request; without a key, it always acts.
            act: does it, and returns the answer to store.

        Raises:
            Refused: the key was used for something else, or `act` refused. Nothing is stored.
        """
        params = json.dumps(call.params, sort_keys=True)
        with self.transaction() as db:
            if call.key:
                stored = db.execute("SELECT * FROM answers WHERE key = ?", (call.key,)).fetchone()
                if stored:
                    _check_same(call, params, stored)
                    return Answer(stored["status"], json.loads(stored["body"]), replayed=True)
            answer = act(db)
            if call.key:
                db.execute(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
                    (call.key, call.path, params, answer.status, json.dumps(answer.body)),
                )
        return answer

    def counts(self) -> Counts:
        """Add up what was really done."""
        with self.transaction() as db:
            acts = db.execute('SELECT act, key, "order", amount FROM acts').fetchall()
            requests = [row["key"] for row in db.execute("SELECT key FROM requests")]
        taken = [act for act in acts if act["act"] in ("charge", "capture")]
        refunds = [act for act in acts if act["act"] == "refund"]
        number = Counter(act["act"] for act in acts)
        return Counts(
            charges=len(taken),
            charged=sum(act["amount"] for act in taken),
            charges_by_key=_count(act["key"] for act in taken),
            charges_by_order=_count(act["order"] for act in taken),
            authorizations=number["authorize"],
            captures=number["capture"],
            cancels=number["cancel"],
            declines=number["decline"],
            refunds=len(refunds),
            refunded=sum(act["amount"] for act in refunds),
            refunds_by_key=_count(act["key"] for act in refunds),
            refunds_by_order=_count(act["order"] for act in refunds),
            requests=len(requests),
            requests_by_key=_count(requests),
        )

    def forget_keys(self) -> None:
        """Forget the stored answers, as Stripe does some time after 24 hours."""
        with self.transaction() as db:
            db.execute("DELETE FROM answers")

    def reset(self) -> None:
        """Forget everything."""
        with self.transaction() as db:
            for table in ("requests", "answers", "objects", "metadata", "acts"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608 - no input in it


def write_act(db: sqlite3.Connection, act: str, call: Call, intent: Body, amount: int) -> None:
    """Write down what is done now; the counts are made of nothing else.

    Args:
        db: the transaction that also stores the answer.
        act: ``charge``, ``authorize``, ``capture``, ``cancel``, ``decline`` or ``refund``.
        call: the request that does it.
        intent: the payment intent.
        amount: in the currency's smallest unit.
    """
    order = str(intent["metadata"].get("order", ""))
    db.execute(
        'INSERT INTO acts (act, key, "order", amount) VALUES (?, ?, ?, ?)',
        (act, call.key, order, amount),
    )


def _check_same(call: Call, params: str, stored: Any) -> None:
    if stored["path"] != call.path:
        wrong = f"for another endpoint, {stored['path']}"
    elif stored["params"] != params:
        wrong = "with other parameters"
    else:
        return
    raise Refused(
        error(400, "idempotency_error", f"The key {call.key!r} has been used before {wrong}.")
    )


def _count(names: Any) -> dict[str, int]:
    return dict(Counter(name for name in names if name))
