"""How fast the admin's pages open on large tables: ``uv run python -m tests.benchmarks.admin``.

A million acts and a million captures, 200,000 subjects, 100,000 runs. Each page is opened by a
superuser with Django's test client, five times after a first one that isn't counted; what is told
is the median of the server's time and the number of statements. On a test database of its own.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

import django

from tests.benchmarks.measuring import server, table, test_database

ROWS = 1_000_000
REPEATS = 5

MOST_MS = 1000
MOST_QUERIES = 15
"""What a page should take at most."""

OK = 200

TRANSACTIONS = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}

LAST_PAGE = 100
"""Of a list that goes through its newest 10,000 rows by a hundred."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill, measure and print a table; with ``--json``, an object on the last line too."""
    parser = argparse.ArgumentParser(prog="admin", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="acts, and as many captures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.test.utils import setup_test_environment

    from tests.benchmarks.filling import fill

    setup_test_environment()  # the test client's host is allowed
    with test_database():
        fill(options.rows)
        found = {"rows": options.rows, "pages": measure(options.rows), "server": server()}
    show(found)
    if options.json:
        print(json.dumps(found))


def pages(rows: int) -> dict[str, str]:
    """Return the addresses of the pages by what they show, for tables filled with ``rows``."""
    from django.urls import reverse

    from tests.benchmarks.filling import ACTS_OF_ONE
    from tests.invoices import LADDER

    def address(name: str, *arguments: Any) -> str:
        return reverse(f"admin:idempotent_actions_{name}", args=arguments)

    acts, captures = address("escalation_changelist"), address("capture_changelist")
    one = min(rows, 10) // 2  # a succeeded one, so that it has a reference
    subject = one % max(1, rows // ACTS_OF_ONE) + 1
    last = max(1, min(LAST_PAGE, -(-rows // 100)))
    return {
        "overview": address("overview_changelist"),
        "escalations": acts,
        "escalations, last page": f"{acts}?p={last}",
        "escalations of an action": f"{acts}?action={LADDER}",
        "escalations by transition": f"{acts}?transition=hold",
        "escalations of a subject": f"{acts}?q=billing.invoice:{subject}",
        "escalations of a primary key": f"{acts}?q={subject}",
        "captures for a person": captures,
        "captures, all": f"{captures}?needs=all",
        "captures, all, last page": f"{captures}?needs=all&p={last}",
        "captures in a common state": f"{captures}?needs=all&state=succeeded",
        "captures in a rare state": f"{captures}?needs=all&state=review",
        "captures of an effect": f"{captures}?needs=all&effect=billing.send_dunning_notice",
        "captures by key": f"{captures}?needs=all&q=billing.send_dunning_notice:{one}",
        "captures by reference": f"{captures}?needs=all&q=ref_{one}",
        "captures of a subject": f"{captures}?needs=all&q=billing.invoice:{subject}",
        "captures of a primary key": f"{captures}?needs=all&q={subject}",
        "a capture": address("capture_change", one),
        "a timeline": address("subject", "billing.invoice", subject),
        "runs": address("run_changelist"),
        "runs of an action": f"{address('run_changelist')}?action={LADDER}",
        "a run": address("run_change", 1),
        "preview": address("preview", LADDER),
    }


def measure(rows: int) -> dict[str, dict[str, Any]]:
    """Open each page; return its median in ms, its statements and its HTTP status."""
    from django.contrib.auth.models import User
    from django.test import Client

    from project.billing.actions import ChargeOrders, EscalateInvoices
    from project.school.actions import EscalateNoShows
    from tests.registering import only

    client = Client()
    client.force_login(User.objects.create_superuser("benchmark"))
    with only(EscalateInvoices, EscalateNoShows, ChargeOrders):
        return {name: opened(client, address) for name, address in pages(rows).items()}


def opened(client: Any, address: str) -> dict[str, Any]:
    """Open a page once to count its statements, then several times with the clock running."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as asked:
        status = client.get(address).status_code
    # Counted now, as the next request forgets them; how a transaction begins and ends is no query.
    queries = sum(each["sql"].partition(" ")[0] not in TRANSACTIONS for each in asked)
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        client.get(address)
        times.append(1000 * (time.perf_counter() - started))
    return {"ms": round(statistics.median(times), 1), "queries": queries, "status": status}


def show(found: dict[str, Any]) -> None:
    """Print what was found."""
    settings = ", ".join(f"{name} {value}" for name, value in found["server"].items())
    print(f"{found['rows']:,} acts and captures; {settings}\n")
    rows = [(name, each["ms"], each["queries"]) for name, each in found["pages"].items()]
    print(table([("page", "ms", "queries"), *rows]))
    print(f"\nwanted: at most {MOST_MS} ms and {MOST_QUERIES} queries")
    for name, each in found["pages"].items():
        if each["status"] != OK:
            print(f"{name} did not open: {each['status']}")


if __name__ == "__main__":
    main()
