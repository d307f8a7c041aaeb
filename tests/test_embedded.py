"""The embedded PostgreSQL, with real processes that are really killed."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from project import embedded
from tests.waiting import until

ROOT = Path(embedded.__file__).parent.parent

# Starts a server, says where, and stays until its standard input ends.
PARENT = """
import signal, sys
from pathlib import Path
from project import embedded
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
print(embedded.database_url(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""

# Has a child ask for the address, and outlives it.
PARENT_OF_A_CHILD = """
import subprocess, sys
from pathlib import Path
from project import embedded
embedded.database_url(Path(sys.argv[1]))
subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
sys.stdin.read()
"""

WAIT = 30  # seconds


class Parent:
    """A process that started an embedded server, or is about to."""

    def __init__(self, home: Path, program: str = PARENT) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment.pop("DATABASE_URL", None)
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(home), PARENT],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def supervisors(self) -> list[psutil.Process]:
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in below if embedded.__file__ in process.cmdline()]

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.communicate(timeout=WAIT)


Start = Callable[..., Parent]


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty folder; the server's system user must get there, so it is not pytest's own."""
    with tempfile.TemporaryDirectory(prefix="embedded-") as folder:
        home = Path(folder).resolve()
        yield home
        until(lambda: not residents(home), "the end of all that works there")


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start parents on `home`; all of them are killed afterwards."""
    parents: list[Parent] = []

    def start(program: str = PARENT, folder: Path = home) -> Parent:
        parents.append(Parent(folder, program))
        return parents[-1]

    yield start
    for parent in parents:
        parent.process.kill()
        with parent.process:  # closes its pipes
            pass


def residents(home: Path, name: str = "") -> list[psutil.Process]:
    """The supervisors and servers that work in `home`; zombies work nowhere."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, FileNotFoundError):  # it is ending at this moment
            if process.cwd().startswith(str(home)) and name in process.name():
                found.append(process)
    return found


def servers(home: Path) -> list[psutil.Process]:
    return residents(home, "postgres")


def is_gone(process: psutil.Process) -> bool:
    """True for a zombie too: its parent may have been killed, or be busy."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "data" / "postmaster.pid").read_text().split()[0]))


def answers(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def test_a_database_url_from_outside_starts_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "sqlite:///elsewhere")
    assert embedded.database_url(home) == "sqlite:///elsewhere"
    assert not list(home.iterdir())


def test_a_server_is_there_while_its_parent_is(home: Path, start: Start) -> None:
    parent = start()
    assert answers(parent.url())
    server = postmaster(home)
    parent.close()
    assert is_gone(server)


def test_a_folder_may_be_too_deep_for_a_socket(home: Path, start: Start) -> None:
    assert answers(start(folder=home / ("deep" * 30)).url())


def test_the_data_outlives_the_server(start: Start) -> None:
    first = start()
    with psycopg.connect(first.url()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS number")
    first.close()
    with psycopg.connect(start().url()) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (42,)


def test_a_child_gets_the_address_and_starts_nothing(start: Start) -> None:
    parent = start(PARENT_OF_A_CHILD)
    assert answers(parent.url())  # printed by the child
    assert len(parent.supervisors()) == 1


def test_a_child_that_is_killed_leaves_the_server_alone(home: Path, start: Start) -> None:
    parent = start(PARENT_OF_A_CHILD)
    url = parent.url()
    [supervisor] = parent.supervisors()
    [child] = [c for c in psutil.Process(parent.process.pid).children() if c != supervisor]
    child.kill()
    until(lambda: is_gone(child), "the child's end")
    assert answers(url)
    parent.close()
    assert not servers(home)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_parent_that_is_killed_takes_its_server_along(
    home: Path, start: Start, ending: signal.Signals
) -> None:
    parent = start()
    with psycopg.connect(parent.url()):  # an open connection doesn't hold it up
        server = postmaster(home)
        parent.process.send_signal(ending)
        until(lambda: is_gone(server), "the server's end")


def test_a_parent_that_is_killed_while_the_server_starts_leaves_none(
    home: Path, start: Start
) -> None:
    parent = start()
    [supervisor] = until(parent.supervisors, "the supervisor")
    parent.kill()
    until(lambda: is_gone(supervisor), "the supervisor's end")
    assert not servers(home)


def test_two_parents_share_one_server_and_the_survivor_keeps_it(home: Path, start: Start) -> None:
    first, second = start(), start()
    assert first.url() == (url := second.url())
    server = postmaster(home)
    [supervisor] = first.supervisors()
    first.kill()
    until(lambda: is_gone(supervisor), "the supervisor's end")
    assert answers(url)
    assert postmaster(home) == server
    second.close()
    assert is_gone(server)


def test_many_parents_at_once_on_an_empty_folder_share_one_server(home: Path, start: Start) -> None:
    parents = [start() for _ in range(6)]
    urls = {parent.url() for parent in parents}
    assert len(urls) == 1
    assert answers(urls.pop())
    for parent in parents:
        parent.process.kill()
    until(lambda: not servers(home), "the server's end")


def test_a_parent_can_start_while_the_last_one_stops_the_server(start: Start) -> None:
    last = start()
    assert answers(last.url())
    for _ in range(10):
        last.process.kill()
        following = start()
        assert answers(following.url())
        last = following


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_only_the_parents_end_ends_a_supervisor(
    home: Path, start: Start, ending: signal.Signals
) -> None:
    parent = start()
    url = parent.url()
    [supervisor] = parent.supervisors()
    supervisor.send_signal(ending)
    assert answers(url)
    parent.close()
    assert not servers(home)


def test_a_killed_supervisor_does_not_keep_the_server_for_good(home: Path, start: Start) -> None:
    orphaning = start()
    orphaning.url()
    server = postmaster(home)
    [supervisor] = orphaning.supervisors()
    supervisor.kill()
    until(lambda: is_gone(supervisor), "the supervisor's end")
    orphaning.close()
    assert not is_gone(server)

    following = start()
    assert answers(following.url())
    assert postmaster(home) == server
    following.kill()
    until(lambda: is_gone(server), "the server's end")


def test_the_server_that_is_stopped_is_the_one_that_runs(home: Path, start: Start) -> None:
    elder = start()
    elder.url()
    postmaster(home).kill()
    until(lambda: not servers(home), "the killed server's end")
    younger = start()
    url = younger.url()
    younger.close()
    assert answers(url)  # the elder still uses it
    elder.close()
    assert not servers(home)


def test_a_crashed_servers_pid_may_be_another_process_by_now(home: Path, start: Start) -> None:
    first = start()
    first.url()
    pid_file = home / "data" / "postmaster.pid"
    words = pid_file.read_text()
    first.close()
    pid_file.write_text(words.replace(words.split()[0], str(os.getpid()), 1))
    assert answers(start().url())


def test_a_failed_start_names_the_log_and_the_way_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (home / "data").mkdir()
    (home / "data" / "PG_VERSION").write_text("18\n")  # and nothing else
    with pytest.raises(embedded.EmbeddedPostgresError) as caught:
        embedded.database_url(home)
    assert str(home / "data" / "log") in str(caught.value)
    assert "set DATABASE_URL" in str(caught.value)
    assert "DATABASE_URL" not in os.environ
    assert "postgresql.conf" in capfd.readouterr().err  # the log's own words
