"""What a worker runs: plain dicts, ended in time, twice without harm, and never holding on."""

import json
import pickle
import signal
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ
from django_q.timeout import TimeoutHandler

from idempotent_actions import services, tasks
from idempotent_actions.exceptions import InvalidInput, InvalidSetting
from idempotent_actions.models import Capture, Lease, Run
from idempotent_actions.plans import DEFAULTS
from idempotent_actions.registry import registry
from idempotent_actions.testing import tick
from idempotent_actions.turns import LASTS
from project.billing.models import Invoice
from tests.invoices import climbed, make_invoice
from tests.ledger.acting import Dunning
from tests.ledger.moments import NOW, after
from tests.ledger.outside import book, charge
from tests.processes import Meet, in_processes
from tests.registering import only
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)

SLOT = (NOW + timedelta(days=1)).isoformat()


@pytest.mark.parametrize("plan", sorted(DEFAULTS))
def test_what_a_task_returns_is_plain(plan: str) -> None:
    make_invoice()
    with after(days=1), only(Dunning):
        done = tasks.run_plan(plan, SLOT)
    assert done["plan"] == plan
    assert json.loads(json.dumps(done)) == done
    assert pickle.loads(pickle.dumps(done)) == done  # noqa: S301 - our own


def test_a_task_that_is_delivered_twice_climbs_once() -> None:
    invoice = make_invoice()
    with after(days=1), only(Dunning):
        first, second = tasks.run_plan("tick", SLOT), tasks.run_plan("tick", SLOT)
    assert climbed(invoice) == ["reminder"]
    assert [first["actions"][0]["stopped"], second["actions"][0]["stopped"]] == ["", "slot_done"]
    assert len(book()) == 2, "the rung's mail and charge, once each"


def test_each_plan_runs_its_job() -> None:
    ladders = {
        "detect": {"job": "mark_overdue", "every": timedelta(minutes=10)},
        "climb": {"job": "escalate_overdue", "every": timedelta(minutes=10), "overlap": "share"},
    }
    invoice = make_invoice()
    with override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": ladders}), only(Dunning):
        with after(days=1):
            assert tasks.run_plan("detect")["actions"][0]["action"].startswith("mark_overdue:")
            assert Invoice.objects.get().status == "overdue"
            assert tasks.run_plan("climb")["actions"][0]["applied"] == 1
        assert climbed(invoice) == ["reminder"]


def test_delivery_and_pruning_are_jobs_too() -> None:
    with after():
        services.request(charge, key="k")
        assert tasks.run_plan("deliver_captures")["delivery"]["succeeded"] == 1
    with after(days=366):
        assert tasks.run_plan("prune_captures") == {
            "plan": "prune_captures",
            "pruned": 1,
            "leases": 1,
        }


def test_the_watchdog_tells_the_log_as_well(caplog: pytest.LogCaptureFixture) -> None:
    with after(), only(Dunning):
        assert not tasks.run_plan("check_heartbeat")["ok"]
    (told,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert (told.__dict__["action"], told.__dict__["kind"]) == ("heartbeat.trouble", "stale")


def test_all_calls_that_are_due_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    some = iter([100, 100, 50, 0])
    monkeypatch.setattr(tasks, "hand_out", lambda: next(some))
    assert tasks.run_plan("deliver_captures")["handed_out"] == 250


def test_a_plan_that_is_gone_from_the_settings_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert tasks.run_plan("no such") == {"plan": "no such", "skipped": "no such plan"}
    assert [each.__dict__.get("action") for each in caplog.records] == ["plan.unknown"]


def test_settings_that_cant_be_read_are_an_error_of_the_task() -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={"SCHEDULES": {"tick": {}}}),
        pytest.raises(InvalidSetting),
    ):
        tasks.run_plan("tick")


def test_a_slot_is_iso_text() -> None:
    with pytest.raises(InvalidInput, match="slot must be an ISO instant"):
        tasks.run_plan("tick", "yesterday")


