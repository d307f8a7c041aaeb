"""Child processes on the test database: they start together, and are killed where a test says."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.db import connection

__all__ = ["finish", "start", "start_together"]

_PREAMBLE = """
import json, os, sys
import django
django.setup()
print("ready", flush=True)
sys.stdin.readline()
"""


def start(code: str) -> subprocess.Popen[str]:
    """Start a child that has Django set up and waits for a line on its standard input.

    ``code`` runs after that line. What it prints last is its result, as JSON.
    """
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
    child = subprocess.Popen(
        [sys.executable, "-c", _PREAMBLE + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "DATABASE_URL": url.geturl(),
            "DJANGO_SETTINGS_MODULE": "tests.settings",
        },
    )
    assert read_line(child) == "ready"
    return child


def start_together(codes: Sequence[str]) -> list[Any]:
    """Run all children at once and return their results; a failed one fails the test."""
    children = [start(code) for code in codes]
    for child in children:
        go(child)
    return [finish(child) for child in children]


def go(child: subprocess.Popen[str]) -> None:
    """Let a child that waits go on."""
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def read_line(child: subprocess.Popen[str]) -> str:
    """Return the next line that the child prints; fails the test where the child died instead."""
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    if not line:
        raise AssertionError(f"The child ended early: {child.communicate()[1]}")
    return line


def finish(child: subprocess.Popen[str], timeout: float = 60) -> Any:
    """Wait at most ``timeout`` seconds for the child's end and return its result."""
    output, errors = child.communicate(timeout=timeout)
    assert child.returncode == 0, errors
    assert "Traceback" not in errors, errors
    return json.loads(output.strip().splitlines()[-1])
