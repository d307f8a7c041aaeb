"""Dunning as a side row: an existing bill model keeps its states, its manager and its columns."""

from datetime import UTC, datetime

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Escalation
from idempotent_actions.reports import Report
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import at, make_bill, make_tenant
from tests.hosts.dunning.models import Bill, Dunning, Tenant

pytestmark = pytest.mark.django_db


def tick_at(now: datetime) -> Report:
    with testing.travel(now):
        (report,) = testing.tick(DunBills)
    return report


def set_state(bill: Bill, state: str) -> None:
    """What the rest of the host does: it knows nothing of dunning."""
    Bill.with_deleted.filter(pk=bill.pk).update(state=state)


def rungs(bill: Bill) -> list[str]:
    """The rungs that this bill has climbed, in order."""
    climbs = Escalation.objects.about(bill.dunning).filter(transition="escalate")
    return [each.rung for each in climbs]


class TestSideRows:
    def test_they_appear_by_themselves_for_sent_bills_only(self) -> None:
        tenant = make_tenant()
        for state in Bill.State.values:
            make_bill(tenant, state, state=state)

        tick_at(at(3, 1))

        assert [each.bill.number for each in Dunning.objects.all()] == ["sent"]

    def test_they_appear_once_however_many_ticks(self) -> None:
        make_bill(make_tenant())
        tick_at(at(3, 1))
        first = Dunning.objects.get()

        tick_at(at(3, 1, 13))

        assert Dunning.objects.get() == first

    def test_a_new_one_waits_for_its_deadline(self) -> None:
        bill = make_bill(make_tenant())
        assert tick_at(at(3, 3, 8, 59)).applied == 0
        assert tick_at(at(3, 3, 9)).applied == 1
        assert rungs(bill) == ["reminder"]

    def test_they_appear_and_climb_in_the_same_tick_when_the_bill_is_late_already(self) -> None:
        bill = make_bill(make_tenant())
        assert tick_at(at(5, 1)).applied == 1
        assert rungs(bill) == ["reminder"]

    def test_the_bill_itself_is_not_touched(self) -> None:
        make_bill(make_tenant())
        before = Bill.objects.values().get()
        tick_at(at(3, 4))
        assert Bill.objects.values().get() == before


class TestAnUnpaidBill:
    def test_climbs_every_rung_once_in_a_year_of_daily_ticks(self) -> None:
        bill = make_bill(make_tenant())
        for month in range(3, 13):
            for day in range(1, 31):
                tick_at(at(month, day))
        assert rungs(bill) == ["reminder", "warning", "final_notice"]
        assert bill.dunning.status == "exhausted"

    def test_climbs_one_rung_after_an_outage_and_then_waits_in_full(self) -> None:
        bill = make_bill(make_tenant(days_after_reminder=7))
        assert tick_at(at(9, 1)).applied == 1
        assert [tick_at(at(9, day)).applied for day in range(1, 9)] == [0] * 8
        assert tick_at(at(9, 9)).applied == 1
        assert rungs(bill) == ["reminder", "warning"]


class TestASettledBill:
    @pytest.mark.parametrize("state", [Bill.State.PAID, Bill.State.WRITTEN_OFF])
    def test_is_resolved_and_not_dunned(self, state: str) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 1))
        set_state(bill, state)

        report = tick_at(at(3, 4))

        assert (report.resolved, report.marked, report.applied) == (1, 0, 0)
        assert bill.dunning.status == "resolved"
        assert [each.transition for each in Escalation.objects.about(bill.dunning)] == ["resolve"]

    def test_is_resolved_from_any_rung(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 4))
        set_state(bill, Bill.State.WRITTEN_OFF)

        tick_at(at(3, 20))

        assert bill.dunning.status == "resolved"
        assert rungs(bill) == ["reminder"]

    def test_gets_the_first_rung_once_more_when_its_payment_bounces(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 4))
        set_state(bill, Bill.State.PAID)
        tick_at(at(3, 20))

        set_state(bill, Bill.State.SENT)
        assert services.reopen(bill.dunning, by="bank", reason="bounced").applied
        assert [tick_at(at(3, 21)).applied for _ in range(3)] == [1, 0, 0]

        assert rungs(bill) == ["reminder", "reminder"]


