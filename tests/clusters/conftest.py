"""The provider's books for each test, real transactions, and a Redis server of our own."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.clusters.ladder import BARRIER
from tests.crashes import provider
from tests.waiting import until


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    monkeypatch.setenv(provider.BOOKS, str(tmp_path / "books.sqlite3"))
    monkeypatch.setenv(BARRIER, str(tmp_path / "barrier"))


@pytest.fixture
def redis_port(tmp_path: Path) -> Iterator[int]:
    """The port of a Redis server that is started for the test."""
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("there is no redis-server on this machine")
    pytest.importorskip("redis")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    process = subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), "Redis to start")
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
