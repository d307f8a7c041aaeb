"""The benchmarks of captures run and say what they found. How fast it is, no test asks."""

import json
import os
import subprocess
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection

from tests.processes import ROOT

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the SQL by hand is PostgreSQL's"),
]


def measured(module: str, *arguments: str) -> tuple[str, dict[str, Any]]:
    """What a benchmark prints, run on a test database beside this one; and its last line."""
    name = str(connection.settings_dict["NAME"])
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    run = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments, "--json"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    assert all(ratio in run.stdout.rpartition("\n{")[0] for ratio in found["ratios"])
    return run.stdout, found


@pytest.mark.slow
def test_the_benchmark_of_captures_prints_its_ratios() -> None:
    printed, found = measured("captures", "--rows", "20")
    ratios = {"capture_first/sql", "capture_replay/sql"}
    if "dbos" in found["skipped"]:
        assert f"dbos was skipped: {found['skipped']['dbos']}" in printed
    else:
        ratios.add("capture_first/dbos")
    assert ratios <= set(found["ratios"])
    assert all(ratio > 0 for ratio in found["ratios"].values())


@pytest.mark.slow
def test_the_benchmark_of_deliveries_prints_its_ratios() -> None:
    _printed, found = measured("deliveries", "--rows", "20", "--rounds", "1")
    assert {"plain_2/1", "escalated_2/1"} <= set(found["ratios"])
    assert all(ratio > 0 for ratio in found["ratios"].values())
