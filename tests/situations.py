"""Invoices in every situation that a poll can find one in."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q

from idempotent_actions import services
from idempotent_actions.testing import travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.asking import DAY, WEEK
from tests.invoices import DUE, make_invoice
from tests.oddities.models import Parcel, Seal

__all__ = ["Picky", "one_of_each"]


class Picky(EscalateInvoices):
    """A host with a veto in Python and a rule of its own."""

    def due(self, now: datetime) -> Q:
        return super().due(now) & ~Q(customer="on vacation")

    def why_not(self, subject: Invoice, now: datetime) -> str:
        if subject.customer == "disputing":
            return "disputed"
        if subject.customer == "unreadable":
            raise ValueError("no such customer")
        return ""


MOVED = {"due_at": DUE + DAY}
PAID = {"paid_at": DUE}


def one_of_each() -> None:
    """Invoices in every situation, each twice and with deadlines of their own, and some parcels."""
    situations: dict[str, dict[str, Any]] = {
        "lapsed": {},
        "lapsed and adopted": {"next_at": DUE - DAY},
        "not yet": {"due_at": DUE + timedelta(microseconds=1)},
        "no deadline": {"due_at": None},
        "adopted, waiting": {"next_at": DUE + DAY},
        "marked": {"status": "overdue"},
        "marked, then moved": {"status": "overdue", "due_at": DUE + DAY},
        "wait over": {"status": "escalated", "rung": "reminder", "next_at": DUE},
        "wait over, moved": {"status": "escalated", "rung": "reminder", "next_at": DUE, **MOVED},
        "waiting": {"status": "escalated", "rung": "reminder", "next_at": DUE + DAY},
        "put back, waiting": {"status": "overdue", "rung": "reminder", "next_at": DUE + DAY},
        "at the end": {"status": "escalated", "rung": "final_notice", "next_at": DUE},
        "at the end, marked": {"status": "overdue", "rung": "final_notice"},
        "exhausted": {"status": "exhausted", "rung": "final_notice"},
        "stranded": {"status": "overdue", "rung": "gone"},
        "stranded, wait over": {"status": "escalated", "rung": "gone", "next_at": DUE},
        "held": {"hold_until": DUE + DAY},
        "held, marked": {"status": "overdue", "hold_until": DUE + DAY},
        "hold lapsed": {"hold_until": DUE},
        "paid": {"paid_at": DUE},
        "paid, marked": {"status": "overdue", "paid_at": DUE},
        "paid, wait over": {"status": "escalated", "rung": "warning", "next_at": DUE, **PAID},
        "disputed": {"customer": "disputing"},
        "disputed, marked": {"status": "overdue", "customer": "disputing"},
        "unreadable": {"customer": "unreadable"},
        "unreadable, marked": {"status": "overdue", "customer": "unreadable"},
        "detected, not due": {"customer": "on vacation"},
        "marked, not due": {"status": "overdue", "customer": "on vacation"},
        "resolved": {"status": "resolved"},
        "cancelled": {"status": "cancelled"},
    }  # fmt: skip
    for each, (name, columns) in enumerate(situations.items()):
        for twin in (1, 2):
            hours = timedelta(
                hours=(each * 7 + twin * 11) % 17
            )  # some alike, and not in the order of the keys
            deadline = columns.get("due_at", DUE - hours)
            make_invoice(f"{name} {twin}", **{**columns, "due_at": deadline})
    with travel(DUE - 2 * WEEK):
        put_back = make_invoice("put back", due_at=DUE - 3 * WEEK)
        assert services.act(Picky, put_back, by="clerk", reason="because")
        Invoice.objects.filter(pk=put_back.pk).update(status="overdue", rung="", next_at=None)
    for name in ("books", "dropped", "tools"):
        Seal.objects.create(parcel=Parcel.objects.create(name=name))
    Parcel.objects.filter(name="tools").update(weight=99)
