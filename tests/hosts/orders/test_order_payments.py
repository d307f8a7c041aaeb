"""The money of an order, counted at the bank: one charge, one refund, whatever happens."""

from datetime import timedelta
from functools import partial

import pytest

from idempotent_actions import services, testing
from tests.contention.threads import race
from tests.hosts import outside
from tests.hosts.orders import checkout
from tests.hosts.orders.actions import CaptureOrders, RefundOrder
from tests.hosts.orders.models import Entry, Order
from tests.hosts.orders.money import HOUR, charge_of, charged, later, make_order, state, tick

pytestmark = pytest.mark.django_db(transaction=True)


class TestCharge:
    def test_a_charge_that_the_bank_confirms_moves_the_order_and_stands_in_the_books(self) -> None:
        order = make_order()
        for _ in range(3):
            tick()
        assert charged() == [("old", "100.00")]
        assert state(order) == "captured"
        assert Entry.objects.get().ref == charge_of(order).provider_ref == "charge 1"

    def test_an_order_is_being_captured_until_the_bank_has_answered(self) -> None:
        order = make_order()
        testing.tick(CaptureOrders, deliver=False)
        assert (state(order), charged()) == ("capturing", [])
        services.deliver()
        assert (state(order), charged()) == ("captured", [("old", "100.00")])

    def test_a_bank_that_does_not_answer_the_door_is_asked_again_later_once(self) -> None:
        order = make_order()
        outside.behave("down", "charge")
        for minutes in (0, 2, 10):
            with later(timedelta(minutes=minutes)):
                tick()
        assert (state(order), charge_of(order).state, charged()) == ("capturing", "pending", [])

        outside.behave("well", "charge")
        for _ in range(2):
            with later(2 * HOUR):
                tick()
        assert (state(order), charged()) == ("captured", [("old", "100.00")])

    @pytest.mark.parametrize("how", ["unanswered", "lost"])
    def test_a_charge_whose_answer_is_lost_is_repeated_under_its_key_and_made_once(
        self, how: str
    ) -> None:
        order = make_order()
        outside.behave(how, "charge")
        tick()
        assert (state(order), charge_of(order).state) == ("capturing", "unknown")

        outside.behave("well", "charge")
        with later(2 * HOUR):
            tick()

        assert outside.called("charge") == 2
        assert len({each.key for each in outside.deeds()}) == len(charged()) == 1
        assert state(order) == "captured"

    def test_an_order_cancelled_by_hand_between_commit_and_delivery_is_not_charged(self) -> None:
        order = make_order()
        testing.tick(CaptureOrders, deliver=False)
        Order.objects.update(state=Order.State.DECLINED)
        services.deliver()
        assert charged() == []
        assert (charge_of(order).state, charge_of(order).waiting_for) == ("void", "moved_on")


class TestADeclinedCard:
    def test_then_a_new_one_is_one_charge(self) -> None:
        order = make_order()
        outside.behave("declined: card_expired", "charge", "old")
        for _ in range(3):
            tick()
        assert (state(order), charged()) == ("declined", [])
        assert charge_of(order).error == {
            "class": "Refused", "code": "card_expired", "message": "declined: card_expired",
        }  # fmt: skip

        assert checkout.pay_with(order, "new")

        assert (state(order), charged()) == ("captured", [("new", "100.00")])
        assert not checkout.pay_with(order, "newer")
        with later(HOUR):
            tick()
        assert charged() == [("new", "100.00")]

    def test_is_never_tried_again_by_itself(self) -> None:
        make_order()
        outside.behave("declined", "charge", "old")
        tick()
        outside.behave("well", "charge", "old")
        for hours in range(1, 50):
            with later(hours * HOUR):
                tick()
        assert (outside.called("charge"), charged()) == (1, [])

    def test_the_second_declined_as_well_the_third_is_one_charge(self) -> None:
        order = make_order()
        for card in ("old", "new"):
            outside.behave("declined", "charge", card)
        tick()
        assert checkout.pay_with(order, "new")
        assert state(order) == "declined"
        assert checkout.pay_with(order, "third")
        assert (state(order), charged()) == ("captured", [("third", "100.00")])
        assert charge_of(order).generation == 3

    def test_another_card_is_another_request_to_the_bank(self) -> None:
        order = make_order()
        outside.behave("declined", "charge", "old")
        tick()
        declined = charge_of(order)
        checkout.pay_with(order, "new")
        retried = charge_of(order)
        assert retried.key == declined.key
        assert retried.provider_key != declined.provider_key
        assert outside.deeds()[0].key == retried.provider_key

    def test_named_in_four_tabs_at_the_same_time_one_card_is_charged(self) -> None:
        order = make_order()
        outside.behave("declined", "charge", "old")
        tick()
        cards = [f"card {n}" for n in range(4)]
        assert sum(race([partial(checkout.pay_with, order, card) for card in cards])) == 1
        assert len(charged()) == 1
        assert charged()[0][0] == Order.objects.get().card
        assert state(order) == "captured"


class TestRefund:
    @pytest.fixture
    def order(self) -> Order:
        order = make_order()
        tick()
        return order

    def test_pressed_twice_it_is_one_refund(self, order: Order) -> None:
        first, second = checkout.refund(order), checkout.refund(order)
        assert (first.applied, second.reason) == (True, "wrong_status")
        testing.tick(RefundOrder)
        assert charged("refund") == [("old", "100.00")]

    def test_pressed_four_times_at_once_it_is_one_refund(self, order: Order) -> None:
        outcomes = race([partial(checkout.refund, order)] * 4)
        assert sum(map(bool, outcomes)) == 1
        testing.tick(RefundOrder)  # the other three may have had the order locked just then
        assert charged("refund") == [("old", "100.00")]

    def test_pressed_again_while_the_bank_is_down_it_is_one_refund_later(
        self, order: Order
    ) -> None:
        outside.behave("down", "refund")
        checkout.refund(order)
        checkout.refund(order)
        assert charged("refund") == []

        outside.behave("well", "refund")
        for _ in range(2):
            with later(HOUR):
                testing.tick(RefundOrder)
        assert charged("refund") == [("old", "100.00")]

    def test_a_refund_is_not_the_charge(self, order: Order) -> None:
        checkout.refund(order)
        charge, refund = outside.deeds()
        assert (charge.kind, refund.kind) == ("charge", "refund")
        assert charge.key != refund.key
