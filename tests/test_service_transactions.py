"""The services in a caller's transaction, in one that an error ends, and in one tried again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, transaction
from django.db.models.signals import pre_save
from django.test import override_settings
from django_fsm.signals import post_transition, pre_transition

from idempotent_actions import services
from idempotent_actions.models import Escalation
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import Service, act, cancel, each_service, resolve
from tests.database_errors import constraint, passing_failure
from tests.invoices import DUE, LADDER, make_invoice, now_there, trail
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


class ChangedMind(Exception):
    """The caller's own error."""


@each_service
def test_a_service_nests_in_a_callers_transaction_and_rolls_back_with_it(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    before = Invoice.objects.values().get()

    def do_and_regret() -> None:
        with transaction.atomic():
            assert service(invoice)
            assert Escalation.objects.count() == 1
            raise ChangedMind

    with pytest.raises(ChangedMind):
        do_and_regret()
    assert Invoice.objects.values().get() == before
    assert not Escalation.objects.exists()
    assert service(invoice)


@each_service
def test_a_service_commits_with_the_callers_transaction_and_not_before(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    with transaction.atomic():
        assert service(invoice)
        assert together(Escalation.objects.count) == [0]
    assert together(Escalation.objects.count) == [1]


@each_service
def test_what_a_refused_act_leaves_a_caller_is_a_transaction_that_goes_on(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    refused, other = make_invoice(1, **columns), make_invoice(2, **columns)
    with transaction.atomic():
        with constraint(Invoice, "number <> '1'"), pytest.raises(DatabaseError):
            service(refused)
        assert service(other)
    assert trail(refused) == []
    assert len(trail(other)) == 1


@contextmanager
def complaint_of(signal: Any) -> Iterator[None]:
    def complain(**kwargs: Any) -> None:
        if kwargs.get("name") != "mark_overdue":
            raise ChangedMind

    signal.connect(complain, sender=Invoice)
    try:
        yield
    finally:
        signal.disconnect(complain, sender=Invoice)


def refusal_by_the_table() -> AbstractContextManager[None]:
    return constraint(Invoice, "status = 'overdue'")


@pytest.mark.parametrize("service", [act, resolve, cancel])
@pytest.mark.parametrize(
    "trouble",
    [
        lambda: complaint_of(pre_transition),
        lambda: complaint_of(post_transition),
        lambda: complaint_of(pre_save),
        refusal_by_the_table,
    ],
    ids=["pre_transition", "post_transition", "pre_save", "constraint"],
)
def test_an_error_is_raised_and_leaves_nothing_written(
    trouble: Callable[[], AbstractContextManager[None]], service: Service
) -> None:
    invoice = make_invoice()
    before = Invoice.objects.values().get()
    with trouble(), pytest.raises((ChangedMind, DatabaseError)):
        service(invoice)
    assert Invoice.objects.values().get() == before, "not even marked"
    assert not Escalation.objects.exists()
    assert act(invoice)


def test_an_error_of_a_plain_action_is_raised_and_leaves_nothing_written() -> None:
    parcel = Parcel.objects.create(name="dropped")
    Seal.objects.create(parcel=parcel)
    with only(DispatchParcels), pytest.raises(RuntimeError, match="fell off the belt"):
        services.act("dispatch_parcels", parcel, by="clerk", reason="button")
    assert Parcel.objects.get().state == "waiting"
    assert not Escalation.objects.exists()


@each_service
def test_a_failure_that_passes_is_tried_again(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    with passing_failure(Invoice, times=2) as updates_tried:
        assert service(invoice)
        assert updates_tried() == 3
    assert len(trail(invoice)) == 1


@each_service
def test_inside_a_callers_transaction_nothing_is_tried_again(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    with passing_failure(Invoice, times=1) as updates_tried:
        with pytest.raises(OperationalError, match="try again"), transaction.atomic():
            service(invoice)
        assert updates_tried() == 1
        assert trail(invoice) == []
        assert service(invoice)


def test_a_failure_that_stays_is_raised_in_the_end() -> None:
    invoice = make_invoice(status="overdue")
    with passing_failure(Invoice, times=100) as updates_tried:
        with (
            pytest.raises(OperationalError),
            override_settings(IDEMPOTENT_ACTIONS={"MAX_TRIES": 3}),
        ):
            act(invoice)
        assert updates_tried() == 3
    assert now_there(invoice).status == "overdue"
    assert trail(invoice) == []


@pytest.mark.parametrize("sqlstate", ["23514", "55P03", "P0001"])
def test_only_deadlocks_and_serialization_failures_are_tried_again(sqlstate: str) -> None:
    invoice = make_invoice(status="overdue")
    with passing_failure(Invoice, times=1, sqlstate=sqlstate) as updates_tried:
        with pytest.raises(DatabaseError):
            act(invoice)
        assert updates_tried() == 1
    assert trail(invoice) == []


def test_a_poll_tries_a_batch_again_and_counts_it_once() -> None:
    invoice = make_invoice(status="overdue")
    with passing_failure(Invoice, times=2) as updates_tried:
        (report,) = tick(LADDER, deliver=False)
        assert updates_tried() == 3
    assert (report.selected, report.applied, report.failed) == (1, 1, 0)
    assert trail(invoice) == ["escalate reminder"]
