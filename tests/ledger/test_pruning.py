"""Pruning blanks payloads; what keeps an effect from happening again stays. Trial T56."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidInput, KeyReused
from idempotent_actions.models import Capture, CaptureAttempt
from idempotent_actions.polling import tick
from project.billing.models import Invoice
from tests.invoices import make_invoice
from tests.ledger.acting import ladder, parcel
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import book, charge, declined, dropped_before, mail, not_reached, plan
from tests.oddities.models import Parcel, Seal
from tests.registering import only

pytestmark = pytest.mark.django_db

YEAR = timedelta(days=365)
REASON: dict[str, Any] = {"note": "because", "by": "clerk"}
CLERK: dict[str, Any] = {"reason": "because", "by": "clerk"}

LATER = {"days": 366, "hours": 1}


def done_once(**request: Any) -> Capture:
    with after():
        return services.perform(charge, key="k", params={"to": "a"}, **request)


def test_t56_a_notice_of_an_open_cycle_is_neither_pruned_nor_sent_again() -> None:
    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice)):
        with after(hours=1):
            tick(workers=0)
            services.hold(invoice, NOW + 3 * YEAR, **CLERK)
        capture = Capture.objects.get()
        before = row(capture)
        with after(**LATER):
            assert services.prune_captures(YEAR) == 0
            tick(workers=0)
        assert row(capture) == before
        assert len(book()) == 1


def test_t56_a_closed_cycle_is_pruned_and_a_new_one_has_its_notice() -> None:
    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice)):
        with after(hours=1):
            tick(workers=0)
            assert services.resolve(invoice, **CLERK)
        with after(**LATER):
            assert services.prune_captures(YEAR) == 1
            tick(workers=0)
            assert len(book()) == 1
            assert services.reopen(invoice, **CLERK)
            for _ in range(3):
                tick(workers=0)
        assert len(book()) == 2
        assert len({each["provider_key"] for each in book()}) == 2


def test_an_older_cycle_of_an_open_subject_is_pruned_and_the_open_one_is_not() -> None:
    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice)):
        with after(hours=1):
            tick(workers=0)
            services.resolve(invoice, **CLERK)
            services.reopen(invoice, **CLERK)
            tick(workers=0)
        with after(**LATER):
            assert services.prune_captures(YEAR) == 1
    pruned = list(Capture.objects.order_by("id").values_list("pruned_at", flat=True))
    assert pruned == [NOW + timedelta(**LATER), None]


def test_key_fingerprint_state_and_reference_stay_and_payloads_go() -> None:
    plan.append(not_reached)
    with after():
        services.perform(charge, key="k", params={"to": "a"})
    with after(minutes=1):
        services.deliver(workers=0)
        capture = Capture.objects.get()
    before = row(capture)
    with after(**LATER) as now:
        assert services.prune_captures(YEAR) == 1
    changed = {name for name, value in row(capture).items() if value != before[name]}
    assert changed == {"params", "result", "pruned_at"}
    assert row(capture) | {"params": {}, "result": None, "pruned_at": now} == row(capture)
    assert not CaptureAttempt.objects.exclude(error=None).exists()
    assert CaptureAttempt.objects.count() == 2


def test_what_was_pruned_is_not_done_again_and_its_key_stands_for_the_same() -> None:
    capture = done_once()
    with after(**LATER):
        services.prune_captures(YEAR)
        for ask in (services.perform, services.request):
            assert ask(charge, key="k", params={"to": "a"}) == capture
            with pytest.raises(KeyReused):
                ask(charge, key="k", params={"to": "b"})
        services.deliver(workers=0)
        assert services.prune_captures(YEAR) == 0  # once is enough
    assert len(book()) == 1


def test_a_dry_run_counts_and_writes_nothing() -> None:
    capture = done_once()
    before = row(capture)
    with after(**LATER):
        assert services.prune_captures(YEAR, dry_run=True) == 1
    assert row(capture) == before


def test_the_age_is_that_of_the_end_and_its_last_moment_is_too_young() -> None:
    done_once()
    assert services.prune_captures(YEAR, now=NOW + YEAR) == 0
    assert services.prune_captures(YEAR, now=NOW + YEAR + timedelta(microseconds=1)) == 1


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=-1), 365, "365d", None, 1.5])
def test_a_bad_age_is_refused(age: Any) -> None:
    capture = done_once()
    before = row(capture)
    with after(**LATER), pytest.raises(InvalidInput, match="older_than must be a timedelta"):
        services.prune_captures(age)
    assert row(capture) == before


def test_an_age_before_the_calendar_is_refused_or_prunes_nothing() -> None:
    done_once()
    with after(**LATER), contextlib.suppress(InvalidInput):
        assert services.prune_captures(timedelta.max) == 0


def test_what_isnt_finished_is_never_pruned() -> None:
    with after():
        services.request(mail, key="pending")
        plan.append(dropped_before)
        services.perform(mail, key="review")
        plan.append(dropped_before)
        services.perform(charge, key="unknown")
    before = [row(each) for each in Capture.objects.all()]
    with after(**LATER):
        assert services.prune_captures(YEAR) == 0
    assert [row(each) for each in Capture.objects.all()] == before


def refused_once() -> Capture:
    plan.append(declined)
    with after():
        return services.perform(charge, key="k", params={"card": 1})


@pytest.mark.parametrize("retry", [services.retry_same_key, services.retry_new_key])
def test_what_was_pruned_cant_be_sent_again_without_its_parameters(retry: Any) -> None:
    capture = refused_once()
    with after(**LATER):
        assert services.prune_captures(YEAR) == 1
        capture = now_there(capture)
        before = row(capture)
        outcome = retry(capture, **REASON)
        assert (bool(outcome), outcome.reason) == (False, "pruned")
    assert row(capture) == before


def test_many_are_pruned_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idempotent_actions.pruning._PAGE", 3)
    with after():
        for number in range(8):
            services.perform(charge, key=("many", number), params={"to": "a"})
        services.request(charge, key="pending")
    with after(**LATER):
        assert services.prune_captures(YEAR, dry_run=True) == 8
        assert services.prune_captures(YEAR) == 8
        assert services.prune_captures(YEAR) == 0


def refreshed_after_pruning() -> Capture:
    """The charge of a parcel: refused, pruned, then refreshed and sent with a new card."""
    plan.append(declined)
    with parcel() as subject:
        with after():
            Seal.objects.create(parcel=subject)
            tick(workers=0)
            capture = Capture.objects.get()
        with after(**LATER):
            assert services.prune_captures(YEAR) == 1
            Parcel.objects.update(name="new card")
            assert services.retry_new_key(now_there(capture), refresh=True, **REASON)
    return now_there(capture)


def test_a_pruned_one_can_be_refreshed() -> None:
    capture = refreshed_after_pruning()
    with parcel("another"), after(days=367):
        services.deliver(workers=0)
    assert (now_there(capture).state, book()[0]["card"]) == ("succeeded", "new card")


def test_a_refreshed_one_has_parameters_again_which_are_pruned_in_their_turn() -> None:
    capture = refreshed_after_pruning()
    assert capture.pruned_at is None
    with parcel("another"), after(days=367):
        services.deliver(workers=0)
    with after(days=800):
        assert services.prune_captures(YEAR) == 1
    assert now_there(capture).params == {}
