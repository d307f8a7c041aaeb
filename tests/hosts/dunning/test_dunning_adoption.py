"""Turning dunning on for a table that is years old: nothing goes out on the first tick."""

from datetime import timedelta

import pytest
from django.db import connection

from idempotent_actions import services, testing
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.reports import Report
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import DUE_ON, at, make_bill, make_tenant
from tests.hosts.dunning.models import Bill, Dunning

pytestmark = pytest.mark.django_db

TODAY = at(6, 1)
BEGIN = at(6, 15)


def tick() -> Report:
    (report,) = testing.tick(DunBills, deliver=False)
    return report


def adopt(rung: str = "") -> Report:
    return services.adopt(
        DunBills,
        Dunning.objects.all(),
        rung=rung,
        next_at=BEGIN,
        by="operator",
        reason="dunning goes live",
    )


def analyze() -> None:
    """Do what autovacuum does a minute after so many inserts; until then it may count no rows."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE host_dunning_bill, host_dunning_dunning")
            # A session also keeps the plans of its foreign key checks: one made while these tables
            # were tiny reads them whole for each row that is checked, until they are analysed.
            cursor.execute("ANALYZE idempotent_actions_escalation, idempotent_actions_capture")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forty_thousand_late_bills_get_nothing_until_the_day_that_was_set() -> None:
    tenant = make_tenant()
    bills = [
        Bill(
            tenant=tenant, number=str(n), email="b@example.org", net=9, due_on=DUE_ON, state="sent"
        )
        for n in range(40_000)
    ]
    Bill.objects.bulk_create(bills, batch_size=5_000)
    analyze()

    with testing.travel(TODAY):
        assert adopt().applied == 40_000
        analyze()
        first = tick()
        assert (first.applied, first.marked) == (0, 0)
    with testing.travel(BEGIN - timedelta(seconds=1)):
        assert tick().applied == 0
    assert not Capture.objects.exists()
    with testing.travel(BEGIN):
        assert tick().applied == 40_000
        assert tick().applied == 0
    with testing.travel(BEGIN + timedelta(minutes=5)):
        assert tick().applied == 0
    assert Capture.objects.filter(state="pending").count() == 40_000
    analyze()  # the foreign keys of all the captures are checked at the end of the test

    climbs = Escalation.objects.filter(transition="escalate", rung="reminder")
    assert climbs.values("subject_pk").distinct().count() == climbs.count() == 40_000


def test_every_adopted_bill_has_an_audit_row_with_who_and_why() -> None:
    bill = make_bill(make_tenant())
    with testing.travel(TODAY):
        adopt()
    (row,) = Escalation.objects.about(bill.dunning)
    assert (row.transition, row.actor, row.reason) == ("adopt", "operator", "dunning goes live")
    assert (row.next_at, row.acted_at) == (BEGIN, TODAY)


def test_a_bill_that_got_its_reminder_from_the_old_system_gets_the_warning_next() -> None:
    bill = make_bill(make_tenant())
    with testing.travel(TODAY):
        adopt(rung="reminder")
    with testing.travel(BEGIN):
        tick()
    assert bill.dunning.rung == "warning"


def test_a_bill_sent_later_is_not_held_back_by_the_adoption_of_the_others() -> None:
    tenant = make_tenant()
    make_bill(tenant, "old")
    with testing.travel(TODAY):
        adopt()
    new = make_bill(tenant, "new", due_on=TODAY.date())
    with testing.travel(BEGIN - timedelta(days=1)):
        assert tick().applied == 1
    assert new.dunning.rung == "reminder"


def test_settled_and_deleted_bills_are_not_adopted() -> None:
    tenant = make_tenant()
    paid, deleted = make_bill(tenant, "paid"), make_bill(tenant, "deleted")
    with testing.travel(at(3, 1)):
        tick()
    Bill.objects.filter(pk=paid.pk).update(state=Bill.State.PAID)
    with testing.travel(at(3, 4)):
        tick()
    Bill.objects.filter(pk=deleted.pk).update(deleted_at=TODAY)

    with testing.travel(TODAY):
        report = adopt()

    assert report.applied == 0
    assert report.skipped == {"resolved": 1, "excluded": 1}


def test_adopting_twice_sets_another_day_and_still_sends_nothing() -> None:
    bill = make_bill(make_tenant())
    with testing.travel(TODAY):
        assert adopt().applied == 1
        assert adopt().applied == 1
        first = tick()
        assert (first.applied, first.marked) == (0, 0)
    assert bill.dunning.next_at == BEGIN
