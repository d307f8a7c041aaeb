"""A cluster as a host runs it: `manage.py qcluster` in a process group of its own."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import psutil

from tests.processes import ROOT, environment
from tests.waiting import until

__all__ = ["ORM", "Cluster", "cluster_environment", "in_cluster"]

ORM: Mapping[str, Any] = {"orm": "default"}

_SETTINGS = "tests.clusters.settings"
_GRACE = 20  # seconds to end in, when asked to


class Cluster:
    """One cluster: a parent, its sentinel, and under that monitor, pusher and workers."""

    def __init__(
        self, broker: Mapping[str, Any], *, prefix: Sequence[str] = (), **env: str
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(ROOT / "manage.py"), "qcluster"],
            env={**cluster_environment(broker), **env},
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def wait_until_up(self) -> Self:
        """Return once there is a pool: a parent, a sentinel, and four under that."""
        until(lambda: len(self._family()) >= 6, "a cluster to start", deadline=60)
        return self

    def kill_somebody(self, dice: random.Random) -> None:
        """SIGKILL one of those under the sentinel: a worker, most likely."""
        pool = self._family()[2:]
        if pool:
            with suppress(psutil.NoSuchProcess):
                dice.choice(pool).kill()

    def stop(self) -> None:
        """Ask the parent to end, and wait until all have."""
        family = self._family()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_GRACE)
        _gone, alive = psutil.wait_procs(family, timeout=_GRACE)
        assert not alive

    def kill(self) -> None:
        """SIGKILL all of it, as a host's crash would."""
        # Stopped first, parents before children: else a sentinel makes up for what was killed.
        for each in (family := self._family()):
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        family = [*family, *[each for each in self._family() if each not in family]]
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait(_GRACE)
        psutil.wait_procs(family, timeout=_GRACE)
        self._errors.close()

    def _family(self) -> list[psutil.Process]:
        """The parent, the sentinel, and those under it."""
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


def cluster_environment(broker: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a process with a cluster's settings."""
    return {**environment(_SETTINGS), "CLUSTER_TEST": json.dumps(broker)}


def in_cluster(code: str, broker: Mapping[str, Any]) -> str:
    """Run Python code in a process with a cluster's settings; return what it prints."""
    run = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\n{code}"],
        env=cluster_environment(broker),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
