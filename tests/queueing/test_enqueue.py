"""What is enqueued runs after the commit, and what can't be run is refused before it."""

import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.test import modify_settings
from django_q.models import OrmQ, Task

from idempotent_actions.exceptions import InvalidInput, InvalidKey, InvalidSetting
from idempotent_actions.models import DeferredCall, Lease
from idempotent_actions.queueing import Debounce, Unique, enqueue
from tests.queueing import jobs
from tests.queueing.jobs import MINUTE, called, job, plan, roll_back
from tests.queueing.worker import deliver_again, queued, work

pytestmark = pytest.mark.django_db(transaction=True)

UNIQUE = Unique("k", lease=MINUTE)
DEBOUNCE = Debounce("k", wait=MINUTE, max_wait=MINUTE)
SIXTY: Any = 60
END: Any = "end"
RULES: list[dict[str, Any]] = [{}, {"unique": UNIQUE}, {"debounce": DEBOUNCE}]


def test_a_worker_calls_it_with_its_arguments() -> None:
    enqueue(job, 1, "two", three=[3])
    assert called == []
    work()
    assert called == [(1, "two", {"three": [3]})]
    assert queued() == 0


def test_by_its_path_it_is_the_same_function() -> None:
    enqueue("tests.queueing.jobs.job", 1, unique=UNIQUE)
    enqueue(job, 2, unique=UNIQUE)
    work()
    assert called == [(1,)]


def test_options_of_the_queue_are_arguments_like_others() -> None:
    enqueue(job, timeout=5, group="g", hook="h")
    work()
    assert called == [({"timeout": 5, "group": "g", "hook": "h"},)]


def test_nothing_is_pushed_before_the_commit() -> None:
    with transaction.atomic():
        enqueue(job)
        assert queued() == 0
    assert queued() == 1


def test_the_arguments_are_those_of_the_moment() -> None:
    numbers = [1]
    with transaction.atomic():
        enqueue(job, numbers)
        numbers.append(2)
    work()
    assert called == [([1],)]


@pytest.mark.parametrize("extra", RULES, ids=["plain", "unique", "debounce"])
def test_a_rollback_leaves_nothing(extra: dict[str, Any]) -> None:
    roll_back(lambda: enqueue(job, **extra))
    assert (queued(), Lease.objects.count(), DeferredCall.objects.count()) == (0, 0, 0)


def test_a_rollback_to_a_savepoint_leaves_nothing() -> None:
    with transaction.atomic():
        enqueue(job, "outer")
        roll_back(lambda: enqueue(job, "inner", unique=UNIQUE))
    work()
    assert called == [("outer",)]
    assert not Lease.objects.exists()


@pytest.mark.usefixtures("broken_queue")
def test_a_failed_push_is_raised_where_no_commit_was() -> None:
    with pytest.raises(ConnectionError):
        enqueue(job)


@pytest.mark.usefixtures("broken_queue")
def test_a_failed_push_after_the_commit_is_logged(logged: Callable[[], list[str]]) -> None:
    later: list[str] = []
    with transaction.atomic():
        enqueue(job)
        transaction.on_commit(lambda: later.append("ran"))
    assert logged() == ["enqueue.failed"]
    assert later == ["ran"]


class Method:
    def method(self) -> None: ...


def test_what_a_worker_cant_find_is_refused() -> None:
    def inner() -> None: ...

    strange: list[Any] = [
        inner,
        lambda: None,
        Method().method,
        Method.method,
        Method,
        partial(job, 1),
        "tests.queueing.jobs.gone",
        "no_such_module.f",
        "job",
        "",
        7,
        None,
    ]
    for each in strange:
        for extra in RULES:
            with pytest.raises(
                InvalidInput, match=r"that a worker can import|can't be found again"
            ):
                enqueue(each, **extra)
    assert (queued(), Lease.objects.count(), DeferredCall.objects.count()) == (0, 0, 0)


@pytest.mark.parametrize("func", ["itself", "tests.queueing.jobs.notify", "inside"])
@pytest.mark.parametrize("extra", RULES, ids=["plain", "unique", "debounce"])
def test_an_effect_is_refused_always(func: str, extra: dict[str, Any]) -> None:
    given: Any = {"itself": jobs.notify, "inside": jobs.notify.function}.get(func, func)
    with pytest.raises(InvalidInput, match=r"Debounce would drop all but the last.*request\(\)"):
        enqueue(given, **extra)


def test_a_coroutine_function_is_refused() -> None:
    with pytest.raises(InvalidInput, match="calling it would do nothing"):
        enqueue(jobs.lazy)


@pytest.mark.parametrize(
    ("args", "extra", "message"),
    [
        ([1], {"unique": UNIQUE, "debounce": DEBOUNCE}, "exclude each other"),
        ([1], {"unique": "k"}, r"unique is Unique\("),
        ([1], {"debounce": "k"}, r"debounce is Debounce\("),
        ([1], {"cluster": None}, "cluster is the name"),
        ([1], {"cluster": "c", "debounce": DEBOUNCE}, "default cluster"),
        ([], {}, "can't be called with these arguments: missing"),
        ([object], {"debounce": DEBOUNCE}, "takes plain values through the queue: .*is a type"),
        ([lambda: 1], {}, "takes plain values through the queue: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_refused_before_the_commit(
    args: list[Any], extra: dict[str, Any], message: str
) -> None:
    with transaction.atomic(), pytest.raises(InvalidInput, match=message):
        enqueue(jobs.strict, *args, **extra)
    assert queued() == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unique("", lease=MINUTE), "is empty"),
        (lambda: Unique("k", lease=SIXTY), "lease must be a timedelta"),
        (lambda: Unique("k", lease=MINUTE, until=END), "until is"),
        (lambda: Debounce(SIXTY, wait=MINUTE, max_wait=MINUTE), "A key is text"),
        (lambda: Debounce("k", wait=SIXTY, max_wait=MINUTE), "wait must be a timedelta"),
        (lambda: Debounce("k", wait=MINUTE, max_wait=SIXTY), "max_wait must be a timedelta"),
        (lambda: Debounce("k", wait=2 * MINUTE, max_wait=MINUTE), "at least wait"),
    ],
    ids=range(7),
)
def test_the_rules_check_themselves(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((InvalidInput, InvalidKey), match=message):
        make()


def test_without_the_queue_it_says_what_to_add() -> None:
    with (
        modify_settings(INSTALLED_APPS={"remove": ["django_q", "project.partners"]}),
        pytest.raises(InvalidSetting, match="add 'django_q' to INSTALLED_APPS"),
    ):
        enqueue(job)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise pickle.PicklingError("not me")


class Nameless(Unpicklable):
    def __repr__(self) -> str:
        raise RuntimeError("no name")


@pytest.mark.parametrize("result", [Unpicklable, Nameless, dict, lambda: (1, {2: 3})], ids=range(4))
def test_a_result_is_plain_so_the_task_runs_once(result: Callable[[], Any]) -> None:
    plan.append(result)
    enqueue(job)
    work()
    deliver_again()
    work()
    assert (len(called), queued()) == (1, 0)
    task = Task.objects.get()
    assert task.success
    json.dumps(task.result)


def test_a_long_repr_is_cut() -> None:
    plan.append(lambda: {"x" * 5000})
    enqueue(job)
    (result,) = work()
    assert len(result) == 1000


def test_it_goes_to_the_cluster_that_is_named() -> None:
    enqueue(job, cluster="slow")
    assert OrmQ.objects.get().key == "slow"
