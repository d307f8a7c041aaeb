"""How many captures a second are delivered: ``uv run python -m tests.benchmarks.deliveries``.

A no-op effect, requested without a subject and by the escalation of an invoice, delivered by one
to four workers. All take turns in one run on one test database.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import django

from tests.benchmarks.measuring import medians, rate, server, table, test_database, turns

ROWS = 2_000
ROUNDS = 3
WORKERS = (1, 2, 4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all legs and print a table; with ``--json``, an object on the last line too."""
    parser = argparse.ArgumentParser(prog="deliveries", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="captures of each leg and round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with test_database():
        found = measure(options.rows, options.rounds)
    show(found)
    if options.json:
        print(json.dumps(found))


def measure(rows: int, rounds: int) -> dict[str, Any]:
    """Run the legs in turn; return the median rates, in captures a second, and their ratios."""
    from tests.benchmarks import delivering

    kinds = {"plain": delivering.request, "escalated": delivering.escalate}
    legs = {f"{kind}_{workers}": (kind, workers) for kind in kinds for workers in WORKERS}
    samples: dict[str, list[float]] = defaultdict(list)
    with delivering.only_benchmarks():
        for number, leg in turns(list(legs), rounds):
            kind, workers = legs[leg]
            kinds[kind](rows, f"{leg}:{number}")
            samples[leg].append(rate(lambda w=workers: delivering.deliver(rows, w), rows))  # type: ignore[misc]
    rates = medians(samples)
    ratios = {
        f"{kind}_{workers}/1": round(rates[f"{kind}_{workers}"] / rates[f"{kind}_1"], 2)
        for kind, workers in legs.values()
        if workers > 1
    }
    return {"rows": rows, "rates": rates, "ratios": ratios, "server": server()}


def show(found: dict[str, Any]) -> None:
    """Print what was found."""
    settings = ", ".join(f"{name} {value}" for name, value in found["server"].items())
    print(f"{found['rows']} captures a leg and round; {settings}\n")
    legs = [(leg, each, f"{1000 / each:.2f}") for leg, each in found["rates"].items()]
    print(table([("leg and workers", "captures/s", "ms/capture"), *legs]))
    print("\n" + table([("ratio", "is"), *found["ratios"].items()]))


if __name__ == "__main__":
    main()
