"""The mail sandbox's SQLite file: the messages it accepted, and the fault that it is to have."""

import email
import email.policy
import json
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Literal, get_args

from project.sandbox.sqlite_file import SqliteFile

__all__ = ["FAULTS", "MailBook", "MailFault", "Message"]

MailFault = Literal[
    "",  # all goes well
    "refuse_connection",  # 421 instead of a greeting
    "refuse_recipient",  # 550: never
    "defer_recipient",  # 450: not now
    "hang_before",  # hangs after DATA; accepts if the client still waits then
    "hang_after",  # accepts, then hangs before it says so
    "drop_before",  # closes the connection after DATA, nothing accepted
    "drop_after",  # accepts, then closes the connection without saying so
]
FAULTS: tuple[MailFault, ...] = get_args(MailFault)


@dataclass(frozen=True, slots=True)
class Message:
    """One accepted message; `sender` and `recipients` are the envelope's, "<>" is no sender."""

    sender: str
    recipients: list[str]
    subject: str
    message_id: str
    body: str


class MailBook(SqliteFile):
    """The book that server, demo and tests open, each for itself."""

    schema = """
        CREATE TABLE IF NOT EXISTS messages (
            id INTEGER PRIMARY KEY, sender TEXT NOT NULL, recipients TEXT NOT NULL,
            subject TEXT NOT NULL, message_id TEXT NOT NULL, body TEXT NOT NULL
        );
        CREATE TABLE IF NOT EXISTS fault (
            name TEXT NOT NULL, times INTEGER, seconds REAL NOT NULL, recipient TEXT NOT NULL
        )
    """

    def accept(self, sender: str, recipients: list[str], content: bytes) -> None:
        """Store a message; it is committed when this returns.

        Args:
            sender: from the envelope.
            recipients: from the envelope.
            content: header and body, as they came.
        """
        parsed = email.message_from_bytes(content, policy=email.policy.default)
        with self.transaction() as db:
            db.execute(
                "INSERT INTO messages (sender, recipients, subject, message_id, body)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    sender,
                    json.dumps(recipients),
                    str(parsed.get("Subject", "")),
                    str(parsed.get("Message-ID", "")).strip(),
                    _text(parsed),
                ),
            )

    def messages(self) -> list[Message]:
        """Return what was accepted, in that order."""
        with self.transaction() as db:
            rows = db.execute("SELECT * FROM messages ORDER BY id").fetchall()
        return [
            Message(
                sender=row["sender"],
                recipients=json.loads(row["recipients"]),
                subject=row["subject"],
                message_id=row["message_id"],
                body=row["body"],
            )
            for row in rows
        ]

    def set_fault(
        self,
        name: MailFault,
        times: int | None = None,
        seconds: float = 60,
        recipient: str = "",
    ) -> None:
        """Replace the fault that was set.

        Args:
            name: what is to go wrong; "" for nothing.
            times: how often; None for always.
            seconds: how long it hangs.
            recipient: a part of the address that is refused or deferred; "" for all.
        """
        if name not in FAULTS:
            raise ValueError(f"There is no fault {name!r}, only: {', '.join(FAULTS[1:])}")
        with self.transaction() as db:
            db.execute("DELETE FROM fault")
            db.execute("INSERT INTO fault VALUES (?, ?, ?, ?)", (name, times, seconds, recipient))

    def take(self, name: MailFault, recipient: str = "") -> float | None:
        """Return the fault's seconds if it is to happen now, and count that; else None.

        Args:
            name: the fault whose place this is.
            recipient: the address it would happen to, if it goes by address.
        """
        with self.transaction() as db:
            row = db.execute(
                "UPDATE fault SET times = times - 1"
                " WHERE name = ? AND (times IS NULL OR times > 0) AND instr(?, recipient)"
                " RETURNING seconds",
                (name, recipient),
            ).fetchone()
        return row["seconds"] if row else None

    def reset(self) -> None:
        """Forget all messages, and the fault."""
        with self.transaction() as db:
            db.execute("DELETE FROM messages")
            db.execute("DELETE FROM fault")


def _text(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    # SMTP ends its lines otherwise than the sender's text did.
    return str(part.get_content()).replace("\r\n", "\n") if part else ""
