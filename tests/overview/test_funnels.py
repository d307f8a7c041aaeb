"""The funnel: how many stand on each rung, since when, and how many were cleared there."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, models

from idempotent_actions import LadderAction, funnels
from idempotent_actions.funnels import EXHAUSTED, Funnel
from idempotent_actions.registry import registry
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.hosts.dunning.actions import DunBills
from tests.hosts.keys.models import Device, Parking, Permit
from tests.invoices import LADDER, make_invoice
from tests.overview.making import NOW
from tests.registering import ladder_of, only

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def funnel_of(*actions: Any, cleared: dict[str, int] | None = None) -> Funnel:
    with only(*(actions or (EscalateInvoices,))):
        return funnels.funnels({LADDER: cleared or {}})[0]


def standing(funnel: Funnel) -> dict[str, int]:
    return {each.name: each.standing for each in funnel.places if each.standing}


def test_the_places_go_from_below_the_first_rung_to_the_end() -> None:
    names = [each.name for each in funnel_of().places]
    assert names == ["", "reminder", "warning", "final_notice", EXHAUSTED]


def test_live_subjects_are_counted_where_they_stand() -> None:
    make_invoice(1)
    make_invoice(2, status="overdue")
    make_invoice(3, status="overdue", rung="reminder")
    make_invoice(4, status="escalated", rung="reminder")
    make_invoice(5, status="exhausted", rung="final_notice")
    make_invoice(6, status="resolved", rung="reminder")
    make_invoice(7, status="cancelled", rung="warning")
    assert standing(funnel_of()) == {"": 2, "reminder": 2, EXHAUSTED: 1}


def test_half_of_those_on_a_rung_have_stood_there_since_the_median() -> None:
    for number, days in enumerate([1, 2, 4, 8, 90]):
        columns = {"status": "escalated", "rung": "warning", "escalated_at": NOW - days * DAY}
        make_invoice(number, **columns)
    make_invoice("no date", status="escalated", rung="warning")
    since = {each.name: each.since for each in funnel_of().places}
    assert since["warning"] == NOW - 4 * DAY
    assert since["reminder"] is None


def test_elsewhere_than_on_postgresql_the_numbers_are_the_same() -> None:
    for number, days in enumerate([1, 2, 4, 8]):
        columns = {"status": "escalated", "rung": "warning", "escalated_at": NOW - days * DAY}
        make_invoice(number, **columns)
    make_invoice("below")
    make_invoice("end", status="exhausted", rung="final_notice", escalated_at=NOW)
    with only(EscalateInvoices):
        (action,) = registry.ladders()
        rows = funnels._rows(action)
        assert funnels._one_by_one(rows) == funnels._standing([action])[LADDER]


def test_a_rung_that_is_no_longer_declared_is_shown_as_such() -> None:
    make_invoice(1, status="escalated", rung="gone")
    shown = {each.name: each.declared for each in funnel_of(cleared={"gone before": 1}).places}
    assert shown["reminder"]
    assert (shown["gone"], shown["gone before"]) == (False, False)


def test_cleared_ones_are_shown_where_they_stood() -> None:
    funnel = funnel_of(cleared={"warning": 3, "": 1, EXHAUSTED: 2})
    assert {each.name: each.cleared for each in funnel.places if each.cleared} == {
        "": 1,
        "warning": 3,
        EXHAUSTED: 2,
    }


def test_a_ladder_of_each_rows_own_shows_the_rungs_in_the_data() -> None:
    with only(DunBills):
        (empty,) = funnels.funnels({})
        assert [each.name for each in empty.places] == ["", EXHAUSTED]
        (found,) = funnels.funnels({DunBills().name: {"reminder": 1}})
    assert [(each.name, each.declared) for each in found.places][1] == ("reminder", True)


@pytest.mark.parametrize("model", [Device, Permit, Parking])
def test_the_kind_of_primary_key_doesnt_matter(model: Any) -> None:
    given: dict[Any, dict[str, Any]] = {
        Device: {},
        Permit: {"code": "007"},
        Parking: {"permit": Permit(code="7")},
    }
    for each in given[model].values():
        if isinstance(each, models.Model):
            each.save()
    model.objects.create(status="escalated", rung="visit", escalated_at=NOW, **given[model])
    assert standing(funnel_of(ladder_of(model))) == {"visit": 1}


def test_rows_that_the_action_leaves_out_are_not_counted() -> None:
    make_invoice(1, customer="ours")
    make_invoice(2, customer="theirs")

    def ours(self: LadderAction) -> models.QuerySet[Invoice]:
        return Invoice.objects.filter(customer="ours")

    assert standing(funnel_of(ladder_of(Invoice, get_queryset=ours))) == {"": 1}


def test_two_that_stand_alike_are_two_also_in_a_distinct_queryset() -> None:
    make_invoice(1)
    make_invoice(2)

    def distinct(self: LadderAction) -> models.QuerySet[Invoice]:
        return Invoice.objects.distinct()

    assert standing(funnel_of(ladder_of(Invoice, get_queryset=distinct))) == {"": 2}


def test_a_queryset_without_rows_is_an_empty_funnel() -> None:
    def none(self: LadderAction) -> models.QuerySet[Invoice]:
        return Invoice.objects.none()

    funnel = funnel_of(ladder_of(Invoice, get_queryset=none))
    assert (standing(funnel), funnel.error) == ({}, "")


def test_a_queryset_that_raises_is_told_and_hides_no_other_ladder() -> None:
    def raises(self: LadderAction) -> models.QuerySet[Any]:
        raise ValueError("no such tenant")

    make_invoice()
    with only(ladder_of(Device, get_queryset=raises), EscalateInvoices):
        broken, whole = funnels.funnels({})
    assert (broken.places, broken.error) == ([], "ValueError: no such tenant")
    assert standing(whole) == {"": 1}


@pytest.mark.skipif(connection.vendor != "postgresql", reason="all are counted elsewhere")
def test_more_than_are_looked_at_is_said_and_open_ones_crowd_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(funnels, "MOST_SUBJECTS", 2)
    make_invoice("climber", status="escalated", rung="warning")
    make_invoice(1)
    assert not funnel_of().capped
    make_invoice(2)
    make_invoice(3)
    funnel = funnel_of()
    assert funnel.capped
    assert standing(funnel) == {"": 2, "warning": 1}


@pytest.mark.django_db(transaction=True)
def test_a_model_without_its_table_is_told_and_hides_no_other_ladder() -> None:
    make_invoice()
    with only(ladder_of(Device), EscalateInvoices), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Device._meta.db_table} RENAME TO hidden_for_now")
        try:
            broken, whole = funnels.funnels({})
        finally:
            cursor.execute(f"ALTER TABLE hidden_for_now RENAME TO {Device._meta.db_table}")
    assert "Error" in broken.error
    assert standing(whole) == {"": 1}
