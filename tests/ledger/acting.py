"""Actions of the ledger's tests: acts with effects on rows of several apps."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from idempotent_actions import Action, LadderAction
from idempotent_actions.effects import Intent
from idempotent_actions.models import Capture, LadderModel
from project.billing.models import Invoice
from tests.ledger.outside import charge, mail
from tests.oddities.models import DispatchParcels, Parcel
from tests.registering import only

__all__ = ["Dispatch", "Dunning", "ladder", "mailing", "parcel"]

Effects = Callable[..., Iterable[Intent]]


def mailing(action: Action, subject: Any, step: Any) -> Iterator[Intent]:
    """One mail about the subject."""
    yield mail(to=str(subject))


def ladder(model: type[LadderModel], effects: Effects = mailing) -> type[LadderAction]:
    """A ladder on `model` whose rungs have `effects`."""
    return type("Noticing", (LadderAction,), {"model": model, "effects": effects})


class Dunning(LadderAction):
    """Each rung mails the customer, and charges a fee."""

    model = Invoice
    hook_fails = False

    def effects(self, subject: Invoice, step: Any) -> Iterator[Intent]:
        yield mail(to=subject.email)
        yield charge(amount=subject.amount)


class Dispatch(DispatchParcels):
    """A dispatch is charged to the one whose name is on the parcel, and notes what came of it."""

    name = "ledger_dispatch"

    def effects(self, subject: Parcel, step: Any) -> Iterator[Intent]:
        yield charge(card=subject.name)

    def settled(self, subject: Parcel, capture: Capture) -> None:
        subject.weight = {"succeeded": 2, "failed": 3}[capture.state]
        if subject.name == "fails":
            raise ValueError("the hook fails")


@contextmanager
def parcel(name: str = "old card", **columns: Any) -> Iterator[Parcel]:
    """A parcel that a tick would dispatch, `Dispatch` being the only action."""
    with only(Dispatch):
        yield Parcel.objects.create(name=name, **columns)
