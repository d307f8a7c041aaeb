"""Plain actions on an existing state machine: one by the poll, one by a button."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from django_fsm import TransitionNotAllowed

from idempotent_actions import testing
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from idempotent_actions.services import Outcome, act
from tests.contention.threads import race
from tests.hosts.moments import before_locking, elsewhere
from tests.hosts.orders.actions import CaptureOrders, RefundOrder
from tests.hosts.orders.models import Order

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def make_order(**values: Any) -> Order:
    """Make an order of 100 that was shipped an hour ago."""
    return Order.objects.create(**{"total": 100, "shipped_at": timezone.now() - HOUR, **values})


def captured() -> Order:
    order = make_order()
    tick()
    return again(order)


def again(order: Order) -> Order:
    return Order.objects.get(pk=order.pk)


def tick() -> Report:
    (report,) = testing.tick(CaptureOrders)
    return report


def refund(order: Order) -> Outcome:
    return act(RefundOrder, order, by="support", reason="came back broken")


def trail(order: Order) -> list[tuple[str, str, str, str]]:
    rows = Escalation.objects.about(order)
    return [(each.transition, each.from_status, each.to_status, each.actor) for each in rows]


class TestCapture:
    def test_a_shipped_order_is_captured_once_with_one_audit_row(self) -> None:
        order = make_order()
        assert [tick().applied for _ in range(3)] == [1, 0, 0]
        assert again(order).state == "captured"
        assert trail(order) == [("capture", "authorized", "capturing", "poll")]

    def test_an_order_that_has_not_been_shipped_is_left_alone(self) -> None:
        make_order(shipped_at=None)
        make_order(shipped_at=timezone.now() + HOUR)
        assert tick().selected == 0

    def test_a_condition_of_the_transition_is_part_of_the_guard(self) -> None:
        order = make_order(suspicious=True)
        report = tick()
        assert (report.applied, report.failed, report.skipped) == (0, 0, {"condition": 1})
        assert trail(order) == []

        Order.objects.update(suspicious=False)
        assert tick().applied == 1

    def test_orders_that_look_suspicious_do_not_keep_the_others_waiting(self) -> None:
        for _ in range(12):
            make_order(suspicious=True, shipped_at=timezone.now() - 2 * HOUR)
            make_order()
        (report,) = testing.tick(CaptureOrders, limit=10)
        assert (report.applied, report.skipped) == (10, {"condition": 12})

    def test_an_order_captured_by_the_hosts_own_code_is_not_captured_again(self) -> None:
        order = make_order()
        order.capture()
        order.save()
        assert tick().selected == 0

    def test_the_audit_trail_finds_the_order_by_its_uuid(self) -> None:
        order = captured()
        row = Escalation.objects.get()
        assert UUID(row.subject_pk) == order.pk
        assert row.subject == order

    @pytest.mark.django_db(transaction=True)
    def test_an_order_captured_between_candidate_query_and_lock_is_not_captured_again(self) -> None:
        order = make_order()

        def capture() -> None:
            act(CaptureOrders, order, by="support", reason="urgent")

        with before_locking(Order, capture):
            report = tick()
        assert (report.applied, report.skipped) == (0, {"wrong_status": 1})
        assert trail(order) == [("capture", "authorized", "capturing", "support")]

    @pytest.mark.django_db(transaction=True)
    def test_ticks_at_the_same_time_capture_each_order_once(self) -> None:
        orders = [make_order() for _ in range(60)]
        reports = race([tick] * 6)
        assert sum(each.applied for each in reports) + tick().applied == 60
        assert all(len(trail(order)) == 1 for order in orders)


class TestRefund:
    def test_no_tick_ever_refunds(self) -> None:
        captured()
        (report,) = testing.tick(RefundOrder)
        assert (report.selected, report.applied) == (0, 0)

    def test_pressed_twice_it_is_one_refund(self) -> None:
        order = captured()

        first, second = refund(order), refund(order)

        assert (first.applied, first.subject.state) == (True, "refunded")
        assert (second.applied, second.reason) == (False, "wrong_status")
        assert second.subject.state == "refunded"
        assert again(order).refunded == 100
        assert trail(order)[1:] == [("refund", "captured", "refunded", "support")]

    @pytest.mark.django_db(transaction=True)
    def test_pressed_twice_at_the_same_time_it_is_one_refund(self) -> None:
        order = captured()
        outcomes = race([lambda: refund(order)] * 4)
        assert sorted(each.reason for each in outcomes) == ["", *["wrong_status"] * 3]
        assert again(order).refunded == 100
        assert len(trail(order)) == 2

    @pytest.mark.django_db(transaction=True)
    def test_pressed_on_pages_that_were_opened_long_ago_it_is_one_refund(self) -> None:
        order = captured()
        pages = [again(order), again(order)]
        assert elsewhere(lambda: refund(pages[0])).applied
        assert not elsewhere(lambda: refund(pages[1])).applied
        assert again(order).refunded == 100

    def test_what_was_not_captured_is_not_refunded(self) -> None:
        outcome = refund(make_order())
        assert (outcome.applied, outcome.reason) == (False, "wrong_status")

    def test_a_condition_that_no_longer_holds_is_told_apart_from_a_wrong_state(self) -> None:
        order = captured()
        Order.objects.update(shipped_at=timezone.now() - timedelta(days=31))
        assert refund(order).reason == "condition"
        assert again(order).refunded == 0

    def test_an_order_deleted_meanwhile_is_gone(self) -> None:
        order = captured()
        Order.objects.all().delete()
        outcome = refund(order)
        assert (outcome.reason, outcome.subject) == ("gone", None)

    def test_the_instance_that_was_handed_in_is_never_changed(self) -> None:
        order = captured()
        assert refund(order).applied
        assert order.state == "captured"
        assert order.refunded == 0

    def test_a_refund_needs_somebody_who_asks_and_a_reason(self) -> None:
        order = captured()
        for by, reason in (("", "broken"), ("support", " ")):
            with pytest.raises(InvalidInput):
                act(RefundOrder, order, by=by, reason=reason)
        assert again(order).state == "captured"

    def test_a_raw_write_that_puts_an_order_back_is_healed_and_not_refunded_again(self) -> None:
        order = captured()
        refund(order)
        Order.objects.update(state="captured")

        outcome = refund(order)

        assert (outcome.applied, outcome.reason) == (False, "healed")
        assert again(order).state == "refunded"
        assert again(order).refunded == 100
        assert len(trail(order)) == 2


def test_the_hosts_own_protection_of_the_state_still_holds() -> None:
    order = captured()
    with pytest.raises(AttributeError):
        order.state = "refunded"
    with pytest.raises(TransitionNotAllowed):
        order.capture()
