"""A customer's new card after a declined one: another request, and still one charge."""

from django.db import transaction

from idempotent_actions import services
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome
from project.billing.models import Order

__all__ = ["change_card"]


def change_card(order: Order, payment_method: str, *, by: str) -> Outcome:
    """Charge the declined ``order`` to another card, at the next delivery.

    The order leaves ``declined`` and its capture gets a new provider key, together or not at all.
    Returns the capture's outcome; a second click finds nothing declined, and changes nothing.
    """
    with transaction.atomic():
        locked = Order.objects.select_for_update().get(pk=order.pk)
        declined = Capture.objects.about(locked).filter(state="failed").last()
        if locked.status != Order.Status.DECLINED or declined is None:
            return Outcome(False, "not_declined", subject=locked)
        locked.payment_method = payment_method
        locked.try_again()
        locked.save()
        return services.retry_new_key(declined, refresh=True, note="a new card", by=by)
