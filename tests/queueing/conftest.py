"""For each test: nothing called yet, what the app logs, and a queue that can be broken."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.queueing import jobs

Logged = Callable[[], list[str]]


@pytest.fixture(autouse=True)
def _nothing_called() -> Iterator[None]:
    jobs.called.clear()
    jobs.plan.clear()
    yield
    assert not jobs.plan, "a function was called less often than the test had planned"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    """A function that returns the `action` of each record so far, and forgets them."""
    caplog.set_level(logging.INFO, logger="idempotent_actions")

    def actions() -> list[str]:
        records: list[Any] = [each for each in caplog.records if hasattr(each, "action")]
        caplog.clear()
        return [each.action for each in records]

    return actions


@pytest.fixture
def broken_queue(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The broker refuses every task; the function it yields mends it."""

    def refuse(*_: Any) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr("django_q.brokers.orm.ORM.enqueue", refuse)
    return monkeypatch.undo
