"""Orders charged over a real socket: each kind of answer, and none, by the provider's own count."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import override_settings

from idempotent_actions.delivering import DeliveryReport
from idempotent_actions.models import Capture
from idempotent_actions.testing import tick, travel
from project.billing.cards import change_card
from project.billing.models import Order
from project.sandbox.payment_faults import PaymentFault
from project.sandbox.running import PaymentSandbox, payment_sandbox

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 10, 8, tzinfo=UTC)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[PaymentSandbox]:
    with payment_sandbox(tmp_path) as sandbox, override_settings(PAYMENTS_URL=sandbox.url):
        yield sandbox


def make_order(card: str = "pm_card_visa") -> Order:
    amount = Decimal("12.50")
    return Order.objects.create(number="17", amount=amount, payment_method=card, capture_at=NOW)


def tick_at(now: datetime) -> DeliveryReport:
    with travel(now):
        (report,) = tick("charge_orders")
    assert isinstance(report.delivery, DeliveryReport)
    return report.delivery


def state() -> str:
    return f"{Order.objects.get().status}, {Capture.objects.get().state}"


def test_an_order_is_charged_once_and_knows_its_payment(provider: PaymentSandbox) -> None:
    make_order()
    tick_at(NOW - timedelta(seconds=1))
    assert provider.counts().requests == 0
    for minute in range(3):
        tick_at(NOW + timedelta(minutes=minute))
    assert state() == "captured, succeeded"
    counts = provider.counts()
    assert (counts.charges, counts.charged, counts.requests) == (1, 1250, 1)
    capture = Capture.objects.get()
    assert counts.charges_by_key == {capture.provider_key: 1}
    assert Order.objects.get().payment_ref == capture.provider_ref != ""


# What goes wrong, and whether the provider has charged by then.
AMBIGUOUS: dict[PaymentFault, int] = {"drop_before": 0, "drop_after": 1, "error_500": 0}


@pytest.mark.parametrize("fault", AMBIGUOUS)
def test_an_unknown_outcome_is_told_and_asked_again_with_the_same_key(
    fault: PaymentFault, provider: PaymentSandbox
) -> None:
    make_order()
    provider.fault(fault, times=1)
    report = tick_at(NOW)
    assert state() == "capturing, unknown"
    assert report.not_done == 1
    assert provider.counts().charges == AMBIGUOUS[fault]

    tick_at(NOW + timedelta(seconds=59))  # too soon
    assert provider.counts().requests == 1
    tick_at(NOW + timedelta(minutes=2))
    counts = provider.counts()
    assert counts.requests_by_key == {Capture.objects.get().provider_key: 2}
    if fault == "error_500":  # Stripe stores and replays it: the key is spent, a person decides
        assert (state(), counts.charges) == ("capturing, unknown", 0)
    else:
        assert (state(), counts.charges) == ("captured, succeeded", 1)


def test_past_the_providers_memory_it_is_asked_instead_of_told(provider: PaymentSandbox) -> None:
    make_order()
    provider.fault("drop_after", times=1)
    tick_at(NOW)
    provider.forget_keys()
    tick_at(NOW + timedelta(days=3))  # nobody ticked meanwhile
    counts = provider.counts()
    assert (state(), counts.charges, counts.requests) == ("captured, succeeded", 1, 2)
    assert Order.objects.get().payment_ref


def test_what_was_certainly_not_sent_is_tried_again(provider: PaymentSandbox) -> None:
    make_order()
    provider.fault("rate_limit_429", times=1)
    tick_at(NOW)
    assert state() == "capturing, pending"
    provider.close()  # nobody listens there
    tick_at(NOW + timedelta(minutes=1))
    assert state() == "capturing, pending"
    assert "No connection" in Capture.objects.get().error["message"]  # type: ignore[index]
    provider.start()
    tick_at(NOW + timedelta(minutes=3))
    assert state() == "captured, succeeded"
    assert provider.counts().charges == 1


def test_a_declined_card_and_then_another_one_is_one_charge(provider: PaymentSandbox) -> None:
    order = make_order("pm_card_chargeDeclined")
    tick_at(NOW)
    assert state() == "declined, failed"
    declined = Capture.objects.get()
    assert declined.error is not None
    assert declined.error["code"] == "card_declined"

    with travel(NOW + timedelta(minutes=30)):
        assert change_card(order, "pm_card_visa", by="customer")
        assert not change_card(order, "pm_card_visa", by="customer")  # a double click
    tick_at(NOW + timedelta(hours=1))
    tick_at(NOW + timedelta(hours=2))
    counts = provider.counts()
    assert (state(), counts.charges, counts.declines) == ("captured, succeeded", 1, 1)
    assert len(counts.requests_by_key) == 2


def test_a_provider_that_is_killed_between_charge_and_answer_charges_once(
    provider: PaymentSandbox,
) -> None:
    make_order()
    provider.fault("drop_after", times=1)
    tick_at(NOW)
    provider.kill()
    tick_at(NOW + timedelta(minutes=2))  # nobody listens: not sent this time
    assert Capture.objects.get().state in ("pending", "unknown")
    provider.start()
    tick_at(NOW + timedelta(minutes=10))
    assert (state(), provider.counts().charges) == ("captured, succeeded", 1)
