"""Invoices, and the dunning ladder they climb while unpaid."""

from datetime import timedelta
from typing import ClassVar

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Invoice"]


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
