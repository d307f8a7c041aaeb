"""Sample tenants and bills."""

from datetime import UTC, date, datetime
from typing import Any

from tests.hosts.dunning.models import Bill, Tenant

__all__ = ["DUE_ON", "at", "make_bill", "make_tenant"]

DUE_ON = date(2026, 3, 2)
"""A Monday."""


def at(month: int, day: int, hour: int = 12, minute: int = 0) -> datetime:
    """Return an instant of 2026, in UTC."""
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def make_tenant(**values: Any) -> Tenant:
    """Make a tenant in UTC that waits 7 and 14 days."""
    return Tenant.objects.create(**{"name": "Acme", **values})


def make_bill(tenant: Tenant, number: str = "1", **values: Any) -> Bill:
    """Make a sent bill over 100.00 that was due on ``DUE_ON``."""
    defaults = {"email": "buyer@example.org", "net": 100, "due_on": DUE_ON, "state": "sent"}
    return Bill.objects.create(tenant=tenant, number=number, **{**defaults, **values})
