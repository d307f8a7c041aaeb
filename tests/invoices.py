"""Invoices as the tests want them, and what their audit trail says in a few words."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import models

from idempotent_actions.models import Escalation
from project.billing.models import Invoice

__all__ = ["DUE", "LADDER", "climbed", "make_invoice", "now_there", "trail"]

DUE = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""When an invoice is due unless a test says otherwise."""

LADDER = "escalate_overdue:billing.invoice"


def make_invoice(number: object = 1, **columns: Any) -> Invoice:
    """Store an invoice that is due at `DUE`."""
    values: dict[str, Any] = {
        "number": str(number),
        "customer": "A. Customer",
        "email": "customer@example.org",
        "amount": Decimal(100),
        "due_at": DUE,
    }
    return Invoice.objects.create(**values | columns)


def now_there(invoice: Invoice) -> Invoice:
    """The invoice as the database has it now."""
    return Invoice.objects.get(pk=invoice.pk)


def trail(subject: models.Model) -> list[str]:
    """The audit rows of a subject, like "escalate reminder", in the order they were written."""
    rows = Escalation.objects.about(subject)
    return [f"{row.transition} {row.rung}".strip() for row in rows]


def climbed(subject: models.Model) -> list[str]:
    """The rungs a subject has climbed, in order, each as often as it did."""
    return [row.rung for row in Escalation.objects.about(subject) if row.transition == "escalate"]
