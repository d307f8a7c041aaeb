"""The demo's orders: to be paid now, two of them with a card that is declined."""

from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from idempotent_actions.models import Capture, Escalation
from project.billing.models import Order

__all__ = ["make_orders", "our_orders"]

GOOD, DECLINED = "pm_card_visa", "pm_card_chargeDeclined"
CARDS = 10 * [GOOD] + 2 * [DECLINED]

_MARK = "DEMO-ORDER-"


@transaction.atomic
def make_orders() -> int:
    """Delete the orders of an earlier demo, and make the same ones anew; return how many."""
    old = {"subject_model": "billing.order", "subject_pk__in": _texts(our_orders())}
    Capture.objects.filter(**old).delete()
    Escalation.objects.filter(**old).delete()
    Order.objects.filter(number__startswith=_MARK).delete()
    then = timezone.now() - timedelta(minutes=1)
    orders = [
        Order(number=f"{_MARK}{n:03}", amount=Decimal(n), payment_method=card, capture_at=then)
        for n, card in enumerate(CARDS, start=1)
    ]
    return len(Order.objects.bulk_create(orders))


def our_orders() -> list[Order]:
    """Return the demo's orders as they are now."""
    return list(Order.objects.filter(number__startswith=_MARK))


def _texts(orders: list[Order]) -> list[str]:
    return [str(order.pk) for order in orders]
