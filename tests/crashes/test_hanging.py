"""An effect that hangs holds nothing but its own lease."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from idempotent_actions import captures, clock, services
from idempotent_actions.models import Capture
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.contention.threads import Background
from tests.crashes import notices, provider
from tests.crashes.notices import Notices, capture_of, overdue_invoice
from tests.crashes.recovering import tick_after
from tests.crashes.stalling import PATIENCE, Stalled, once_at, stalled
from tests.hosts.moments import under_way
from tests.waiting import until

NUMBER = 10


def query(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def backends() -> list[Any]:
    """The others' connections: what they do, and since when their transaction is open."""
    return query(
        "SELECT state, xact_start, backend_xid, backend_xmin FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )


def locks() -> list[Any]:
    """Whatever others hold or wait for in this database."""
    return query(
        "SELECT locktype, mode, relation::regclass FROM pg_locks l JOIN pg_stat_activity a"
        " USING (pid) WHERE a.datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )


def committed(count: int = 1, policy: str = "Park") -> None:
    for number in range(count):
        overdue_invoice(number, policy)
    tick(Notices, deliver=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_hanging_effect_holds_no_lock_and_no_transaction(workers: int) -> None:
    committed()
    with stalled(workers=workers):
        assert Capture.objects.get().state == "sending"
        there = until(backends, "the worker's connection")
        assert there == [("idle", None, None, None)] * len(there)
        assert locks() == []
        with transaction.atomic():
            Invoice.objects.select_for_update(nowait=True).get()
            Capture.objects.select_for_update(nowait=True).get()
    assert Capture.objects.get().state == "succeeded"


def test_the_look_at_locks_would_see_a_transaction_that_an_effect_is_run_in() -> None:
    committed()
    with under_way(lambda: list(Invoice.objects.select_for_update())):
        assert any(xact_start is not None for _state, xact_start, *_ in backends())
        assert locks()


def test_while_one_effect_hangs_the_others_go_out() -> None:
    committed(NUMBER)
    with stalled(workers=2) as hanging:
        until(lambda: provider.done().total() == NUMBER - 1, "all others")
        others = Capture.objects.exclude(state="sending")
        until(lambda: others.filter(state="succeeded").count() == NUMBER - 1, "their settles")
        assert Capture.objects.filter(state="sending").count() == 1

        report = hanging.wake()

    assert (report.performed, report.hanging) == (NUMBER, 0)
    assert set(provider.done().values()) == {1}
    assert provider.done().total() == NUMBER


def test_another_deliverer_goes_round_what_hangs() -> None:
    committed(NUMBER)
    with stalled(workers=0):  # it hangs at its first one, with no other worker
        report = captures.deliver(workers=0)
        assert (report.performed, report.not_done) == (NUMBER - 1, 0)
    assert provider.done().total() == NUMBER


def test_what_another_worker_has_claimed_since_the_sweep_listed_it_is_left_to_that_worker() -> None:
    listed = [overdue_invoice(policy, policy) for policy in ("Park", "Replay")]
    tick(Notices, deliver=False)
    other = Stalled()

    def another_claims_the_second() -> None:
        notices.before.append(other)
        other.future = background.run(partial(captures.deliver, effect="crashes.replay", workers=0))
        assert other.arrived.wait(PATIENCE)

    with Background(1) as background, once_at("after_intent", another_claims_the_second):
        report = captures.deliver(workers=0)
        there = [capture_of(invoice) for invoice in listed]
        other.wake()

    assert (report.performed, report.count_of_all) == (1, 1)
    assert [(each.state, each.token) for each in there] == [("succeeded", 1), ("sending", 1)]
    assert provider.calls() == {each.provider_key: 1 for each in there}


def test_a_person_may_hold_or_resolve_the_subject_of_a_hanging_effect() -> None:
    committed()
    invoice = Invoice.objects.get()
    with stalled(sent=True):
        until_then = clock.now() + timedelta(days=1)
        assert services.hold(invoice, until_then, by="clerk", reason="a promise")
        assert services.resolve(invoice, by="clerk", reason="paid")
    capture = capture_of(invoice)
    invoice.refresh_from_db()
    assert (capture.state, invoice.status, invoice.next_at) == ("succeeded", "resolved", None)


def test_a_worker_that_never_comes_back_leaves_its_capture_to_the_next() -> None:
    committed(2, "Replay")
    with stalled(workers=2):
        until(lambda: Capture.objects.filter(state="succeeded").exists(), "the other one")
        lease_end = Capture.objects.get(state="sending").wake_at
        assert lease_end is not None
        with travel(lease_end):
            report = captures.deliver(workers=0)
        assert report.performed == 1
        assert provider.done().total() == 2
    tick_after([2])
    assert set(provider.done().values()) == {1}
