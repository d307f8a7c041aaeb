"""A worker that stalls on its way to the provider, or on its way back, until a test wakes it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event

from idempotent_actions import captures, crashpoints
from idempotent_actions.delivering import DeliveryReport
from idempotent_actions.effects import Call
from tests.contention.threads import Background
from tests.crashes import notices

__all__ = ["PATIENCE", "Stalled", "once_at", "stalled"]

PATIENCE = 60  # seconds


class Stalled:
    """A deliverer in a thread, whose effect waits, and then raises what it `raises`."""

    def __init__(self) -> None:
        self.arrived = Event()
        self.go_on = Event()
        self.raises: Exception | None = None
        self.future: Future[DeliveryReport] | None = None

    def __call__(self, call: Call) -> None:
        self.arrived.set()
        assert self.go_on.wait(PATIENCE)
        if self.raises is not None:
            raise self.raises

    def wake(self) -> DeliveryReport:
        """Let it go on, wait for its end, and return its report."""
        self.go_on.set()
        assert self.future is not None
        return self.future.result(PATIENCE)


@contextmanager
def stalled(*, sent: bool = False, workers: int = 0) -> Iterator[Stalled]:
    """Start a deliverer and return when its first effect stalls: before it is `sent`, or after."""
    worker = Stalled()
    (notices.after if sent else notices.before).append(worker)
    with Background(1) as background:
        worker.future = background.run(lambda: captures.deliver(workers=workers))
        try:
            assert worker.arrived.wait(PATIENCE)
            yield worker
        finally:
            worker.go_on.set()


@contextmanager
def once_at(point: str, do: Callable[[], object]) -> Iterator[None]:
    """Do something, once, when a delivery of this process passes `point`."""
    passed: list[str] = []

    def pass_by(name: str) -> None:
        if name == point and not passed:
            passed.append(name)
            do()

    crashpoints.install(pass_by)
    try:
        yield
    finally:
        crashpoints.install(None)
    assert passed, f"no delivery has passed {point}"
