"""Pauses as a clerk sets them, also from another connection, and a ladder that they stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db.models import Q
from django_fsm.signals import pre_transition

from idempotent_actions import services
from idempotent_actions.models import Pause
from project.billing.models import Invoice
from tests.invoices import LADDER
from tests.ledger.acting import Dunning
from tests.threads import together

__all__ = [
    "ACTION",
    "CHARGE",
    "EVERYTHING",
    "MAIL",
    "Settling",
    "at_first",
    "elsewhere",
    "lift",
    "lift_all",
    "pause",
]

EVERYTHING = ("everything", "")
ACTION = ("action", LADDER)
MAIL = ("effect", "ledger.mail")
CHARGE = ("effect", "ledger.charge")


class Settling(Dunning):
    """Dunning that ends when the invoice is paid."""

    name = LADDER

    def resolved_when(self) -> Q:
        return Q(paid_at__isnull=False)


def pause(scope: str, name: str = "", until: datetime | None = None) -> Pause:
    return services.pause(scope, name, reason="a wrong rate", by="clerk", until=until)


def lift(one: Pause) -> bool:
    return services.lift(one, reason="mended", by="clerk")


def lift_all() -> None:
    for one in Pause.objects.filter(lifted_at=None):
        assert lift(one)


def elsewhere(scope: str, name: str = "") -> None:
    """Pause from another connection, and commit."""
    together(lambda: pause(scope, name))


@contextmanager
def at_first(transition: str, do: Callable[[], Any]) -> Iterator[None]:
    """Do something in the middle of the first batch that fires `transition` on an invoice."""
    done: list[Any] = []

    def receive(name: str, **kwargs: Any) -> None:
        if name == transition and not done:
            done.append(True)
            do()

    pre_transition.connect(receive, sender=Invoice)
    try:
        yield
        assert done, f"no invoice has come to {transition}"
    finally:
        pre_transition.disconnect(receive, sender=Invoice)
