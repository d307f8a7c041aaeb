"""Two nights in Berlin, and what a croniter must know of them."""

from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest

__all__ = ["BACK", "FORWARD", "HALF", "HOUR", "knows_folds"]

HALF = timedelta(minutes=30)
HOUR = timedelta(hours=1)

BACK = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
"""The first 02:30 of two; half an hour later the clock is put back, and it is 02:00 again."""

FORWARD = datetime(2026, 3, 29, 1, tzinfo=UTC)
"""When it is 03:00 at once instead of 02:00."""

_CRONITER = tuple(int(part) for part in version("croniter").split(".")[:2])

knows_folds = pytest.mark.skipif(
    _CRONITER < (6, 2), reason="croniter before 6.2 leaves out the second tick of a repeated hour"
)
