"""What the shop's own pages do: press a button, name another card."""

from django.db import transaction

from idempotent_actions import services
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome
from tests.hosts.orders.actions import RefundOrder
from tests.hosts.orders.effects import take_money
from tests.hosts.orders.models import Order

__all__ = ["pay_with", "refund"]


def pay_with(order: Order, card: str) -> bool:
    """Charge another card after the first was declined; False where none is wanted any more."""
    with transaction.atomic():
        fresh = Order.objects.select_for_update().get(pk=order.pk)
        if fresh.state != Order.State.DECLINED:
            return False
        fresh.try_again(card)
        fresh.save()
        declined = Capture.objects.about(fresh).get(effect=take_money.name)
        outcome = services.retry_new_key(
            declined, refresh=True, note=f"card {card}", by="the customer"
        )
        assert outcome, outcome.reason
    services.deliver(escalation=declined.escalation)
    return True


def refund(order: Order) -> Outcome:
    """Give the money back now; pressed again it finds it given."""
    outcome = services.act(RefundOrder, order, by="support", reason="came back broken")
    if outcome:
        services.deliver(escalation=outcome.escalation)
    return outcome
