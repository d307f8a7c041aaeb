"""What billing does to the world outside: it writes to customers, and charges their cards."""

from datetime import timedelta

from idempotent_actions import Park, Receipt, Reconcile, Replay, effect
from idempotent_actions.effects import Call
from project.billing import payments
from project.mailing import send_notice

__all__ = ["charge_order", "send_dunning_notice"]


@effect(recovery=Park(), timeout=timedelta(seconds=60))
def send_dunning_notice(call: Call) -> Receipt:
    """Mail the rung's notice. A mail server knows no keys, so an unknown outcome is a person's."""
    return send_notice(call, f"billing/{call.params['rung']}.txt", to=call.params["to"])


def find_charge(call: Call) -> Receipt | None:
    """Ask the payment provider whether the order was charged."""
    return payments.find_charge(str(call.params["order"]), call.timeout)


@effect(
    # Stripe remembers a key for 24 hours: until then the same request is safe to repeat. Later its
    # search, which lags behind by up to a minute, says whether there is a payment for the order.
    recovery=Replay(
        window=timedelta(hours=23), then=Reconcile(find_charge, settle_time=timedelta(minutes=5))
    ),
    timeout=timedelta(seconds=20),
    secret=["payment_method"],
)
def charge_order(call: Call) -> Receipt:
    """Charge an order's card."""
    return payments.charge(call.params, call.idempotency_key, call.timeout)
