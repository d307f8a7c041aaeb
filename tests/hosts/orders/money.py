"""Orders for the tests, and what the bank has really done about them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from idempotent_actions import testing
from idempotent_actions.clock import now as database_now
from idempotent_actions.models import Capture
from tests.hosts import outside
from tests.hosts.orders.actions import CaptureOrders
from tests.hosts.orders.models import Order

__all__ = ["HOUR", "charge_of", "charged", "later", "make_order", "state", "tick"]

HOUR = timedelta(hours=1)


def make_order(**values: Any) -> Order:
    """Make an order of 100 that was shipped an hour ago."""
    shipped = timezone.now() - HOUR
    return Order.objects.create(**{"total": 100, "shipped_at": shipped, "card": "old", **values})


def tick() -> None:
    testing.tick(CaptureOrders)


def later(by: timedelta) -> Any:
    return testing.travel(database_now() + by)


def state(order: Order) -> str:
    return str(Order.objects.get(pk=order.pk).state)


def charge_of(order: Order) -> Capture:
    return Capture.objects.about(order).get(effect="take_money")


def charged(kind: str = "charge") -> list[tuple[str, str]]:
    """Card and amount of everything the bank has really done."""
    return [(each.who, each.details["amount"]) for each in outside.deeds(kind)]
