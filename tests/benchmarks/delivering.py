"""Captures to be delivered: of no subject, and of an invoice that has climbed a rung."""

from collections.abc import Iterable
from contextlib import AbstractContextManager

from django.db import connection, transaction

from idempotent_actions import LadderAction, captures
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.polling import escalate_overdue
from project.billing.models import Invoice
from tests.benchmarks.noop import benchmark_noop, done
from tests.registering import only

__all__ = ["deliver", "escalate", "only_benchmarks", "request"]


class Notify(LadderAction):
    """A ladder of invoices whose notices do nothing."""

    model = Invoice

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        """One notice a rung."""
        yield benchmark_noop(to=invoice.email, number=invoice.number)


def only_benchmarks() -> AbstractContextManager[None]:
    """Let ``Notify`` be the only action for the length of a block."""
    return only(Notify)


def request(rows: int, prefix: str) -> None:
    """Request so many effects without a subject."""
    empty()
    with transaction.atomic():
        for number in range(rows):
            captures.request(
                benchmark_noop, key=f"{prefix}:{number}", params={"to": "a@example.org"}
            )
    settle_statistics()


def escalate(rows: int, prefix: str) -> None:
    """Let so many overdue invoices climb a rung, each of which requests an effect."""
    empty()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_invoice (number, customer, email, amount, due_at, status)"
            " SELECT %s || g, 'c', 'a@example.org', 1, now() - interval '1 day', 'overdue'"
            " FROM generate_series(1, %s) g",
            [prefix, rows],
        )
    (report,) = escalate_overdue(Invoice, mark=False, deliver=False)
    assert report.applied == rows, report.errors
    settle_statistics()


def deliver(rows: int, workers: int) -> None:
    """Deliver all there is; it must be so many."""
    before = done()
    report = captures.deliver(workers=workers)
    assert report.performed == done() - before == rows, report.as_dict()


def empty() -> None:
    """Take away what the leg before has left."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE billing_invoice, idempotent_actions_escalation CASCADE")
        cursor.execute("TRUNCATE idempotent_actions_capture CASCADE")


def settle_statistics() -> None:
    """Count the new rows, as autovacuum does sooner or later."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE idempotent_actions_capture, idempotent_actions_escalation")
        cursor.execute("VACUUM ANALYZE billing_invoice")
