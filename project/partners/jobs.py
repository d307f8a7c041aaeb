"""What the queue does for the partners: an invoice goes to a ledger, an index is made anew.

Whose guarantee is what: that an entry is written **once** is the capture's alone. ``Unique``,
``no_overlap`` and ``Debounce`` filter noise. They spare the queue, the workers and the partner what
would come to nothing; in doubt they let a duplicate through, and here nothing rests on them.
"""

from datetime import timedelta
from typing import Any

from django.db import transaction

from idempotent_actions import services
from idempotent_actions.keys import make_key
from idempotent_actions.models import Capture
from idempotent_actions.overlaps import no_overlap
from idempotent_actions.queueing import Debounce, Unique, enqueue
from project.billing.models import Invoice
from project.partners.effects import TIMEOUT, post_invoice
from project.partners.models import SearchEntry

__all__ = ["ask_for_refresh", "ask_for_sync", "refresh_search", "sync_invoice"]

QUEUED_AT_MOST = timedelta(minutes=10)
"""How long a request keeps others out of the queue, should the queue have lost it."""

SYNCED_AT_MOST = TIMEOUT + timedelta(seconds=20)
"""How long a worker that died in a sync keeps others from trying: what the partner may take over
an answer, and a moment to note it."""

REFRESHED_AT_MOST = timedelta(minutes=5)
"""Far more than a refresh takes."""

QUIET_FOR = timedelta(seconds=30)
"""Invoices are changed in bursts. The index waits until one is over."""

STALE_AT_MOST = timedelta(minutes=5)
"""A burst that doesn't end puts it off no longer than that."""


def ask_for_sync(invoice: Invoice) -> None:
    """Have the partner's ledger follow ``invoice``, soon after the caller's commit.

    One request waits in the queue for each invoice: it reads the invoice when it starts, so it
    serves all who asked before. A change that comes later asks anew, hence ``until="start"``.
    """
    enqueue(
        sync_invoice,
        invoice.pk,
        unique=Unique(("sync", invoice.pk), until="start", lease=QUEUED_AT_MOST),
    )


@no_overlap(key=str, when_busy="retry", lease=SYNCED_AT_MOST)
def sync_invoice(pk: int) -> dict[str, Any]:
    """Write what the invoice amounts to now into the partner's ledger, unless it is there.

    Not two at once for one invoice; the second tries again in a minute, so its change isn't lost.
    Should there be two all the same, or a worker be killed before it notes what it wrote, both come
    to one capture, and the entry is written once.

    Returns the capture's state among other plain values. An entry that isn't ``succeeded`` yet is
    the business of delivery.
    """
    invoice = Invoice.objects.filter(pk=pk).first()
    if invoice is None:
        return {"skipped": "gone", "invoice": pk}
    version = _version(invoice)
    capture = services.perform(
        post_invoice,
        key=_key(invoice, version),
        params={
            "number": invoice.number,
            "version": version,
            "amount": invoice.amount,
            "paid": invoice.paid_at is not None,
        },
        subject=invoice,
    )
    return {"invoice": invoice.number, "version": version, "entry": capture.state}


def ask_for_refresh() -> None:
    """Have the search index made anew, once the caller's burst of changes is over.

    All who ask meanwhile are served by one refresh, as it reads every invoice. An effect may never
    be asked for like this: each of them counts, and all but the last would be dropped.
    """
    enqueue(refresh_search, debounce=Debounce("search", wait=QUIET_FOR, max_wait=STALE_AT_MOST))


@no_overlap(when_busy="retry", lease=REFRESHED_AT_MOST)
def refresh_search() -> dict[str, Any]:
    """Make the index anew from the invoices; return how many entries it has.

    It needs no capture: nothing leaves the database, and a second refresh changes nothing.
    """
    with transaction.atomic():
        SearchEntry.objects.all().delete()
        made = SearchEntry.objects.bulk_create(
            _search_entry(each) for each in Invoice.objects.all()
        )
    return {"entries": len(made)}


def _version(invoice: Invoice) -> int:
    """Return the version that the invoice as it is now has: the last one, or a new one.

    An amount that is changed and changed back is news both times. So it can't be the whole key: the
    third version would pass for the first, and never be written.
    """
    said = Capture.objects.about(invoice).filter(effect=post_invoice.name)
    keys = list(said.values_list("key", flat=True))
    last = len(keys)
    return last if keys and keys[-1] == _key(invoice, last) else last + 1


def _key(invoice: Invoice, version: int) -> str:
    paid = "unpaid" if invoice.paid_at is None else "paid"
    return make_key("partner", invoice.pk, version, invoice.number, str(invoice.amount), paid)


def _search_entry(invoice: Invoice) -> SearchEntry:
    parts = (invoice.number, invoice.customer, invoice.email, str(invoice.amount))
    return SearchEntry(number=invoice.number, text=" ".join(parts))
