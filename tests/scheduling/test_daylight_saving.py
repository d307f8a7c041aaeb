"""The nights on which a clock goes back or forward: what django-q2 makes of them, and a ladder.

In Berlin, 2026-10-25: 02:30 comes twice, at 00:30 and at 01:30 UTC. 2026-03-29: 02:30 never comes.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ

from idempotent_actions import tasks, testing
from idempotent_actions.models import Run
from idempotent_actions.schedules import sync_schedules
from idempotent_actions.testing import travel
from tests.invoices import LADDER, climbed, make_invoice, now_there
from tests.scheduling.nights import BACK, FORWARD, HALF, HOUR, knows_folds
from tests.scheduling.rows import MINUTE, planning, queued, row, schedule

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)

NIGHTLY = {"job": "tick", "actions": [LADDER], "cron": "30 2 * * *"}
HALF_HOURLY = {"job": "tick", "actions": [LADDER], "every": HALF}


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Conf, "TIME_ZONE", "Europe/Berlin")  # read when django-q2 is imported
    # It doesn't catch up with cron expressions anyway. Off, it hangs: see test_repeated_hours.
    monkeypatch.setattr(Conf, "CATCH_UP", True)
    with timezone.override("Europe/Berlin"):
        yield


def scheduled(plan: Mapping[str, Any], since: datetime, until: datetime) -> list[datetime]:
    """Let the scheduler look every ten minutes from ``since``; return the slots that it queued."""
    OrmQ.objects.all().delete()
    with planning(climb=plan):
        with travel(since), time_machine.travel(since, tick=False):
            sync_schedules()
        moment = since
        while moment <= until:
            with time_machine.travel(moment + timedelta(seconds=1), tick=False):
                schedule()
            moment += 10 * MINUTE
    return [datetime.fromisoformat(task["kwargs"]["slot"]).astimezone(UTC) for task in queued()]


@knows_folds
def test_a_time_that_comes_twice_is_two_slots_an_hour_apart() -> None:
    slots = scheduled(NIGHTLY, BACK - HOUR, BACK + DAY)
    assert slots == [BACK, BACK + HOUR]
    wall = [timezone.localtime(slot) for slot in slots]
    assert [f"{each:%H:%M} fold {each.fold}" for each in wall] == ["02:30 fold 0", "02:30 fold 1"]
    assert row("climb").next_run == BACK + DAY + HOUR, "02:30 again, in winter"


def test_no_instant_is_a_slot_twice() -> None:
    slots = scheduled({**NIGHTLY, "cron": "*/30 * * * *"}, BACK - 2 * HOUR, BACK + 4 * HOUR)
    assert len(set(slots)) == len(slots)
    assert BACK in slots


def test_a_time_that_never_comes_is_one_slot() -> None:
    slots = scheduled(NIGHTLY, FORWARD - 2 * HOUR, FORWARD + 12 * HOUR)
    assert len(slots) == 1
    assert FORWARD <= slots[0] <= FORWARD + HALF, "03:00, or 03:30 by a croniter before 6.2"
    assert row("climb").next_run == FORWARD + DAY - HALF, "02:30 again, in summer"


@pytest.mark.parametrize("night", [BACK - HALF, FORWARD])
@pytest.mark.parametrize("catch_up", [True, False])
def test_a_plan_by_minutes_knows_no_nights(
    night: datetime, catch_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "CATCH_UP", catch_up)
    slots = scheduled(HALF_HOURLY, night - 4 * HALF, night + 4 * HALF)
    assert slots == [night + n * HALF for n in range(-4, 5)]


@pytest.mark.parametrize("due", [BACK - DAY, BACK, BACK + HALF])
def test_both_ticks_of_a_repeated_hour_climb_one_rung(due: datetime) -> None:
    invoice = make_invoice(due_at=due)
    for instant in (BACK, BACK + HOUR):
        with travel(instant):
            testing.tick(LADDER)
    assert climbed(invoice) == ["reminder"]
    first = BACK if due <= BACK else BACK + HOUR
    assert now_there(invoice).next_at == first + 7 * DAY, "seven times 24 hours, whatever the wall"


@knows_folds
def test_both_tasks_of_a_repeated_hour_run_and_climb_one_rung() -> None:
    invoice = make_invoice(due_at=BACK - DAY)
    for slot in scheduled(NIGHTLY, BACK - HOUR, BACK + 12 * HOUR):
        with planning(climb=NIGHTLY), travel(slot):
            (report,) = tasks.run_plan("climb", slot.isoformat())["actions"]
            assert report["stopped"] == ""
    assert climbed(invoice) == ["reminder"]
    slots = Run.objects.order_by("slot").values_list("slot", flat=True)
    assert list(slots) == [BACK, BACK + HOUR]


def test_the_task_of_a_missing_hour_climbs_one_rung() -> None:
    invoice = make_invoice(due_at=FORWARD - DAY)
    for slot in scheduled(NIGHTLY, FORWARD - 2 * HOUR, FORWARD + 12 * HOUR):
        with planning(climb=NIGHTLY), travel(slot):
            tasks.run_plan("climb", slot.isoformat())
    assert climbed(invoice) == ["reminder"]
    assert Run.objects.count() == 1
