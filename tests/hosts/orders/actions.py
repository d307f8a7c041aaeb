"""When an order's money moves."""

from datetime import datetime

from django.db.models import Q

from idempotent_actions import Action, register
from tests.hosts.orders.models import Order

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


@register
class RefundOrder(Action):
    """Gives the money back, when a person says so."""

    name = "refund_order"
    model = Order
    transition = "refund"

    def due(self, now: datetime) -> None:
        """No poll ever refunds anything."""
        return
