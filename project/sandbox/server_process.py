"""A sandbox server as a child process: started, killed, started again, and never left behind."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

__all__ = ["SandboxError", "ServerProcess"]

ROOT = Path(__file__).resolve().parent.parent.parent

START_TIMEOUT = 30  # seconds; it takes a fraction of one
STOP_TIMEOUT = 10


class SandboxError(Exception):
    """A sandbox server did not start, or did not do what it was told."""


class ServerProcess:
    """One of the sandbox's servers on one file. It ends with this process, however that ends."""

    def __init__(self, module: str, file: Path, port: int) -> None:
        self._module = module
        self.file = file.resolve()
        self.port = port
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Stop it."""
        self.close()

    @property
    def pid(self) -> int:
        """The process's number; 0 while there is none."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it and wait until it listens; started again, it has the same file and port.

        Raises:
            SandboxError: it did not come to that. What it printed is on standard error.
        """
        self.close()
        where = ["--port", str(self.port), "--file", str(self.file)]
        process = subprocess.Popen(
            [sys.executable, "-m", self._module, "--with-parent", *where],
            cwd=ROOT,
            stdin=subprocess.PIPE,  # its end tells the server that this process is gone
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C at the terminal is not for it
        )
        self._process = process
        # A server that hangs is killed, which ends the wait for its line.
        watchdog = threading.Timer(START_TIMEOUT, process.kill)
        watchdog.start()
        try:
            line = next(iter(process.stdout or []), "")
        finally:
            watchdog.cancel()
            watchdog.join()
        if not line.startswith("listening on "):
            self.kill()
            raise SandboxError(f"{self._module} did not start: {line.strip() or 'it ended'}")
        self.port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        """Kill it with SIGKILL, as a machine that fails would."""
        if self._process:
            self._process.kill()
        self.close()

    def close(self) -> None:
        """Stop it and wait for its end; what it wrote stays."""
        if not self._process:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._process = None
