"""What one poison row in each batch costs: ``uv run python -m tests.benchmarks.poison [ROWS]``.

The database refuses every 500th row. Clean and poisoned polls take turns in one run; the
ratio of their median rates is what counts. It works on a test database of its own.
"""

import json
import os
import statistics
import sys
import time

import django

REPEATS = 5
BATCH = 500


def main(rows: int) -> None:
    """Print the rates of both legs, in rows a second, and their ratio as JSON."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.test.utils import setup_databases, teardown_databases

    databases = setup_databases(verbosity=0, interactive=False)
    try:
        rates = measure(rows)
    finally:
        teardown_databases(databases, verbosity=0)
    print(json.dumps({"rows": rows, **rates, "poisoned/clean": rates["poisoned"] / rates["clean"]}))


def measure(rows: int) -> dict[str, float]:
    """Run both legs in turn and return the median rate of each."""
    samples: dict[str, list[float]] = {"clean": [], "poisoned": []}
    for _ in range(REPEATS):
        for leg in samples:
            samples[leg].append(poll(rows, poisoned=leg == "poisoned"))
    return {leg: round(statistics.median(rates)) for leg, rates in samples.items()}


def poll(rows: int, *, poisoned: bool) -> float:
    """Escalate ``rows`` overdue invoices and return the rate."""
    from django.db import connection

    from idempotent_actions.polling import escalate_overdue
    from project.billing.models import Invoice

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE billing_invoice, idempotent_actions_escalation RESTART IDENTITY")
        cursor.execute("ALTER TABLE billing_invoice DROP CONSTRAINT IF EXISTS poison")
        cursor.execute(
            "INSERT INTO billing_invoice (number, customer, email, amount, due_at, status)"
            " SELECT 'n' || g, 'c', 'a@example.org', 1, now() - interval '1 day', 'overdue'"
            " FROM generate_series(1, %s) g",
            [rows],
        )
        if poisoned:
            cursor.execute(
                "ALTER TABLE billing_invoice ADD CONSTRAINT poison"
                " CHECK (NOT (status = 'escalated' AND id % 500 = 250)) NOT VALID"
            )
        cursor.execute("VACUUM ANALYZE billing_invoice")
    started = time.perf_counter()
    (report,) = escalate_overdue(Invoice, mark=False, batch_size=BATCH)
    elapsed = time.perf_counter() - started
    assert report.failed == (rows // BATCH if poisoned else 0), report.errors
    assert report.applied + report.failed == rows
    return rows / elapsed


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
