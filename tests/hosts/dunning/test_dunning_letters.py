"""The letters of dunning, counted at the post: what happens between a rung and its letter."""

from datetime import datetime

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.reports import Report
from tests.contention.threads import Background, race
from tests.hosts import outside
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import at, make_bill, make_tenant
from tests.hosts.dunning.models import Bill, Dunning, Tenant
from tests.hosts.moments import under_way
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def tick_at(now: datetime, *, deliver: bool = True) -> Report:
    with testing.travel(now):
        (report,) = testing.tick(DunBills, deliver=deliver)
    return report


def deliver_at(now: datetime) -> None:
    with testing.travel(now):
        services.deliver()


def becomes(state: str) -> None:
    """What the rest of the host does: it knows nothing of dunning."""
    Bill.with_deleted.update(state=state)


def letters() -> list[str]:
    """The rungs that the post has really carried, in order."""
    return [each.details["rung"] for each in outside.deeds("letter")]


def last() -> Capture:
    return Capture.objects.latest("id")


def next_at() -> datetime | None:
    return Dunning.objects.get().next_at


@pytest.fixture
def bill() -> Bill:
    """A bill that has climbed its first rung, with the letter still to be posted."""
    made = make_bill(make_tenant())
    tick_at(at(3, 4), deliver=False)
    assert (letters(), next_at(), last().state) == ([], None, "pending")
    return made


class TestBetweenCommitAndDelivery:
    @pytest.mark.parametrize("state", [Bill.State.PAID, Bill.State.WRITTEN_OFF])
    @pytest.mark.usefixtures("bill")
    def test_settled_sends_nothing_ever(self, state: str) -> None:
        becomes(state)
        deliver_at(at(3, 4, 13))
        assert (last().state, last().waiting_for) == ("void", "resolved")
        for day in range(5, 31):
            tick_at(at(3, day))
        assert letters() == []
        assert Dunning.objects.get().status == "resolved"

    @pytest.mark.usefixtures("bill")
    def test_disputed_sends_nothing_until_the_dispute_is_over(self) -> None:
        becomes(Bill.State.DISPUTED)
        for day in range(5, 25):
            tick_at(at(3, day))
        assert (letters(), last().state, last().waiting_for) == ([], "pending", "disputed")

        becomes(Bill.State.SENT)
        for hour in (13, 14):
            tick_at(at(3, 25, hour))
        assert letters() == ["reminder"]

    @pytest.mark.usefixtures("bill")
    def test_the_wait_counts_from_the_letter_not_from_the_rung(self) -> None:
        becomes(Bill.State.DISPUTED)
        tick_at(at(3, 20))
        becomes(Bill.State.SENT)
        tick_at(at(3, 25))
        assert next_at() == at(4, 2, 9)  # seven days and the next morning
        assert tick_at(at(4, 2, 8, 59)).applied == 0
        assert tick_at(at(4, 2, 9)).applied == 1
        assert letters() == ["reminder", "warning"]

    @pytest.mark.usefixtures("bill")
    def test_disputed_and_settled_again_and_again_sends_one_letter(self) -> None:
        for day in range(5, 20):
            becomes(Bill.State.DISPUTED)
            tick_at(at(3, day))
            becomes(Bill.State.SENT)
        for day in (20, 21):
            tick_at(at(3, day))
        assert letters() == ["reminder"]

    @pytest.mark.usefixtures("bill")
    def test_deleted_sends_nothing_until_it_is_restored(self) -> None:
        Bill.objects.update(deleted_at=at(3, 4))
        for day in range(5, 10):
            tick_at(at(3, day))
        assert (letters(), last().waiting_for) == ([], "excluded")
        Bill.with_deleted.update(deleted_at=None)
        for day in (10, 11):
            tick_at(at(3, day))
        assert letters() == ["reminder"]

    @pytest.mark.usefixtures("bill")
    def test_a_tenant_that_pauses_sends_nothing_until_it_goes_on(self) -> None:
        Tenant.objects.update(dunning_paused=True)
        for day in range(5, 10):
            tick_at(at(3, day))
        assert letters() == []
        Tenant.objects.update(dunning_paused=False)
        tick_at(at(3, 10))
        assert letters() == ["reminder"]

    def test_removed_with_its_side_row_sends_nothing(self, bill: Bill) -> None:
        bill.delete()
        deliver_at(at(3, 4, 13))
        assert (letters(), last().state, last().waiting_for) == ([], "void", "gone")

    @pytest.mark.usefixtures("bill")
    def test_a_payment_under_way_keeps_the_letter_back_until_it_is_done(self) -> None:
        with under_way(lambda: becomes(Bill.State.PAID)):
            deliver_at(at(3, 4, 13))
            assert (letters(), last().state) == ([], "pending")
        deliver_at(at(3, 4, 13))
        assert (letters(), last().state) == ([], "void")

    def test_a_bounced_payment_begins_again_with_its_own_letter(self, bill: Bill) -> None:
        becomes(Bill.State.PAID)
        tick_at(at(3, 20))  # voids the letter
        tick_at(at(3, 31))  # resolves the ladder
        becomes(Bill.State.SENT)
        with testing.travel(at(4, 1)):
            assert services.reopen(bill.dunning, by="bank", reason="bounced")
        for hour in (12, 13, 14):
            tick_at(at(4, 1, hour))
        assert letters() == ["reminder"]
        assert Dunning.objects.get().cycle == 2


