"""What an effect that is done once costs: ``uv run python -m tests.benchmarks.captures``.

A no-op effect without a subject, performed for new keys and again for the same ones: by this app,
by two hand-written statements, and by DBOS where it is installed (``uv run --with dbos``). All take
turns of a few keys, in one run on one test database, so that whatever else the machine does hits
all alike; the ratios of their median rates are what counts. The settings let statements be prepared
(``prepare_threshold``); without that, ours takes about a third longer.
"""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import django

from tests.benchmarks.measuring import medians, rate, server, table, test_database, turns

ROWS = 1_000
TURN = 25  # keys

FLOORS = {
    "capture_first/sql": 0.5,
    "capture_replay/sql": 0.8,
    "capture_first/dbos": 2.0,
}
"""What the ratios should be at least."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all legs and print a table; with ``--json``, an object on the last line too."""
    parser = argparse.ArgumentParser(prog="captures", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="keys of each leg")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    with test_database():
        found = measure(options.rows)
    show(found)
    if options.json:
        print(json.dumps(found))


def measure(rows: int) -> dict[str, Any]:
    """Run the legs in turn; return the median rates, in keys a second, and their ratios."""
    from tests.benchmarks import performing

    keys = min(TURN, rows)
    rounds = rows // keys
    samples: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as opened:
        legs, skipped = performing.legs(opened)
        for leg, perform in legs.items():
            repeat(perform, f"{leg}:warm", keys)
        for number, leg in turns(list(legs), rounds):
            first, replay = once_and_again(legs[leg], f"{leg}:{number}", keys)
            samples[f"{leg}_first"].append(first)
            samples[f"{leg}_replay"].append(replay)
    rates = medians(samples)
    ratios = {
        f"capture_{which}/{leg}": round(rates[f"ours_{which}"] / rates[f"{leg}_{which}"], 2)
        for leg in legs
        for which in ("first", "replay")
        if leg != "ours"
    }
    return {
        "rows": rounds * keys,
        "rates": rates,
        "ratios": ratios,
        "skipped": skipped,
        "server": server(),
    }


def once_and_again(perform: Any, prefix: str, keys: int) -> tuple[float, float]:
    """Return the rates of new keys and of the same keys again, which must do nothing."""
    from tests.benchmarks.noop import done

    before = done()
    first = rate(lambda: repeat(perform, prefix, keys), keys)
    between = done()
    replay = rate(lambda: repeat(perform, prefix, keys), keys)
    counted = between - before, done() - between
    assert counted == (keys, 0), f"{prefix}: done {counted} times, not {(keys, 0)}"
    return first, replay


def repeat(perform: Any, prefix: str, keys: int) -> None:
    """Perform so many keys, each with parameters as a charge has."""
    for number in range(keys):
        params = {"order": number, "amount": 1999, "currency": "EUR", "customer": "A. Customer"}
        assert perform(f"{prefix}:{number}", params) == {"parameters": 4}


def show(found: dict[str, Any]) -> None:
    """Print what was found."""
    settings = ", ".join(f"{name} {value}" for name, value in found["server"].items())
    print(f"{found['rows']} keys of each leg, {TURN} a turn; {settings}\n")
    legs = [(leg, each, f"{1000 / each:.2f}") for leg, each in found["rates"].items()]
    print(table([("leg", "keys/s", "ms/key"), *legs]))
    ratios = [(name, each, FLOORS.get(name, "")) for name, each in found["ratios"].items()]
    print("\n" + table([("ratio", "is", "wanted"), *ratios]))
    for leg, why in found["skipped"].items():
        print(f"\n{leg} was skipped: {why}")


if __name__ == "__main__":
    main()
