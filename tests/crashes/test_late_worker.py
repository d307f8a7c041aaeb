"""Trial T21 and its kin: a worker stalls past its lease, and wakes when the world has moved on."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from idempotent_actions import Refused, captures, clock, services
from idempotent_actions.models import Capture
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.crashes import provider, striking
from tests.crashes.notices import Notices, capture_of, overdue_invoice
from tests.crashes.recovering import tick_after
from tests.crashes.stalling import once_at, stalled
from tests.crashes.table import LOST
from tests.hosts.moments import elsewhere
from tests.invoices import now_there

PAST_THE_LEASE, PAST_THE_SETTLE_TIME = [2], [2, 10]


def committed(policy: str) -> Invoice:
    """An invoice whose notice is requested, and not yet delivered."""
    invoice = overdue_invoice(policy=policy)
    tick(Notices, deliver=False)
    return invoice


def version_of(capture: Capture) -> Any:
    """Changes with each UPDATE of the row, whatever it writes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT xmin::text, ctid::text FROM idempotent_actions_capture WHERE id = %s",
            [capture.pk],
        )
        return cursor.fetchone()


@pytest.mark.parametrize("sent", [False, True], ids=["before it sent", "after it sent"])
def test_t21_the_late_finish_changes_no_row_of_a_capture_that_another_worker_has_finished(
    sent: bool,
) -> None:
    invoice = committed("Replay")
    with stalled(sent=sent) as late:
        (taken_over, *_) = tick_after(PAST_THE_LEASE)
        assert taken_over.performed == 1
        finished = capture_of(invoice)
        assert (finished.state, finished.token) == ("succeeded", 2)
        before = version_of(finished), Capture.objects.values().get(), now_there(invoice).next_at

        report = late.wake()

    assert (report.by_state["late"], report.performed) == (1, 1)
    after = version_of(finished), Capture.objects.values().get(), now_there(invoice).next_at
    assert after == before
    mine, theirs = finished.tries.order_by("token")
    assert (mine.outcome, mine.late, mine.provider_ref) == ("succeeded", True, "ref-1")
    assert (theirs.outcome, theirs.late) == ("succeeded", False)
    assert mine.finished_at is not None
    assert provider.done() == {finished.provider_key: 1}
    assert provider.calls() == {finished.provider_key: 2}


@pytest.mark.parametrize("says", ["succeeded", "refused"])
def test_t21_a_late_word_settles_nothing_while_another_worker_is_sending(says: str) -> None:
    invoice = committed("Replay")
    with stalled(sent=True) as late:
        late.raises = Refused("no such customer") if says == "refused" else None
        with travel(clock.now() + timedelta(minutes=2)), stalled(sent=True) as other:
            taken = capture_of(invoice)
            assert (taken.state, taken.token) == ("sending", 2)
            before = version_of(taken)

            assert late.wake().by_state["late"] == 1

            assert version_of(taken) == before
            assert now_there(invoice).next_at is None
            assert other.wake().by_state["succeeded"] == 1
    capture = capture_of(invoice)
    assert [(each.outcome, each.late) for each in capture.tries.order_by("token")] == [
        (says, True),
        ("succeeded", False),
    ]
    assert provider.done() == {capture.provider_key: 1}


def test_a_worker_that_only_missed_the_answer_of_its_settle_is_not_called_late() -> None:
    invoice = committed("Park")
    with striking.at("before_settle_commit", LOST) as struck:
        report = captures.deliver(workers=0)

    assert struck
    assert (report.by_state, report.performed) == ({"succeeded": 1}, 1)
    assert not capture_of(invoice).tries.get().late


def test_a_late_success_brings_its_capture_back_from_review_and_sets_the_next_deadline() -> None:
    invoice = committed("Park")
    with stalled(sent=True) as late:
        tick_after(PAST_THE_LEASE)
        parked = capture_of(invoice)
        assert (parked.state, now_there(invoice).next_at) == ("review", None)

        report = late.wake()

    capture = capture_of(invoice)
    assert (capture.state, capture.provider_ref, capture.wake_at) == ("succeeded", "ref-1", None)
    assert report.by_state["succeeded"] == 1
    assert (capture.tries.get().outcome, capture.tries.get().late) == ("succeeded", False)
    assert now_there(invoice).next_at is not None
    assert tick_after(PAST_THE_LEASE)[0].count_of_all == 0
    assert provider.done() == {capture.provider_key: 1}


