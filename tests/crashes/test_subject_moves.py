"""A subject that is resolved, held or released between the intent's commit and the delivery."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from idempotent_actions import captures, clock, services
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.crashes import provider
from tests.crashes.children import crash, crashed_capture
from tests.crashes.notices import Notices, capture_of, overdue_invoice
from tests.crashes.recovering import tick_after
from tests.crashes.table import Case
from tests.invoices import now_there

DAY = timedelta(days=1)
LATER = [0, 2, 10, 60, 24 * 60]


@pytest.fixture
def invoice() -> Invoice:
    """One whose notice is requested, and not yet delivered."""
    invoice = overdue_invoice()
    tick(Notices, deliver=False)
    assert capture_of(invoice).state == "pending"
    return now_there(invoice)


def resolve(invoice: Invoice) -> None:
    assert services.resolve(invoice, by="clerk", reason="paid in cash")


def cancel(invoice: Invoice) -> None:
    assert services.cancel(invoice, by="clerk", reason="our mistake")


def pay(invoice: Invoice) -> None:
    """Only the host knows: nobody has told the ladder."""
    Invoice.objects.filter(pk=invoice.pk).update(paid_at=timezone.now())


def reopen(invoice: Invoice) -> None:
    """It is another occasion: what was to be sent belongs to the one before."""
    resolve(invoice)
    assert services.reopen(now_there(invoice), by="clerk", reason="the cheque bounced")


def delete(invoice: Invoice) -> None:
    invoice.delete()


def hold(invoice: Invoice, days: int = 1) -> None:
    until = clock.now() + days * DAY
    assert services.hold(now_there(invoice), until, by="clerk", reason="a promise")


def release(invoice: Invoice) -> None:
    assert services.release(now_there(invoice), by="clerk", reason="not kept")


@pytest.mark.parametrize("happen", [resolve, cancel, pay, reopen, delete])
def test_nothing_is_sent_for_a_subject_that_was_over_before_the_delivery(
    invoice: Invoice, happen: Callable[[Invoice], None]
) -> None:
    capture = capture_of(invoice)
    happen(invoice)

    tick_after(LATER)

    capture.refresh_from_db()
    assert (capture.state, capture.token, capture.tries.count()) == ("void", 0, 0)
    assert capture.waiting_for != ""
    assert provider.calls() == {}


def test_nothing_is_sent_while_the_subject_is_held_and_its_notice_goes_out_after_the_release(
    invoice: Invoice,
) -> None:
    hold(invoice, days=30)
    reports = tick_after(LATER)
    assert [report.waiting.get("held", 0) for report in reports] == [1] * len(LATER)
    capture = capture_of(invoice)
    assert (capture.state, capture.token, capture.waiting_for) == ("pending", 0, "held")
    assert (provider.calls(), now_there(invoice).next_at) == ({}, None)

    with travel(clock.now() + 2 * DAY):
        release(invoice)
        sent_at = clock.now()
        tick_after([0])

    capture = capture_of(invoice)
    assert (capture.state, capture.token, capture.waiting_for) == ("succeeded", 1, "")
    assert provider.done() == {capture.provider_key: 1}
    next_at = now_there(invoice).next_at
    assert next_at is not None
    assert abs(next_at - (sent_at + 7 * DAY)) < timedelta(minutes=1)


def test_a_hold_that_lapses_by_itself_lets_the_notice_out(invoice: Invoice) -> None:
    hold(invoice)
    with travel(clock.now() + DAY - timedelta(seconds=30)):
        captures.deliver(workers=0)
    assert provider.calls() == {}
    with travel(clock.now() + DAY + timedelta(minutes=10)):
        captures.deliver(workers=0)
    assert provider.done() == {capture_of(invoice).provider_key: 1}


def test_a_held_subject_that_is_then_resolved_sends_nothing_after_the_hold(
    invoice: Invoice,
) -> None:
    hold(invoice)
    tick_after([0])
    resolve(now_there(invoice))

    tick_after(LATER)

    assert (capture_of(invoice).state, provider.calls()) == ("void", {})


def test_a_hold_and_a_release_before_the_delivery_change_nothing(invoice: Invoice) -> None:
    hold(invoice)
    release(invoice)
    tick_after([0, 2])
    assert provider.done() == {capture_of(invoice).provider_key: 1}


# A worker was killed, and then the subject moved on. What the provider has is never called void.
@pytest.mark.parametrize(
    ("point", "policy", "end"),
    [
        ("after_effect", "Replay", ("review", "resolved")),
        ("after_barrier_commit", "Replay", ("review", "resolved")),
        ("after_effect", "Reconcile", ("succeeded", "")),
        ("after_barrier_commit", "Reconcile", ("void", "resolved")),
        ("after_effect", "Park", ("review", "unknown")),
        ("after_barrier_commit", "Park", ("review", "unknown")),
    ],
)
def test_nothing_more_is_sent_for_a_resolved_subject_whose_worker_was_killed(
    point: str, policy: str, end: tuple[str, str]
) -> None:
    crash("act", [Case(point, "killed", policy)])
    resolve(Invoice.objects.get())
    before = provider.calls()

    tick_after(LATER)

    capture = crashed_capture("act", 0)
    assert (capture.state, capture.waiting_for) == end
    assert provider.calls() == before


def test_an_unknown_outcome_of_a_held_subject_is_replayed_after_the_release_only() -> None:
    crash("act", [Case("after_effect", "killed", "Replay")])
    hold(Invoice.objects.get())
    tick_after([0, 2, 10, 60])
    capture = crashed_capture("act", 0)
    assert (capture.state, capture.waiting_for) == ("unknown", "held")
    assert provider.calls() == {capture.provider_key: 1}

    with travel(clock.now() + timedelta(hours=2)):
        release(Invoice.objects.get())
        tick_after([0])

    assert crashed_capture("act", 0).state == "succeeded"
    assert provider.calls() == {capture.provider_key: 2}
    assert provider.done() == {capture.provider_key: 1}
