"""What django-q2's scheduler does wrong, with its own code; and what finds it or makes it harmless.

The queue is an unreliable clock: it may run a job twice, never, or late.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import Schedule

from idempotent_actions import tasks
from idempotent_actions.plans import DEFAULTS
from idempotent_actions.queue_checks import check_clusters
from idempotent_actions.schedule_checks import check_schedules
from idempotent_actions.schedules import PREFIX, sync_schedules
from project.billing.models import Invoice
from tests.invoices import LADDER, climbed, make_invoice
from tests.scheduling.rows import cells, foreign, overdue, planning, queued, row, schedule

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
OURS = sorted(f"{PREFIX}{name}" for name in DEFAULTS)


def said() -> list[str]:
    return [str(each.id).removeprefix("idempotent_actions.") for each in _messages()]


def _messages() -> list[Any]:
    return check_schedules(None, databases=["default"])


@pytest.fixture
def hourly() -> Iterator[None]:
    """One plan, due: the ladder of invoices, each hour."""
    with planning(climb={"job": "tick", "actions": [LADDER], "every": HOUR}):
        sync_schedules()
        overdue(minutes=1)
        yield


def run_queued() -> list[str]:
    """Run what is queued, as a worker does; return why each ended early."""
    stopped = []
    for task in queued():
        (report,) = tasks.run_plan(*task["args"], **task["kwargs"])["actions"]
        stopped.append(report["stopped"])
    return stopped


# -- a poisoned row


@pytest.mark.parametrize(
    "columns",
    [
        {"args": "billing.invoice"},
        {"kwargs": "5"},
        {"schedule_type": Schedule.CRON, "cron": "0 0 30 2 *"},
    ],
)
def test_one_row_that_cant_be_read_keeps_all_others_from_running(columns: dict[str, Any]) -> None:
    sync_schedules()
    overdue(minutes=1)
    poison = foreign()
    Schedule.objects.filter(pk=poison.pk).update(**columns)
    before = cells()
    for _ in range(3):
        assert schedule() == []
    assert cells() == before

    (message,) = _messages()
    assert (message.id, message.obj) == ("idempotent_actions.E008", poison)
    assert f"(id {poison.pk})" in message.msg
    message.obj.delete()
    assert schedule() == OURS


def test_a_cron_row_without_croniter_keeps_all_others_from_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync_schedules()
    Schedule.objects.filter(pk=foreign().pk).update(schedule_type="C", cron="0 3 * * *")
    overdue(minutes=1)
    with monkeypatch.context() as patch:
        patch.setattr("django_q.models.croniter", None)
        assert (schedule(), said()) == ([], ["E008"])
    assert (len(schedule()), said()) == (len(OURS) + 1, [])


# -- a row twice


@pytest.mark.usefixtures("hourly")
def test_a_row_that_is_there_twice_queues_each_run_twice_until_a_sync_removes_it() -> None:
    invoice = make_invoice()
    copy = row("climb")
    copy.pk = None
    copy.save()
    assert said() == ["W011"]
    assert schedule() == [f"{PREFIX}climb"] * 2
    assert run_queued() == ["", "slot_done"]
    assert climbed(invoice) == ["reminder"]

    assert sync_schedules()["removed"] == ["climb"]
    overdue(minutes=1)
    assert schedule() == [f"{PREFIX}climb"]
    assert said() == []


# -- after an outage


@pytest.mark.parametrize(("catch_up", "tasks_queued"), [(True, 11), (False, 1)])
def test_a_burst_after_an_outage_of_ten_hours_unless_catch_up_is_off(
    catch_up: bool, tasks_queued: int, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(Conf, "CATCH_UP", catch_up)  # read when django-q2 is imported
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, "catch_up": catch_up}
    assert [each.id for each in check_clusters(None)] == (
        ["idempotent_actions.W005"] if catch_up else []
    )
    with planning(climb={"job": "tick", "actions": [LADDER], "every": HOUR}):
        sync_schedules()
        overdue(hours=10, minutes=1)
        while schedule():
            pass
        assert len(queued()) == tasks_queued
        assert row("climb").next_run > timezone.now()
        invoice = make_invoice()
        assert run_queued() == [""] * tasks_queued, "each has a slot of its own"
        assert climbed(invoice) == ["reminder"], "and yet there is one rung: the wait sees to that"


# -- a stale save


@pytest.mark.usefixtures("hourly")
def test_a_stale_save_brings_a_slot_back_and_it_is_passed_over() -> None:
    stale = row("climb")  # as an admin's form holds it
    invoice = make_invoice()
    assert schedule() == [f"{PREFIX}climb"]
    assert schedule() == []
    stale.save()
    assert schedule() == [f"{PREFIX}climb"]

    first, second = queued()
    assert first["kwargs"] == second["kwargs"] == {"slot": stale.next_run.isoformat()}
    assert run_queued() == ["", "slot_done"]
    assert climbed(invoice) == ["reminder"]


@pytest.mark.usefixtures("hourly")
def test_a_sync_writes_back_no_stale_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    Schedule.objects.update(cluster="nobody")  # something to repair
    next_run = row("climb").next_run
    assert sync_schedules()["updated"] == ["climb"]
    assert row("climb").next_run == next_run
    assert schedule() == [f"{PREFIX}climb"]
    later = row("climb").next_run
    sync_schedules()
    assert (row("climb").next_run, schedule()) == (later, [])


# -- never


@pytest.mark.parametrize(
    ("columns", "check"),
    [
        ({"next_run": None}, "W012"),
        ({"repeats": 0}, "W012"),
        ({"cluster": ""}, "W012"),
        ({"cluster": "nobody"}, "W013"),
    ],
)
@pytest.mark.usefixtures("hourly")
def test_a_row_that_never_runs_is_named_and_a_sync_brings_it_back(
    columns: dict[str, Any], check: str
) -> None:
    Schedule.objects.update(**columns)
    assert (schedule(), said()) == ([], [check])
    assert sync_schedules()["updated"] == ["climb"]
    make_invoice()
    assert (schedule(), said()) == ([f"{PREFIX}climb"], [])
    assert run_queued() == [""]
    assert Invoice.objects.get().rung == "reminder"
