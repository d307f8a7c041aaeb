"""Memory: a poll holds one batch and one page of keys, however much is due."""

import pytest
from django.db import connection

from tests.contention.children import finish, go, start

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

FEW, MANY = 10_000, 60_000  # due rows
FLAT = 10  # MB that many may take beyond what few take: 200 bytes a row

POLL = """
import resource
from idempotent_actions.polling import escalate_overdue
from project.billing.models import Invoice
(report,) = escalate_overdue(Invoice, deliver=False)
unit = 1024**2 if sys.platform == "darwin" else 1024
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
print(json.dumps({"applied": report.applied, "peak": peak}))
"""


def peak_memory(rows: int) -> float:
    """Return the peak of a process, in MB, that marks and escalates so many rows: no letters."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM billing_invoice")
        cursor.execute(
            "INSERT INTO billing_invoice (number, customer, email, amount, due_at)"
            " SELECT 'n' || g, 'c', 'a@example.org', 1, now() - interval '1 day'"
            " FROM generate_series(1, %s) g",
            [rows],
        )
    child = start(POLL)
    go(child)
    result = finish(child, timeout=240)
    assert result["applied"] == rows
    return float(result["peak"])


def test_memory_is_flat_from_few_to_many_due_rows() -> None:
    small, large = peak_memory(FEW), peak_memory(MANY)
    print(f"{FEW:,} rows: {small:.0f} MB; {MANY:,} rows: {large:.0f} MB")
    assert large - small < FLAT
