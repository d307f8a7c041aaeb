"""Unique until done: one task for a key, from the commit that asks for it to its end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django_q.models import OrmQ

from idempotent_actions.leases import take
from idempotent_actions.models import Lease
from idempotent_actions.queueing import Unique, enqueue
from idempotent_actions.testing import travel
from tests.ledger.moments import NOW, after
from tests.queueing.jobs import MINUTE, called, job, other, plan, roll_back
from tests.queueing.worker import deliver_again, killed_at_work, queued, work

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

UNIQUE = Unique(("order", 7), lease=MINUTE)


def ask(*args: Any) -> None:
    enqueue(job, *args, unique=UNIQUE)


def lease() -> Lease:
    return Lease.objects.get()


def test_a_second_is_skipped_and_says_so(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    with after():
        ask(1)
        assert logged() == []
        ask(2)
    (record,) = [each for each in caplog.records if each.name == "idempotent_actions"]
    told: Any = record
    assert (told.action, told.lease) == ("enqueue.skipped", lease().name)
    assert told.until == (NOW + MINUTE).isoformat()
    work()
    assert called == [(1,)]


def test_after_its_end_there_may_be_another() -> None:
    ask(1)
    work()
    assert not Lease.objects.exists()
    ask(2)
    work()
    assert called == [(1,), (2,)]


def test_while_it_runs_another_is_skipped(logged: Logged) -> None:
    plan.append(lambda: ask(2))
    ask(1)
    work()
    assert called == [(1,)]
    assert logged() == ["enqueue.skipped"]


def test_the_key_is_the_functions_own() -> None:
    ask(1)
    enqueue(other, unique=UNIQUE)
    enqueue(job, 2, unique=Unique(("order", 8), lease=MINUTE))
    assert queued() == 3


def test_a_long_key_is_a_key_like_others() -> None:
    for end in "abb":
        enqueue(job, end, unique=Unique("x" * 250 + end, lease=MINUTE))
    work()
    assert called == [("a",), ("b",)]


def test_a_rollback_doesnt_hold_the_key() -> None:
    roll_back(lambda: ask(1))
    ask(2)
    work()
    assert called == [(2,)]


@pytest.mark.parametrize("until", ["done", "start"])
@pytest.mark.parametrize("inside", [True, False])
def test_t52_after_a_failed_push_the_next_with_that_key_is_accepted(
    inside: bool, until: Any, broken_queue: Callable[[], None], logged: Logged
) -> None:
    unique = Unique("k", lease=MINUTE, until=until)
    if inside:
        with transaction.atomic():
            enqueue(job, 1, unique=unique)
        assert logged() == ["enqueue.failed"]
    else:
        with pytest.raises(ConnectionError):
            enqueue(job, 1, unique=unique)
    assert not Lease.objects.exists()
    broken_queue()
    enqueue(job, 2, unique=unique)
    work()
    assert called == [(2,)]


@pytest.mark.slow
def test_a_killed_worker_holds_the_key_until_its_task_has_run_again(logged: Logged) -> None:
    ask(1)
    with killed_at_work():
        pass
    ask(2)
    assert logged() == ["enqueue.skipped"]
    deliver_again()
    work()
    assert called == [(1,)]
    ask(3)
    work()
    assert called == [(1,), (3,)]


@pytest.mark.slow
def test_a_killed_worker_whose_task_is_lost_holds_the_key_no_longer_than_the_lease() -> None:
    ask(1)
    with killed_at_work():
        pass
    OrmQ.objects.all().delete()
    with travel(lease().expires_at - timedelta(seconds=1)):
        ask(2)
    assert queued() == 0
    with travel(lease().expires_at):
        ask(3)
    work()
    assert called == [(3,)]


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


def test_the_lease_counts_anew_from_the_start() -> None:
    def look() -> None:
        with after(seconds=109):
            ask(2)
        with after(seconds=110):
            ask(3)

    with after():
        ask(1)
    plan.append(look)
    with after(seconds=50):
        work()
    assert called == [(1,), (3,)]


def test_a_lapsed_lease_that_nobody_took_is_held_again() -> None:
    with after():
        ask(1)
    with after(hours=1):
        plan.append(lambda: ask(2))
        work()
    assert called == [(1,)]
    assert not Lease.objects.exists()


def test_a_lease_that_is_gone_is_taken_again_if_it_is_free() -> None:
    ask(1)
    Lease.objects.all().delete()
    plan.append(lambda: ask(2))
    work()
    assert called == [(1,)]
    assert not Lease.objects.exists()


def test_one_that_waited_too_long_runs_beside_its_successor_and_says_so(logged: Logged) -> None:
    with after():
        ask("late")
    with after(minutes=1):
        ask("next")
        work()
    assert called == [("late",), ("next",)]
    assert logged() == ["enqueue.overran"]
    assert not Lease.objects.exists()


def test_a_foreign_token_frees_nothing() -> None:
    with after():
        ask("late")
    with after(minutes=1):
        name = lease().name
        there = take(name, MINUTE)
        assert there is not None
        work()
        assert called == [("late",)]
        assert lease().token == there.token
        ask("skipped")
    assert queued() == 0
