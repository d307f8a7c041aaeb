"""Trials of a product, known by a code that somebody typed, and those with a card on file."""

from datetime import date

from django.db import models
from django_fsm import FSMField, transition

__all__ = ["PaidTrial", "Trial"]


class Trial(models.Model):
    """What a customer may use until ``ends_on``, its last day."""

    class State(models.TextChoices):
        TRIAL = "trial"
        ACTIVE = "active"
        EXPIRED = "expired"

    code = models.CharField(max_length=20, primary_key=True)
    state = FSMField(choices=State.choices, default=State.TRIAL)
    ends_on = models.DateField()
    times_expired = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.code

    @transition(field=state, source=[State.TRIAL, State.ACTIVE], target=State.EXPIRED)
    def expire(self) -> None:
        """Lock the customer out."""
        self.times_expired += 1

    @transition(field=state, source="*", target=State.ACTIVE)
    def renew(self, until: date) -> None:
        """Let the customer in again."""
        self.ends_on = until


class PaidTrial(Trial):
    """A trial that becomes a subscription by itself: a table of its own on top of the other one."""

    card = models.CharField(max_length=20)
    charge_on = models.DateField()
    charges = models.PositiveIntegerField(default=0)

    @transition(field="state", source=Trial.State.TRIAL, target=Trial.State.ACTIVE)
    def convert(self) -> None:
        """Begin to charge: a column of the child, next to the state and the end of the parent."""
        self.charges += 1
        self.ends_on = self.charge_on.replace(year=self.charge_on.year + 1)
