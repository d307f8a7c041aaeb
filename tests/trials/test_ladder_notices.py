"""Trials T30, T35, T40, T41 and T56 with effects: each notice once, and each wait in full."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.hosts.moments import before_locking
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.registering import only
from tests.trials.posting import DAY, HOUR, WEEK, PostNotices, capture_of, notices, tick_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("with_notices")]

MINUTE = timedelta(minutes=1)


def tick_often(start: datetime, times: int, every: timedelta) -> None:
    for count in range(times):
        tick_at(start + count * every)


def pay(invoice: Invoice) -> None:
    Invoice.objects.filter(pk=invoice.pk).update(paid_at=DUE)


class TestT30:
    @pytest.mark.parametrize("cycles", [2, 4])
    def test_overdue_paid_reopened_and_overdue_again_is_one_first_notice_per_cycle(
        self, cycles: int
    ) -> None:
        invoice = make_invoice()
        for cycle in range(cycles):
            start = DUE + cycle * 2 * WEEK
            tick_often(start, 5, HOUR)
            with travel(start + DAY):
                assert services.resolve(invoice, by="clerk", reason="paid")
                tick_at(start + DAY)
                assert services.reopen(invoice, by="clerk", reason="bounced")
        assert notices(invoice) == ["reminder"] * cycles
        assert len({each.key for each in outside.deeds()}) == cycles

    def test_a_notice_that_was_never_sent_does_not_follow_into_the_next_cycle(self) -> None:
        invoice = make_invoice()
        outside.behave("down")
        tick_at(DUE)
        with travel(DUE + DAY):
            assert services.resolve(invoice, by="clerk", reason="paid")
            assert services.reopen(invoice, by="clerk", reason="bounced")
        outside.behave("well")
        tick_often(DUE + 2 * DAY, 5, HOUR)
        assert notices(invoice) == ["reminder"]
        first, second = Capture.objects.about(invoice)
        assert (first.state, first.waiting_for, second.state) == ("void", "moved_on", "succeeded")


class TestT35:
    def test_down_past_all_dates_then_five_ticks_in_an_hour_are_exactly_one_notice(self) -> None:
        invoice = make_invoice()
        back = DUE + timedelta(days=100, minutes=7)
        tick_often(back, 5, timedelta(minutes=12))
        assert notices(invoice) == climbed(invoice) == ["reminder"]
        assert now_there(invoice).next_at == back + WEEK

    def test_the_second_comes_no_sooner_than_the_full_wait_after_the_actual_notice(self) -> None:
        invoice = make_invoice()
        back = DUE + timedelta(days=100)
        outside.behave("down")
        tick_often(back, 5, timedelta(minutes=12))
        assert (notices(invoice), now_there(invoice).next_at) == ([], None)
        outside.behave("well")
        sent = back + 3 * DAY + timedelta(seconds=42)
        tick_at(sent)
        assert now_there(invoice).next_at == back + 3 * DAY + WEEK  # in whole minutes

        tick_often(back + 4 * DAY, 6, DAY)
        assert notices(invoice) == ["reminder"]
        tick_at(back + 3 * DAY + WEEK - timedelta(microseconds=1))
        assert notices(invoice) == ["reminder"]
        tick_often(back + 3 * DAY + WEEK, 5, timedelta(minutes=12))
        assert notices(invoice) == ["reminder", "warning"]

    def test_it_is_the_same_after_each_outage(self) -> None:
        invoice = make_invoice()
        for days in (1, 40, 47, 90):
            tick_often(DUE + days * DAY, 5, timedelta(minutes=12))
        assert notices(invoice) == ["reminder", "warning", "final_notice"]
        assert now_there(invoice).status == "exhausted"


class TestT40:
    @pytest.mark.parametrize("nth", [1, 2], ids=["before detection", "before the climb"])
    def test_paid_between_candidate_query_and_lock_is_no_notice(self, nth: int) -> None:
        invoice = make_invoice()
        with before_locking(Invoice, lambda: pay(invoice), nth=nth):
            tick_at(DUE)
        tick_often(DUE + HOUR, 3, DAY)
        assert (notices(invoice), outside.called()) == ([], 0)

    def test_paid_between_the_climb_and_the_barrier_is_no_notice(self) -> None:
        invoice = make_invoice()
        with before_locking(Invoice, lambda: pay(invoice), nth=3):
            tick_at(DUE)
        tick_often(DUE + HOUR, 3, DAY)
        assert (notices(invoice), outside.called()) == ([], 0)
        assert capture_of(invoice).state == "void"


disputed: set[str] = set()


class MindDisputes(PostNotices):
    """The host's veto in Python."""

    def why_not(self, subject: Invoice, now: datetime) -> str:
        return "disputed" if subject.number in disputed else ""


def hold(invoice: Invoice) -> None:
    assert services.hold(invoice, DUE + 40 * WEEK, by="clerk", reason="a promise to pay")


def release(invoice: Invoice) -> None:
    assert services.release(invoice, by="clerk", reason="it was broken")


