"""What happens to a stored invoice while somebody holds an older instance of it."""

from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.testing import tick
from project.billing.models import Invoice
from tests.asking import DAY
from tests.invoices import DUE, LADDER

__all__ = ["OWN", "climb", "happenings", "own_columns"]

OWN = (
    "status",
    "rung",
    "cycle",
    "revision",
    "next_at",
    "escalated_at",
    "hold_until",
    "hold_reason",
)


def own_columns() -> dict[str, Any]:
    return {**Invoice.objects.values(*OWN).get()}


def climb() -> None:
    tick(LADDER)


def hold() -> None:
    services.hold(Invoice.objects.get(), DUE + DAY, by="clerk", reason="a promise")


def adopt() -> None:
    given: Any = {"next_at": DUE + DAY, "by": "clerk", "reason": "because"}
    services.adopt(LADDER, Invoice.objects.all(), rung="warning", **given)


def resolve_and_reopen() -> None:
    services.resolve(Invoice.objects.get(), by="clerk", reason="paid")
    services.reopen(Invoice.objects.get(), by="clerk", reason="not paid")


def all_of_it() -> None:
    for happening in (climb, resolve_and_reopen, adopt, hold):
        happening()


happenings = pytest.mark.parametrize(
    "happening", [climb, hold, adopt, resolve_and_reopen, all_of_it]
)
