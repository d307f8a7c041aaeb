"""Three patterns that charge an order once, and two that charge it twice, under the same race."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import stripe
from django.test import override_settings

from project.billing import patterns, payments
from project.billing.models import Order
from project.sandbox.running import PaymentSandbox, payment_sandbox
from tests.threads import DEADLINE, together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[PaymentSandbox]:
    with payment_sandbox(tmp_path) as sandbox, override_settings(PAYMENTS_URL=sandbox.url):
        yield sandbox


def make_order() -> Order:
    return Order.objects.create(
        number="17",
        amount=Decimal("12.50"),
        payment_method="pm_card_visa",
        capture_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


def charge_without_a_key(order: Order, attempt: str) -> None:
    """What a naive worker sends: each call is a request of its own."""
    params = {"order": order.number, "amount": order.amount, "currency": "eur"}
    payments.charge({**params, "payment_method": order.payment_method}, attempt, timeout=20)


def twice(work: Callable[[Order], Any], order: Order) -> None:
    """Let two workers, each with an instance loaded before, do the same at once."""
    stale = [Order.objects.get(pk=order.pk) for _ in range(2)]
    together(*(partial(_tolerant, work, each) for each in stale))


def _tolerant(work: Callable[[Order], Any], order: Order) -> None:
    try:
        work(order)
    except stripe.APIError as error:
        if error.http_status != 409:  # the provider's word for: this key is in use right now
            raise


@pytest.mark.parametrize(
    "pattern",
    [
        patterns.claim_by_unique_insert,
        patterns.claim_by_conditional_update,
        patterns.rely_on_the_providers_key,
    ],
)
def test_each_of_the_three_patterns_charges_once_in_a_race_and_once_more_later(
    pattern: Callable[[Order], Any], provider: PaymentSandbox
) -> None:
    order = make_order()
    twice(pattern, order)
    pattern(Order.objects.get())
    assert provider.counts().charges == 1
    assert provider.counts().charged == 1250


def test_the_loser_of_a_unique_insert_is_told_what_the_winner_came_to(
    provider: PaymentSandbox,
) -> None:
    order = make_order()
    first = patterns.claim_by_unique_insert(order)
    again = patterns.claim_by_unique_insert(order)
    assert (first.pk, first.state) == (again.pk, "succeeded")
    assert first.provider_ref == again.provider_ref != ""
    assert provider.counts().requests == 1


def test_check_then_act_charges_twice(provider: PaymentSandbox) -> None:
    both_have_looked = threading.Barrier(2)

    def check_then_act(order: Order) -> None:
        if Order.objects.filter(pk=order.pk, status="captured").exists():
            return
        both_have_looked.wait(DEADLINE)  # between look and call, anything may happen
        charge_without_a_key(order, f"{threading.get_ident()}")
        Order.objects.filter(pk=order.pk).update(status="captured")

    twice(check_then_act, make_order())
    assert provider.counts().charges == 2


def test_a_flag_that_is_set_after_the_call_charges_twice_when_its_worker_dies(
    provider: PaymentSandbox,
) -> None:
    class Killed(Exception):
        pass

    def call_then_flag(order: Order, attempt: str, *, dies: bool) -> None:
        if order.status == "captured":
            return
        charge_without_a_key(order, attempt)
        if dies:
            raise Killed
        Order.objects.filter(pk=order.pk).update(status="captured")

    order = make_order()
    with pytest.raises(Killed):
        call_then_flag(order, "first", dies=True)
    call_then_flag(Order.objects.get(), "second", dies=False)
    assert provider.counts().charges == 2


def test_the_unique_insert_charges_once_also_when_its_worker_dies_after_the_call(
    provider: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = make_order()
    provider.fault("drop_after", times=1)  # charged, and nobody hears of it
    assert patterns.claim_by_unique_insert(order).state == "unknown"
    assert patterns.claim_by_unique_insert(order).state == "unknown"  # says so, doesn't send
    assert provider.counts().charges == 1
