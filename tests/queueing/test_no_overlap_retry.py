"""No overlap with retry: a busy call is asked again, by the queue, until the way is free."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import modify_settings
from django_q.models import OrmQ

from idempotent_actions.deferring import GIVE_UP_AFTER, hand_out
from idempotent_actions.exceptions import InsideTransaction, InvalidInput, InvalidSetting
from idempotent_actions.leases import take
from idempotent_actions.models import DeferredCall, Lease
from idempotent_actions.overlaps import RETRY_PAUSE, no_overlap
from idempotent_actions.testing import travel
from tests.ledger.moments import NOW, after
from tests.queueing import jobs
from tests.queueing.jobs import MINUTE, called, eventually, fail, plan
from tests.queueing.worker import deliver_again, killed_at_work, work

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

NAME = "no_overlap:tests.queueing.jobs.eventually"
HOUR = timedelta(hours=1)


def sweep() -> list[Any]:
    """Hand out what is due, and let a worker do it."""
    hand_out()
    return work()


def test_it_is_asked_again_until_the_way_is_free(logged: Logged) -> None:
    with after():
        other = take(NAME, HOUR)
        assert other is not None
        answer = eventually(1, "two")
    again_at = (NOW + RETRY_PAUSE).isoformat()
    assert answer == {"skipped": "busy", "lease": NAME, "again_at": again_at}
    with after(seconds=59):
        assert sweep() == []
    for minute in range(1, 8):
        with after(minutes=minute):
            ((told),) = sweep()
        assert told["skipped"] == "busy"
    assert DeferredCall.objects.get().tries == 0  # a wait is no attempt
    other.release()
    with after(minutes=8):
        sweep()
    assert called == [(1, "two")]
    assert not DeferredCall.objects.exists()
    assert logged() == ["no_overlap.skipped"] * 8


def test_two_that_wait_are_done_one_after_the_other() -> None:
    def busy() -> None:
        eventually("second")
        eventually("third")

    with after():
        plan.append(busy)
        eventually("first")
    with after(minutes=1):
        plan.append(lambda: eventually("fourth"))
        sweep()
    with after(minutes=2):
        sweep()
    assert called[0] == ("first",)
    assert sorted(called[1:3]) == [("second",), ("third",)]
    assert called[3:] == [("fourth",)]


def test_one_that_fails_later_is_tried_again_while_its_twin_waits() -> None:
    with after():
        held = take(NAME, HOUR)
        assert held is not None
        eventually("fails")
        held.release()
    with after(minutes=1):
        plan.append(fail)
        sweep()
        assert DeferredCall.objects.get().tries == 1
        held = take(NAME, HOUR)
        assert held is not None
        eventually("twin")
        held.release()
    with after(minutes=3):
        sweep()
    assert sorted(called) == [("fails",), ("fails",), ("twin",)]
    assert not DeferredCall.objects.exists()


def waiting() -> datetime:
    """Let a call wait for its next chance; return when that is."""
    held = take(NAME, HOUR)
    assert held is not None
    eventually(1)
    held.release()
    return DeferredCall.objects.get().due_at


def test_a_failed_push_doesnt_lose_it(broken_queue: Callable[[], None], logged: Logged) -> None:
    with travel(waiting()):
        assert hand_out() == 0
        assert logged() == ["no_overlap.skipped", "hand_out.failed"]
        broken_queue()
        sweep()
    assert called == [(1,)]


def test_a_purged_queue_doesnt_lose_it() -> None:
    with travel(waiting()):
        assert hand_out() == 1
        OrmQ.objects.all().delete()
    with travel(DeferredCall.objects.get().due_at):
        sweep()
    assert called == [(1,)]


@pytest.mark.slow
def test_a_killed_worker_doesnt_lose_it() -> None:
    with travel(waiting()):
        assert hand_out() == 1
    with killed_at_work():
        pass
    deliver_again()
    assert work() == [{"skipped": "handed out again"}]
    given_up_at = DeferredCall.objects.get().due_at
    with travel(given_up_at - timedelta(seconds=1)):
        assert hand_out() == 0
    with travel(given_up_at + GIVE_UP_AFTER):  # and the lease of the killed one has ended
        sweep()
    assert called == [(1,)]


def test_inside_a_transaction_nothing_is_noted() -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        eventually(1)
    assert not DeferredCall.objects.exists()


def test_what_cant_be_stored_is_refused_also_when_it_isnt_busy() -> None:
    with pytest.raises(InvalidInput, match="takes plain values through the queue"):
        eventually(object())
    assert called == []
    assert not Lease.objects.exists()


def test_a_function_that_a_worker_cant_find_is_refused() -> None:
    @no_overlap(lease=MINUTE, when_busy="retry")
    def inner() -> Any:
        return jobs.job()

    with pytest.raises(InvalidInput, match="can't be found again"):
        inner()
    assert called == []


def test_without_the_queue_it_says_what_to_add() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": ["django_q", "project.partners"]}),
        pytest.raises(InvalidSetting, match="add 'django_q' to INSTALLED_APPS"),
    ):
        eventually(1)
