"""Dunning while the rest of the host is at work: what happens to a bill just before its rung."""

from collections.abc import Callable

import pytest
from django.db import transaction

from idempotent_actions import polling, services, testing
from idempotent_actions.models import Escalation, Run
from idempotent_actions.reports import Report
from tests.contention.threads import race
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import at, make_bill, make_tenant
from tests.hosts.dunning.models import Bill, Dunning
from tests.hosts.moments import before_inserting, before_locking, elsewhere, under_way

pytestmark = pytest.mark.django_db(transaction=True)

DETECTION, CLIMB = 1, 2  # a tick locks an overdue side row twice: to mark it, and to climb


def tick() -> Report:
    with testing.travel(at(3, 4)):
        (report,) = testing.tick(DunBills)
    return report


def becomes(state: str) -> Callable[[], int]:
    return lambda: Bill.objects.update(state=state)


@pytest.fixture
def dunning() -> Dunning:
    """The side row of a bill that has just become late."""
    bill = make_bill(make_tenant())
    with testing.travel(at(3, 1)):
        testing.tick(DunBills)
    return Dunning.objects.get(bill=bill)


@pytest.mark.parametrize("moment", [DETECTION, CLIMB])
@pytest.mark.parametrize("state", [Bill.State.PAID, Bill.State.WRITTEN_OFF])
def test_a_bill_settled_between_candidate_query_and_lock_is_not_touched(
    dunning: Dunning, state: str, moment: int
) -> None:
    with before_locking(Dunning, becomes(state), nth=moment):
        report = tick()

    assert (report.applied, report.skipped) == (0, {"resolved": 1})
    assert report.marked == (0 if moment == DETECTION else 1)
    assert Run.objects.latest("id").skipped == {"resolved": 1}
    dunning.refresh_from_db()
    assert dunning.rung == ""
    assert not Escalation.objects.exists()

    assert tick().resolved == 1


@pytest.mark.parametrize("moment", [DETECTION, CLIMB])
def test_a_bill_disputed_between_candidate_query_and_lock_is_not_touched(
    dunning: Dunning, moment: int
) -> None:
    with before_locking(Dunning, becomes(Bill.State.DISPUTED), nth=moment):
        report = tick()
    assert (report.applied, report.skipped) == (0, {"disputed": 1})
    assert not Escalation.objects.exists()


@pytest.mark.parametrize("moment", [DETECTION, CLIMB])
def test_a_bill_deleted_between_candidate_query_and_lock_is_not_touched(
    dunning: Dunning, moment: int
) -> None:
    def delete() -> None:
        Bill.objects.update(deleted_at=at(3, 4))

    with before_locking(Dunning, delete, nth=moment):
        report = tick()
    assert (report.applied, report.skipped) == (0, {"excluded": 1})
    assert not Escalation.objects.exists()


def test_a_side_row_removed_between_candidate_query_and_lock_is_gone(dunning: Dunning) -> None:
    def remove() -> None:
        Bill.objects.get().delete()

    with before_locking(Dunning, remove, nth=CLIMB):
        report = tick()
    assert (report.applied, report.skipped) == (0, {"gone": 1})
    assert not Escalation.objects.exists()


def test_a_payment_under_way_keeps_the_tick_away_until_it_is_done(dunning: Dunning) -> None:
    with under_way(becomes(Bill.State.PAID)):
        report = tick()
    assert (report.applied, report.skipped) == (0, {"locked": 1})
    assert not Escalation.objects.exists()
    assert tick().resolved == 1


def test_no_bill_can_be_paid_halfway_through_its_climb(dunning: Dunning) -> None:
    def can_be_paid() -> bool:
        with transaction.atomic():
            return Bill.objects.select_for_update(skip_locked=True).exists()

    with testing.travel(at(3, 4)), transaction.atomic():
        assert services.act(DunBills, dunning, by="clerk", reason="called").applied
        assert not elsewhere(can_be_paid)
    assert elsewhere(can_be_paid)


def test_ticks_at_the_same_time_make_one_side_row_and_climb_one_rung_for_each_bill() -> None:
    tenant = make_tenant()
    for number in range(40):
        make_bill(tenant, str(number))

    def poll() -> Report:
        (report,) = testing.tick(DunBills, batch_size=7)
        return report

    with testing.travel(at(3, 4)):
        reports = race([poll] * 6)
        last = poll()

    assert Dunning.objects.count() == 40
    assert sum(each.applied for each in reports) + last.applied == 40
    assert Escalation.objects.filter(transition="escalate").count() == 40
    assert set(Dunning.objects.values_list("rung", flat=True)) == {"reminder"}


def test_a_button_and_a_tick_at_the_same_time_climb_one_rung(dunning: Dunning) -> None:
    def press() -> bool:
        outcome = services.act(DunBills, dunning, by="clerk", reason="called", seen=(1, ""))
        return outcome.applied

    def poll() -> bool:
        (report,) = testing.tick(DunBills)
        return report.applied == 1

    with testing.travel(at(3, 4)):
        assert sum(race([press, press, poll, poll])) == 1
    dunning.refresh_from_db()
    assert dunning.rung == "reminder"
    assert Escalation.objects.count() == 1


def test_a_bill_removed_before_its_side_row_is_inserted_costs_no_other_bill_its_own() -> None:
    tenant = make_tenant()
    gone, stays = make_bill(tenant, "gone"), make_bill(tenant, "stays")

    def remove() -> None:
        Bill.objects.filter(pk=gone.pk).delete()

    with before_inserting(Dunning, remove), testing.travel(at(3, 4)):
        polling.tick("escalate_overdue:host_dunning.dunning")

    assert Dunning.objects.get().bill == stays
    assert Escalation.objects.count() == 1
