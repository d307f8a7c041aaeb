"""The sandbox servers for the demo and the tests: each a process, and what it really did.

What was done is read from the server's file, so it can be asked for while the server is killed.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from project.sandbox.mail_book import MailBook, MailFault, Message
from project.sandbox.payment_book import Counts, PaymentBook
from project.sandbox.payment_faults import PaymentFault
from project.sandbox.server_process import SandboxError, ServerProcess

__all__ = [
    "Counts",
    "MailSandbox",
    "Message",
    "PaymentSandbox",
    "SandboxError",
    "mail_sandbox",
    "payment_sandbox",
]

CONTROL_TIMEOUT = 30  # seconds


class PaymentSandbox(ServerProcess):
    """A running payment server: `start`, `kill` and `close` it, tell it faults, count its acts."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__("project.sandbox.payments", folder / "payments.sqlite3", port)
        self._book = PaymentBook(self.file)

    @property
    def url(self) -> str:
        """For the SDK: ``StripeClient(key, base_addresses={"api": sandbox.url})``."""
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> Counts:
        """Return what was really done."""
        return self._book.counts()

    def fault(
        self,
        name: PaymentFault,
        times: int | None = None,
        seconds: float = 60,
        method: str = "POST",
    ) -> None:
        """Replace the fault that was set, which also ends a `late` request's wait.

        A server that is started again has none.

        Args:
            name: what is to go wrong; "" for nothing.
            times: how often; None for always.
            seconds: how long it hangs.
            method: which requests it happens to: ``POST``, the acts, or ``GET``, the look-ups.
        """
        told = {"fault": name, "times": times, "seconds": seconds, "method": method}
        self._tell("faults", told)

    def forget_keys(self) -> None:
        """Forget the stored answers, as Stripe does some time after 24 hours."""
        self._book.forget_keys()

    def reset(self) -> None:
        """Forget everything, and the fault."""
        self._tell("reset", {})

    def _tell(self, what: str, body: dict[str, Any]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CONTROL_TIMEOUT)
        with closing(connection):
            connection.request("POST", f"/_sandbox/{what}", json.dumps(body))
            with connection.getresponse() as response:
                if response.status != 200:
                    raise SandboxError(response.read().decode())


class MailSandbox(ServerProcess):
    """A running mail server: `start`, `kill` and `close` it, tell it faults, read its messages."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        super().__init__("project.sandbox.mail", folder / "mail.sqlite3", port)
        self._book = MailBook(self.file)

    def messages(self) -> list[Message]:
        """Return what was accepted, in that order."""
        return self._book.messages()

    def fault(
        self,
        name: MailFault,
        times: int | None = None,
        seconds: float = 60,
        recipient: str = "",
    ) -> None:
        """Replace the fault that was set; see `MailBook.set_fault`."""
        self._book.set_fault(name, times, seconds, recipient)

    def reset(self) -> None:
        """Forget all messages, and the fault."""
        self._book.reset()


@contextmanager
def payment_sandbox(folder: Path, port: int = 0) -> Iterator[PaymentSandbox]:
    """Run a payment server for the length of a block.

    Args:
        folder: where its file ``payments.sqlite3`` is or will be.
        port: TCP port; 0 takes a free one.
    """
    with PaymentSandbox(folder, port) as sandbox:
        yield sandbox


@contextmanager
def mail_sandbox(folder: Path, port: int = 0) -> Iterator[MailSandbox]:
    """Run a mail server for the length of a block.

    Args:
        folder: where its file ``mail.sqlite3`` is or will be.
        port: TCP port; 0 takes a free one.
    """
    with MailSandbox(folder, port) as sandbox:
        yield sandbox
