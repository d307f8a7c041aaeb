"""Orders as they have always been: a django-fsm state machine that nobody wants to rewrite."""

from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

from django.db import models
from django.utils import timezone
from django_fsm import FSMField, FSMModelMixin, transition

__all__ = ["Entry", "Order"]

REFUNDABLE_FOR = timedelta(days=30)


def is_trusted(order: Any) -> bool:
    """Tell whether nobody suspects fraud."""
    return not order.suspicious


def is_refundable(order: Any) -> bool:
    """Tell whether the customer may still send it back."""
    return bool(order.shipped_at) and timezone.now() < order.shipped_at + REFUNDABLE_FOR


class Order(FSMModelMixin, models.Model):
    """Something sold: the money is authorized first, captured when it ships, perhaps refunded."""

    class State(models.TextChoices):
        AUTHORIZED = "authorized"
        CAPTURING = "capturing"
        CAPTURED = "captured"
        DECLINED = "declined"
        REFUNDED = "refunded"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    state = FSMField(choices=State.choices, default=State.AUTHORIZED, protected=True)
    card = models.CharField(max_length=20, default="4242")
    total = models.DecimalField(max_digits=10, decimal_places=2)
    refunded = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    shipped_at = models.DateTimeField(null=True, blank=True)
    suspicious = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["shipped_at"]

    def __str__(self) -> str:
        return str(self.id)

    @transition(
        field=state, source=State.AUTHORIZED, target=State.CAPTURING, conditions=[is_trusted]
    )
    def capture(self) -> None:
        """Begin to take the money: from here on nobody else does."""

    @transition(field=state, source=State.CAPTURING, target=State.CAPTURED)
    def confirm(self) -> None:
        """Note that the bank has given it."""

    @transition(field=state, source=State.CAPTURING, target=State.DECLINED)
    def decline(self) -> None:
        """Note that the bank won't."""

    @transition(field=state, source=State.DECLINED, target=State.CAPTURING)
    def try_again(self, card: str) -> None:
        """Ask once more, with another card."""
        self.card = card

    @transition(
        field=state, source=State.CAPTURED, target=State.REFUNDED, conditions=[is_refundable]
    )
    def refund(self) -> None:
        """Give it back."""
        self.refunded += self.total


class Entry(models.Model):
    """A line in the books: no payment is in there twice."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE)
    ref = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.ref