class TestTheLetter:
    @pytest.mark.usefixtures("bill")
    def test_can_be_overtaken_by_a_payment_while_it_is_at_the_post(self) -> None:
        outside.behave("hanging", "letter")

        def pay() -> None:
            until(outside.is_at_work, "the letter to be at the post")
            becomes(Bill.State.PAID)  # waits for no lock: the effect holds none
            outside.behave("well", "letter")

        with Background(1) as background:
            paying = background.run(pay)
            deliver_at(at(3, 4, 13))
            paying.result(30)
        assert (letters(), last().state) == (["reminder"], "succeeded")
        assert Bill.objects.get().state == Bill.State.PAID

    @pytest.mark.usefixtures("bill")
    def test_with_an_unknown_outcome_is_a_persons_and_holds_the_ladder(self) -> None:
        outside.behave("unanswered", "letter")
        deliver_at(at(3, 4, 13))
        outside.behave("well", "letter")
        for day in range(5, 31):
            tick_at(at(3, day))
        assert (letters(), last().state) == (["reminder"], "review")

        with testing.travel(at(4, 1)):
            assert services.mark_succeeded(
                last(), provider_ref="letter 1", note="the buyer has it", by="clerk"
            )
        assert next_at() == at(4, 9, 9)
        tick_at(at(4, 9))
        assert letters() == ["reminder", "warning"]

    @pytest.mark.usefixtures("bill")
    def test_refused_and_then_sent_to_a_corrected_address_goes_out_once(self) -> None:
        outside.behave("declined: moved", "letter", "buyer@example.org")
        for day in range(5, 25):
            tick_at(at(3, day))
        assert (letters(), next_at(), outside.called("letter")) == ([], None, 1)

        Bill.objects.update(email="buyer@example.net")
        with testing.travel(at(3, 25)):
            assert services.retry_new_key(last(), refresh=True, note="has moved", by="clerk")
        for hour in (13, 14):
            tick_at(at(3, 25, hour))
        (letter,) = outside.deeds("letter")
        assert letter.who == "buyer@example.net"
        assert next_at() == at(4, 2, 9)

    def test_of_every_rung_goes_out_once_in_a_year_of_daily_ticks(self) -> None:
        make_bill(make_tenant())
        for month in range(3, 13):
            for day in range(1, 31):
                tick_at(at(month, day))
        assert letters() == ["reminder", "warning", "final_notice"]
        assert len({each.key for each in outside.deeds()}) == 3

    def test_of_every_bill_goes_out_once_when_six_ticks_meet(self) -> None:
        tenant = make_tenant()
        for number in range(30):
            make_bill(tenant, str(number))

        def poll() -> None:
            testing.tick(DunBills, batch_size=7)

        with testing.travel(at(3, 4)):
            race([poll] * 6)
            poll()
        assert sorted(each.details["bill"] for each in outside.deeds()) == sorted(
            map(str, range(30))
        )


def test_adopted_bills_get_no_letter_on_the_first_tick() -> None:
    tenant = make_tenant()
    for number in range(20):
        make_bill(tenant, str(number))
    with testing.travel(at(6, 1)):
        services.adopt(
            DunBills, Dunning.objects.all(), next_at=at(6, 15), by="operator", reason="goes live"
        )
        testing.tick(DunBills)
    assert (letters(), Capture.objects.count()) == ([], 0)
    tick_at(at(6, 15))
    assert letters() == ["reminder"] * 20


def test_the_letter_hangs_on_its_audit_row(bill: Bill) -> None:
    (climb,) = Escalation.objects.about(bill.dunning)
    assert list(climb.captures.all()) == [last()]
    assert last().key == f"{climb.key}:write_to_buyer"
    assert list(Capture.objects.about(bill.dunning)) == [last()]
