"""The mail sandbox: an SMTP server that delivers nothing and keeps what it accepted.

A message is committed before it is answered with 250, so what a sender was told is true, and what
it was not told may be true as well. `MailBook.set_fault` says what goes wrong, by the file.

``python -m project.sandbox.mail`` starts it, with no Django and no database.
"""

import asyncio
import threading
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session

from project.sandbox import command_line
from project.sandbox.lifetime import say_listening, stop_event
from project.sandbox.mail_book import MailBook

__all__ = ["FILE", "PORT", "serve"]

PORT = 12125
FILE = Path("mail.sqlite3")


class Server(SMTP):
    """One connection."""

    def __init__(self, book: MailBook) -> None:
        super().__init__(Handler(book), hostname="localhost", enable_SMTPUTF8=True)
        self._book = book

    async def _handle_client(self) -> None:
        if self._book.take("refuse_connection") is None:
            await super()._handle_client()
        else:
            await self.push("421 Service not available")
            self._writer.close()


class Handler:
    """What the commands of one connection do; the names are aiosmtpd's."""

    def __init__(self, book: MailBook) -> None:
        self._book = book

    async def handle_RCPT(  # noqa: N802
        self,
        server: SMTP,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        """Take a recipient, or not."""
        if self._book.take("refuse_recipient", address) is not None:
            return "550 No such user here"
        if self._book.take("defer_recipient", address) is not None:
            return "450 Mailbox busy, try again later"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Accept a message. A client that leaves meanwhile cancels this at the next await."""
        if self._book.take("drop_before") is not None:
            await _drop(server)
        if (seconds := self._book.take("hang_before")) is not None:
            await asyncio.sleep(seconds)
        self._book.accept(
            envelope.mail_from or "", envelope.rcpt_tos, envelope.original_content or b""
        )
        if self._book.take("drop_after") is not None:
            await _drop(server)
        if (seconds := self._book.take("hang_after")) is not None:
            await asyncio.sleep(seconds)
        return "250 OK"


async def _drop(server: SMTP) -> None:
    if server.transport:
        server.transport.close()
    await asyncio.Event().wait()  # the lost connection cancels this


def serve(port: int, file: Path, with_parent: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; the first line printed says where.

    Args:
        port: TCP port; 0 takes a free one.
        file: the SQLite file with the accepted messages; made if there is none.
        with_parent: stop as well when standard input ends.
    """
    asyncio.run(_serve(port, MailBook(file), stop_event(with_parent)))


async def _serve(port: int, book: MailBook, stop: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Server(book), "127.0.0.1", port)
    say_listening(f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await asyncio.to_thread(stop.wait)
    server.close()  # and asyncio.run cancels what still hangs


if __name__ == "__main__":
    command_line.run("project.sandbox.mail", __doc__, serve, PORT, FILE)
