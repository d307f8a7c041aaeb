"""A parcel that is dispatched while its seal is whole; it can be recalled and dispatched again."""

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django_fsm import FSMField, transition

from idempotent_actions import Action

__all__ = ["DispatchParcels", "Parcel", "Seal"]


def is_light(parcel: Any) -> bool:
    """The condition of a dispatch."""
    return bool(parcel.weight < 30)


class Parcel(models.Model):
    """A plain model with a state field of its own: nothing inherited."""

    name = models.CharField(max_length=50)
    state = FSMField(default="waiting")
    trip = models.PositiveIntegerField(default=1)
    weight = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return self.name

    @transition(field=state, source="waiting", target="sent", conditions=[is_light])
    def dispatch(self) -> None:
        if self.name == "dropped":
            raise RuntimeError("it fell off the belt")

    @transition(field=state, source="sent", target="waiting")
    def recall(self) -> None:
        self.trip += 1


class Seal(models.Model):
    """A fact in another table that the rule looks at."""

    parcel = models.ForeignKey(Parcel, on_delete=models.CASCADE)
    broken = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"seal of {self.parcel}"


class DispatchParcels(Action):
    """Not registered by itself: tests that need it do so."""

    name = "dispatch_parcels"
    model = Parcel
    transition = "dispatch"

    def due(self, now: datetime) -> Q:
        return Q(Exists(Seal.objects.filter(parcel=OuterRef("pk"), broken=False)))

    def occurrence(self, subject: Parcel) -> str:
        return f"trip {subject.trip}"
