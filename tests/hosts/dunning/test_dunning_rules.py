"""A rule on when a bill is settled may reckon with columns that are empty for most bills."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F, Q

from idempotent_actions import testing
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report
from tests.hosts.dunning.actions import DunBills
from tests.hosts.dunning.factories import at, make_bill, make_tenant

pytestmark = pytest.mark.django_db


class AcceptDiscounts(DunBills):
    """Takes a bill for settled when all but the agreed discount was paid."""

    def resolved_when(self) -> Q:
        return Q(bill__paid__gte=F("bill__net") - F("bill__discount"))


@pytest.fixture(autouse=True)
def _in_place_of_the_hosts_own() -> Iterator[None]:
    (own,) = [each for each in registry if isinstance(each, DunBills)]
    registry.remove(own.name)
    try:
        with testing.registered(AcceptDiscounts):
            yield
    finally:
        registry.add(own)


def tick() -> Report:
    (report,) = testing.tick(AcceptDiscounts, now=at(3, 3) + timedelta(days=1))
    return report


def test_a_bill_paid_less_its_discount_is_settled() -> None:
    make_bill(make_tenant(), net=100, discount=3, paid=97)
    report = tick()
    assert (report.resolved, report.applied) == (1, 0)


def test_a_bill_paid_less_than_that_is_dunned() -> None:
    make_bill(make_tenant(), net=100, discount=3, paid=96)
    report = tick()
    assert (report.resolved, report.applied) == (0, 1)


def test_a_bill_without_a_discount_is_dunned() -> None:
    make_bill(make_tenant(), net=100, discount=None, paid=0)
    report = tick()
    assert (report.resolved, report.applied) == (0, 1)
