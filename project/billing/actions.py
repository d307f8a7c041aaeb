"""What happens to an unpaid invoice, and to an order that is to be paid."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from idempotent_actions import Action, LadderAction, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.models import Capture
from project.billing.effects import charge_order, send_dunning_notice
from project.billing.models import Invoice, Order

__all__ = ["ChargeOrders", "EscalateInvoices"]


@register
class EscalateInvoices(LadderAction):
    """Dunning: a reminder, a warning, a final notice."""

    model = Invoice

    def resolved_when(self) -> Q:
        """Return the paid ones."""
        return Q(paid_at__isnull=False)

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        """Write to the customer at each rung."""
        if step.rung is not None and invoice.due_at is not None:
            yield send_dunning_notice(
                to=invoice.email,
                customer=invoice.customer,
                number=invoice.number,
                amount=invoice.amount,
                due_on=invoice.due_at.date(),
                rung=step.rung.name,
            )


@register
class ChargeOrders(Action):
    """Capture the payment of each order, once its time has come."""

    name = "charge_orders"
    model = Order
    transition = "start_capture"
    order_by = ("capture_at",)

    def due(self, now: datetime) -> Q:
        """Return the orders to be paid by now."""
        return Q(capture_at__lte=now)

    def effects(self, order: Order, step: Step) -> Iterable[Intent]:
        """Charge the card that the order has now."""
        yield charge_order(
            order=order.number,
            amount=order.amount,
            currency=order.currency,
            payment_method=order.payment_method,
        )

    def settled(self, order: Order, capture: Capture) -> None:
        """Note what came of it on the order."""
        if capture.state == "succeeded":
            order.payment_ref = capture.provider_ref
            order.finish_capture()
        else:
            order.decline()
