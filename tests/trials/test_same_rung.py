"""Trials T4 and T5: the same rung, triggered by every tick of a day and in every possible way."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from itertools import permutations

import pytest
from django.core.management import call_command

from idempotent_actions import Rung, polling, services
from idempotent_actions.keys import make_key
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.trials.posting import DAY, HOUR, notices, tick_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("with_notices")]


@pytest.fixture
def late_fee(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rung adds ten percent."""

    def add(invoice: Invoice, rung: Rung) -> None:
        invoice.amount = (invoice.amount * Decimal("1.1")).quantize(Decimal("0.01"))

    monkeypatch.setattr(Invoice, "on_climb", add)


@pytest.mark.usefixtures("late_fee")
def test_t4_ninety_six_ticks_in_a_day_are_one_notice_and_one_fee() -> None:
    invoice = make_invoice(amount=Decimal("100.00"))
    for tick in range(96):
        tick_at(DUE + tick * timedelta(minutes=15))
    (notice,) = outside.deeds()
    assert notice.details == {"rung": "reminder", "amount": "110.00"}
    assert now_there(invoice).amount == Decimal("110.00")


@pytest.mark.usefixtures("late_fee")
@pytest.mark.parametrize("how", ["down", "lost", "unanswered", "declined"])
def test_t4_and_so_they_are_where_the_post_fails_in_the_morning(how: str) -> None:
    invoice = make_invoice(amount=Decimal("100.00"))
    outside.behave(how)
    for tick in range(96):
        if tick == 48:
            outside.behave("well")
        tick_at(DUE + tick * timedelta(minutes=15))
    assert len(outside.deeds()) == (how in ("down", "unanswered"))
    assert now_there(invoice).amount == Decimal("110.00")
    assert climbed(invoice) == ["reminder"]


@pytest.mark.usefixtures("late_fee")
def test_t4_a_fee_is_added_once_a_rung_over_the_whole_ladder() -> None:
    invoice = make_invoice(amount=Decimal("100.00"))
    for hours in range(0, 24 * 20, 6):
        tick_at(DUE + hours * HOUR)
    amounts = [each.details["amount"] for each in outside.deeds()]
    assert amounts == ["110.00", "121.00", "133.10"]
    assert now_there(invoice).amount == Decimal("133.10")


def by_command(invoice: Invoice) -> None:
    call_command("escalate_overdue", model=Invoice, stdout=StringIO())


def by_button(invoice: Invoice) -> None:
    outcome = services.act(LADDER, invoice, by="clerk", reason="button")
    if outcome:
        services.deliver(escalation=outcome.escalation)


def by_direct_call(invoice: Invoice) -> None:
    polling.escalate_overdue(Invoice)


WAYS: list[Callable[[Invoice], None]] = [by_command, by_button, by_direct_call]


@pytest.mark.parametrize("ways", list(permutations(WAYS)))
def test_t5_the_same_rung_in_three_ways_is_one_effect(
    ways: tuple[Callable[[Invoice], None], ...],
) -> None:
    invoice = make_invoice()
    with travel(DUE):
        for way in ways:
            way(invoice)
    assert notices(invoice) == ["reminder"]
    assert Escalation.objects.count() == Capture.objects.count() == 1


@pytest.mark.parametrize("way", WAYS)
def test_t5_each_way_makes_the_identical_key(way: Callable[[Invoice], None]) -> None:
    invoice = make_invoice(pk=42)
    with travel(DUE):
        way(invoice)
    key = make_key("billing.invoice", 42, LADDER, 1, "reminder", 0, "trials.post")
    capture = Capture.objects.get()
    assert capture.key == key
    assert [each.key for each in outside.deeds()] == [capture.provider_key]


@pytest.mark.parametrize("way", WAYS)
def test_t5_a_stale_instance_that_climbs_by_hand_afterwards_has_no_effect(
    way: Callable[[Invoice], None],
) -> None:
    invoice = make_invoice(status="overdue")
    with travel(DUE):
        way(invoice)
        invoice.escalate()  # as it was loaded long ago
        invoice.save()
        way(invoice)
    with travel(DUE + DAY):
        way(invoice)
    assert notices(invoice) == climbed(invoice) == ["reminder"]
    assert outside.called() == 1
