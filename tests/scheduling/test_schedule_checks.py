"""What is wrong with the schedules' rows is said by the checks of the database."""

from typing import Any

import django_q.models
import pytest
from django.core import checks
from django.db import connection
from django.test import modify_settings, override_settings
from django_q.models import Schedule

from idempotent_actions import schedule_checks
from idempotent_actions.plans import DEFAULTS
from idempotent_actions.schedule_checks import check_schedules
from idempotent_actions.schedules import PREFIX, sync_schedules
from tests.scheduling.rows import foreign, planning, row

pytestmark = pytest.mark.django_db

SYNC = "Run manage.py sync_schedules."


@pytest.fixture(autouse=True)
def _synced() -> None:
    sync_schedules()


def said(level: int = checks.WARNING) -> list[tuple[str, str]]:
    messages = check_schedules(None, databases=["default"])
    assert {each.level for each in messages} <= {level}
    assert all(each.hint for each in messages)
    return [(str(each.id).removeprefix("idempotent_actions."), each.msg) for each in messages]


def test_what_a_sync_has_made_is_passed_in_silence() -> None:
    assert said() == []
    with planning(tick={"cron": "0 3 * * *", "cluster": "long"}):
        sync_schedules()
        assert said() == []


def test_w010_a_plan_without_a_schedule() -> None:
    Schedule.objects.all().delete()
    assert said() == [("W010", f"Planned, but not scheduled: {', '.join(DEFAULTS)}.")]
    sync_schedules()
    row("tick").delete()
    assert said() == [("W010", "Planned, but not scheduled: tick.")]


def test_w011_two_schedules_of_one_plan() -> None:
    copy = row("tick")
    copy.pk = None
    copy.save()
    text = f"There are 2 schedules '{PREFIX}tick': each run is queued 2 times."
    assert said() == [("W011", text)]
    sync_schedules()
    assert said() == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"next_run": None}, "it has no next run"),
        ({"repeats": 0}, "it has no repeats left"),
        ({"cluster": ""}, "no cluster has an empty name"),
    ],
)
def test_w012_a_schedule_that_is_never_due(columns: dict[str, Any], why: str) -> None:
    Schedule.objects.filter(name=f"{PREFIX}tick").update(**columns)
    assert said() == [("W012", f"The schedule '{PREFIX}tick' will never be due: {why}.")]
    sync_schedules()
    assert said() == []


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"minutes": 7}, "minutes is 7 instead of 60"),
        ({"func": "no.such"}, "func is 'no.such' instead of 'idempotent_actions.tasks.run_plan'"),
        ({"args": "'x',"}, "args is \"'x',\" instead of \"('tick',)\""),
        ({"repeats": 3}, "repeats is 3 instead of -1"),
        ({"intended_date_kwarg": None}, "intended_date_kwarg is None instead of 'slot'"),
    ],
)
def test_w013_a_schedule_that_isnt_as_planned(columns: dict[str, Any], why: str) -> None:
    Schedule.objects.filter(name=f"{PREFIX}tick").update(**columns)
    assert said() == [("W013", f"The schedule '{PREFIX}tick' isn't as planned: {why}.")]
    sync_schedules()
    assert said() == []


def test_w013_a_schedule_of_a_plan_that_is_gone() -> None:
    with planning():
        assert said() == [
            (
                "W013",
                f"The schedule '{PREFIX}{name}' isn't as planned: there is no such plan any more.",
            )
            for name in DEFAULTS
        ]
        sync_schedules()
        assert said() == []


def test_w013_a_function_that_cant_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> Any:
        raise ImportError(f"no {path}")

    monkeypatch.setattr(schedule_checks, "import_string", missing)
    with planning(tick=DEFAULTS["tick"]):
        sync_schedules()
        ((short, text),) = said()
    assert short == "W013"
    assert text.endswith("its function can't be imported: no idempotent_actions.tasks.run_plan.")


