"""sync_schedules: one row for each plan, as planned, and next to it nothing is touched."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import modify_settings, override_settings
from django.test.utils import CaptureQueriesContext
from django_q.conf import Conf
from django_q.models import Schedule

from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.models import Lease
from idempotent_actions.plans import DEFAULTS
from idempotent_actions.schedules import FUNCTION, PREFIX, sync_schedules
from idempotent_actions.testing import travel
from tests.invoices import LADDER
from tests.ledger.moments import NOW
from tests.scheduling.rows import MINUTE, cells, foreign, ours, overdue, planning, row, schedule

pytestmark = pytest.mark.django_db

ALL = list(DEFAULTS)
HOUR = timedelta(hours=1)


def done(**kinds: list[str]) -> dict[str, list[str]]:
    return {"created": [], "updated": [], "removed": [], "unchanged": [], **kinds}


def test_the_first_sync_makes_a_row_for_each_plan() -> None:
    assert sync_schedules() == done(created=ALL)
    assert ours() == ALL


def test_a_row_calls_its_plan_for_ever_beginning_now_and_told_its_slot() -> None:
    with planning(own={"job": "tick", "every": 2 * HOUR, "cluster": "long"}), travel(NOW):
        sync_schedules()
    columns = Schedule.objects.values().get()
    del columns["id"]
    assert columns == {
        "name": f"{PREFIX}own",
        "func": FUNCTION,
        "hook": None,
        "args": "('own',)",
        "kwargs": None,
        "schedule_type": Schedule.MINUTES,
        "minutes": 120,
        "repeats": -1,
        "next_run": NOW,
        "cron": None,
        "task": None,
        "cluster": "long",
        "intended_date_kwarg": "slot",
    }


@pytest.mark.parametrize(("zone", "day", "hour"), [("UTC", 3, 3), ("Asia/Tokyo", 2, 18)])
def test_a_cron_expression_begins_at_its_next_time_in_the_zone_of_django_q2(
    zone: str, day: int, hour: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "TIME_ZONE", zone)
    with planning(tick={"cron": "0 3 * * *"}), travel(NOW):
        sync_schedules()
    found = row("tick")
    assert (found.schedule_type, found.cron, found.minutes) == ("C", "0 3 * * *", None)
    assert found.next_run == datetime(2026, 3, day, hour, tzinfo=UTC)


@pytest.mark.parametrize("due", [True, False])
def test_the_second_sync_writes_to_no_schedule(due: bool) -> None:
    with planning(tick={"every": HOUR}, nightly={"job": "tick", "cron": "0 3 * * *"}):
        sync_schedules()
        overdue(days=1 if due else -1)
        before = cells()
        with CaptureQueriesContext(
            connection,
        ) as statements:
            assert sync_schedules() == done(unchanged=["tick", "nightly"])
    assert cells() == before
    written = [each["sql"] for each in statements if not each["sql"].startswith("SELECT")]
    assert not [sql for sql in written if Schedule._meta.db_table in sql]


@pytest.mark.django_db(transaction=True)
def test_what_the_scheduler_has_moved_on_is_left_there() -> None:
    sync_schedules()
    overdue(minutes=1)
    assert len(schedule()) == len(ALL)
    before = cells()
    assert sync_schedules() == done(unchanged=ALL)
    assert cells() == before


def test_what_the_admin_writes_for_an_empty_field_is_no_change() -> None:
    sync_schedules()
    Schedule.objects.update(kwargs="", hook="", cron="")
    assert sync_schedules() == done(unchanged=ALL)


@pytest.mark.parametrize(
    ("rhythm", "next_run"),
    [
        ({"every": 2 * HOUR}, NOW),
        ({"cron": "0 3 * * *"}, datetime(2026, 3, 3, 3, tzinfo=UTC)),
    ],
)
def test_a_changed_rhythm_begins_anew(rhythm: dict[str, Any], next_run: datetime) -> None:
    with planning(tick={"every": HOUR}):
        sync_schedules()
    Schedule.objects.update(next_run=NOW + timedelta(days=9))
    with planning(tick=rhythm), travel(NOW):
        assert sync_schedules() == done(updated=["tick"])
        assert row("tick").next_run == next_run
        assert sync_schedules() == done(unchanged=["tick"])


def test_from_cron_to_every_and_to_another_cron_expression() -> None:
    with planning(tick={"cron": "0 3 * * *"}):
        sync_schedules()
    with planning(tick={"cron": "0 4 * * *"}), travel(NOW):
        assert sync_schedules() == done(updated=["tick"])
        assert row("tick").next_run == datetime(2026, 3, 3, 4, tzinfo=UTC)
    with planning(tick={"every": HOUR}), travel(NOW):
        assert sync_schedules() == done(updated=["tick"])
        assert (row("tick").next_run, row("tick").cron) == (NOW, None)


def test_another_cluster_is_no_new_beginning() -> None:
    with planning(tick={"every": HOUR}):
        sync_schedules()
    next_run = row("tick").next_run
    with planning(tick={"every": HOUR, "cluster": "long"}):
        assert sync_schedules() == done(updated=["tick"])
    assert (row("tick").cluster, row("tick").next_run) == ("long", next_run)


@pytest.mark.parametrize(
    "columns",
    [
        {"next_run": None},
        {"repeats": 0},
        {"repeats": 3},
        {"func": "no.such.function"},
        {"args": "('prune_captures',)"},
        {"args": "("},
        {"args": None},
        {"kwargs": "{'slot': 1}"},
        {"hook": "builtins.print"},
        {"cluster": ""},
        {"cluster": "nobody"},
        {"intended_date_kwarg": None},
        {"schedule_type": Schedule.ONCE},
        {"minutes": 1},
    ],
)
def test_a_row_that_was_tampered_with_is_repaired(columns: dict[str, Any]) -> None:
    with travel(NOW):
        sync_schedules()
        before = cells()
        Schedule.objects.filter(name=f"{PREFIX}tick").update(**columns)
        rest = [name for name in ALL if name != "tick"]
        assert sync_schedules() == done(updated=["tick"], unchanged=rest)
    assert cells() == before


def test_of_two_rows_of_a_plan_the_oldest_stays() -> None:
    sync_schedules()
    before = cells()
    for _ in range(2):
        copy = row("tick") if ours().count("tick") == 1 else Schedule.objects.latest("pk")
        copy.pk, copy.next_run = None, copy.next_run - HOUR
        copy.save()
    assert sync_schedules() == done(removed=["tick", "tick"], unchanged=ALL)
    assert cells() == before


def test_a_plan_that_is_gone_from_the_settings_loses_its_row() -> None:
    with planning(tick={"every": HOUR}, old={"job": "tick", "every": HOUR}):
        sync_schedules()
    with planning(tick={"every": HOUR}):
        assert sync_schedules() == done(removed=["old"], unchanged=["tick"])
    with planning():
        assert sync_schedules() == done(removed=["tick"])
    assert cells() == []


def test_the_hosts_own_schedules_are_not_touched() -> None:
    for name in (None, "", "tick", "idempotent_actions", "IDEMPOTENT_ACTIONS:tick", "idempotent-a"):
        foreign(name=name, args="(", next_run=None)
    foreign(name="idempotentXactions:tick", func=FUNCTION, args="('tick',)")
    before = cells()
    sync_schedules()
    with planning():
        sync_schedules()
    assert cells() == before


@pytest.mark.parametrize("there", [True, False])
def test_a_dry_run_says_the_same_and_writes_nothing(there: bool) -> None:
    if there:
        with planning(a={"job": "tick", "every": HOUR}, b={"job": "tick", "every": HOUR}):
            sync_schedules()
        Lease.objects.all().delete()
    before = cells()
    with planning(b={"job": "tick", "every": 2 * HOUR}, c={"job": "tick", "every": HOUR}):
        with CaptureQueriesContext(connection) as statements:
            said = sync_schedules(dry_run=True)
        assert {each["sql"].split()[0] for each in statements} == {"SELECT"}
        assert (cells(), Lease.objects.count()) == (before, 0)
        assert said == sync_schedules()
    assert said == (
        done(created=["c"], updated=["b"], removed=["a"]) if there else done(created=["b", "c"])
    )


def test_a_rollback_of_the_caller_leaves_nothing() -> None:
    with transaction.atomic():
        sync_schedules()
        transaction.set_rollback(True)
    assert cells() == []


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        ({"tick": {"every": timedelta(seconds=5)}}, "whole minutes"),
        (
            {"mine": {"job": "tick", "every": HOUR, "actions": [LADDER, "expire_trails"]}},
            "names the action 'expire_trails', which isn't registered. Registered: ",
        ),
    ],
)
def test_with_a_plan_that_cant_be_nothing_is_written(
    schedules: dict[str, Any], message: str
) -> None:
    sync_schedules()
    overdue(days=1)
    before = cells()
    with (
        override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"prune_captures": None, **schedules}}),
        pytest.raises(InvalidSetting) as caught,
    ):
        sync_schedules()
    assert message in str(caught.value)
    assert cells() == before


def test_without_django_q2_it_says_what_to_do() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": "django_q"}),
        pytest.raises(InvalidSetting) as caught,
    ):
        sync_schedules()
    assert "add 'django_q' to INSTALLED_APPS" in str(caught.value)
    assert "let cron run `manage.py tick`" in str(caught.value)


def test_it_leaves_no_lease_that_holds_anybody_off() -> None:
    sync_schedules()
    with travel(datetime.now(UTC) + MINUTE):
        assert list(Lease.objects.lapsed(datetime.now(UTC) + MINUTE)) == list(Lease.objects.all())
