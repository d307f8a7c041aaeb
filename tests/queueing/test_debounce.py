"""Debounce: many requests, one call, with the last one's arguments; and none of it is lost."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django_q.models import OrmQ

from idempotent_actions.deferring import GIVE_UP_AFTER, hand_out
from idempotent_actions.models import DeferredCall
from idempotent_actions.queueing import Debounce, enqueue
from idempotent_actions.testing import travel
from tests.ledger.moments import NOW, after
from tests.queueing.jobs import called, job, other, plan, roll_back
from tests.queueing.worker import killed_at_work, queued, work
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

DEBOUNCE = Debounce("k", wait=timedelta(seconds=30), max_wait=timedelta(minutes=2))


def ask(*args: Any, **kwargs: Any) -> None:
    enqueue(job, *args, debounce=DEBOUNCE, **kwargs)


def sweep() -> list[Any]:
    """Hand out what is due, and let a worker do it."""
    hand_out()
    return work()


def row() -> DeferredCall:
    return DeferredCall.objects.get()


def test_of_many_requests_the_last_is_called_once_it_is_quiet(logged: Logged) -> None:
    for seconds in (0, 20, 40):
        with after(seconds=seconds):
            ask(seconds)
    with after(seconds=69):
        assert sweep() == []
    with after(seconds=70):
        sweep()
        sweep()
    assert called == [(40,)]
    assert not DeferredCall.objects.exists()
    assert logged() == ["enqueue.put_off"] * 3


def test_requests_that_never_cease_put_it_off_no_longer_than_the_max_wait() -> None:
    for seconds in range(0, 120, 20):
        with after(seconds=seconds):
            ask(seconds)
            assert sweep() == []
    with after(seconds=119):
        ask(119)
        assert sweep() == []
    with after(seconds=120):
        sweep()
    assert called == [(119,)]


def test_the_next_burst_has_its_own_max_wait() -> None:
    with after():
        ask(1)
    with after(seconds=30):
        sweep()
    with after(seconds=100):
        ask(2)
    with after(seconds=129):
        ask(3)
    assert row().due_at == NOW + timedelta(seconds=159)


def test_each_key_and_each_function_has_a_call_of_its_own() -> None:
    with after():
        ask(1)
        enqueue(other, debounce=DEBOUNCE)
        enqueue(job, 2, debounce=Debounce("x" * 255, wait=DEBOUNCE.wait, max_wait=DEBOUNCE.wait))
    with after(seconds=30):
        sweep()
    assert sorted(called, key=str) == [("other",), (1,), (2,)]


def test_arguments_come_back_as_they_were() -> None:
    with after():
        ask(Decimal("1.50"), when=NOW, ids=[1, 2])
    with after(seconds=30):
        sweep()
    assert called == [(Decimal("1.50"), {"when": NOW, "ids": [1, 2]})]


def test_a_rollback_puts_nothing_off() -> None:
    with after():
        ask(1)
    before = DeferredCall.objects.values().get()
    with after(seconds=10):
        roll_back(lambda: ask(2))
    assert DeferredCall.objects.values().get() == before


def test_a_failed_push_is_made_up_for_by_the_next_sweep(
    broken_queue: Callable[[], None], logged: Logged
) -> None:
    with after():
        ask(1)
        enqueue(other, debounce=DEBOUNCE)
    with after(seconds=30):
        assert hand_out() == 0
        assert logged() == ["enqueue.put_off", "enqueue.put_off", "hand_out.failed"]
        broken_queue()
        assert hand_out() == 2


def test_a_purged_queue_delays_the_call_by_the_time_until_it_is_given_up() -> None:
    with after():
        ask(1)
    with after(seconds=30):
        assert hand_out() == 1
        OrmQ.objects.all().delete()
    patience = 30 + GIVE_UP_AFTER.total_seconds()
    with after(seconds=patience - 1):
        assert hand_out() == 0
    with after(seconds=patience):
        sweep()
    assert called == [(1,)]


@pytest.mark.slow
def test_a_killed_workers_call_is_made_again() -> None:
    ask(1)
    with travel(row().due_at):
        assert hand_out() == 1
    with killed_at_work():
        pass
    OrmQ.objects.all().delete()
    with travel(row().due_at - timedelta(seconds=1)):
        assert hand_out() == 0
    with travel(row().due_at):
        sweep()
    assert called == [(1,)]
    assert not DeferredCall.objects.exists()


def test_requests_while_it_waits_in_the_queue_are_served_by_it() -> None:
    with after():
        ask(1)
    with after(seconds=30):
        hand_out()
        ask(2)
        work()
    assert called == [(2,)]
    assert not DeferredCall.objects.exists()


def test_requests_while_it_runs_get_a_call_of_their_own_later() -> None:
    with after():
        ask(1)
    with after(seconds=30):
        plan.append(lambda: ask(2))
        sweep()
        assert sweep() == []
    with after(seconds=59):
        ask(3)
    with after(seconds=89):
        sweep()
    assert called == [(1,), (3,)]
    assert not DeferredCall.objects.exists()


def test_a_queue_that_is_slower_than_the_patience_still_comes_to_make_the_call() -> None:
    with after():
        ask(0)
    for minute in range(1, 30):
        with after(minutes=minute):
            ask(minute)
            hand_out()
    assert queued() > 5
    with after(minutes=30):
        work()
    assert called == [(29,)]
    assert not DeferredCall.objects.exists()


def test_many_who_ask_at_once_make_one_row() -> None:
    together(*[lambda: ask("same")] * 8)
    assert (row().serial, row().args) == (8, ["same"])
