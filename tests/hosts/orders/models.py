"""Orders as they have always been: a django-fsm state machine that nobody wants to rewrite."""

from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

from django.db import models
from django.utils import timezone
from django_fsm import FSMField, FSMModelMixin, transition

__all__ = ["Order"]

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
        CAPTURED = "captured"
        REFUNDED = "refunded"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    state = FSMField(choices=State.choices, default=State.AUTHORIZED, protected=True)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    refunded = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    shipped_at = models.DateTimeField(null=True, blank=True)
    suspicious = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["shipped_at"]

    def __str__(self) -> str:
        return str(self.id)

    @transition(
        field=state, source=State.AUTHORIZED, target=State.CAPTURED, conditions=[is_trusted]
    )
    def capture(self) -> None:
        """Take the money."""

    @transition(
        field=state, source=State.CAPTURED, target=State.REFUNDED, conditions=[is_refundable]
    )
    def refund(self) -> None:
        """Give it back."""
        self.refunded += self.total
