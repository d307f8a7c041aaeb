"""A person acts on the subject while its capture is being delivered: each waits for the other."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from django.db import connection, transaction

from idempotent_actions import captures, clock, services
from idempotent_actions.models import Capture
from idempotent_actions.services import Outcome
from idempotent_actions.testing import tick
from project.billing.models import Invoice
from tests.contention.threads import Background, race, until_a_backend_waits_for_a_lock
from tests.crashes import provider
from tests.crashes.notices import Notices, capture_of, overdue_invoice
from tests.crashes.recovering import tick_after
from tests.crashes.stalling import PATIENCE, once_at, stalled
from tests.hosts.moments import under_way
from tests.invoices import now_there
from tests.waiting import until

CROWD = 60


@pytest.fixture
def invoice() -> Invoice:
    """One whose notice is requested, and not yet delivered."""
    invoice = overdue_invoice()
    tick(Notices, deliver=False)
    return now_there(invoice)


@pytest.fixture(autouse=True)
def _no_deadlock() -> Iterator[None]:
    """PostgreSQL has resolved no deadlock, and none was hidden by a second try."""
    before = deadlocks()
    yield
    connection.close()  # a backend tells its statistics at its end
    until(_alone, "the end of the others")
    assert deadlocks() == before


def deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def _alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend'"
        )
        return bool(cursor.fetchone()[0])


def resolve(invoice: Invoice) -> Outcome:
    return services.resolve(invoice, by="clerk", reason="paid")


@contextmanager
def acting_at(point: str, act: Callable[[], Outcome]) -> Iterator[list["Future[Outcome]"]]:
    """Let a person act when a delivery passes `point`; it goes on once the person waits for it."""
    acting: list[Future[Outcome]] = []

    def begin() -> None:
        acting.append(background.run(act))
        until_a_backend_waits_for_a_lock()

    with Background(1) as background, once_at(point, begin):
        yield acting


@pytest.mark.parametrize("point", ["before_barrier_commit", "before_settle_commit"])
def test_resolving_while_a_delivery_has_the_subject_locked_waits_and_is_then_done(
    invoice: Invoice, point: str
) -> None:
    with acting_at(point, partial(resolve, invoice)) as acting:
        report = captures.deliver(workers=0)

    assert acting[0].result(PATIENCE)
    assert (report.performed, report.by_state["succeeded"]) == (1, 1)
    assert provider.done() == {capture_of(invoice).provider_key: 1}
    there = now_there(invoice)
    assert (there.status, there.next_at) == ("resolved", None)


def test_resolving_before_the_barrier_voids_what_a_deliverer_has_already_picked(
    invoice: Invoice,
) -> None:
    with once_at("after_intent", lambda: resolve(invoice)):
        report = captures.deliver(workers=0)
    assert (report.performed, report.by_state["void"]) == (0, 1)
    assert provider.calls() == {}


def test_a_delivery_goes_round_a_subject_that_somebody_is_resolving_and_sends_nothing_later(
    invoice: Invoice,
) -> None:
    with under_way(lambda: resolve(invoice)):
        report = captures.deliver(workers=0)
        assert (report.performed, report.waiting) == (0, {"locked": 1})
        assert capture_of(invoice).state == "pending"
    tick_after([0, 2])
    assert (capture_of(invoice).state, provider.calls()) == ("void", {})


def test_a_resolving_that_is_rolled_back_lets_the_notice_go_out(invoice: Invoice) -> None:
    def resolve_in_vain() -> None:
        resolve(invoice)
        transaction.set_rollback(True)

    with under_way(resolve_in_vain):
        captures.deliver(workers=0)
    tick_after([0])
    assert provider.done() == {capture_of(invoice).provider_key: 1}


def test_a_settle_waits_for_somebody_who_is_resolving_its_subject(invoice: Invoice) -> None:
    with stalled(sent=True) as worker:
        with transaction.atomic():
            resolve(invoice)
            worker.go_on.set()
            until_a_backend_waits_for_a_lock()
        assert worker.wake().by_state["succeeded"] == 1
    there = now_there(invoice)
    assert (there.status, there.next_at) == ("resolved", None)
    assert capture_of(invoice).state == "succeeded"


def test_a_hold_while_it_is_sent_stays_and_so_does_the_next_deadline(invoice: Invoice) -> None:
    def hold() -> Outcome:
        until = clock.now().replace(year=2999)
        return services.hold(now_there(invoice), until, by="clerk", reason="a promise")

    with acting_at("before_settle_commit", hold) as acting:
        captures.deliver(workers=0)

    assert acting[0].result(PATIENCE)
    there = now_there(invoice)
    assert there.hold_until is not None
    assert there.next_at is not None


def test_a_person_who_decides_while_a_late_worker_settles_is_told_that_it_has_moved(
    invoice: Invoice,
) -> None:
    with stalled(sent=True) as late:
        tick_after([2])
        parked = capture_of(invoice)
        assert parked.state == "review"

        def decide() -> Outcome:
            return services.mark_failed(parked, note="nothing there", by="clerk")

        with acting_at("before_settle_commit", decide) as acting:
            late.wake()

    assert acting[0].result(PATIENCE).reason == "stale_view"
    assert capture_of(invoice).state == "succeeded"


def test_a_decision_and_a_late_settle_lock_in_the_same_order(invoice: Invoice) -> None:
    with stalled(sent=True) as late:
        tick_after([2])
        parked = capture_of(invoice)

        def wake_it(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            if "FOR UPDATE" in sql and not late.go_on.is_set():
                late.go_on.set()  # by now the decision has locked the subject
                until_a_backend_waits_for_a_lock()
            return execute(sql, *rest)

        with connection.execute_wrapper(wake_it):
            assert services.mark_succeeded(parked, provider_ref="1", note="seen", by="clerk")

        assert late.wake().by_state["late"] == 1
    assert capture_of(invoice).provider_ref == "1"
    assert now_there(invoice).next_at is not None


def test_a_crowd_resolves_holds_and_releases_while_two_deliver() -> None:
    invoices = [overdue_invoice(number) for number in range(CROWD)]
    tick(Notices, deliver=False)

    def disturb(every: int) -> None:
        for act, invoice in zip(
            cycle([resolve, hold_and_release]), invoices[::every], strict=False
        ):
            act(invoice)

    def hold_and_release(invoice: Invoice) -> Outcome:
        until = clock.now().replace(year=2999)
        services.hold(invoice, until, by="clerk", reason="a promise")
        return services.release(invoice, by="clerk", reason="not kept")

    def deliver() -> None:
        captures.deliver(workers=2)

    works: list[Callable[[], None]] = [
        deliver,
        partial(disturb, 1),
        deliver,
        partial(disturb, -1),
    ]
    race(works)
    tick_after([0, 20])

    states = dict(Capture.objects.values_list("key", "state"))
    assert set(states.values()) <= {"succeeded", "void"}
    done = provider.done()
    assert set(done.values()) <= {1}
    assert done.keys() == {each.provider_key for each in Capture.objects.filter(state="succeeded")}
    for invoice in Invoice.objects.filter(status="escalated"):
        assert invoice.next_at is not None
