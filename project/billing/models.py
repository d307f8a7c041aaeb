"""Invoices with the dunning ladder they climb while unpaid, and orders with a payment each."""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django_fsm import FSMField, transition

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Invoice", "Order"]


class Invoice(LadderModel):
    """A bill. Paying it is a fact of its own, and ends its ladder."""

    ladder: ClassVar[Ladder] = Ladder(
        Rung("reminder", wait_after=timedelta(days=7)),
        Rung("warning", wait_after=timedelta(days=7)),
        Rung("final_notice", wait_after=timedelta(days=14)),
    )

    number = models.CharField(max_length=32, unique=True)
    customer = models.CharField(max_length=100)
    email = models.EmailField()
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    paid_at = models.DateTimeField(null=True, blank=True)

    class Meta(LadderModel.Meta):
        ordering: ClassVar[list[str]] = ["number"]

    def __str__(self) -> str:
        return self.number


class Order(models.Model):
    """An order, paid by card when ``capture_at`` has come."""

    class Status(models.TextChoices):
        """From the order to its payment."""

        PENDING = "pending"
        CAPTURING = "capturing"
        CAPTURED = "captured"
        DECLINED = "declined"

    number = models.CharField(max_length=32, unique=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3, default="eur")
    payment_method = models.CharField(max_length=100)
    capture_at = models.DateTimeField()
    payment_ref = models.CharField(max_length=255, blank=True, editable=False)
    status = FSMField(choices=Status.choices, default=Status.PENDING.value, editable=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["number"]
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["status", "capture_at"])]

    def __str__(self) -> str:
        return self.number

    @transition(field="status", source=Status.PENDING.value, target=Status.CAPTURING.value)
    def start_capture(self) -> None:
        """Note that the payment is being captured: from here on nobody else begins it."""

    @transition(field="status", source=Status.CAPTURING.value, target=Status.CAPTURED.value)
    def finish_capture(self) -> None:
        """Note that it is paid."""

    @transition(field="status", source=Status.CAPTURING.value, target=Status.DECLINED.value)
    def decline(self) -> None:
        """Note that it is certainly not paid."""

    @transition(field="status", source=Status.DECLINED.value, target=Status.CAPTURING.value)
    def try_again(self) -> None:
        """Note that another card is tried."""
