"""Trials T15 and T20: a worker that was killed while the capture was its own."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from idempotent_actions import captures, services
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.contention.threads import race
from tests.crashes import notices, provider
from tests.crashes.children import crash, crashed_capture
from tests.crashes.notices import SETTLE_TIME, Notices
from tests.crashes.recovering import tick_after
from tests.crashes.table import Case

BEFORE, SENT = "after_barrier_commit", "after_effect"

each_side = pytest.mark.parametrize("point", [BEFORE, SENT])

MONTH_OF_DAYS = [day * 24 * 60 for day in range(31)]


def killed(point: str, policy: str) -> Capture:
    """A capture whose worker was killed there, while it was sending."""
    crash("act", [Case(point, "killed", policy)])
    capture = crashed_capture("act", 0)
    assert capture.state == "sending"
    return capture


def effects() -> int:
    return provider.done().total()


@each_side
def test_t15_a_parked_effect_of_a_killed_worker_is_not_resent_in_a_month_of_ticks(
    point: str,
) -> None:
    capture = killed(point, "Park")
    before = provider.calls()
    assert effects() == (1 if point == SENT else 0)

    reports = tick_after(MONTH_OF_DAYS)

    assert provider.calls() == before
    assert [report.performed for report in reports] == [0] * len(MONTH_OF_DAYS)
    capture.refresh_from_db()
    assert (capture.state, capture.waiting_for) == ("review", "unknown")
    assert Invoice.objects.get().next_at is None


def look_and_say_it_is_done(capture: Capture) -> Outcome:
    ref = provider.ask(capture.provider_key)
    assert ref is not None
    return services.mark_succeeded(capture, provider_ref=ref, note="seen there", by="clerk")


def look_and_send_it_again(capture: Capture) -> Outcome:
    assert provider.ask(capture.provider_key) is None
    return services.retry_same_key(capture, note="not there", by="clerk")


@pytest.mark.parametrize(
    ("point", "decide"), [(SENT, look_and_say_it_is_done), (BEFORE, look_and_send_it_again)]
)
def test_t15_a_person_who_looks_at_the_provider_ends_it_with_one_effect(
    point: str, decide: Any
) -> None:
    capture = killed(point, "Park")
    tick_after([2])
    capture.refresh_from_db()

    assert decide(capture)
    tick_after([2, 10])

    capture.refresh_from_db()
    assert (capture.state, capture.provider_ref) == ("succeeded", "ref-1")
    assert provider.done() == {capture.provider_key: 1}
    assert Invoice.objects.get().next_at is not None
    (decision,) = capture.decisions.all()
    assert (decision.from_state, decision.actor) == ("review", "clerk")


@each_side
def test_t15_a_replayed_effect_of_a_killed_worker_is_resent_with_the_same_provider_key(
    point: str,
) -> None:
    capture = killed(point, "Replay")

    tick_after([2])

    capture.refresh_from_db()
    assert capture.state == "succeeded"
    assert provider.calls() == {capture.provider_key: 2 if point == SENT else 1}
    assert provider.done() == {capture.provider_key: 1}
    assert [each.outcome for each in capture.tries.order_by("token")] == ["", "succeeded"]


@pytest.mark.parametrize(("policy", "rest"), [("Replay", timedelta(0)), ("Reconcile", SETTLE_TIME)])
def test_t20_a_killed_workers_capture_is_skipped_until_its_lease_ends_and_then_claimed_once(
    policy: str, rest: timedelta
) -> None:
    capture = killed(BEFORE, policy)
    lease_end = capture.wake_at
    assert lease_end is not None
    first = capture.tries.get()
    assert lease_end - first.started_at == notices.LEASE

    with travel(lease_end - timedelta(microseconds=1)):
        (report,) = tick(Notices)
    assert report.delivery is not None
    assert report.delivery.count_of_all == 0
    capture.refresh_from_db()
    assert (capture.state, capture.token, effects()) == ("sending", 1, 0)

    with travel(lease_end + rest - timedelta(microseconds=1)):
        captures.deliver(workers=0)
    assert provider.calls() == {}, "it may still have been on its way"

    with travel(lease_end + rest):
        reports = race([partial(captures.deliver, workers=1)] * 3)
        # They may have come into each other's way; then it is done now.
        reports += [captures.deliver(workers=0), captures.deliver(workers=0)]
    assert sum(report.performed for report in reports) == 1
    assert reports[-1].count_of_all == 0
    capture.refresh_from_db()
    assert (capture.state, capture.token, effects()) == ("succeeded", 2, 1)
    assert capture.first_sent_at == first.started_at