@pytest.mark.parametrize(("timeout", "seconds"), [(60, 45.0), (None, None)])
def test_a_task_ends_before_its_worker_does(
    timeout: int | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "TIMEOUT", timeout)
    asked: dict[str, Any] = {}

    def note(*names: str, **options: Any) -> list[Any]:
        asked.update(options)
        return []

    monkeypatch.setattr("idempotent_actions.polling.tick", note)
    tasks.run_plan("tick")
    assert asked.get("seconds") == seconds


# -- a worker that takes too long


def take_too_long(meet: Meet) -> bool:
    """Runs in a child: the worker's alarm rings while a row is locked."""

    def hangs(self: Any, rung: Any) -> None:
        signal.pause()

    with after(days=1), only(Dunning), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Invoice, "on_climb", hangs)
        try:
            with TimeoutHandler(2):
                tasks.run_plan("tick", SLOT)
        except TimeoutException:
            return True
    return False


def is_free(invoice: Invoice) -> bool:
    with transaction.atomic():
        return Invoice.objects.select_for_update(skip_locked=True).filter(pk=invoice.pk).exists()


def test_a_worker_that_is_ended_with_a_row_locked_leaves_nothing_behind() -> None:
    invoice = make_invoice()
    assert in_processes(f"{__name__}.{take_too_long.__name__}", []) == [True]
    until(lambda: is_free(invoice), "the database to notice that the worker is gone")

    assert climbed(invoice) == []
    with after(days=1), only(Dunning):
        assert tasks.run_plan("tick", SLOT)["actions"][0]["stopped"] == "overlapping"
    with after(days=1, seconds=LASTS.total_seconds()), only(Dunning):
        assert tasks.run_plan("tick", SLOT)["actions"][0]["applied"] == 1
    assert climbed(invoice) == ["reminder"]
    died, resumed = Run.objects.order_by("id")
    assert (died.finished_at, resumed.resumes) == (None, died)


# -- the nudge


def queued() -> list[str]:
    return [row.task["func"] for row in OrmQ.objects.order_by("id")]


def test_many_commits_make_one_nudge_until_a_worker_takes_it_up() -> None:
    for number in range(3):
        services.request(charge, key=("k", number))
    assert queued() == ["idempotent_actions.tasks.deliver_now"]
    (lease,) = Lease.objects.all()
    assert tasks.deliver_now(str(lease.token))["succeeded"] == 3
    services.request(charge, key="later")
    assert len(queued()) == 2


def test_a_commit_with_many_requests_makes_one() -> None:
    with transaction.atomic():
        for number in range(3):
            services.request(charge, key=("k", number))
        assert len(connection.run_on_commit) == 1
        assert queued() == []
    assert len(queued()) == 1


def test_a_rollback_makes_none() -> None:
    with transaction.atomic():
        services.request(charge, key="k")
        transaction.set_rollback(True)
    assert (queued(), Lease.objects.count(), Capture.objects.count()) == ([], 0, 0)


def test_a_persons_act_makes_one() -> None:
    with only(Dunning), after(days=1):
        make_invoice()
        tick(deliver=False)
        assert queued() == [], "who polls delivers, too"
        services.act(next(iter(registry)).name, make_invoice(2), by="ann", reason="now")
        assert len(queued()) == 1


def test_a_queue_that_is_down_costs_a_minute_and_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def down(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no broker")

    with monkeypatch.context() as patch:
        patch.setattr("django_q.tasks.async_task", down)
        capture = services.request(charge, key="k")
    assert [record.action for record in caplog.records if hasattr(record, "action")] == [
        "nudge.lost"
    ]
    assert not Lease.objects.exists(), "the next one is taken"
    assert tasks.run_plan("deliver_captures")["delivery"]["succeeded"] == 1
    assert Capture.objects.get().pk == capture.pk


@override_settings(IDEMPOTENT_ACTIONS={"NUDGE": False})
def test_it_can_be_turned_off() -> None:
    services.request(charge, key="k")
    assert (queued(), Lease.objects.count()) == ([], 0)
