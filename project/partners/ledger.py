"""The partner's ledger. It is the partner's: outside of this database, and of its transactions."""

import sqlite3
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from django.conf import settings

from project.sandbox.sqlite_file import SqliteFile

__all__ = ["Entry", "KeyTaken", "PartnerLedger", "partner_ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What an invoice amounts to. ``version`` counts what was said about this invoice so far.

    A later version replaces an earlier one, also where the earlier one arrives after it.
    """

    number: str
    version: int
    amount: Decimal
    paid: bool


class KeyTaken(Exception):
    """The key was used for another entry. Nothing was written."""


class PartnerLedger(SqliteFile):
    """The file that everyone opens for themselves."""

    schema = """
        CREATE TABLE IF NOT EXISTS entries (
            id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, number TEXT NOT NULL,
            version INTEGER NOT NULL, amount TEXT NOT NULL, paid INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY, key TEXT NOT NULL)
    """

    def post(self, key: str, entry: Entry) -> str:
        """Write ``entry``, or find what was written under ``key`` before, as Stripe does.

        It is committed when this returns. Returns the entry's reference, the same each time.
        Raises ``KeyTaken`` where the key stands for another entry.
        """
        with self.transaction() as db:
            db.execute("INSERT INTO requests (key) VALUES (?)", (key,))
            db.execute(
                "INSERT INTO entries (key, number, version, amount, paid) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (key) DO NOTHING",
                (key, entry.number, entry.version, str(entry.amount), entry.paid),
            )
            row = db.execute("SELECT * FROM entries WHERE key = ?", (key,)).fetchone()
        if _entry(row) != entry:
            raise KeyTaken(f"The key {key!r} stands for {_entry(row)}, not for {entry}.")
        return f"entry-{row['id']}"

    def entries(self, number: str) -> list[Entry]:
        """Return what was really written about the invoice ``number``, in that order."""
        with self.transaction() as db:
            rows = db.execute("SELECT * FROM entries WHERE number = ? ORDER BY id", (number,))
            return [_entry(row) for row in rows]

    def standing(self, number: str) -> Entry | None:
        """Return the entry that counts for the invoice ``number``; None where there is none."""
        return max(self.entries(number), key=lambda entry: entry.version, default=None)

    def requests(self) -> int:
        """Count the calls of ``post``, also those that wrote nothing."""
        with self.transaction() as db:
            (count,) = db.execute("SELECT count(*) FROM requests").fetchone()
        return int(count)


def partner_ledger() -> PartnerLedger:
    """Open the ledger that the setting ``PARTNER_LEDGER``, a path, names; made if it is missing."""
    return PartnerLedger(Path(settings.PARTNER_LEDGER))


def _entry(row: sqlite3.Row) -> Entry:
    return Entry(row["number"], row["version"], Decimal(row["amount"]), bool(row["paid"]))
