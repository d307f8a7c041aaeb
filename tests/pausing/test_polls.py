"""A pause stops a poll: before it begins, or after the batch that is under way."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from idempotent_actions import polls
from idempotent_actions.acts import act_on
from idempotent_actions.models import Escalation, Lease, Run
from idempotent_actions.polling import escalate_overdue, mark_overdue, tick
from idempotent_actions.reports import Report
from project.billing.models import Invoice
from tests.invoices import DUE, LADDER, climbed, make_invoice, trail
from tests.ledger.acting import Dispatch
from tests.ledger.moments import after
from tests.oddities.models import Parcel, Seal
from tests.pausing.standing import (
    ACTION,
    EVERYTHING,
    MAIL,
    Settling,
    at_first,
    elsewhere,
    lift,
    lift_all,
    pause,
)
from tests.registering import only

pytestmark = pytest.mark.django_db(transaction=True)

each_scope = pytest.mark.parametrize("scope", [EVERYTHING, ACTION], ids=["everything", "action"])


@pytest.fixture(autouse=True)
def _later() -> Iterator[None]:
    with only(Settling), after(days=1):
        yield


def poll(**options: Any) -> Report:
    (report,) = escalate_overdue(Invoice, **{"deliver": False, **options})
    return report


def statuses() -> dict[str, int]:
    found = Invoice.objects.values_list("status", flat=True)
    return {status: list(found).count(status) for status in found}


@each_scope
@pytest.mark.parametrize(
    ("transition", "columns", "then"),
    [
        ("mark_overdue", {}, {"overdue": 2, "open": 4}),
        ("resolve", {"paid_at": DUE}, {"resolved": 2, "open": 4}),
        ("escalate", {"status": "overdue"}, {"escalated": 2, "overdue": 4}),
    ],
)
def test_one_set_from_another_connection_mid_run_stops_it_after_the_batch(
    transition: str, columns: dict[str, Any], then: dict[str, int], scope: tuple[str, str]
) -> None:
    for number in range(6):
        make_invoice(number, **columns)
    with at_first(transition, lambda: elsewhere(*scope)):
        report = poll(batch_size=2)
    assert report.stopped == "paused"
    assert statuses() == then
    run = Run.objects.get()
    assert (run.stopped, run.outcome, run.finished_at is None) == ("paused", "stopped", False)
    assert (report.failed, report.skipped.total()) == (0, 0)
    assert (run.marked, run.resolved, run.applied) == (
        then.get("overdue", 0) * (transition == "mark_overdue"),
        then.get("resolved", 0),
        then.get("escalated", 0),
    )


@each_scope
def test_one_set_while_missing_subjects_are_inserted_stops_them_after_the_batch(
    scope: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(self: Any, now: Any) -> Iterator[Invoice]:
        for number in range(6):
            if number == 1:
                elsewhere(*scope)
            yield Invoice(number=str(number), email="a@example.org", amount=1, due_at=DUE)

    monkeypatch.setattr(Settling, "missing_subjects", missing)
    report = poll(batch_size=2)
    assert (report.stopped, report.missing) == ("paused", 2)
    assert statuses() == {"open": 2}


def test_after_the_lift_the_rest_is_done_and_nothing_twice() -> None:
    invoices = [make_invoice(number) for number in range(6)]
    with at_first("escalate", lambda: elsewhere(*ACTION)):
        assert poll(batch_size=2).applied == 2
    assert poll().stopped == "paused"
    lift_all()
    assert (poll().applied, poll().applied) == (4, 0)
    assert [trail(invoice) for invoice in invoices] == [["escalate reminder"]] * 6


@pytest.mark.parametrize("scope", [ACTION, EVERYTHING, MAIL], ids=str)
def test_of_several_actions_the_one_it_names_stands_still(scope: tuple[str, str]) -> None:
    invoice, parcel = make_invoice(), Parcel.objects.create(name="books")
    Seal.objects.create(parcel=parcel)
    pause(*scope)
    with only(Settling, Dispatch):
        stopped = {report.action: report.stopped for report in tick(deliver=False)}
    parcel.refresh_from_db()
    assert stopped[LADDER] == ("" if scope == MAIL else "paused")
    assert stopped[Dispatch.name] == ("paused" if scope == EVERYTHING else "")
    assert climbed(invoice) == (["reminder"] if scope == MAIL else [])
    assert (parcel.state == "waiting") == (scope == EVERYTHING)


@pytest.mark.parametrize("overlap", ["share", "skip"])
@pytest.mark.parametrize("run", [tick, escalate_overdue, mark_overdue])
@each_scope
def test_one_set_before_leaves_no_run_and_no_lease(
    run: Any, overlap: Any, scope: tuple[str, str]
) -> None:
    make_invoice()
    pause(*scope)
    (report,) = run(overlap=overlap, deliver=False)
    assert (report.stopped, report.run, report.failed) == ("paused", None, 0)
    assert statuses() == {"open": 1}
    assert (Run.objects.count(), Lease.objects.count(), Escalation.objects.count()) == (0, 0, 0)


def test_it_ends_by_itself_at_its_instant_and_not_before() -> None:
    invoice = make_invoice()
    with after(days=1) as now:
        pause(*ACTION, until=now + timedelta(hours=1))
    with after(days=1, minutes=59):
        assert poll().stopped == "paused"
    with after(days=1, hours=1):
        assert poll().stopped == ""
    assert climbed(invoice) == ["reminder"]


def test_each_of_two_has_to_be_lifted() -> None:
    make_invoice()
    first, second = pause(*ACTION), pause(*EVERYTHING)
    assert lift(first)
    assert poll().stopped == "paused"
    assert lift(second)
    assert poll().applied == 1


def test_a_batch_that_is_tried_row_by_row_is_stopped_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def refuse_many(action: Any, pks: Any, asked: Any) -> Any:
        if action.name == LADDER:
            if len(pks) > 1:
                raise ValueError("which of them is it?")
            tried.append(pks)
            if len(tried) == 2:
                elsewhere(*ACTION)
        return act_on(action, pks, asked)

    monkeypatch.setattr(polls, "act_on", refuse_many)
    for number in range(6):
        make_invoice(number)
    report = poll()
    assert (report.stopped, report.applied, report.failed, len(tried)) == ("paused", 1, 0, 2)


# -- slots


def test_a_slot_that_a_pause_has_stopped_is_served_after_it() -> None:
    for number in range(4):
        make_invoice(number)
    slot = DUE + timedelta(days=1)
    with at_first("escalate", lambda: elsewhere(*ACTION)):
        assert poll(slot=slot, batch_size=2).stopped == "paused"
    assert poll(slot=slot).stopped == "paused"
    lift_all()
    resumed = poll(slot=slot)
    assert (resumed.stopped, resumed.applied) == ("", 2)
    assert poll(slot=slot).stopped == "slot_done"
    first, second = Run.objects.order_by("id")
    assert (first.slot, first.outcome) == (None, "stopped")
    assert (second.slot, second.resumes, second.outcome) == (slot, first, "succeeded")


def test_a_run_that_a_pause_has_stopped_is_no_good_one() -> None:
    make_invoice()
    with at_first("mark_overdue", lambda: elsewhere(*ACTION)):
        poll(batch_size=1)
    assert not Run.objects.good().exists()


# -- dry runs, and what it costs


def test_a_dry_run_says_that_it_stands_still() -> None:
    make_invoice()
    pause(*ACTION)
    assert poll(dry_run=True).stopped == "paused"
    lift_all()
    assert poll(dry_run=True).stopped == ""


def test_asking_costs_a_statement_for_each_batch() -> None:
    def asked(size: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            poll(batch_size=size, mark=False)
        return sum('FROM "idempotent_actions_pause"' in query["sql"] for query in queries)

    def six() -> None:
        for _ in range(6):
            make_invoice(Invoice.objects.count(), status="overdue")

    six()
    in_three = asked(2)
    six()
    assert in_three == asked(6) + 2
