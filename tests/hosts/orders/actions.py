"""When an order's money moves."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from idempotent_actions import Action, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.models import Capture
from tests.hosts.orders.effects import give_back, take_money
from tests.hosts.orders.models import Entry, Order

__all__ = ["CaptureOrders", "RefundOrder"]


@register
class CaptureOrders(Action):
    """Takes the money of what has been shipped."""

    name = "capture_orders"
    model = Order
    transition = "capture"
    order_by = ("shipped_at",)

    def due(self, now: datetime) -> Q:
        """Return what has left the house."""
        return Q(shipped_at__lte=now)

    def effects(self, subject: Order, step: Step) -> Iterable[Intent]:
        """Charge the card that the customer has named last."""
        yield take_money(order=subject.pk, card=subject.card, amount=subject.total)

    def settled(self, subject: Order, capture: Capture) -> None:
        """Note what the bank says, on the order and in the books."""
        if capture.state == "succeeded":
            subject.confirm()
            Entry.objects.create(order=subject, ref=capture.provider_ref)
        else:
            subject.decline()


@register
class RefundOrder(Action):
    """Gives the money back, when a person says so."""

    name = "refund_order"
    model = Order
    transition = "refund"

    def due(self, now: datetime) -> None:
        """No poll ever refunds anything."""
        return

    def effects(self, subject: Order, step: Step) -> Iterable[Intent]:
        """Give back what was taken."""
        yield give_back(order=subject.pk, card=subject.card, amount=subject.total)
