"""Subjects that several processes see: committed, in the test database."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from idempotent_actions.models import Escalation
from project.billing.models import Invoice


@pytest.fixture(autouse=True)
def _committed(transactional_db: None) -> None:
    """Use real transactions: other connections see what a test writes."""


@pytest.fixture
def overdue() -> Callable[[int], list[Invoice]]:
    """Make invoices whose deadline lapsed a day ago."""

    def make(count: int) -> list[Invoice]:
        due_at = timezone.now() - timedelta(days=1)
        invoices = [
            Invoice(number=f"{n:05}", email="a@example.org", amount=100, due_at=due_at)
            for n in range(count)
        ]
        return Invoice.objects.bulk_create(invoices)

    return make


@pytest.fixture
def climbs() -> Callable[[], dict[str, int]]:
    """Count the climbs in the audit trail, by subject."""

    def count() -> dict[str, int]:
        rows = Escalation.objects.filter(transition="escalate").values_list("subject_pk", flat=True)
        counts: dict[str, int] = {}
        for pk in rows:
            counts[pk] = counts.get(pk, 0) + 1
        return counts

    return count
