"""The services as a clerk calls them, and for each an invoice that it applies to."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.services import Outcome
from tests.invoices import DUE, LADDER

__all__ = [
    "DAY",
    "HELD",
    "ON_REMINDER",
    "WEEK",
    "Service",
    "act",
    "cancel",
    "each_service",
    "hold",
    "release",
    "reopen",
    "resolve",
    "skip_rung",
    "step_back",
]

DAY, WEEK = timedelta(days=1), timedelta(days=7)
Service = Callable[..., Outcome]


def act(invoice: Any, **request: Any) -> Outcome:
    return services.act(LADDER, invoice, **{"by": "clerk", "reason": "because", **request})


def hold(invoice: Any, until: datetime = DUE + DAY, **request: Any) -> Outcome:
    return services.hold(invoice, until, **{"by": "clerk", "reason": "because", **request})


def release(invoice: Any, **request: Any) -> Outcome:
    return services.release(invoice, **{"by": "clerk", "reason": "because", **request})


def resolve(invoice: Any, **request: Any) -> Outcome:
    return services.resolve(invoice, **{"by": "clerk", "reason": "because", **request})


def cancel(invoice: Any, **request: Any) -> Outcome:
    return services.cancel(invoice, **{"by": "clerk", "reason": "because", **request})


def reopen(invoice: Any, **request: Any) -> Outcome:
    return services.reopen(invoice, **{"by": "clerk", "reason": "because", **request})


def skip_rung(invoice: Any, **request: Any) -> Outcome:
    seen = _seen(invoice)
    return services.skip_rung(
        invoice, **{"by": "clerk", "reason": "because", "seen": seen, **request}
    )


def step_back(invoice: Any, **request: Any) -> Outcome:
    seen = _seen(invoice)
    return services.step_back(
        invoice, **{"by": "clerk", "reason": "because", "seen": seen, **request}
    )


def _seen(invoice: Any) -> tuple[int, str]:
    return (getattr(invoice, "cycle", 1), getattr(invoice, "rung", ""))


HELD = {"hold_until": DUE + DAY, "hold_reason": "a promise"}
ON_REMINDER = {"status": "escalated", "rung": "reminder", "next_at": DUE + WEEK}
OVERDUE_WARNING = {"status": "overdue", "rung": "warning", "next_at": DUE}
AT_REST = {"next_at": None, "hold_until": None, "hold_reason": ""}
OVER = {"status": "resolved", "rung": "warning", "escalated_at": DUE}

# Each service, an invoice it applies to, and what of that invoice changes.
APPLIES: list[tuple[Service, dict[str, Any], dict[str, Any]]] = [
    (act, {"status": "overdue"}, {**ON_REMINDER, "next_at": None, "escalated_at": DUE}),
    (hold, ON_REMINDER, {"hold_until": DUE + DAY, "hold_reason": "because"}),
    (release, {**ON_REMINDER, **HELD}, {"hold_until": None, "hold_reason": ""}),
    (resolve, {**ON_REMINDER, **HELD}, {"status": "resolved", **AT_REST}),
    (cancel, {**ON_REMINDER, **HELD}, {"status": "cancelled", **AT_REST}),
    (reopen, OVER, {"status": "open", "rung": "", "cycle": 2, "escalated_at": None}),
    (
        skip_rung,
        ON_REMINDER,
        {"rung": "warning", "next_at": DUE + 2 * WEEK, "escalated_at": DUE, "revision": 1},
    ),
    (step_back, OVERDUE_WARNING, {**ON_REMINDER, "escalated_at": DUE, "revision": 1}),
]
each_service = pytest.mark.parametrize(("service", "columns", "changed"), APPLIES)