POISON: list[tuple[dict[str, Any], str]] = [
    ({"args": "("}, "args '(' gives SyntaxError"),
    ({"args": "today()"}, "args 'today()' gives ValueError"),
    ({"args": "{[]: 1}"}, "args '{[]: 1}' gives TypeError"),
    ({"kwargs": "5"}, "kwargs '5' gives TypeError"),
    ({"kwargs": "{1: 2}"}, "kwargs '{1: 2}' gives TypeError"),
    ({"kwargs": "**{'a': 1}"}, "kwargs \"**{'a': 1}\" gives TypeError"),
    ({"kwargs": "a=1) + f(b=2"}, "kwargs 'a=1) + f(b=2' gives AttributeError"),
    ({"kwargs": "q_options=1"}, "kwargs 'q_options=1' gives TypeError"),
    ({"schedule_type": "C", "cron": "0 0 30 2 *"}, "cron '0 0 30 2 *' gives CroniterBadDateError"),
    ({"schedule_type": "C", "cron": None}, "cron None gives"),
    ({"schedule_type": "X"}, "schedule_type 'X' gives"),
]


def poison(columns: dict[str, Any]) -> int:
    """Store a schedule of the host's with such columns; return its id."""
    made = foreign()
    Schedule.objects.filter(pk=made.pk).update(**columns)
    return int(made.pk)


@pytest.mark.parametrize(("columns", "why"), POISON)
def test_e008_a_schedule_that_stops_all_others_is_named(columns: dict[str, Any], why: str) -> None:
    pk = poison(columns)
    ((short, text),) = said(checks.ERROR)
    assert short == "E008"
    assert text.startswith(f"The schedule \"the host's\" (id {pk}) can't be run: {why}")
    assert "because of it none of them runs" in text


@pytest.mark.parametrize(
    "columns",
    [
        {"args": "1, 'two', None", "kwargs": "{'a': 1}"},
        {"args": "5", "kwargs": "a=1, b='two'"},
        {"args": "", "kwargs": "not python at all"},
        {"kwargs": "{'q_options': {'timeout': 5}}"},
        {"schedule_type": "C", "cron": "0 3 * * *"},
        {"schedule_type": "O", "cron": "nonsense"},
        {"args": "(", "next_run": None},
        {"args": "(", "repeats": 0},
    ],
)
def test_e008_is_silent_on_what_the_scheduler_can_run_or_never_comes_to(
    columns: dict[str, Any],
) -> None:
    poison(columns)
    assert said() == []


def test_e008_cron_without_croniter(monkeypatch: pytest.MonkeyPatch) -> None:
    poison({"schedule_type": "C", "cron": "0 3 * * *"})
    assert said() == []
    monkeypatch.setattr(django_q.models, "croniter", None)
    ((short, text),) = said(checks.ERROR)
    assert short == "E008"
    assert "Please install croniter" in text


def test_with_plans_that_cant_be_read_only_poison_is_named() -> None:
    poison({"args": "("})
    with planning(tick={"every": 5}):
        assert [short for short, _text in said(checks.ERROR)] == ["E008"]


@pytest.mark.parametrize("databases", [None, [], ["other"]])
def test_it_is_silent_where_another_database_is_asked_about(databases: Any) -> None:
    poison({"args": "("})
    assert check_schedules(None, databases=databases) == []


def test_without_django_q2_it_is_silent() -> None:
    poison({"args": "("})
    with modify_settings(INSTALLED_APPS={"remove": "django_q"}):
        assert check_schedules(None, databases=["default"]) == []


@pytest.mark.parametrize("sql", ["DROP TABLE {}", "ALTER TABLE {} DROP COLUMN cluster"])
def test_before_migrate_has_run_it_is_silent(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.format(Schedule._meta.db_table))
    assert check_schedules(None, databases=["default"]) == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")  # the transaction is as it was


def test_only_rows_are_read_and_few_statements_are_needed(
    django_assert_max_num_queries: Any,
) -> None:
    for _ in range(20):
        foreign()
    with django_assert_max_num_queries(4), override_settings(DEBUG=True):
        assert said() == []
