"""A report on each day, and the people who get it."""

from typing import Any, ClassVar

from django.db import models
from django_fsm import FSMField, transition

__all__ = ["DailyReport", "Recipient"]


class Recipient(models.Model):
    """Somebody who reads the report every morning."""

    email = models.EmailField(unique=True)
    active = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.email


def has_readers(report: Any) -> bool:
    """Tell whether anybody would get it."""
    return Recipient.objects.filter(active=True).exists()


class DailyReport(models.Model):
    """The report on one day. That there is one row for a day is the key's promise."""

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"

    day = models.DateField(primary_key=True)
    state = FSMField(choices=State.choices, default=State.PENDING)
    readers = models.PositiveIntegerField(default=0)
    reached = models.PositiveIntegerField(default=0)

    class Meta:
        ordering: ClassVar[list[str]] = ["day"]

    def __str__(self) -> str:
        return f"report of {self.day}"

    @transition(field=state, source=State.PENDING, target=State.SENT, conditions=[has_readers])
    def send(self) -> None:
        """Go out to everybody who wants it."""
        self.readers = Recipient.objects.filter(active=True).count()
