"""Unique until started: one task for a key waits; what comes once it runs gets its own."""

from collections.abc import Callable
from typing import Any

import pytest
from django_q.models import OrmQ

from idempotent_actions.models import Lease
from idempotent_actions.queueing import Unique, enqueue
from tests.ledger.moments import after
from tests.queueing.jobs import MINUTE, called, fail, job, plan, roll_back
from tests.queueing.worker import deliver_again, killed_at_work, queued, work

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

UNIQUE = Unique("k", lease=MINUTE, until="start")


def ask(*args: Any) -> None:
    enqueue(job, *args, unique=UNIQUE)


def test_while_it_waits_another_is_skipped(logged: Logged) -> None:
    ask(1)
    ask(2)
    assert logged() == ["enqueue.skipped"]
    work()
    assert called == [(1,)]


def test_what_is_asked_once_it_runs_gets_its_own_task() -> None:
    plan.append(lambda: ask("changed meanwhile"))
    ask(1)
    work()
    assert called == [(1,), ("changed meanwhile",)]


def test_a_rollback_doesnt_hold_the_key() -> None:
    roll_back(lambda: ask(1))
    ask(2)
    work()
    assert called == [(2,)]


@pytest.mark.slow
def test_a_killed_worker_holds_nothing() -> None:
    ask(1)
    with killed_at_work():
        assert not Lease.objects.exists()
    ask(2)
    deliver_again()
    work()
    assert sorted(called) == [(1,), (2,)]


def test_a_purged_queue_holds_the_key_no_longer_than_the_lease(logged: Logged) -> None:
    with after():
        ask(1)
        OrmQ.objects.all().delete()
    with after(seconds=59):
        ask(2)
    assert (queued(), logged()) == (0, ["enqueue.skipped"])
    with after(seconds=60):
        ask(3)
        work()
    assert called == [(3,)]


def test_one_that_started_after_its_lease_frees_nothing_of_its_successors(logged: Logged) -> None:
    with after():
        ask("late")
    (late,) = OrmQ.objects.all()
    with after(minutes=1):
        ask("next")
        plan.append(lambda: ask("skipped"))
        OrmQ.objects.exclude(pk=late.pk).update(lock="2100-01-01T00:00Z")
        work()
        assert called == [("late",)]
        assert logged() == ["enqueue.skipped"]
        deliver_again()
        work()
    assert called == [("late",), ("next",)]


def test_a_retry_leaves_the_key_to_its_waiting_twin(logged: Logged) -> None:
    plan.append(fail)
    ask("first")
    work()
    ask("twin")  # the failed one had started, so it holds nothing
    twin = Lease.objects.get()
    OrmQ.objects.order_by("-pk")[:1].get().delete()  # the twin waits elsewhere
    deliver_again()
    work()
    assert called == [("first",), ("first",)]
    assert Lease.objects.get().token == twin.token
    ask("third")
    assert logged() == ["enqueue.skipped"]
