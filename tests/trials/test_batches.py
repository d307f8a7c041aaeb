"""Trials T47 and T49: poison among good rows, and batches over the same rows at once."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from threading import Event
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models.signals import post_save
from django_fsm.signals import pre_transition

from idempotent_actions import polling
from idempotent_actions.acts import Asked, BatchResult, act_on
from idempotent_actions.databases import retry_transient
from idempotent_actions.models import Escalation, Run
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report
from idempotent_actions.testing import tick, travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.database_errors import constraint
from tests.invoices import DUE, LADDER, climbed, make_invoice
from tests.threads import DEADLINE, somebody_waits_for_me, together
from tests.waiting import until

GOOD, POISON, LIMIT, TICKS = 50, 10, 10, 6


class Poisoned(Exception):
    """A receiver's complaint."""


@contextmanager
def receiver_of_a_transition() -> Iterator[None]:
    def complain(instance: Invoice, name: str, **kwargs: Any) -> None:
        if name == "escalate" and instance.number.startswith("poison"):
            raise Poisoned(instance.number)

    with connected(pre_transition, complain):
        yield


@contextmanager
def receiver_of_a_save() -> Iterator[None]:
    def complain(instance: Invoice, **kwargs: Any) -> None:
        if instance.rung and instance.number.startswith("poison"):
            raise Poisoned(instance.number)

    with connected(post_save, complain):
        yield


@contextmanager
def connected(signal: Any, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver, sender=Invoice)
    try:
        yield
    finally:
        signal.disconnect(receiver, sender=Invoice)


def constraint_of_the_table() -> AbstractContextManager[None]:
    return constraint(Invoice, "rung = '' OR number NOT LIKE 'poison%'")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "poison", [receiver_of_a_transition, receiver_of_a_save, constraint_of_the_table]
)
def test_t47_the_oldest_rows_are_poison_and_do_not_eat_the_limit(
    poison: Callable[[], AbstractContextManager[None]],
) -> None:
    for number in range(POISON):
        make_invoice(f"poison {number}", due_at=DUE - timedelta(days=1, minutes=number))
    for number in range(GOOD):
        make_invoice(f"good {number}", due_at=DUE - timedelta(minutes=number))

    applied = []
    with poison(), travel(DUE):
        for _ in range(TICKS):
            out, complaints = StringIO(), StringIO()
            with pytest.raises(CommandError) as caught:
                call_command(
                    "escalate_overdue", model=Invoice, limit=LIMIT, json=True,
                    stdout=out, stderr=complaints,
                )  # fmt: skip
            assert caught.value.returncode == 1
            (action,) = json.loads(out.getvalue().splitlines()[-1])["actions"]
            assert (action["failed"], len(action["errors"])) == (POISON, POISON)
            assert complaints.getvalue().count("billing.invoice:") == POISON
            applied.append(action["applied"])

    assert applied == [LIMIT] * (GOOD // LIMIT) + [0] * (TICKS - GOOD // LIMIT)
    for invoice in Invoice.objects.all():
        assert climbed(invoice) == ([] if invoice.number.startswith("poison") else ["reminder"])
    assert [run.outcome for run in Run.objects.all()] == ["failed"] * TICKS


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "poison", [receiver_of_a_transition, receiver_of_a_save, constraint_of_the_table]
)
def test_t47_poison_in_the_middle_of_a_batch_is_named_and_the_rest_are_done(
    poison: Callable[[], AbstractContextManager[None]],
) -> None:
    names = ["a", "b", "poison 1", "c", "poison 2", "d"]
    invoices = {name: make_invoice(name) for name in names}
    with poison(), travel(DUE):
        (report,) = polling.tick(LADDER)

    assert (report.applied, report.failed, dict(report.skipped)) == (4, 2, {})
    refs = {f"billing.invoice:{invoices[name].pk}" for name in names if "poison" in name}
    assert {error["subject"] for error in report.errors} == refs
    assert Escalation.objects.count() == 4
    statuses = Invoice.objects.filter(number__startswith="poison").values_list("status", "rung")
    assert set(statuses) == {("overdue", "")}


@pytest.mark.django_db(transaction=True)
def test_t49_two_batches_over_the_same_rows_in_opposite_order_do_all_and_lose_none() -> None:
    pks = [make_invoice(number, status="overdue").pk for number in range(40)]

    def batch(pks: list[int]) -> BatchResult:
        work = partial(act_on, registry.get(LADDER), pks, Asked(DUE, wait=True))
        return retry_transient(work, using="default", tries=5)

    there, back = together(partial(batch, pks), partial(batch, pks[::-1]))

    assert len(there.applied) + len(back.applied) == 40
    assert (there.failures, back.failures) == ([], [])
    assert there.skipped + back.skipped == {"wrong_status": 40}
    assert all(climbed(invoice) == ["reminder"] for invoice in Invoice.objects.all())


class Backwards(EscalateInvoices):
    """The newest first."""

    order_by = ("-due_at",)


@pytest.mark.django_db(transaction=True)
def test_t49_two_polls_in_opposite_order_do_all_and_lose_none() -> None:
    for number in range(60):
        make_invoice(number, due_at=DUE - timedelta(minutes=number))

    def poll(action: EscalateInvoices) -> Report:
        return polling.run_action(action, batch_size=7)

    with travel(DUE):
        there, back = together(partial(poll, EscalateInvoices()), partial(poll, Backwards()))
        assert there.failed == back.failed == 0
        assert there.applied + back.applied == 60
    assert all(climbed(invoice) == ["reminder"] for invoice in Invoice.objects.all())


@pytest.mark.django_db(transaction=True)
def test_t49_a_poll_passes_by_a_row_that_somebody_has_locked_and_comes_back_for_it() -> None:
    locked_one, other = make_invoice(1), make_invoice(2)
    locked, polled = Event(), Event()

    def lock() -> None:
        with transaction.atomic():
            Invoice.objects.select_for_update().get(pk=locked_one.pk)
            locked.set()
            assert polled.wait(DEADLINE)

    def poll() -> None:
        assert locked.wait(DEADLINE)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")  # a poll that waits fails here
            (report,) = tick(LADDER)
        finally:
            polled.set()
        assert (report.applied, dict(report.skipped)) == (1, {"locked": 1})

    with travel(DUE):
        together(lock, poll)
        assert (climbed(locked_one), climbed(other)) == ([], ["reminder"])
        tick(LADDER)
    assert climbed(locked_one) == ["reminder"]


@pytest.mark.django_db(transaction=True)
def test_t49_a_batch_in_a_deadlock_with_the_hosts_own_transaction_is_tried_again() -> None:
    first, second = (make_invoice(number, status="overdue") for number in (1, 2))
    locked = Event()
    tries: list[datetime] = []

    def hosts_transaction() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '1min'")  # the other one gives way
            Invoice.objects.select_for_update().get(pk=second.pk)
            locked.set()
            until(somebody_waits_for_me, "the batch to wait for the second row")
            Invoice.objects.select_for_update().get(pk=first.pk)

    def batch() -> None:
        assert locked.wait(DEADLINE)

        def work() -> BatchResult:
            tries.append(DUE)
            pks = [first.pk, second.pk]
            return act_on(registry.get(LADDER), pks, Asked(DUE, wait=True))

        assert len(retry_transient(work, using="default", tries=5).applied) == 2

    together(hosts_transaction, batch)

    assert len(tries) > 1
    assert climbed(first) == climbed(second) == ["reminder"]
