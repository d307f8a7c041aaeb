"""Runs the main job as cron would: in operating-system processes of its own."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Poller", "PollerError", "tick_in_processes"]

MANAGE = Path(__file__).resolve().parent.parent.parent / "manage.py"

BATCH_SIZE = 10
"""Rows. Few, so that two processes meet in the middle of a small sample."""

TIMEOUT = 60
"""Seconds that a process may take, counted from the end of the one started before it."""


@dataclass(frozen=True, slots=True)
class Poller:
    """What one process did: its runs, how many subjects it applied, and whom it passed over."""

    pid: int
    runs: list[int]
    applied: int
    resolved: int
    skipped: Counter[str]


class PollerError(Exception):
    """A process ended with an error, or not at all."""


def tick_in_processes(count: int, environment: dict[str, str] | None = None) -> list[Poller]:
    """Start ``count`` processes of ``tick`` together and wait for all of them.

    They find database, mail server and payment provider by ``environment``, or by the one of this
    process. Returns what each did; that some effects were not done is no error here. Raises
    ``PollerError``, and leaves no process behind.
    """
    command = [sys.executable, str(MANAGE), "tick", "--json"]
    command += ["--batch-size", str(BATCH_SIZE)]
    started: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            started.append(process)
        return [_finish(process) for process in started]
    finally:
        for process in started:
            process.kill()  # nothing to a process that has ended
            process.communicate()


def _finish(process: subprocess.Popen[str]) -> Poller:
    try:
        output, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise PollerError(f"Process {process.pid} is not done after {TIMEOUT} s.") from error
    try:
        actions: list[dict[str, Any]] = json.loads(output.splitlines()[-1])["actions"]
    except (ValueError, IndexError) as error:
        status = process.returncode
        raise PollerError(f"Process {process.pid} ended with {status}:\n{errors}") from error
    if failed := sum(action["failed"] for action in actions):
        raise PollerError(f"In process {process.pid} {failed} rows failed:\n{errors}")
    return Poller(
        pid=process.pid,
        runs=[action["run"] for action in actions if action["run"]],
        applied=sum(action["applied"] for action in actions),
        resolved=sum(action["resolved"] for action in actions),
        skipped=sum((Counter(action["skipped"]) for action in actions), Counter()),
    )
