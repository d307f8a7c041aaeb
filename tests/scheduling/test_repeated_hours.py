"""The hour that comes twice: in it django-q2's scheduler may hang; a check says so in time."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import override_settings
from django_q.conf import Conf
from django_q.models import Schedule

from idempotent_actions.queue_checks import check_plans
from idempotent_actions.repeated_hours import hangs_at
from idempotent_actions.schedule_checks import check_schedules
from idempotent_actions.schedules import PREFIX, sync_schedules
from idempotent_actions.testing import travel
from tests.scheduling.nights import BACK, HALF, HOUR, knows_folds
from tests.scheduling.rows import MINUTE, foreign, planning, queued, row, schedule

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
BERLIN = {"orm": "default", "catch_up": False, "time_zone": "Europe/Berlin"}
PLAN = {"job": "tick", "cron": "30 2 * * *"}


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Conf, "TIME_ZONE", BERLIN["time_zone"])  # read when it is imported
    monkeypatch.setattr(Conf, "CATCH_UP", BERLIN["catch_up"])
    with override_settings(Q_CLUSTER=BERLIN), time_machine.travel(BACK - HOUR, tick=False):
        yield


class GoesOn(AssertionError):
    """The scheduler asks more often than there is anything to ask."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that lets a minute pass with each question for the next time."""
    questions: list[datetime] = []
    calculate = Schedule.calculate_next_run

    def answer(self: Any, next_run: datetime | None = None) -> Any:
        questions.append(answered := calculate(self, next_run))
        if len(questions) > 100:
            raise GoesOn
        traveller.shift(MINUTE)
        return answered

    with time_machine.travel(BACK + SECOND, tick=False) as traveller:
        monkeypatch.setattr(Schedule, "calculate_next_run", answer)
        yield questions


def planned(cron: str) -> Any:
    return planning(climb={**PLAN, "cron": cron})


@knows_folds
def test_the_scheduler_asks_on_and_on_until_the_clock_is_put_back(asked: list[datetime]) -> None:
    with planned("30 2 * * *"):
        with travel(BACK - HOUR):
            sync_schedules()
        other = foreign(next_run=BACK - MINUTE)
        assert row("climb").next_run == BACK
        schedule()
    assert len(asked) >= HALF // MINUTE, "for half an hour, with all that are due locked"
    assert {task["group"] for task in queued()} == {other.name, f"{PREFIX}climb"}
    assert row("climb").next_run == BACK + HOUR


def hangs(cron: str, night: datetime, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Let the scheduler look at each minute of a night, in vain if it would hang."""
    calculate = Schedule.calculate_next_run
    questions = 0

    def answer(self: Any, next_run: datetime | None = None) -> Any:
        nonlocal questions
        questions += 1
        if questions > 5:
            raise GoesOn
        return calculate(self, next_run)

    Schedule.objects.all().delete()
    with planned(cron), travel(night), time_machine.travel(night, tick=False):
        sync_schedules()
    for minute in range(4 * 60):
        questions = 0
        moment = night + minute * MINUTE + SECOND
        with time_machine.travel(moment, tick=False), monkeypatch.context() as patch:
            patch.setattr(Schedule, "calculate_next_run", answer)
            if row("climb").next_run < moment:
                schedule()
                if questions > 5:
                    return True
    return False


@pytest.mark.parametrize(
    ("cron", "hanging"),
    [
        ("30 2 * * *", True),
        ("0 2 * * *", True),
        ("*/30 * * * *", True),
        ("15 * * * *", True),
        ("30 1 * * *", False),
        ("0 3 * * *", False),
        ("30 3 * * *", False),
        ("30 2 1 1 *", False),
        ("30 2 * * 1-5", False),  # it is a Sunday
    ],
)
@knows_folds
def test_it_is_foreseen_for_whichever_expression_it_happens(
    cron: str, hanging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hangs(cron, BACK - HOUR, monkeypatch) is hanging
    assert (hangs_at(cron) is not None) is hanging


@pytest.mark.parametrize(
    "options", [{"time_zone": "UTC"}, {"time_zone": "Asia/Tokyo"}, {"catch_up": True}]
)
def test_it_is_not_feared_where_it_cant_happen(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if zone := options.get("time_zone"):
        monkeypatch.setattr(Conf, "TIME_ZONE", zone)
    monkeypatch.setattr(Conf, "CATCH_UP", options.get("catch_up", False))
    with override_settings(Q_CLUSTER={**BERLIN, **options}):
        assert hangs_at("*/30 * * * *") is None
    assert not hangs("*/30 * * * *", BACK - HOUR, monkeypatch)


def test_without_time_zones_no_hour_is_told_apart() -> None:
    with override_settings(USE_TZ=False):
        assert hangs_at("30 2 * * *") is None


@pytest.mark.parametrize("cron", ["", "nonsense", "0 0 30 2 *"])
def test_what_cant_be_read_is_not_its_concern(cron: str) -> None:
    assert hangs_at(cron) is None


@knows_folds
def test_the_zone_is_the_projects_where_the_cluster_has_none() -> None:
    options = {"catch_up": False}
    with override_settings(Q_CLUSTER=options, TIME_ZONE="America/New_York"):
        found = [hangs_at("30 2 * * *"), hangs_at("30 1 * * *")]
    assert [each and each.isoformat() for each in found] == [None, "2026-11-01T01:30:01-04:00"]


@knows_folds
def test_w014_a_plan_that_will_hang_the_scheduler() -> None:
    with planned("0 3 * * *"):
        assert check_plans(None) == []
    with planned("30 2 * * *"):
        (message,) = check_plans(None)
    assert message.id == "idempotent_actions.W014"
    assert "'climb' will hang" in message.msg
    assert "from 2026-10-25 02:30+02:00 on" in message.msg
    assert "Q_CLUSTER['time_zone'] = 'UTC'" in str(message.hint)


@knows_folds
def test_w014_a_schedule_of_the_hosts_that_will_hang_the_scheduler() -> None:
    with planned("30 2 * * *"):
        sync_schedules()
        host = foreign(schedule_type="C", cron="0 3 * * *")
        assert check_schedules(None, databases=["default"]) == [], "ours is said of the plan"
        Schedule.objects.filter(pk=host.pk).update(cron="*/30 * * * *")
        (message,) = check_schedules(None, databases=["default"])
    assert (message.id, message.obj) == ("idempotent_actions.W014", host)
    assert f"(id {host.pk}) will hang" in message.msg
    assert message.hint
