"""Trials T2 and T7: the same job in several processes at once."""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from idempotent_actions import polling, polls, services
from idempotent_actions.actions import Action, Branch
from idempotent_actions.candidates import candidate_pks
from idempotent_actions.models import Escalation
from project.billing.models import Invoice
from tests.invoices import LADDER, climbed, make_invoice, now_there
from tests.processes import Meet, in_processes

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES = 8
ROWS = 50


def yesterday() -> datetime:
    return timezone.now() - timedelta(days=1)


def tick(meet: Meet) -> dict[str, Any]:
    """Runs in a child: tick when all children are ready."""
    connection.ensure_connection()
    meet()
    (report,) = polling.tick(LADDER, batch_size=7)
    return report.as_dict()


def tick_with_the_same_candidates(meet: Meet) -> dict[str, Any]:
    """Runs in a child: every child has read its candidates before any of them locks one."""

    def pages(action: Action, branch: Branch, page_size: int) -> Iterator[list[Any]]:
        every = candidate_pks(action, branch, page_size)
        first = next(every)
        meet()
        yield first
        yield from every

    setattr(polls, "candidate_pks", pages)  # noqa: B010 - it is no public name there
    (report,) = polling.tick(LADDER, batch_size=7)
    return report.as_dict()


def act_on_a_loaded_instance(meet: Meet, pk: int, seen: list[Any] | None) -> list[Any]:
    """Runs in a child: load, wait for the other one, act."""
    invoice = Invoice.objects.get(pk=pk)
    meet()
    outcome = services.act(
        LADDER,
        invoice,
        by=f"process {os.getpid()}",
        reason="a double click",
        seen=(seen[0], seen[1]) if seen else None,
    )
    return [outcome.applied, outcome.reason]


@pytest.mark.slow
def test_t2_eight_processes_ticking_at_once_climb_each_rung_once() -> None:
    for number in range(ROWS):
        make_invoice(number, due_at=yesterday())

    reports = in_processes(f"{__name__}.{tick.__name__}", *[[]] * PROCESSES)

    assert_each_climbed_once(reports)


@pytest.mark.slow
def test_t2_processes_with_the_same_candidates_climb_each_rung_once_and_say_who_was_late() -> None:
    for number in range(ROWS):
        make_invoice(number, due_at=yesterday(), status="overdue")

    target = f"{__name__}.{tick_with_the_same_candidates.__name__}"
    reports = in_processes(target, *[[]] * PROCESSES)

    assert_each_climbed_once(reports)
    for report in reports:
        assert set(report["skipped"]) <= {"locked", "wrong_status"}
        assert report["selected"] == ROWS
        assert report["applied"] + sum(report["skipped"].values()) == ROWS


def assert_each_climbed_once(reports: list[dict[str, Any]]) -> None:
    assert sum(report["applied"] for report in reports) == ROWS
    assert [report["failed"] for report in reports] == [0] * PROCESSES
    assert Escalation.objects.count() == ROWS
    for invoice in Invoice.objects.all():
        assert climbed(invoice) == ["reminder"]
        assert (invoice.status, invoice.rung) == ("escalated", "reminder")


@pytest.mark.parametrize(
    ("seen", "loser"), [(None, "not_due"), ((1, ""), "stale_view")], ids=["unseen", "seen"]
)
def test_t7_two_processes_with_a_loaded_instance_climb_one_rung(
    seen: tuple[int, str] | None, loser: str
) -> None:
    invoice = make_invoice(due_at=yesterday())

    target = f"{__name__}.{act_on_a_loaded_instance.__name__}"
    outcomes = in_processes(target, *[[invoice.pk, seen]] * 2)

    assert sorted(outcomes) == [[False, loser], [True, ""]]
    assert climbed(invoice) == ["reminder"]
    assert now_there(invoice).rung == "reminder"
