"""Instances with deferred columns, refreshed ones, copies, clones: none puts a ladder back."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import WEEK
from tests.happenings import OWN, climb, happenings, own_columns
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there, trail

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


@happenings
@pytest.mark.parametrize("deferred", [("status",), ("rung",), OWN])
def test_columns_that_were_not_loaded_are_not_written(
    deferred: tuple[str, ...], happening: Callable[[], None]
) -> None:
    make_invoice()
    for stale in (Invoice.objects.defer(*deferred).get(), Invoice.objects.only("amount").get()):
        happening()
        there = own_columns()
        stale.amount += 1
        stale.save()
        assert own_columns() == there


def test_a_column_that_is_loaded_late_is_as_it_is_then_and_is_not_written_later() -> None:
    make_invoice()
    stale = Invoice.objects.defer("status", "rung").get()
    climb()
    assert (stale.status, stale.rung) == ("escalated", "reminder")
    with travel(DUE + WEEK):
        tick(LADDER)
    stale.save()
    assert own_columns()["rung"] == "warning"


def test_a_refresh_brings_the_state_and_a_save_after_it_nothing_back() -> None:
    make_invoice()
    stale = Invoice.objects.get()
    climb()
    stale.refresh_from_db()
    assert (stale.status, stale.rung) == ("escalated", "reminder")
    with travel(DUE + WEEK):
        tick(LADDER)
    stale.save()
    assert own_columns()["rung"] == "warning"
    stale.refresh_from_db(fields=["rung"])
    assert (stale.status, stale.rung) == ("escalated", "warning")
    stale.refresh_from_db(from_queryset=Invoice.objects.all())
    assert stale.next_at == DUE + 2 * WEEK


def test_a_transition_that_an_instance_made_is_written_by_its_save_once() -> None:
    make_invoice(status="overdue")
    fresh = Invoice.objects.get()
    fresh.escalate(now=DUE)
    fresh.save()
    assert own_columns()["rung"] == "reminder"
    with travel(DUE + WEEK):
        tick(LADDER)
    fresh.save()
    assert own_columns()["rung"] == "warning"


@pytest.mark.parametrize("bulk", [False, True])
def test_a_transition_made_before_the_insert_is_not_written_once_more(bulk: bool) -> None:
    new = Invoice(number="1", email="a@example.org", amount=100, due_at=DUE)
    new.mark_overdue()
    if bulk:
        Invoice.objects.bulk_create([new])
    else:
        new.save()
    climb()
    there = own_columns()
    assert there["rung"] == "reminder"
    new.save()
    assert own_columns() == there


def test_a_save_that_changes_nothing_touches_no_column_of_the_ladder() -> None:
    make_invoice()
    stale = Invoice.objects.get()
    with connection.execute_wrapper(no_own_column):
        stale.save()


def no_own_column(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    assert sql.startswith("UPDATE")
    assert not [name for name in OWN if f'"{name}"' in sql.partition("WHERE")[0]]
    return execute(sql, params, many, context)


def test_a_row_that_is_gone_is_inserted_anew_with_all_its_columns() -> None:
    make_invoice()
    climb()
    stale = Invoice.objects.get()
    there = own_columns()
    Invoice.objects.all().delete()
    stale.save()
    assert own_columns() == there


@pytest.mark.parametrize("deferred", [(), ("status",)])
@pytest.mark.parametrize("state", ["resolved", "overdue", "nonsense", None])
def test_a_state_is_not_assigned(state: Any, deferred: tuple[str, ...]) -> None:
    make_invoice()
    invoice = Invoice.objects.defer(*deferred).get()
    with pytest.raises(AttributeError) as caught:
        invoice.status = state
    assert "status is changed by transitions and services only" in str(caught.value)
    assert invoice.status == "open"
    invoice.status = "open"


def test_what_a_copy_has_written_does_not_make_the_original_write_back() -> None:
    make_invoice(status="overdue")
    original = Invoice.objects.get()
    twin = copy.copy(original)
    twin.escalate(now=DUE)
    twin.save()
    there = own_columns()
    original.save()
    assert own_columns() == there


def test_a_clone_is_a_row_of_its_own() -> None:
    original = make_invoice(1)
    climb()
    clone = Invoice.objects.get()
    clone.pk, clone.number = None, "2"
    clone.save()
    with travel(DUE + WEEK):
        tick(LADDER)
    clone.save()
    original.save()
    assert [now_there(each).rung for each in (original, clone)] == ["warning", "warning"]
    assert (climbed(original), trail(clone)) == (["reminder", "warning"], ["escalate warning"])