def dispute(invoice: Invoice) -> None:
    disputed.add(invoice.number)


def settle(invoice: Invoice) -> None:
    disputed.clear()


class TestT41:
    @pytest.mark.parametrize(("stop", "go_on"), [(hold, release), (dispute, settle)])
    def test_stopped_after_the_first_notice_is_no_further_one_until_it_may_go_on(
        self,
        stop: Callable[[Invoice], None],
        go_on: Callable[[Invoice], None],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(f"{__name__}.disputed", set())
        invoice = make_invoice()
        with only(MindDisputes):
            tick_at(DUE)
            with travel(DUE + HOUR):
                stop(invoice)
            tick_often(DUE + DAY, 60, DAY)
            assert notices(invoice) == ["reminder"]

            with travel(DUE + 9 * WEEK):
                go_on(invoice)
            tick_often(DUE + 9 * WEEK, 5, HOUR)
            assert notices(invoice) == ["reminder", "warning"]
            assert now_there(invoice).next_at == DUE + 10 * WEEK


class TestT56:
    def test_pruned_while_it_is_open_nothing_is_sent_again(self) -> None:
        invoice = make_invoice()
        tick_often(DUE, 3, HOUR)
        with travel(DUE + 2 * WEEK):
            assert services.hold(invoice, DUE + 90 * WEEK, by="clerk", reason="in court")
        now = DUE + 80 * WEEK
        assert services.prune_captures(timedelta(days=365), now=now) == 0
        tick_at(now)
        assert notices(invoice) == ["reminder"]
        with travel(now):
            assert services.release(invoice, by="clerk", reason="lost")
        tick_often(now, 3, HOUR)
        assert notices(invoice) == ["reminder", "warning"]

    def test_closed_and_pruned_and_then_a_new_cycle_is_one_notice(self) -> None:
        invoice = make_invoice()
        tick_at(DUE)
        with travel(DUE + DAY):
            assert services.resolve(invoice, by="clerk", reason="paid")
        now = DUE + 80 * WEEK
        assert services.prune_captures(timedelta(days=365), now=now) == 1
        tick_at(now)
        assert notices(invoice) == ["reminder"]
        with travel(now):
            assert services.reopen(invoice, by="clerk", reason="bounced")
        tick_often(now, 5, HOUR)
        assert notices(invoice) == ["reminder"] * 2

    def test_a_stale_write_over_a_pruned_cycle_is_healed_without_a_second_notice(self) -> None:
        invoice = make_invoice()
        tick_at(DUE)
        with travel(DUE + DAY):
            assert services.resolve(invoice, by="clerk", reason="paid")
        now = DUE + 80 * WEEK
        services.prune_captures(timedelta(days=365), now=now)
        Invoice.objects.update(status="overdue", rung="")
        tick_often(now, 5, HOUR)
        assert notices(invoice) == ["reminder"]
        assert now_there(invoice).status == "resolved"


def test_a_rung_climbed_by_hand_waits_for_its_own_notice_too() -> None:
    invoice = make_invoice()
    tick_at(DUE)
    outside.behave("down")
    with travel(DUE + WEEK):
        assert services.act(LADDER, invoice, by="clerk", reason="button")
    tick_often(DUE + WEEK, 30, DAY)
    assert (notices(invoice), now_there(invoice).rung) == (["reminder"], "warning")
    outside.behave("well")
    tick_often(DUE + 6 * WEEK, 2, MINUTE)
    assert notices(invoice) == ["reminder", "warning"]
    assert now_there(invoice).next_at == DUE + 7 * WEEK


class TestAStaleWrite:
    """By the host's own SQL: an instance's ``save()`` doesn't write the ladder's columns back."""

    def test_after_the_notice_is_healed_with_its_deadline_and_sends_nothing(self) -> None:
        invoice = make_invoice()
        tick_at(DUE)
        for hours in range(1, 5):
            Invoice.objects.update(status="overdue", rung="", next_at=None)
            tick_at(DUE + hours * HOUR)
            assert now_there(invoice).next_at == DUE + WEEK
        assert notices(invoice) == climbed(invoice) == ["reminder"]

    def test_before_the_notice_is_healed_by_the_poll_and_the_notice_goes_out(self) -> None:
        invoice = make_invoice()
        tick_at(DUE, deliver=False)
        Invoice.objects.update(status="overdue", rung="")
        tick_at(DUE + HOUR)
        assert notices(invoice) == climbed(invoice) == ["reminder"]
        assert now_there(invoice).next_at == DUE + HOUR + WEEK

    def test_before_the_notice_does_not_lose_it_where_delivery_comes_first(self) -> None:
        invoice = make_invoice()
        tick_at(DUE, deliver=False)
        Invoice.objects.update(status="overdue", rung="")
        with travel(DUE + HOUR):
            services.deliver()
        for hours in range(2, 5):
            tick_at(DUE + hours * HOUR)
        assert notices(invoice) == climbed(invoice) == ["reminder"]
