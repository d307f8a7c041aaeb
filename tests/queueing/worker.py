"""A django-q2 worker in the test's own process: pusher, worker and monitor in turn."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import Event, SimpleQueue, Value
from typing import Any

from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Task
from django_q.monitor import monitor
from django_q.pusher import pusher
from django_q.worker import worker

from tests.processes import Children, Meet
from tests.queueing import jobs

__all__ = ["deliver_again", "killed_at_work", "queued", "work", "work_and_wait"]


def work() -> list[Any]:
    """Run what is in the queue, by the queue's own code; return the results, in order."""
    before = set(Task.objects.values_list("id", flat=True))
    attempts = dict(Task.objects.values_list("id", "attempt_count"))
    while _ready():
        tasks: Any = SimpleQueue()
        results: Any = SimpleQueue()
        once = Event()
        once.set()
        pusher(tasks, once, get_broker())
        tasks.put("STOP")
        worker(tasks, results, Value("f", -1), 30)
        results.put("STOP")
        monitor(results, get_broker())
    done = Task.objects.order_by("stopped")
    return [
        task.result
        for task in done
        if task.id not in before or task.attempt_count != attempts[task.id]
    ]


def queued() -> int:
    """How many tasks are in the queue, taken and not acknowledged ones among them."""
    count: int = OrmQ.objects.count()
    return count


def deliver_again() -> None:
    """Let the queue give up waiting for receipts, as after `retry` seconds."""
    OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1))


@contextmanager
def killed_at_work() -> Iterator[None]:
    """Let another process take up what is in the queue; SIGKILL it in the midst of the call."""
    with Children(f"{__name__}.work_and_wait", []) as children:
        children.gather()
        process = children.each[0].process
        yield
        process.send_signal(signal.SIGKILL)
        process.wait()


def work_and_wait(meet: Meet) -> None:
    """Run what is in the queue, and wait inside the call to be killed."""

    def wait() -> None:
        meet()
        signal.pause()

    jobs.plan.append(wait)
    work()


def _ready() -> bool:
    ready: bool = OrmQ.objects.filter(lock__lt=timezone.now()).exists()
    return ready
