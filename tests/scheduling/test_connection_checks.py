"""What the databases of queue and rows would break is said by the system checks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core import checks
from django.db import connections, models
from django.test import modify_settings, override_settings

from idempotent_actions.queue_checks import check_connections
from tests.scheduling.options import said


@contextmanager
def database(**changed: Any) -> Iterator[None]:
    """Let the settings of the default database be so, without connecting anew."""
    given = connections["default"].settings_dict
    before = {key: given[key] for key in changed}
    given.update(changed)
    try:
        yield
    finally:
        given.update(before)


def test_e005_a_pool_under_forks() -> None:
    for pool in (True, {"min_size": 2}):
        with database(OPTIONS={"pool": pool}):
            found = said()
        assert (list(found), found["E005"].level) == (["E005"], checks.ERROR)
        assert "Take 'pool' out of DATABASES['default']['OPTIONS']" in str(found["E005"].hint)
    with database(OPTIONS={"pool": False}):
        assert said() == {}


def test_e005_and_w008_look_at_the_queues_database_too(elsewhere: dict[str, Any]) -> None:
    elsewhere["OPTIONS"] = {"pool": True}
    elsewhere["CONN_MAX_AGE"] = 60
    assert said() == {}, "nobody's"
    assert list(said({"orm": "elsewhere"})) == ["W006", "E005", "W008"]


@pytest.mark.parametrize("age", [60, None])
def test_w008_connections_that_are_kept_unseen(age: int | None) -> None:
    with database(CONN_MAX_AGE=age, CONN_HEALTH_CHECKS=False):
        found = said()
        assert (list(found), found["W008"].level) == (["W008"], checks.WARNING)
        assert "CONN_HEALTH_CHECKS'] = True, or CONN_MAX_AGE to 0" in str(found["W008"].hint)
    with database(CONN_MAX_AGE=age, CONN_HEALTH_CHECKS=True):
        assert said() == {}


def test_w008_a_file_is_always_there(elsewhere: dict[str, Any]) -> None:
    elsewhere |= {"ENGINE": "django.db.backends.sqlite3", "CONN_MAX_AGE": 60}
    assert list(said({"orm": "elsewhere"})) == ["W006"]


def test_w006_tasks_in_another_database_than_our_rows(elsewhere: dict[str, Any]) -> None:
    found = said({"orm": "elsewhere"})
    assert (list(found), found["W006"].level) == (["W006"], checks.WARNING)
    assert "kept in the database 'elsewhere', schedules and audit rows in 'default'" in (
        found["W006"].msg
    )
    assert "Set Q_CLUSTER['orm'] = 'default'" in str(found["W006"].hint)


class SchedulesElsewhere:
    """A router that parts the schedules from the rest."""

    def db_for_write(self, model: type[models.Model], **hints: Any) -> str | None:
        return "elsewhere" if model._meta.app_label == "django_q" else None


def test_w006_schedules_in_another_database_than_our_rows(elsewhere: dict[str, Any]) -> None:
    with override_settings(DATABASE_ROUTERS=[f"{__name__}.SchedulesElsewhere"]):
        found = said()
    assert list(found) == ["W006"]
    assert "audit rows in 'default' and 'elsewhere'" in found["W006"].msg


def test_without_django_q2_they_are_quiet() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": "django_q"}),
        override_settings(Q_CLUSTER={"orm": "elsewhere"}),
        database(OPTIONS={"pool": True}, CONN_MAX_AGE=60),
    ):
        assert check_connections(None) == []