class TestADeletedBill:
    def test_gets_no_side_row(self) -> None:
        make_bill(make_tenant(), deleted_at=at(3, 1))
        assert tick_at(at(3, 4)).missing == 0
        assert not Dunning.objects.exists()

    def test_is_not_dunned_any_further(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 4))
        Bill.objects.update(deleted_at=at(3, 5))

        report = tick_at(at(4, 4))

        assert (report.selected, report.marked, report.resolved) == (0, 0, 0)
        assert rungs(bill) == ["reminder"]

    def test_goes_on_where_it_stood_when_it_is_restored(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 4))
        Bill.objects.update(deleted_at=at(3, 5))
        tick_at(at(4, 4))
        Bill.with_deleted.update(deleted_at=None)

        tick_at(at(4, 5))

        assert rungs(bill) == ["reminder", "warning"]


class TestADisputedBill:
    def test_gets_no_first_rung_until_the_dispute_ends(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 1))
        set_state(bill, Bill.State.DISPUTED)

        report = tick_at(at(3, 4))
        assert (report.applied, report.marked, report.skipped) == (0, 0, {"disputed": 1})

        set_state(bill, Bill.State.SENT)
        assert tick_at(at(3, 5)).applied == 1
        assert rungs(bill) == ["reminder"]

    def test_gets_no_further_rung_until_the_dispute_ends(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 4))
        set_state(bill, Bill.State.DISPUTED)
        for day in range(5, 30):
            assert tick_at(at(3, day)).applied == 0

        set_state(bill, Bill.State.SENT)
        tick_at(at(3, 30))

        assert rungs(bill) == ["reminder", "warning"]

    def test_is_not_climbed_when_the_dispute_begins_after_detection(self) -> None:
        bill = make_bill(make_tenant())
        tick_at(at(3, 1))
        Dunning.objects.update(status="overdue")
        set_state(bill, Bill.State.DISPUTED)

        assert tick_at(at(3, 4)).skipped == {"disputed": 1}
        assert rungs(bill) == []


class TestTenants:
    def test_each_has_its_own_mornings_and_its_own_patience(self) -> None:
        berlin = make_tenant(name="B", time_zone="Europe/Berlin", days_after_reminder=30)
        new_york = make_tenant(name="N", time_zone="America/New_York", days_after_reminder=3)
        first, second = make_bill(berlin, "B1"), make_bill(new_york, "N1")

        assert tick_at(at(3, 3, 7, 59)).applied == 0  # 08:59 in Berlin
        assert tick_at(at(3, 3, 8)).applied == 1
        assert tick_at(at(3, 3, 13, 59)).applied == 0  # 08:59 in New York
        assert tick_at(at(3, 3, 14)).applied == 1

        # 30 days after 3 March: 3 April, 09:00 in Berlin's summer time, which began on 29 March.
        assert first.dunning.next_at == datetime(2026, 4, 3, 7, tzinfo=UTC)
        # 3 days: 7 March, 09:00 in New York, before its summer time begins on the 8th.
        assert second.dunning.next_at == datetime(2026, 3, 7, 14, tzinfo=UTC)

    def test_one_that_pauses_sends_nothing_until_it_goes_on(self) -> None:
        tenant = make_tenant(dunning_paused=True)
        bill = make_bill(tenant)
        assert tick_at(at(3, 4)).selected == 0
        Tenant.objects.update(dunning_paused=False)
        assert tick_at(at(3, 5)).applied == 1
        assert rungs(bill) == ["reminder"]

    def test_a_late_evening_counts_as_the_tenants_day_not_as_utcs(self) -> None:
        bill = make_bill(make_tenant(time_zone="America/New_York", days_after_reminder=3))
        tick_at(at(3, 4, 3))  # 3 March, 22:00 in New York
        assert bill.dunning.next_at == datetime(2026, 3, 7, 14, tzinfo=UTC)

    def test_a_month_end_is_over_when_it_is_over_there(self) -> None:
        tenant = make_tenant(time_zone="America/Chicago")
        make_bill(tenant, due_on=datetime(2026, 3, 31, tzinfo=UTC).date())
        assert tick_at(at(4, 1, 0, 30)).applied == 0  # 31 March, 19:30 in Chicago
        assert tick_at(at(4, 1, 14)).applied == 1
