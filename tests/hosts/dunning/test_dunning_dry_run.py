"""Before the first tick: what would go out, said exactly and without a trace."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from idempotent_actions import testing
from idempotent_actions.models import Escalation, Run
from idempotent_actions.reports import Report
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import at, make_bill, make_tenant
from tests.hosts.dunning.models import Bill, Dunning

pytestmark = pytest.mark.django_db(transaction=True)

NOW = at(3, 4)
COUNTS = ("resolved", "marked", "selected", "applied", "exhausted", "failed", "skipped")


@pytest.fixture(autouse=True)
def _bills() -> None:
    patient = make_tenant(name="P", days_after_reminder=30)
    eastern = make_tenant(name="E", time_zone="Pacific/Auckland")
    for tenant in (patient, eastern):
        for state in Bill.State.values:
            make_bill(tenant, f"{tenant.name}-{state}", state=state)
        make_bill(tenant, f"{tenant.name}-deleted", deleted_at=NOW)
        make_bill(tenant, f"{tenant.name}-later", due_on=at(3, 20).date())
    # Due on 3 March: late in Auckland, where the office of the 4th has opened, not yet in London.
    make_bill(eastern, "E-today", due_on=at(3, 3).date())
    make_bill(
        make_tenant(name="L", time_zone="America/Los_Angeles"), "L-today", due_on=at(3, 3).date()
    )


@contextmanager
def read_only() -> Iterator[None]:
    """The database refuses every write, every row lock and every new sequence value."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        yield


def dry_run() -> Report:
    with testing.travel(NOW), read_only():
        (report,) = testing.tick(DunBills, dry_run=True)
    return report


def tick() -> Report:
    with testing.travel(NOW):
        (report,) = testing.tick(DunBills)
    return report


def climbed() -> dict[str, str]:
    """Each bill that has climbed, with its rung."""
    there = Dunning.objects.select_related("bill")
    numbers = {str(each.pk): each.bill.number for each in there}
    climbs = Escalation.objects.filter(transition="escalate")
    return {numbers[each.subject_pk]: each.rung for each in climbs}


def test_on_an_empty_side_table_it_writes_nothing() -> None:
    assert dry_run().applied == 3
    assert not Dunning.objects.exists()
    assert not Escalation.objects.exists()
    assert not Run.objects.exists()


def test_on_an_empty_side_table_it_counts_what_the_tick_then_does() -> None:
    dry, real = dry_run(), tick()

    assert climbed() == {"P-sent": "reminder", "E-sent": "reminder", "E-today": "reminder"}
    assert [(each.transition, each.rung) for each in dry.planned] == [("escalate", "reminder")] * 3
    for count in COUNTS:
        assert getattr(dry, count) == getattr(real, count), count


def test_on_an_empty_side_table_it_counts_the_rows_that_the_tick_then_inserts() -> None:
    dry, real = dry_run(), tick()
    assert Dunning.objects.count() == 6
    assert (dry.missing, real.missing) == (6, 6)


def test_it_tells_apart_the_side_rows_that_do_not_exist_yet() -> None:
    planned = [str(each) for each in dry_run().planned]
    assert len(set(planned)) == 3


def test_on_an_empty_side_table_it_leaves_out_what_the_tick_can_not_see() -> None:
    make_bill(make_tenant(name="Z", dunning_paused=True), "Z-sent")
    dry, real = dry_run(), tick()
    assert "Z-sent" not in climbed()
    assert (dry.applied, real.applied) == (3, 3)


def test_on_existing_side_rows_it_lists_exactly_what_the_tick_then_does() -> None:
    with testing.travel(at(3, 1)):
        testing.tick(DunBills)
    Bill.objects.filter(number="E-sent").update(state=Bill.State.DISPUTED)
    Bill.objects.filter(number="L-today").update(state=Bill.State.PAID)

    dry, real = dry_run(), tick()

    planned = {(re.sub(r".*:", "", each.subject), each.rung) for each in dry.planned}
    climbs = Escalation.objects.filter(transition="escalate", run=real.run)
    assert planned == set(climbs.values_list("subject_pk", "rung"))
    assert climbed() == {"P-sent": "reminder", "E-today": "reminder"}
    assert dry.skipped == real.skipped == {"disputed": 1}
    for count in COUNTS:
        assert getattr(dry, count) == getattr(real, count), count
