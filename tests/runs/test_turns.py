"""A run's place among others: the action's lease, the slot, the time it has."""

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from idempotent_actions import turns
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.leases import take
from idempotent_actions.models import Lease, Run
from idempotent_actions.polling import PollOptions, escalate_overdue, tick
from idempotent_actions.reports import Report
from idempotent_actions.turns import LASTS
from project.billing.models import Invoice
from tests.invoices import LADDER, make_invoice
from tests.ledger.moments import NOW, after

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = f"action:{LADDER}"
SKIP: PollOptions = {"overlap": "skip", "deliver": False}


def poll(**options: Any) -> Report:
    (report,) = escalate_overdue(Invoice, **{**SKIP, **options})
    return report


def climbed() -> int:
    return Invoice.objects.exclude(rung="").count()


def poll_and_be_killed(**options: Any) -> None:
    def killed(*args: Any) -> None:
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idempotent_actions.polls.act_on", killed)
        with pytest.raises(SystemExit):
            poll(**options)


# -- the lease


def test_a_run_beside_another_does_nothing_and_says_so() -> None:
    make_invoice()
    with after(days=1):
        assert take(LEASE, LASTS) is not None
        report = poll()
    assert (report.stopped, report.run, report.applied, report.failed) == (
        "overlapping",
        None,
        0,
        0,
    )
    assert (climbed(), Run.objects.count()) == (0, 0)


def test_one_that_shares_is_kept_off_by_nobody() -> None:
    make_invoice()
    with after(days=1):
        assert take(LEASE, LASTS) is not None
        assert poll(overlap="share").stopped == ""
    assert climbed() == 1


def test_its_lease_is_free_for_the_next_run() -> None:
    make_invoice()
    with after(days=1):
        assert (poll().stopped, poll().stopped) == ("", "")
    assert (climbed(), Lease.objects.count()) == (1, 0)


def test_a_killed_run_holds_the_next_one_off_until_its_lease_lapses() -> None:
    make_invoice()
    with after(days=1):
        poll_and_be_killed()
    with after(days=1):
        assert poll().stopped == "overlapping"
    with after(days=1, seconds=LASTS.total_seconds()):
        assert poll().stopped == ""
    assert climbed() == 1
    assert [run.outcome for run in Run.objects.order_by("id")] == ["unfinished", "succeeded"]


def test_a_run_that_lost_its_lease_leaves_the_rest_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(4):
        make_invoice(number)
    monkeypatch.setattr(turns, "_RENEWED_AFTER", 0.0)

    def take_over(rows: int) -> None:
        Lease.objects.filter(name=LEASE).delete()
        assert take(LEASE, LASTS) is not None

    with after(days=1):
        report = poll(batch_size=2, mark=True, on_progress=take_over)
    assert report.stopped == "lease_lost"
    run = Run.objects.get()
    assert (run.stopped, run.outcome, run.finished_at is None) == ("lease_lost", "stopped", False)
    assert climbed() == 0, "the lease was lost at the first batch of detection"


def test_a_run_renews_its_lease_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        make_invoice(number)
    monkeypatch.setattr(turns, "_RENEWED_AFTER", 0.0)
    tokens = set()

    def shorten(rows: int) -> None:
        tokens.add(Lease.objects.get(name=LEASE).token)
        Lease.objects.filter(name=LEASE).update(expires_at=NOW)

    with after(days=1) as now:
        report = poll(batch_size=2, on_progress=shorten)
        assert (report.stopped, len(tokens)) == ("", 1)
    assert Run.objects.get().beat_at == now


def test_a_lease_is_not_taken_in_a_callers_transaction() -> None:
    with pytest.raises(InvalidInput, match="inside a transaction"), transaction.atomic():
        poll()


# -- the slot


def slot_of(hour: int) -> datetime:
    return NOW + timedelta(days=1, hours=hour)


def test_a_finished_slot_is_not_run_again() -> None:
    make_invoice()
    with after(days=1):
        assert poll(slot=slot_of(0)).applied == 1
        make_invoice(2)
        again = poll(slot=slot_of(0))
        assert (again.stopped, again.run) == ("slot_done", None)
        assert poll(slot=slot_of(1)).applied == 1
    assert [run.slot for run in Run.objects.order_by("id")] == [slot_of(0), slot_of(1)]
    assert not Lease.objects.exists()


def test_an_unfinished_slot_is_taken_over() -> None:
    make_invoice()
    with after(days=1):
        poll_and_be_killed(slot=slot_of(0))
    with after(days=1, minutes=10):
        assert poll(slot=slot_of(0)).applied == 1
    died, resumed = Run.objects.order_by("id")
    assert (died.slot, died.outcome) == (None, "unfinished")
    assert (resumed.slot, resumed.resumes, resumed.outcome) == (slot_of(0), died, "succeeded")


def test_a_slot_is_one_of_each_action() -> None:
    make_invoice()
    with after(days=1):
        polled = [each.action for each in tick(**SKIP | {"slot": slot_of(0)}) if each.run]
        again = [each.action for each in tick(**SKIP | {"slot": slot_of(0)}) if each.stopped]
    assert polled == again
    assert len(polled) > 1
    assert Run.objects.filter(slot=slot_of(0)).count() == len(polled)


@pytest.mark.parametrize("slot", ["2026-03-02", datetime(2026, 3, 2), 7])  # noqa: DTZ001
def test_a_slot_is_an_instant(slot: Any) -> None:
    with pytest.raises(InvalidInput, match="slot must"):
        poll(slot=slot)
    assert not Run.objects.exists()


# -- the time


def test_no_batch_is_begun_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        make_invoice(number, status="overdue")
    passed = 0.0
    started = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: started + passed)

    def pass_time(rows: int) -> None:
        nonlocal passed
        passed += 40

    with after(days=1):
        report = poll(batch_size=2, seconds=60, on_progress=pass_time)
        assert (report.stopped, report.applied) == ("out_of_time", 4)
        assert poll(batch_size=2).applied == 2
    first, second = Run.objects.order_by("id")
    assert (first.stopped, first.outcome, second.outcome) == ("out_of_time", "stopped", "succeeded")
    assert list(Run.objects.good()) == [second, first]


def test_a_run_without_time_for_a_single_batch_is_no_good_one() -> None:
    make_invoice()
    with after(days=1):
        assert poll(seconds=1e-9).stopped == "no_time"
    assert not Run.objects.good().exists()


def test_who_waited_longest_for_a_whole_run_has_its_turn_first() -> None:
    with after(days=1):
        first, *_others, last = (each.action for each in tick(deliver=False) if each.run)
        Run.objects.filter(action=last).update(stopped="no_time")
        again = [each.action for each in tick(deliver=False, seconds=60) if each.run]
    assert again.index(last) < again.index(first)


@pytest.mark.parametrize("seconds", [0, -1, "60", float("nan")])
def test_the_time_is_a_number_above_zero(seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="seconds must be a number above zero"):
        poll(seconds=seconds)


@pytest.mark.parametrize("overlap", ["no", None, True])
def test_runs_skip_or_share(overlap: Any) -> None:
    with pytest.raises(InvalidInput, match="overlap must be 'share' or 'skip'"):
        poll(overlap=overlap)


def test_a_pass_that_breaks_is_no_good_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ValueError("a rule that raises")

    monkeypatch.setattr("idempotent_actions.polls.candidate_pks", broken)
    with after(days=1):
        report = poll()
    assert (report.stopped, report.failed > 0) == ("error", True)
    assert not Run.objects.good().exists()
    assert not Lease.objects.exists()