def test_a_persons_word_stands_against_a_late_worker_who_says_the_same() -> None:
    invoice = committed("Park")
    with stalled(sent=True) as late:
        tick_after(PAST_THE_LEASE)
        parked = capture_of(invoice)
        assert services.mark_succeeded(parked, provider_ref="by phone", note="asked", by="clerk")
        before = version_of(parked)

        report = late.wake()

    assert version_of(parked) == before
    assert report.by_state["late"] == 1
    assert capture_of(invoice).provider_ref == "by phone"
    assert (parked.tries.get().late, parked.tries.get().provider_ref) == (True, "ref-1")


def test_a_success_settles_a_capture_that_is_pending_again_since_the_probe_said_absent() -> None:
    invoice = committed("Reconcile")
    with stalled() as late:
        assert services.hold(invoice, clock.now() + timedelta(days=1), by="clerk", reason="wait")
        tick_after(PAST_THE_SETTLE_TIME)
        capture = capture_of(invoice)
        assert (capture.state, capture.waiting_for, capture.token) == ("pending", "held", 1)

        assert late.wake().by_state["succeeded"] == 1

    services.release(invoice, by="clerk", reason="go on")
    tick_after(PAST_THE_SETTLE_TIME)
    capture = capture_of(invoice)
    assert (capture.state, capture.token) == ("succeeded", 1)
    assert provider.done() == provider.calls() == {capture.provider_key: 1}
    assert now_there(invoice).next_at is not None


def test_a_success_between_the_probes_word_and_the_next_barrier_keeps_it_from_being_sent() -> None:
    invoice = committed("Reconcile")
    with stalled() as late:
        tick_after(PAST_THE_LEASE)
        assert capture_of(invoice).state == "unknown"

        def wake_it() -> None:
            assert elsewhere(lambda: capture_of(invoice).state) == "pending"
            assert late.wake().by_state["succeeded"] == 1

        with once_at("after_intent", wake_it):
            tick_after([10])

    capture = capture_of(invoice)
    assert (capture.state, capture.token) == ("succeeded", 1)
    assert provider.done() == provider.calls() == {capture.provider_key: 1}


def test_a_success_of_an_older_generation_never_settles_a_newer_one() -> None:
    invoice = committed("Park")
    with stalled() as late:
        tick_after(PAST_THE_LEASE)
        old = capture_of(invoice)
        assert services.retry_new_key(old, note="surely not sent", by="clerk")
        new = capture_of(invoice)
        assert (new.state, new.generation, new.token) == ("pending", 2, old.token)
        before = version_of(new)

        assert late.wake().by_state["late"] == 1

    assert version_of(new) == before
    assert provider.done() == {old.provider_key: 1}
    assert now_there(invoice).next_at is None
    tick_after(PAST_THE_LEASE)
    assert provider.done() == {old.provider_key: 1, new.provider_key: 1}
    first, second = new.tries.order_by("token")
    assert (first.generation, first.late, first.outcome) == (1, True, "succeeded")
    assert (second.generation, second.late, second.outcome) == (2, False, "succeeded")
    assert capture_of(invoice).provider_ref == "ref-2"


def test_a_success_of_the_same_generation_settles_a_retry_that_was_not_yet_sent() -> None:
    invoice = committed("Park")
    with stalled() as late:
        tick_after(PAST_THE_LEASE)
        assert services.retry_same_key(capture_of(invoice), note="again", by="clerk")

        assert late.wake().by_state["succeeded"] == 1

    tick_after(PAST_THE_LEASE)
    assert provider.calls() == {capture_of(invoice).provider_key: 1}


def test_a_lease_shorter_than_its_effect_is_redelivered_with_the_key_that_makes_it_one_effect() -> (
    None
):
    invoice = committed("Replay")
    with stalled(sent=True) as late:
        lease_end = capture_of(invoice).wake_at
        assert lease_end is not None
        with travel(lease_end):
            during = captures.deliver(workers=0)
        late.wake()
        at_the_end = tick_after([0, 2])

    assert during.performed == 1
    assert [report.count_of_all for report in at_the_end] == [0, 0]
    assert provider.done() == {capture_of(invoice).provider_key: 1}
