"""Instants of the ledger's tests, and the ledger as they look at it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from idempotent_actions.models import Capture
from idempotent_actions.testing import travel

__all__ = ["FAR", "NOW", "after", "now_there", "row"]

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
FAR = NOW + timedelta(days=3650)


@contextmanager
def after(**waited: float) -> Iterator[datetime]:
    """Travel to `NOW` and so much later, as `timedelta` takes it."""
    moment = NOW + timedelta(**waited)
    with travel(moment):
        yield moment


def now_there(capture: Capture) -> Capture:
    """The capture as the database has it now."""
    return Capture.objects.get(pk=capture.pk)


def row(capture: Capture) -> dict[str, Any]:
    """Every column of the capture, as the database has it now."""
    return {**Capture.objects.filter(pk=capture.pk).values().get()}
