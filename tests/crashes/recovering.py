"""Plain ticks after a crash, until nothing more comes of them."""

from collections.abc import Sequence
from datetime import timedelta

from idempotent_actions import captures, clock
from idempotent_actions.delivering import DeliveryReport
from idempotent_actions.testing import travel
from tests.crashes import provider

__all__ = ["MINUTES", "tick_after"]

MINUTES = (0, 2, 4, 10, 20, 60, 30 * 24 * 60)
"""At once, past the lease, past the settle time, and a month later."""


def tick_after(minutes: Sequence[float] = MINUTES) -> list[DeliveryReport]:
    """Deliver what is due at each of these moments from now on; nothing is ever done twice."""
    start = clock.now()
    reports = []
    for each in minutes:
        with travel(start + timedelta(minutes=each)):
            reports.append(captures.deliver(workers=0))
        assert set(provider.done().values()) <= {1}
    return reports
