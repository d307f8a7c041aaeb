"""The clock is the database's, and in UTC, whatever zone the connection or the host is in."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from idempotent_actions import clock

pytestmark = pytest.mark.django_db

CLOSE = timedelta(minutes=1)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_the_zone_of_the_connection_moves_no_deadline(zone: str) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('TimeZone', %s, true)", [zone])
    assert abs(clock.now() - datetime.now(UTC)) < CLOSE


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_without_time_zones_it_is_the_hosts_local_time(zone: str) -> None:
    with override_settings(USE_TZ=False, TIME_ZONE=zone):
        local = timezone.make_naive(datetime.now(UTC))
        assert abs(clock.now() - local) < CLOSE
