"""Parcels that are tracked once they are sent: an action with effects, some of them wrong."""

from collections.abc import Iterable
from typing import Any

from idempotent_actions import effect
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Intent
from tests.oddities.models import DispatchParcels, Parcel, Seal

__all__ = ["TrackedParcels", "make_parcel", "notify_customs", "track"]


@effect(name="explaining.track", secret=["token"])
def track(call: Call) -> None:
    """Tell the carrier; nothing is noted, for these tests ask what is requested."""


@effect(name="explaining.notify_customs")
def notify_customs(call: Call) -> None:
    """Tell the customs."""


class TrackedParcels(DispatchParcels):
    """What follows depends on the state that the transition leaves, and on another table."""

    def effects(self, subject: Parcel, step: Step) -> Iterable[Intent]:
        if subject.name == "unreadable":
            raise LookupError("no such carrier")
        if subject.name == "no effect":
            return []
        if subject.name == "refused":
            Parcel.objects.create(pk=subject.pk, name="again")
        if subject.name == "no intent":
            return ["a text"]  # type: ignore[list-item]
        intents = [track(parcel=subject.name, state=subject.state, token="s3cret")]  # noqa: S106
        if subject.name == "unstorable":
            intents.append(notify_customs(of=object()))
        if subject.name == "twice":
            intents.append(track(parcel=subject.name))
        if Seal.objects.filter(parcel=subject).count() > 1:
            intents.append(notify_customs(parcel=subject.name))
        return intents


def make_parcel(name: str = "books", seals: int = 1, **columns: Any) -> Parcel:
    """Store a parcel that is due as long as one of its seals is whole."""
    parcel = Parcel.objects.create(name=name, **columns)
    for _ in range(seals):
        Seal.objects.create(parcel=parcel)
    return parcel
