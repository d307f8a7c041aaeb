"""Decisions about an order's payment: the order is told, and today's card may be taken."""

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from idempotent_actions.models import Capture
from idempotent_actions.testing import tick
from project.billing.actions import ChargeOrders
from project.billing.models import Order
from tests.admin_captures.pages import confirm, messages
from tests.overview.making import NOW
from tests.registering import only

pytestmark = pytest.mark.django_db


@pytest.fixture
def order() -> Order:
    return Order.objects.create(number="1", amount=1, payment_method="pm_old", capture_at=NOW)


class TestAnOrdersPayment:
    """Decisions whose subject is told."""

    def declined(self, order: Order) -> Capture:
        """The order's capture, which waits for a person."""
        with only(ChargeOrders):
            tick(ChargeOrders, deliver=False)
        Capture.objects.update(state="review", token=1, attempts=1, first_sent_at=NOW, wake_at=None)
        return Capture.objects.about(order).get()

    def test_what_is_said_to_be_done_moves_the_order_on(self, client: Client, order: Order) -> None:
        capture = self.declined(order)
        confirm(client, "mark_succeeded", capture, provider_ref="pi_7")
        order = Order.objects.get()
        assert (order.status, order.payment_ref) == ("captured", "pi_7")

    def test_a_new_key_takes_todays_card_only_where_that_is_asked_for(
        self, client: Client, order: Order
    ) -> None:
        capture = self.declined(order)
        Order.objects.update(payment_method="pm_new")
        confirm(client, "retry_new_key", capture, refresh="on")
        capture.refresh_from_db()
        assert (capture.params["payment_method"], capture.generation) == ("pm_new", 2)

        Capture.objects.update(state="review", wake_at=None, first_sent_at=NOW)
        Order.objects.update(payment_method="pm_newer")
        confirm(client, "retry_new_key", capture)
        capture.refresh_from_db()
        assert (capture.params["payment_method"], capture.generation) == ("pm_new", 3)

    def test_a_hook_is_run_again_and_what_it_says_now_is_told(
        self, client: Client, order: Order
    ) -> None:
        capture = self.declined(order)
        Capture.objects.update(
            state="succeeded", finished_at=NOW, provider_ref="pi_7", hook_error="ValueError: no"
        )
        Order.objects.update(status="captured")
        response = confirm(client, "rerun_hook", capture)
        assert "The hook failed again" in messages(response)
        Order.objects.update(status="capturing")
        response = confirm(client, "rerun_hook", capture)
        assert "The hook has run" in messages(response)
        assert Order.objects.get().payment_ref == "pi_7"
        assert Capture.objects.get().hook_error == ""
        assert "because" in LogEntry.objects.get().change_message
