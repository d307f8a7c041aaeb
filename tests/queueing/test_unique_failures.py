"""Unique until done, when a task fails: its twins wait for its last try, and no longer."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django_q.brokers import Broker
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from idempotent_actions.models import Lease
from idempotent_actions.queueing import Unique, enqueue
from tests.ledger.moments import after
from tests.queueing.jobs import MINUTE, called, fail, job, plan
from tests.queueing.worker import deliver_again, queued, work

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

UNIQUE = Unique("k", lease=MINUTE)


def ask(*args: Any) -> None:
    enqueue(job, *args, unique=UNIQUE)


def lease() -> Lease:
    return Lease.objects.get()


def test_one_that_was_taken_again_is_not_left_behind_by_a_failure() -> None:
    ask(1)
    Lease.objects.all().delete()
    plan.append(fail)
    work()
    assert not Lease.objects.exists()  # the retry, which doesn't know its token, takes its own
    deliver_again()
    work()
    assert (len(called), Lease.objects.count()) == (2, 0)


def test_a_task_that_will_be_tried_again_keeps_its_twin_out(logged: Logged) -> None:
    plan.append(fail)
    ask(1)
    work()
    ask(2)
    assert logged() == ["enqueue.skipped"]
    plan.append(lambda: ask(3))
    deliver_again()
    work()
    assert called == [(1,), (1,)]
    assert logged() == ["enqueue.skipped"]
    assert not Lease.objects.exists()


def test_a_retry_whose_lease_lapsed_leaves_its_twins_alone() -> None:
    plan.append(fail)
    with after():
        ask("first")
        work()
    with after(minutes=1):
        ask("twin")
        twins = lease().token
        OrmQ.objects.order_by("-pk")[:1].get().delete()  # it is with another worker
        deliver_again()
        work()
        assert called == [("first",), ("first",)]
        assert lease().token == twins


@pytest.mark.parametrize(("option", "value"), [("ACK_FAILURES", True), ("MAX_ATTEMPTS", 1)])
def test_one_that_failed_for_good_frees_the_key(
    option: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, option, value)
    plan.append(fail)
    ask(1)
    work()
    assert (queued(), Lease.objects.count()) == (0, 0)
    ask(2)
    work()
    assert called == [(1,), (2,)]


class WithoutReceipts(ORM):  # type: ignore[misc]
    """Loses what a worker has taken, as Redis does."""

    acknowledge = Broker.acknowledge


def test_without_receipts_a_failure_is_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conf, "BROKER_CLASS", f"{__name__}.WithoutReceipts")
    plan.append(fail)
    ask(1)
    work()
    assert not Lease.objects.exists()


def test_who_comes_back_after_its_end_runs_again_and_leaves_nothing() -> None:
    ask(1)
    task = OrmQ.objects.get()
    work()
    OrmQ.objects.create(key=task.key, payload=task.payload, lock=task.lock)
    work()
    assert called == [(1,), (1,)]
    assert not Lease.objects.exists()


def test_a_lease_that_cant_be_let_go_doesnt_have_the_job_done_again(
    monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    def lost(*_: Any) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("idempotent_actions.leases.Held.release", lost)
    ask(1)
    work()
    assert (called, queued(), logged()) == ([(1,)], 0, ["lease.kept"])
