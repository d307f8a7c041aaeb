"""Real processes on the test database: started together, met at barriers, ended by a deadline.

A child runs a function given by its dotted name. The function's first argument is `meet`, which
returns once all children of the group have called it; what it returns must be JSON.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

import django
from django.db import connection
from django.utils.module_loading import import_string

__all__ = ["Children", "Meet", "environment", "in_processes", "manage"]

Meet = Callable[[], None]

ROOT = Path(__file__).parent.parent
DEADLINE = 60.0  # seconds

_AT_BARRIER = "meet"
_RESULT = "result "


def in_processes(target: str, *arguments: Sequence[Any], deadline: float = DEADLINE) -> list[Any]:
    """Call `target` once for each of `arguments`, each in a process of its own, all at once.

    Args:
        target: dotted name of a function that takes `meet` and then the arguments.
        arguments: what each process hands to it, as JSON.
        deadline: seconds after which the children are killed.

    Returns:
        what the calls returned, in the order of `arguments`.

    Raises:
        AssertionError: a child failed, printed a traceback or was late; with what it printed.
    """
    with Children(target, *arguments, deadline=deadline) as children:
        return children.run()


def manage(
    *arguments: str, settings: str = "tests.settings", stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Run a `manage.py` command on the test database and wait for its end."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=environment(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


class Children:
    """A group of processes. Leaving the block kills those that still run."""

    def __init__(self, target: str, *arguments: Sequence[Any], deadline: float = DEADLINE) -> None:
        self._give_up_at = time.monotonic() + deadline
        self.each = [_Child(target, list(given)) for given in arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for child in self.each:
            child.close()

    def gather(self) -> None:
        """Wait until all children stand at a barrier."""
        if messages := [each for each in self._next_messages() if each != _AT_BARRIER]:
            raise AssertionError(f"a child ended instead of coming to the barrier: {messages}")

    def release(self) -> None:
        """Let all children go on from the barrier."""
        for child in self.each:
            child.release()

    def run(self) -> list[Any]:
        """Release every barrier as soon as all have come to it; return the results."""
        while True:
            messages = self._next_messages()
            if all(message == _AT_BARRIER for message in messages):
                self.release()
                continue
            if _AT_BARRIER in messages:
                raise AssertionError(f"some children ended, others still wait: {messages}")
            for child in self.each:
                child.end(self._left())
            return [json.loads(message.removeprefix(_RESULT)) for message in messages]

    def _next_messages(self) -> list[str]:
        return [child.next_message(self._left()) for child in self.each]

    def _left(self) -> float:
        return max(0.01, self._give_up_at - time.monotonic())


class _Child:
    def __init__(self, target: str, arguments: list[Any]) -> None:
        self._errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes", target, json.dumps(arguments)],
            cwd=ROOT,
            env=environment("tests.settings"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # its own forks end with it
        )
        self._messages: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def next_message(self, timeout: float) -> str:
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"a child was too late. {self._printed()}") from None
        if message is None:
            status = self.process.wait(timeout=timeout)
            raise AssertionError(f"a child ended with status {status}. {self._printed()}")
        return message

    def release(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, timeout: float) -> None:
        status = self.process.wait(timeout=timeout)
        printed = self._printed()
        assert status == 0, f"status {status}. {printed}"
        assert "Traceback" not in printed, printed

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=DEADLINE)
        self._reader.join(timeout=DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                assert pipe
                pipe.close()
        self._errors.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._messages.put(line.rstrip("\n"))
        self._messages.put(None)

    def _printed(self) -> str:
        self._errors.seek(0)
        return f"It printed:\n{self._errors.read()}"


def environment(settings: str) -> dict[str, str]:
    """Return the environment of a child that works on the test database."""
    name = str(connection.settings_dict["NAME"])  # the test database's, once there is one
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    return {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": settings,
        "PYTHONPATH": str(ROOT),
    }


def _main() -> None:
    target, arguments = sys.argv[1:]
    parent, sys.stdout = sys.stdout, sys.stderr  # what the function prints is no message
    django.setup()

    def meet() -> None:
        print(_AT_BARRIER, file=parent, flush=True)
        if not sys.stdin.readline():
            raise SystemExit("the parent is gone")

    result = import_string(target)(meet, *json.loads(arguments))
    print(f"{_RESULT}{json.dumps(result)}", file=parent, flush=True)


if __name__ == "__main__":
    _main()
