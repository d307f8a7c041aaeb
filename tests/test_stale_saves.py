"""Instances that were loaded before a tick and are saved after it: they write nothing back."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.forms import modelform_factory

from idempotent_actions.models import Escalation
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.happenings import happenings, own_columns
from tests.invoices import DUE, make_invoice

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


def save(stale: Invoice) -> None:
    stale.save()


def save_what_was_edited(stale: Invoice) -> None:
    stale.save(update_fields=["amount"])


def save_all_fields_by_name(stale: Invoice) -> None:
    names = [field.name for field in Invoice._meta.fields if not field.primary_key]
    stale.save(update_fields=names)


def save_an_edit_form(stale: Invoice) -> None:
    fields = ["number", "customer", "email", "amount", "due_at"]
    form_class = modelform_factory(Invoice, fields=fields)
    values = {name: getattr(stale, name) for name in fields}
    form = form_class({**values, "amount": "5"}, instance=stale)
    assert form.is_valid(), form.errors
    form.save()


def save_a_copy(stale: Invoice) -> None:
    copy.copy(stale).save()


def save_what_came_through_a_queue(stale: Invoice) -> None:
    pickle.loads(pickle.dumps(stale)).save()  # noqa: S301


def save_with_an_update_forced(stale: Invoice) -> None:
    stale.save(force_update=True)


@happenings
@pytest.mark.parametrize(
    "write",
    [
        save,
        save_what_was_edited,
        save_all_fields_by_name,
        save_an_edit_form,
        save_a_copy,
        save_what_came_through_a_queue,
        save_with_an_update_forced,
    ],
)
def test_a_stale_instance_writes_its_own_edit_and_nothing_of_the_ladder(
    write: Callable[[Invoice], None], happening: Callable[[], None]
) -> None:
    make_invoice()
    stale = Invoice.objects.get()
    happening()
    there, audited = own_columns(), Escalation.objects.count()

    stale.amount = 5
    write(stale)

    assert own_columns() == there
    assert Invoice.objects.get().amount == 5
    assert Escalation.objects.count() == audited


@happenings
@pytest.mark.parametrize("made_by", ["create", "save", "bulk_create", "get_or_create", "import"])
def test_the_instance_that_inserted_the_row_writes_nothing_back_either(
    made_by: str, happening: Callable[[], None]
) -> None:
    values: Any = {"number": "1", "email": "a@example.org", "amount": 100, "due_at": DUE}
    stale = Invoice(**values)
    if made_by == "create":
        stale = Invoice.objects.create(**values)
    elif made_by == "save":
        stale.save()
    elif made_by == "bulk_create":
        (stale,) = Invoice.objects.bulk_create([stale])
    elif made_by == "get_or_create":
        stale, _ = Invoice.objects.get_or_create(number="1", defaults=values)
    else:  # a nightly import knows the primary key and has the other system's columns only
        stale.pk = Invoice.objects.create(**values).pk
    happening()
    there = own_columns()

    stale.amount = 5
    stale.save()

    assert own_columns() == there
    assert Invoice.objects.get().amount == 5
