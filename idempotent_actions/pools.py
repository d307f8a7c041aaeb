"""A bounded pool of threads whose work may hang without holding up anybody but itself."""

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from django.db import connections

__all__ = ["Pool"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Pool(Generic[Item, Result]):
    """Runs ``work`` on items in ``size`` threads, or at once in the caller's where size is 0.

    The threads are daemons: one that hangs doesn't keep the process from ending, as those of
    concurrent.futures would. ``work`` raises nothing.
    """

    def __init__(self, work: Callable[[Item], Result], size: int) -> None:
        self._work = work
        self._size = size
        self._items: queue.Queue[Item | None] = queue.Queue()
        self._results: queue.Queue[Result] = queue.Queue()
        self._threads: list[threading.Thread] = []
        self.in_flight = 0

    @property
    def is_full(self) -> bool:
        """Whether each thread has something to do."""
        return self.in_flight >= max(1, self._size)

    @property
    def has_threads(self) -> bool:
        """Whether work runs in threads of the pool, not in the caller's."""
        return self._size > 0

    def submit(self, item: Item) -> None:
        """Have ``item`` worked on."""
        self.in_flight += 1
        if not self._size:
            self._results.put(self._work(item))
            return
        if len(self._threads) < min(self._size, self.in_flight):
            thread = threading.Thread(target=self._run, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._items.put(item)

    def next_result(self, timeout: float) -> Result | None:
        """Return the next result, or None when there is none within ``timeout`` seconds."""
        try:
            result = self._results.get(timeout=timeout)
        except queue.Empty:
            return None
        self.in_flight -= 1
        return result

    def close(self) -> None:
        """Let idle threads end and wait for those; one that hangs is left behind."""
        for _ in self._threads:
            self._items.put(None)
        if not self.in_flight:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        try:
            while (item := self._items.get()) is not None:
                self._results.put(self._work(item))
        finally:
            connections.close_all()
