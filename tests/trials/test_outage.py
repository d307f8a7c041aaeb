"""Mail is down for a month, and reality moves between a rung's commit and its delivery."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture, Run
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.registering import only
from tests.trials.posting import DAY, HOUR, WEEK, PostNotices, capture_of, notices, tick_at

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("with_notices")]

DAYS, SUBJECTS = 30, 5
BACK = DUE + DAYS * DAY


class TestMailIsDown:
    @pytest.fixture
    def invoices(self) -> list[Invoice]:
        """Overdue ones, after a month of daily ticks without a mail server."""
        made = [make_invoice(n, due_at=DUE - n * HOUR) for n in range(SUBJECTS)]
        outside.behave("down")
        for day in range(DAYS):
            tick_at(DUE + day * DAY)
        return made

    def test_nothing_is_climbed_beyond_the_notice_that_could_not_be_sent(
        self, invoices: list[Invoice]
    ) -> None:
        for invoice in invoices:
            assert (climbed(invoice), notices(invoice)) == (["reminder"], [])
            assert now_there(invoice).next_at is None
            assert (capture_of(invoice).state, capture_of(invoice).attempts) == ("pending", DAYS)
        assert {run.outcome for run in Run.objects.all()} == {"succeeded"}

    def test_when_it_is_back_each_subject_gets_one_notice(self, invoices: list[Invoice]) -> None:
        outside.behave("well")
        for hours in range(0, 24 * 6, 6):
            tick_at(BACK + hours * HOUR)
        assert [notices(each) for each in invoices] == [["reminder"]] * SUBJECTS

    def test_and_the_next_rung_a_full_wait_after_it(self, invoices: list[Invoice]) -> None:
        outside.behave("well")
        tick_at(BACK)
        assert {now_there(each).next_at for each in invoices} == {BACK + WEEK}
        for day in range(1, 7):
            tick_at(BACK + day * DAY)
        tick_at(BACK + WEEK - timedelta(seconds=1))
        assert [notices(each) for each in invoices] == [["reminder"]] * SUBJECTS
        tick_at(BACK + WEEK)
        assert [notices(each) for each in invoices] == [["reminder", "warning"]] * SUBJECTS

    def test_who_has_paid_meanwhile_gets_none(self, invoices: list[Invoice]) -> None:
        Invoice.objects.filter(pk=invoices[0].pk).update(paid_at=BACK)
        assert services.resolve(invoices[1], by="clerk", reason="paid in cash")
        outside.behave("well")
        for day in range(3):
            tick_at(BACK + day * DAY)
        assert [notices(each) for each in invoices[:2]] == [[], []]
        assert [notices(each) for each in invoices[2:]] == [["reminder"]] * (SUBJECTS - 2)

    def test_back_for_some_addresses_only_the_others_wait_and_hold_up_nobody(
        self, invoices: list[Invoice]
    ) -> None:
        outside.behave("well")
        outside.behave("down", "notice", invoices[0].number)
        for day in range(10):
            tick_at(BACK + day * DAY)
        assert [notices(each) for each in invoices[1:]] == [["reminder", "warning"]] * 4
        assert (notices(invoices[0]), climbed(invoices[0])) == ([], ["reminder"])


def test_ticks_every_few_minutes_do_not_hammer_at_a_mail_server_that_is_down() -> None:
    make_invoice()
    outside.behave("down")
    for minutes in range(0, 24 * 60, 10):
        tick_at(DUE + timedelta(minutes=minutes))
    assert outside.called() < 36  # doubling to an hour


def pay(invoice: Invoice) -> None:
    Invoice.objects.update(paid_at=DUE)


def resolve(invoice: Invoice) -> None:
    assert services.resolve(invoice, by="clerk", reason="paid in cash")


def cancel(invoice: Invoice) -> None:
    assert services.cancel(invoice, by="clerk", reason="written off")


def delete(invoice: Invoice) -> None:
    Invoice.objects.all().delete()


def adopt(invoice: Invoice) -> None:
    services.adopt(
        LADDER, Invoice.objects.all(), next_at=DUE + 90 * WEEK, rung="warning", by="clerk",
        reason="was sent by hand",
    )  # fmt: skip


@pytest.fixture
def invoice() -> Invoice:
    """One whose first rung is committed, and whose notice is not yet delivered."""
    made = make_invoice()
    tick_at(DUE, deliver=False)
    assert (climbed(made), outside.called()) == (["reminder"], 0)
    return made


class TestBetweenCommitAndDelivery:
    @pytest.mark.parametrize(
        ("happening", "why"),
        [
            (pay, "resolved"),
            (resolve, "resolved"),
            (cancel, "cancelled"),
            (delete, "gone"),
            (adopt, "moved_on"),
        ],
    )
    def test_what_is_over_is_never_sent(
        self, invoice: Invoice, happening: Callable[[Invoice], None], why: str
    ) -> None:
        with travel(DUE + HOUR):
            happening(invoice)
            services.deliver()
        capture = Capture.objects.get()
        assert (capture.state, capture.waiting_for) == ("void", why)
        for day in range(1, 30):
            tick_at(DUE + day * DAY)
        assert outside.called() == 0

    def test_held_nothing_is_sent_and_released_it_goes_out(self, invoice: Invoice) -> None:
        with travel(DUE + HOUR):
            assert services.hold(invoice, DUE + 9 * WEEK, by="clerk", reason="a promise")
        for day in range(1, 20):
            tick_at(DUE + day * DAY)
        assert (notices(invoice), capture_of(invoice).waiting_for) == ([], "held")

        with travel(DUE + 20 * DAY):
            services.deliver()  # the last time that it is found held
            assert services.release(invoice, by="clerk", reason="it was broken")
            services.deliver()  # at that very instant
            services.deliver()
        assert notices(invoice) == ["reminder"]
        assert now_there(invoice).next_at == DUE + 20 * DAY + WEEK

    def test_a_hold_that_lapses_by_itself_lets_it_go_out(self, invoice: Invoice) -> None:
        until = DUE + 20 * DAY
        with travel(DUE + HOUR):
            assert services.hold(invoice, until, by="clerk", reason="a promise")
        tick_at(until - timedelta(seconds=1))
        assert notices(invoice) == []
        for minutes in (10, 20):
            tick_at(until + timedelta(minutes=minutes))
        assert notices(invoice) == ["reminder"]

    def test_held_and_then_resolved_it_is_never_sent(self, invoice: Invoice) -> None:
        with travel(DUE + HOUR):
            assert services.hold(invoice, DUE + 9 * WEEK, by="clerk", reason="a promise")
            services.deliver()
            resolve(invoice)
        for day in range(1, 80):
            tick_at(DUE + day * DAY)
        assert (outside.called(), capture_of(invoice).state) == (0, "void")

    def test_a_deadline_moved_into_the_future_stops_the_notice(self, invoice: Invoice) -> None:
        Invoice.objects.update(due_at=DUE + 9 * WEEK)
        for day in range(1, 30):
            tick_at(DUE + day * DAY)
        assert notices(invoice) == []

    def test_a_veto_that_comes_and_goes_lets_it_out_once_when_it_is_off(
        self, invoice: Invoice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"{__name__}.quiet_hours", range(8, 20))
        with only(MindQuietHours):
            for hours in range(1, 48):
                tick_at(DUE.replace(hour=0) + hours * HOUR)
                assert len(notices(invoice)) == (hours >= 20), hours
        assert notices(invoice) == ["reminder"]

    def test_a_veto_that_raises_is_an_error_and_not_a_notice(
        self, invoice: Invoice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"{__name__}.quiet_hours", None)
        with only(MindQuietHours), travel(DUE + HOUR):
            report = services.deliver(workers=0)
            assert (report.not_done, outside.called()) == (1, 0)
            assert "TypeError" in report.errors[0]["error"]
        assert capture_of(invoice).state == "pending"
        tick_at(DUE + 2 * HOUR)
        assert notices(invoice) == ["reminder"]


quiet_hours: range | None = range(0)


class MindQuietHours(PostNotices):
    """The host's veto in Python."""

    def why_not(self, subject: Invoice, now: datetime) -> str:
        return "quiet_hours" if now.hour in quiet_hours else ""  # type: ignore[operator]
