"""Long transactions that enqueue the same keys in opposite order don't meet."""

from collections.abc import Callable
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from idempotent_actions.models import DeferredCall, Lease
from idempotent_actions.queueing import Debounce, Unique, enqueue
from tests.queueing.jobs import MINUTE, job
from tests.queueing.worker import queued
from tests.threads import DEADLINE, together

pytestmark = pytest.mark.django_db(transaction=True)

IMPATIENT = "SET LOCAL lock_timeout = '100 ms'"
"""Who waits for another fails."""


def unique(key: str) -> dict[str, Any]:
    return {"unique": Unique(key, lease=MINUTE)}


def unique_until_started(key: str) -> dict[str, Any]:
    return {"unique": Unique(key, lease=MINUTE, until="start")}


def debounce(key: str) -> dict[str, Any]:
    return {"debounce": Debounce(key, wait=MINUTE, max_wait=timedelta(hours=1))}


def request(rule: Callable[[str], dict[str, Any]], both: Barrier, *keys: str) -> None:
    """Enqueue a key, then the other, while the other request's transaction is as far."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(IMPATIENT)
        for key in keys:
            enqueue(job, key, **rule(key))
            both.wait(DEADLINE)
        assert not Lease.objects.exists()
        assert not DeferredCall.objects.exists()
        both.wait(DEADLINE)  # neither has committed before both have asked for everything


@pytest.mark.parametrize("rule", [unique, unique_until_started], ids=["done", "start"])
def test_neither_waits_and_neither_deadlocks(
    rule: Callable[[str], dict[str, Any]], logged: Callable[[], list[str]]
) -> None:
    both = Barrier(2)
    together(lambda: request(rule, both, "a", "b"), lambda: request(rule, both, "b", "a"))
    assert (queued(), Lease.objects.count()) == (2, 2)
    assert logged() == ["enqueue.skipped"] * 2


def test_neither_do_debounced_calls() -> None:
    both = Barrier(2)
    together(lambda: request(debounce, both, "a", "b"), lambda: request(debounce, both, "b", "a"))
    assert sorted(DeferredCall.objects.values_list("args", "serial")) == [(["a"], 2), (["b"], 2)]


def test_an_open_transaction_keeps_nobody_waiting() -> None:
    asked, committed = Barrier(2), Barrier(2)

    def long() -> None:
        with transaction.atomic():
            enqueue(job, "long", **unique("k"))
            asked.wait(DEADLINE)
            committed.wait(DEADLINE)

    def short() -> None:
        asked.wait(DEADLINE)
        with transaction.atomic():
            enqueue(job, "short", **unique("k"))
        assert queued() == 1
        committed.wait(DEADLINE)

    together(long, short)
    assert queued() == 1
