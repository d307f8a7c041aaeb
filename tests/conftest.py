"""What all tests share: the last resort against one that hangs.

pytest-timeout interrupts a test once. Where the clean-up after that hangs as well, nothing would
ever end; so the process is ended then, after it has said where each of its threads stood.
"""

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

GRACE = 120  # seconds that a clean-up may take after a test's own time is up

_files: list[IO[str]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Open the file for what a hanging process has to say: `.ci/run` prints it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    folder = Path(config.rootpath) / ".pytest_cache" / "hangs"
    folder.mkdir(parents=True, exist_ok=True)
    _files.append((folder / f"{worker}.txt").open("w"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the process if the test, fixtures included, takes far longer than it may."""
    marker = item.get_closest_marker("timeout")
    limit: Any = marker.args[0] if marker and marker.args else item.config.getini("timeout")
    _files[0].seek(0)
    _files[0].truncate()
    print(item.nodeid, file=_files[0], flush=True)
    faulthandler.dump_traceback_later(float(limit) + GRACE, exit=True, file=_files[0])
    yield
    faulthandler.cancel_dump_traceback_later()
    _files[0].seek(0)
    _files[0].truncate()


def pytest_sessionfinish() -> None:
    """End the process if threads that were left behind keep it from ending."""
    faulthandler.dump_traceback_later(GRACE, exit=True, file=_files[0])
