"""Calls that are due are handed to the queue once, made by one worker, and tried again."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import modify_settings
from django_q.conf import Conf
from django_q.models import OrmQ, Task

from idempotent_actions.deferring import GIVE_UP_AFTER, hand_out, put_off
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import DeferredCall
from idempotent_actions.queued import run_deferred
from tests.ledger.moments import NOW, after
from tests.queueing.jobs import MINUTE, called, fail, plan
from tests.queueing.worker import deliver_again, queued, work
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

AGAIN = {"skipped": "handed out again"}


def ask(name: str = "x", *args: Any) -> None:
    arguments = {"args": list(args), "kwargs": {}}
    put_off(name, "tests.queueing.jobs.job", arguments, wait=MINUTE, max_wait=MINUTE)


def row() -> DeferredCall:
    return DeferredCall.objects.get()


def test_what_is_due_is_handed_out_once() -> None:
    with after():
        ask()
    with after(seconds=59):
        assert hand_out() == 0
    with after(seconds=60):
        assert hand_out() == 1
        assert hand_out() == 0


def test_of_sweeps_at_once_one_hands_it_out() -> None:
    with after():
        for number in range(10):
            ask(str(number))
    with after(minutes=1):
        counts = together(*[hand_out] * 4)
    assert (sum(counts), queued()) == (10, 10)


def test_no_more_than_the_limit_are_handed_out_the_longest_due_first() -> None:
    with after(seconds=1):
        ask("later", "later")
    with after():
        ask("sooner", "sooner")
    with after(minutes=2):
        assert hand_out(limit=1) == 1
        work()
    assert called == [("sooner",)]


@pytest.mark.parametrize("limit", [-1, 1.5, None, True])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="limit must be a whole number"):
        hand_out(limit)


def test_without_the_queue_nothing_is_handed_out() -> None:
    with after():
        ask()
    with (
        after(minutes=1),
        modify_settings(INSTALLED_APPS={"remove": ["django_q", "project.partners"]}),
    ):
        assert hand_out() == 0
    assert row().token is None


def test_a_foreign_token_calls_nothing() -> None:
    with after():
        ask()
    with after(minutes=1):
        hand_out()
        assert run_deferred(row().pk, str(uuid4())) == AGAIN
    assert called == []


def test_a_task_that_is_delivered_twice_calls_once() -> None:
    with after():
        ask()
    with after(minutes=1):
        hand_out()
        pk, token = row().pk, str(row().token)
        plan.append(lambda: run_deferred(pk, token))
        (twin,) = work()
        assert twin == AGAIN
        assert run_deferred(pk, token) == AGAIN
    assert len(called) == 1


@pytest.mark.parametrize("ends", [lambda: None, fail], ids=["done", "failed"])
def test_a_worker_that_was_given_up_settles_nothing_of_anothers(ends: Callable[[], None]) -> None:
    there: list[Any] = []

    def outlast() -> None:
        with after(minutes=10):
            hand_out()
            plan.append(look)
            work()
        ends()

    def look() -> None:
        there.append(DeferredCall.objects.values().get())
        fail()

    with after():
        ask()
    with after(minutes=1):
        hand_out()
        plan.append(outlast)
        with suppress(ZeroDivisionError):
            run_deferred(row().pk, str(row().token))
    (columns,) = there
    assert columns["tries"] == 0
    assert row().tries == 1  # the other's failure
    assert row().due_at == NOW + timedelta(minutes=12)
    assert len(called) == 2


def test_a_worker_that_ends_after_it_was_given_up_spares_the_next_the_call() -> None:
    def outlast() -> None:
        with after(minutes=10):
            assert hand_out() == 1

    with after():
        ask()
    with after(minutes=1):
        hand_out()
        pk, token = row().pk, str(row().token)
        OrmQ.objects.all().delete()
        plan.append(outlast)
        run_deferred(pk, token)
    assert not DeferredCall.objects.exists()
    assert work() == [AGAIN]


@pytest.mark.parametrize("ends", [lambda: None, fail], ids=["done", "failed"])
def test_what_was_asked_for_and_handed_out_while_one_ran_is_called(
    ends: Callable[[], None],
) -> None:
    def outlast() -> None:
        ask("x", "new")
        with after(minutes=2):
            assert hand_out() == 1
        ends()

    with after():
        ask("x", "old")
    with after(minutes=1):
        hand_out()
        pk, token = row().pk, str(row().token)
        OrmQ.objects.all().delete()
        plan.append(outlast)
        with suppress(ZeroDivisionError):
            run_deferred(pk, token)
    with after(minutes=2):
        work()
    assert called == [("old",), ("new",)]
    assert not DeferredCall.objects.exists()


def test_a_call_that_may_run_for_long_is_given_up_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> None:
        assert row().due_at == NOW + timedelta(hours=2, minutes=2)

    monkeypatch.setattr(Conf, "TIMEOUT", 2 * 3600)
    with after():
        ask()
    with after(minutes=1):
        hand_out()
        plan.append(look)
        assert run_deferred(row().pk, str(row().token)) is None


def test_a_call_that_begins_has_its_patience_from_then() -> None:
    def look() -> None:
        assert row().due_at == NOW + timedelta(minutes=3) + GIVE_UP_AFTER

    with after():
        ask()
    with after(minutes=1):
        hand_out()
    with after(minutes=3):
        plan.append(look)
        run_deferred(row().pk, str(row().token))


def test_a_failed_call_is_seen_and_made_again_later_and_later() -> None:
    with after():
        ask()
    waited = timedelta(minutes=1)
    for tries, pause in enumerate([2, 4, 8, 16, 32, 60, 60], start=1):
        with after(seconds=waited.total_seconds()):
            hand_out()
            plan.append(fail)
            work()
            deliver_again()  # the queue tries again by itself, and finds nothing to do
            work()
        assert (row().tries, row().error) == (tries, "ZeroDivisionError: no")
        waited += timedelta(minutes=pause)
        assert row().due_at == NOW + waited
    with after(seconds=waited.total_seconds()):
        hand_out()
        work()
    assert not DeferredCall.objects.exists()
    assert len(called) == 8


def test_the_queue_shows_the_failure() -> None:
    with after():
        ask()
    with after(minutes=1):
        hand_out()
        plan.append(fail)
        work()
    task = Task.objects.get()
    assert (task.success, task.group) == (False, "tests.queueing.jobs.job")
    assert "ZeroDivisionError" in task.result


def test_a_request_after_a_failure_is_called_when_it_asks_for_it() -> None:
    def ask_and_fail() -> None:
        ask("x", "new")
        fail()

    with after():
        ask()
    with after(minutes=1):
        hand_out()
        plan.append(ask_and_fail)
        work()
        assert row().due_at == NOW + timedelta(minutes=2)
    with after(minutes=2):
        hand_out()
        work()
    assert called == [(), ("new",)]
    assert not DeferredCall.objects.exists()
