"""No overlap: a call isn't made while another is under way, and every skip is seen."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import modify_settings
from django_q.exceptions import TimeoutException

from idempotent_actions.exceptions import InsideTransaction, InvalidInput, InvalidKey
from idempotent_actions.leases import take
from idempotent_actions.models import DeferredCall, Lease
from idempotent_actions.overlaps import no_overlap
from idempotent_actions.testing import travel
from tests.ledger.moments import after
from tests.processes import Children, Meet
from tests.queueing import jobs
from tests.queueing.jobs import (
    MINUTE,
    alone,
    alone_by_key,
    called,
    fail,
    plan,
    shared_one,
    shared_two,
)

pytestmark = pytest.mark.django_db(transaction=True)

Logged = Callable[[], list[str]]

NAME = "no_overlap:tests.queueing.jobs.alone"
SKIPPED = {"skipped": "busy", "lease": NAME}


def test_it_keeps_its_name_and_returns_what_the_function_does() -> None:
    plan.append(lambda: 7)
    assert (alone.__name__, alone.__doc__, alone(1)) == ("alone", "Skip while busy.", 7)
    assert not Lease.objects.exists()


def test_while_one_runs_another_is_skipped_and_says_so(
    logged: Logged, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = []
    plan.append(lambda: answers.append(alone(2)))
    alone(1)
    told: Any = caplog.records[-1]
    assert (told.action, told.lease) == ("no_overlap.skipped", NAME)
    assert answers == [SKIPPED]
    assert called == [(1,)]
    alone(3)
    assert called == [(1,), (3,)]


def test_calls_with_other_keys_run_beside_it() -> None:
    answers: list[Any] = []
    plan.append(lambda: answers.extend([alone_by_key(7, note="x"), alone_by_key(8)]))
    alone_by_key(7)
    assert called == [(7,), (8,)]
    assert answers == [
        {"skipped": "busy", "lease": "no_overlap:tests.queueing.jobs.alone_by_key:order:7"},
        None,
    ]


def test_functions_that_share_a_key_keep_each_other_off() -> None:
    answers: list[Any] = []
    plan.append(lambda: answers.append(shared_two()))
    shared_one()
    assert answers == [{"skipped": "busy", "lease": "no_overlap:shared:ledger"}]
    assert called == [("one",)]


def test_it_works_without_the_queue() -> None:
    plan.append(lambda: alone(2))
    with modify_settings(INSTALLED_APPS={"remove": ["django_q", "project.partners"]}):
        assert alone(1) == SKIPPED


@pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutException, KeyboardInterrupt])
def test_however_a_call_ends_the_way_is_free(error: type[BaseException]) -> None:
    def end() -> None:
        raise error

    plan.append(end)
    with pytest.raises(error):
        alone(1)
    alone(2)
    assert called == [(1,), (2,)]


def test_a_rollback_in_the_call_frees_it_all_the_same() -> None:
    def undone() -> None:
        with transaction.atomic():
            Lease.objects.all().delete()
            fail()

    plan.append(undone)
    with pytest.raises(ZeroDivisionError):
        alone(1)
    assert not Lease.objects.exists()


def test_inside_a_transaction_it_is_refused_and_not_called() -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        alone(1)
    assert called == []
    assert not Lease.objects.exists()


def hold(meet: Meet) -> None:
    """Be in the call until killed."""

    def wait() -> None:
        meet()
        signal.pause()

    plan.append(wait)
    alone("killed")


@pytest.mark.slow
def test_t54_when_the_holder_is_killed_it_runs_again_once_its_lease_has_ended(
    logged: Logged,
) -> None:
    with Children(f"{__name__}.hold", []) as children:
        children.gather()
        assert alone("beside it") == SKIPPED
        os.kill(children.each[0].process.pid, signal.SIGKILL)
    assert alone("too early") == SKIPPED
    end = Lease.objects.get().expires_at
    with travel(end - timedelta(seconds=1)):
        assert alone("still too early") == SKIPPED
    with travel(end):
        alone("again")
    assert called == [("again",)]
    assert logged() == ["no_overlap.skipped"] * 3


def test_one_that_outlasts_its_lease_frees_nothing_of_its_successors_and_says_so(
    logged: Logged,
) -> None:
    def outlast() -> None:
        with after(minutes=1):
            assert take(NAME, MINUTE) is not None

    plan.append(outlast)
    with after():
        alone("slow")
    assert logged() == ["no_overlap.overran"]
    with after(minutes=1):
        assert alone("other") == SKIPPED


def test_one_that_outlasts_its_lease_alone_says_nothing(logged: Logged) -> None:
    def outlast() -> None:
        with after(minutes=5):
            pass

    plan.append(outlast)
    with after():
        alone("slow")
    assert logged() == []
    assert not Lease.objects.exists()


def test_a_long_key_is_a_key_like_others() -> None:
    @no_overlap(lambda end: "x" * 250 + end, lease=MINUTE)
    def by_long_key(end: str) -> Any:
        return jobs.job(end)

    answers: list[Any] = []
    plan.append(lambda: answers.extend([by_long_key("a"), by_long_key("b")]))
    by_long_key("a")
    assert called == [("a",), ("b",)]
    assert answers[0]["skipped"] == "busy"


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lease": 60}, "lease must be a timedelta"),
        ({"lease": MINUTE, "when_busy": "wait"}, "when_busy is"),
        ({"lease": MINUTE, "shared": True}, "shared needs a key"),
        ({"lease": MINUTE, "key": ""}, "is empty"),
        ({"lease": MINUTE, "key": 7}, "A key is text"),
    ],
    ids=range(5),
)
def test_what_cant_work_is_refused_where_it_is_declared(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidInput, InvalidKey), match=message):
        no_overlap(**arguments)


def test_coroutines_and_generators_are_refused() -> None:
    for each in (jobs.lazy, generator):
        with pytest.raises(InvalidInput, match="over before its work begins"):
            no_overlap(lease=MINUTE)(each)


def test_a_key_that_cant_be_made_calls_nothing() -> None:
    @no_overlap(lambda: 7, lease=MINUTE)  # type: ignore[arg-type,return-value]
    def wrong() -> Any:
        return jobs.job()

    with pytest.raises(InvalidKey):
        wrong()
    assert called == []
    assert not DeferredCall.objects.exists()
