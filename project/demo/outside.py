"""The world outside the demo's database: a mail server and a payment provider that really count."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from project.sandbox.running import MailSandbox, PaymentSandbox, mail_sandbox, payment_sandbox

__all__ = ["Outside", "outside"]


@dataclass(frozen=True, slots=True)
class Outside:
    """Both servers, and what they tell of what they did."""

    mail: MailSandbox
    payments: PaymentSandbox

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that is to use them."""
        return {
            **os.environ,
            "MAIL_HOST": "127.0.0.1",
            "MAIL_PORT": str(self.mail.port),
            "PAYMENTS_URL": self.payments.url,
        }

    def counts(self) -> dict[str, int]:
        """Return what was really done: mails and charges, and how many of them twice."""
        mails = Counter(message.message_id for message in self.mail.messages())
        charges = self.payments.counts()
        return {
            "mails": mails.total(),
            "mailed_twice": sum(times > 1 for times in mails.values()),
            "charges": charges.charges,
            "charged_twice": sum(times > 1 for times in charges.charges_by_order.values()),
            "declined": charges.declines,
        }


@contextmanager
def outside() -> Iterator[Outside]:
    """Run both servers for the length of a block. Raises ``SandboxError`` if one doesn't start."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        with mail_sandbox(path) as mail, payment_sandbox(path) as payments:
            yield Outside(mail, payments)
