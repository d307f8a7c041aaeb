"""The one clock: the database's, so that hosts with skewed clocks agree on what has lapsed."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from idempotent_actions.exceptions import InvalidInput

__all__ = ["check_instant", "fixed", "later", "now"]

# Each of these is the time of the *statement*. CURRENT_TIMESTAMP on PostgreSQL is the start of the
# transaction, which in a long transaction lies well in the past. All are asked in UTC and come
# without a zone, whatever the connection's is.
_STATEMENT_TIME = {
    "postgresql": "SELECT STATEMENT_TIMESTAMP() AT TIME ZONE 'UTC'",
    "mysql": "SELECT UTC_TIMESTAMP(6)",
    "sqlite": "SELECT STRFTIME('%Y-%m-%d %H:%M:%f', 'NOW')",
}

# Set by ``testing.travel`` only. A module global and not a context variable, so that the threads a
# test starts travel along.
_travelled_to: datetime | None = None


def now(using: str = "default") -> datetime:
    """Read the clock of the database behind the alias ``using``.

    Returns an aware datetime in UTC, or a naive one in the current time zone where the host runs
    with ``USE_TZ = False``. Every deadline and every lease is compared with this value.
    """
    instant = _travelled_to or _read(using)
    return instant if settings.USE_TZ else timezone.make_naive(instant)


def fixed() -> datetime | None:
    """Return the instant at which a test lets the clock stand still, or None when it runs."""
    if _travelled_to is None or settings.USE_TZ:
        return _travelled_to
    return timezone.make_naive(_travelled_to)


def later(read: datetime, monotonic: float) -> datetime:
    """Return the database's time now, given that it was ``read`` when ``time.monotonic()`` said so.

    Spares a round trip where a second reading would be the third statement of two.
    """
    return fixed() or read + timedelta(seconds=time.monotonic() - monotonic)


def check_instant(value: datetime, name: str) -> datetime:
    """Return ``value`` if it can be compared with ``now``; raise ``InvalidInput`` otherwise.

    ``name`` is the argument's name in the message. A naive datetime is refused where ``USE_TZ`` is
    on: guessing its zone would move a deadline by hours.
    """
    if not isinstance(value, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {value!r}.")
    if settings.USE_TZ and timezone.is_naive(value):
        raise InvalidInput(f"{name} must carry a time zone (USE_TZ is on): {value!r} has none.")
    if not settings.USE_TZ and timezone.is_aware(value):
        raise InvalidInput(f"{name} must be naive (USE_TZ is off): {value!r} has a time zone.")
    return value


def _read(using: str) -> datetime:
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT_TIME[connection.vendor])
        value: Any = cursor.fetchone()[0]
    if isinstance(value, str):
        value = parse_datetime(value)
    return value.replace(tzinfo=UTC)  # type: ignore[no-any-return]
