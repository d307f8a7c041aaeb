"""Three ways to charge an order once, as articles on idempotent jobs show them, on this app.

Each holds against a second run at any moment; ``ChargeOrders`` in ``actions.py`` joins them. Two
guards that are often written instead, and don't hold, stand beside them in
``tests/example/test_patterns.py``.
"""

from idempotent_actions import captures
from idempotent_actions.models import Capture
from project.billing import payments
from project.billing.effects import charge_order
from project.billing.models import Order

__all__ = ["claim_by_conditional_update", "claim_by_unique_insert", "rely_on_the_providers_key"]


def claim_by_unique_insert(order: Order) -> Capture:
    """Insert a row with a unique key before the call: who gets it in, charges.

    The table is the app's ledger. The losers are told what the winner came to.
    """
    return captures.perform(
        charge_order, key=("order", order.number, "charge"), params=_params(order), subject=order
    )


def claim_by_conditional_update(order: Order) -> bool:
    """Move the row from pending to capturing in one UPDATE: who changes a row, charges.

    Returns whether it was this caller. A worker killed after the UPDATE leaves an order that is
    ``capturing``, and nothing here says whether it was charged: that is what a capture is for.
    """
    pending = Order.objects.filter(pk=order.pk, status=Order.Status.PENDING)
    if not pending.update(status=Order.Status.CAPTURING):
        return False
    rely_on_the_providers_key(order)
    Order.objects.filter(pk=order.pk).update(status=Order.Status.CAPTURED)
    return True


def rely_on_the_providers_key(order: Order) -> str:
    """Give the provider a key made of business facts: it answers a known one from memory.

    Returns the payment. It holds for as long as the provider remembers: 24 hours at Stripe.
    """
    receipt = payments.charge(_params(order), f"order-{order.number}-charge", timeout=20)
    return receipt.provider_ref


def _params(order: Order) -> dict[str, object]:
    return {
        "order": order.number,
        "amount": order.amount,
        "currency": order.currency,
        "payment_method": order.payment_method,
    }
