"""Trial T17: what is asked for in a caller's transaction goes with it, and is done after it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from idempotent_actions import polling, services
from idempotent_actions.exceptions import InsideTransaction
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.trials.posting import notices, post

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("with_notices")]

PARAMS = {"number": "1", "rung": "none", "amount": 1}


class Broken(Exception):
    """The caller's own trouble."""


def request() -> Any:
    return services.request(post, key=("order", 1), params=PARAMS)


def press_button() -> Any:
    return services.act(LADDER, Invoice.objects.get(), by="clerk", reason="button")


def poll() -> Any:
    (report,) = polling.escalate_overdue(Invoice)
    return report


def in_vain(ask: Callable[[], Any]) -> None:
    """Ask in a transaction that fails for another reason."""
    try:
        with transaction.atomic():
            ask()
            raise Broken
    except Broken:
        return


each_way = pytest.mark.parametrize("ask", [request, press_button, poll])


@pytest.fixture(autouse=True)
def invoice() -> Invoice:
    return make_invoice()


@each_way
@pytest.mark.parametrize("failures", [1, 5])
def test_t17_a_caller_that_fails_and_tries_again_has_one_effect_in_the_end(
    ask: Callable[[], Any], failures: int
) -> None:
    with travel(DUE):
        for _ in range(failures):
            in_vain(ask)
            services.deliver()
            assert (outside.called(), Capture.objects.count()) == (0, 0)
        with transaction.atomic():
            ask()
        for _ in range(3):
            services.deliver()
    assert len(outside.deeds()) == outside.called() == 1


@each_way
def test_t17_a_savepoint_that_is_rolled_back_takes_its_effect_along(ask: Callable[[], Any]) -> None:
    with travel(DUE):
        with transaction.atomic():
            in_vain(ask)
            ask()
        services.deliver()
    assert len(outside.deeds()) == 1


@each_way
def test_t17_asked_for_again_after_the_commit_nothing_more_is_done(ask: Callable[[], Any]) -> None:
    with travel(DUE):
        for _ in range(3):
            with transaction.atomic():
                ask()
            services.deliver()
    assert len(outside.deeds()) == outside.called() == 1


@pytest.mark.parametrize(
    "perform",
    [
        lambda: services.perform(post, key=("order", 1), params=PARAMS),
        lambda: services.deliver(),
        lambda: services.deliver(workers=0),
    ],
    ids=["perform", "deliver", "deliver inline"],
)
def test_t17_performing_inside_a_transaction_is_refused_up_front(
    perform: Callable[[], Any],
) -> None:
    request()
    before = list(Capture.objects.values())
    with transaction.atomic(), pytest.raises(InsideTransaction):
        perform()
    assert (outside.called(), list(Capture.objects.values())) == (0, before)


def test_t17_a_new_key_that_is_refused_leaves_no_trace() -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        services.perform(post, key=("order", 1), params=PARAMS)
    assert not Capture.objects.exists()
    assert services.perform(post, key=("order", 1), params=PARAMS).state == "succeeded"


def test_t17_a_poll_inside_a_transaction_leaves_its_effects_to_delivery(invoice: Invoice) -> None:
    with travel(DUE), transaction.atomic():
        report = poll()
        assert (report.applied, report.delivery) == (1, None)
        assert outside.called() == 0
    assert now_there(invoice).next_at is None
    with travel(DUE):
        poll()
    assert notices(invoice) == climbed(invoice) == ["reminder"]


def test_t17_a_poll_that_is_rolled_back_leaves_neither_rung_nor_effect(invoice: Invoice) -> None:
    with travel(DUE):
        in_vain(poll)
        services.deliver()
        assert (outside.called(), Escalation.objects.count()) == (0, 0)
        poll()
    assert notices(invoice) == ["reminder"]


@pytest.mark.django_db(transaction=False)
def test_t17_the_transaction_that_a_test_case_holds_open_does_not_count() -> None:
    assert services.perform(post, key=("order", 1), params=PARAMS).state == "succeeded"
    with travel(DUE):
        assert poll().delivery.performed == 1
