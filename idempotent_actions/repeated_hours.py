"""The hour that comes twice, when daylight saving ends: django-q2's scheduler may hang in it.

With ``catch_up`` off it asks a cron expression for its next time until that lies ahead. It compares
two times of one zone, which Python does by what the wall's clock shows: at 02:30:01 the second
02:30, an hour away, has passed. So it asks on and on until the clock is put back, with all due
schedules locked. (django-q2 1.11.1, with croniter from 6.2; before, it left out the second time.)
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

__all__ = ["HINT", "hangs_at"]

HINT = (
    "Plan it outside of that hour or by minutes, or set Q_CLUSTER['time_zone'] = 'UTC': cron "
    "expressions are then in UTC, which knows no such hour."
)

_AHEAD = timedelta(days=366)
"""A clock is put back once a year where it is at all."""

_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


def hangs_at(cron: str) -> datetime | None:
    """Return when the scheduler will hang over the cron expression, within a year; None: not.

    Judged by the settings as they are now, and by asking what the scheduler will ask. An expression
    that can't be read hangs nothing.
    """
    options = getattr(settings, "Q_CLUSTER", {})
    if not settings.USE_TZ or options.get("catch_up", True):
        return None
    start = timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    try:
        from croniter import croniter

        moments = _moments(options.get("time_zone", settings.TIME_ZONE), start)
        return next(
            (each for each in moments if croniter(cron, each).get_next(datetime) <= each), None
        )
    except (ImportError, KeyError, ValueError):
        return None


@lru_cache(maxsize=2)
def _moments(zone_name: str, start: datetime) -> list[datetime]:
    """Return each minute of the hours that will come twice, the first time; a second late."""
    zone = ZoneInfo(zone_name)
    # In UTC: within the zone, an hour later would be an hour on the wall.
    hours = (start + n * _HOUR for n in range(_AHEAD // _HOUR))
    return [
        each for hour in hours if _put_back(hour, _HOUR, zone) for each in _repeated(hour, zone)
    ]


def _repeated(hour: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    before = hour
    while not _put_back(before, _MINUTE, zone):
        before += _MINUTE
    back = before + _MINUTE
    moment = back - _put_back(before, _MINUTE, zone)
    while moment < back:
        yield (moment + _SECOND).astimezone(zone)
        moment += _MINUTE


def _put_back(moment: datetime, step: timedelta, zone: ZoneInfo) -> timedelta:
    """Return by how much the clock is put back within the step; zero if it isn't."""
    before = moment.astimezone(zone).utcoffset() or timedelta()
    after = (moment + step).astimezone(zone).utcoffset() or timedelta()
    return max(before - after, timedelta())
