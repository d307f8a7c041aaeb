"""A ladder whose notices go through the provider, in three ways to recover from not knowing.

The invoice's customer says which. What a test wants to happen on the way it puts on `before` or
`after`, for one call each.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from idempotent_actions import LadderAction, Park, Receipt, Reconcile, Replay, effect
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Effect, Intent
from idempotent_actions.models import Capture
from project.billing.models import Invoice
from tests.crashes import provider
from tests.invoices import make_invoice

__all__ = [
    "EFFECTS",
    "LEASE",
    "NAME",
    "SETTLE_TIME",
    "Notices",
    "after",
    "before",
    "capture_of",
    "overdue_invoice",
]

SETTLE_TIME = timedelta(minutes=5)
LEASE = timedelta(minutes=1)

before: list[Callable[[Call], object]] = []
"""What happens before the next calls reach the provider, first one first."""

after: list[Callable[[Call], object]] = []
"""What happens after the provider has done it, before the worker hears of it."""


def _probe(call: Call) -> Receipt | None:
    ref = provider.ask(call.idempotency_key)
    return None if ref is None else Receipt(provider_ref=ref)


@effect(name="crashes.replay", recovery=Replay(), lease=LEASE)
def by_replay(call: Call) -> Receipt:
    """To a provider that answers a known key from memory."""
    return _send(call, knows_keys=True)


@effect(name="crashes.reconcile", recovery=Reconcile(_probe, settle_time=SETTLE_TIME), lease=LEASE)
def by_reconcile(call: Call) -> Receipt:
    """To a provider that knows no keys but can be asked."""
    return _send(call, knows_keys=False)


@effect(name="crashes.park", recovery=Park(), lease=LEASE)
def by_park(call: Call) -> Receipt:
    """To a provider that neither knows keys nor can be asked."""
    return _send(call, knows_keys=False)


EFFECTS: dict[str, Effect] = {"Replay": by_replay, "Reconcile": by_reconcile, "Park": by_park}


class Notices(LadderAction):
    """Dunning through the provider."""

    name = "crashes.notices"
    model = Invoice

    def resolved_when(self) -> Q:
        """Return the paid ones."""
        return Q(paid_at__isnull=False)

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        """Send one notice a rung."""
        assert step.rung is not None
        yield EFFECTS[invoice.customer](number=invoice.number, rung=step.rung.name)


NAME = Notices.name


def overdue_invoice(number: object = 1, policy: str = "Park") -> Invoice:
    """Store an invoice that the next tick climbs, by the real clock."""
    yesterday = timezone.now() - timedelta(days=1)
    return make_invoice(number, customer=policy, due_at=yesterday)


def capture_of(invoice: Invoice) -> Capture:
    """The invoice's only capture, as the database has it now."""
    return Capture.objects.about(invoice).get()


def _send(call: Call, *, knows_keys: bool) -> Receipt:
    assert not connection.in_atomic_block, "an effect is never run in a transaction"
    if before:
        before.pop(0)(call)
    ref = provider.act(call.idempotency_key, knows_keys=knows_keys)
    if after:
        after.pop(0)(call)
    return Receipt(provider_ref=ref)
