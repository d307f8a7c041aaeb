"""The admin's pages on filled tables: each opens, with few statements that indexes serve.

How fast it is, no test asks: see ``python -m tests.benchmarks.admin``.
"""

import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from project.billing.actions import ChargeOrders, EscalateInvoices
from project.school.actions import EscalateNoShows
from tests.benchmarks import admin
from tests.benchmarks.filling import fill
from tests.registering import only

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="filled by PostgreSQL's SQL"),
]

ROWS = 50_000

LARGE = "escalation|capture|captureattempt|run"
READS_ALL = re.compile(rf"Seq Scan on idempotent_actions_({LARGE})\b")

BOUNDED = [
    "overview",
    "escalations of a subject",
    "escalations of a primary key",
    "captures for a person",
    "captures by key",
    "captures by reference",
    "captures of a subject",
    "captures of a primary key",
    "a capture",
    "a timeline",
]
"""Pages that must read single rows, or a part, of the large tables: never one from end to end."""


def test_every_page_opens_with_few_statements() -> None:
    fill(500)
    found = admin.measure(500)
    assert {name: each["status"] for name, each in found.items() if each["status"] != 200} == {}
    many = {name: each["queries"] for name, each in found.items()}
    assert {name: count for name, count in many.items() if count > admin.MOST_QUERIES} == {}


def test_the_benchmark_prints_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = {
        "rows": 5,
        "pages": {"overview": {"ms": 12.5, "queries": 3, "status": 200}},
        "server": {"fsync": "on"},
    }
    admin.show(found)
    printed = capsys.readouterr().out
    assert re.search(r"^overview +12\.5 +3$", printed, re.MULTILINE)
    assert json.loads(json.dumps(found)) == found


@pytest.mark.slow
def test_no_page_reads_a_large_table_from_end_to_end(admin_client: Client) -> None:
    fill(ROWS)
    addresses = admin.pages(ROWS)
    with only(EscalateInvoices, EscalateNoShows, ChargeOrders):
        plans = {name: plans_of(admin_client, addresses[name]) for name in BOUNDED}
    offending = {name: [p for p in each if READS_ALL.search(p)] for name, each in plans.items()}
    assert {name: each for name, each in offending.items() if each} == {}


def plans_of(client: Client, address: str) -> list[str]:
    """How PostgreSQL does what a page asks of it."""
    with CaptureQueriesContext(connection) as asked:
        assert client.get(address).status_code == 200
    plans = []
    for each in asked:
        if re.match(r"\(*SELECT", each["sql"]):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {each['sql']}".replace("%", "%%"), [])
                plans.append("\n".join([each["sql"], *(row[0] for row in cursor.fetchall())]))
    return plans
