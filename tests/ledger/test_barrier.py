"""The barrier before an effect: what it asks, and what is true once it is passed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from idempotent_actions import effect, services
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.databases import inside_transaction
from idempotent_actions.exceptions import InsideTransaction
from idempotent_actions.models import Capture
from idempotent_actions.polling import tick
from project.billing.models import Invoice
from tests.invoices import climbed, make_invoice
from tests.ledger.acting import ladder, parcel
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import (
    book,
    declined,
    done,
    mail,
    not_reached,
    plan,
)
from tests.oddities.models import Parcel, Seal
from tests.registering import only
from tests.threads import together

pytestmark = pytest.mark.django_db

USING = "default"


@effect(name="ledger.slow", timeout=timedelta(minutes=10))
def slow(call: Any) -> Any:
    """Takes its time."""
    return plan.pop()(call)


@effect(name="ledger.short_lease", timeout=timedelta(minutes=10), lease=timedelta(seconds=1))
def short_lease(call: Any) -> Any:
    """Takes longer than its lease."""
    return plan.pop()(call)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["perform", "deliver"])
def test_while_an_effect_runs_everybody_sees_it_and_no_transaction_is_open(way: str) -> None:
    seen: list[Any] = []

    def look(call: Any) -> Any:
        seen.append(inside_transaction(USING))
        seen.extend(together(lambda: Capture.objects.values_list("state", "token").get()))
        return done(call)

    plan.append(look)
    if way == "perform":
        services.perform(mail, key="k")
    else:
        services.request(mail, key="k")
        services.deliver(workers=0)
    assert seen == [False, ("sending", 1)]


@pytest.mark.parametrize(
    ("of", "lease"), [(mail, 60), (slow, 630), (short_lease, 1)], ids=["mail", "slow", "short"]
)
@pytest.mark.parametrize("way", ["perform", "deliver"])
def test_the_lease_outlasts_the_timeout_unless_it_is_declared(
    way: str, of: Any, lease: int
) -> None:
    def look(call: Any) -> None:
        assert Capture.objects.get().wake_at == NOW + timedelta(seconds=lease)

    plan.append(look)
    with after():
        if way == "deliver":
            services.request(of, key="k")
            services.deliver(workers=0)
        capture = services.perform(of, key="k")
    assert (capture.state, capture.error) == ("succeeded", None)


def test_an_unknown_capture_that_was_read_as_pending_is_not_sent_past_its_policy() -> None:
    with after():
        read_as_pending = services.request(mail, key="k")
        assert isinstance(pass_barrier(read_as_pending, None, USING), Claim)
    with after(minutes=1):
        Capture.objects.all().update(state="unknown")  # as another's recovery leaves it
        before = row(read_as_pending)
        assert pass_barrier(read_as_pending, None, USING) == "taken"
    assert row(read_as_pending) == before


def test_what_was_put_off_meanwhile_is_not_sent_before_its_time() -> None:
    with after():
        seen = services.request(mail, key="k")
        Capture.objects.all().update(wake_at=NOW + timedelta(hours=1))
        assert pass_barrier(seen, None, USING) == "taken"
    with after(hours=1):
        assert isinstance(pass_barrier(seen, None, USING), Claim)


def test_an_effect_that_is_no_longer_wanted_is_void() -> None:
    with parcel() as subject, after():
        Seal.objects.create(parcel=subject)
        tick(deliver=False)
        Parcel.objects.update(state="lost")
        services.deliver(workers=0)
    capture = Capture.objects.get()
    assert (capture.state, capture.waiting_for, capture.token) == ("void", "moved_on", 0)
    assert not book()


def test_an_effect_that_is_held_waits_and_goes_out_when_it_is_released() -> None:
    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice)), after(hours=1) as now:
        tick(deliver=False)
        services.hold(invoice, now + timedelta(days=1), by="clerk", reason="a promise")
        services.deliver(workers=0)
        capture = Capture.objects.get()
        assert (capture.state, capture.waiting_for, book()) == ("pending", "held", [])
        services.release(invoice, by="clerk", reason="broken")
    with only(ladder(Invoice)), after(hours=2):
        services.deliver(workers=0)
    assert (now_there(capture).state, len(book())) == ("succeeded", 1)


@pytest.mark.parametrize("delivers", [True, False])
def test_no_rung_is_climbed_while_the_notice_before_it_is_unsent(delivers: bool) -> None:
    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice)):
        for day in range(30):
            plan.extend([not_reached] * delivers)
            with after(days=day, hours=1):
                tick(workers=0, deliver=delivers)
                assert Invoice.objects.get().next_at is None
        assert climbed(invoice) == ["reminder"]
        assert not book()
        with after(days=30, hours=1) as sent_at:
            tick(workers=0)
    assert len(book()) == 1
    assert Invoice.objects.get().next_at == sent_at + timedelta(days=7)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ask", [services.perform, services.deliver])
def test_nothing_is_done_inside_a_transaction(ask: Any) -> None:
    arguments: dict[str, Any] = {"effect": mail, "key": "k"} if ask is services.perform else {}
    with transaction.atomic(), pytest.raises(InsideTransaction):
        ask(**arguments)
    assert (Capture.objects.count(), book()) == (0, [])
    assert not connection.in_atomic_block


def test_the_subject_is_told_at_once_what_came_of_its_effect() -> None:
    plan.append(declined)
    with parcel() as subject, after():
        Seal.objects.create(parcel=subject)
        tick(workers=0)
    assert Parcel.objects.get().weight == 3
