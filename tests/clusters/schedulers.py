"""A scheduler more often than a cluster's own, which looks every 30 seconds: one more host's."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.clusters.cluster import cluster_environment
from tests.processes import ROOT

__all__ = ["often"]

_CODE = """
import django
django.setup()
import time
from django_q.scheduler import scheduler
while True:
    scheduler()
    time.sleep(0.5)
"""


@contextmanager
def often(broker: Mapping[str, Any]) -> Iterator[None]:
    """Let django-q2's scheduler look twice a second for the length of a block."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE],
        env=cluster_environment(broker),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert process.poll() is None, "the scheduler ended"
    finally:
        process.kill()
        process.wait()
