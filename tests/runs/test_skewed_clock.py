"""A host whose clock is ten minutes wrong: what counts is the database's."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from idempotent_actions import clock, services
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.leases import take
from idempotent_actions.models import Capture, Lease
from idempotent_actions.polling import tick
from project.billing.models import Invoice
from tests.invoices import make_invoice
from tests.ledger.outside import charge
from tests.processes import Meet, in_processes

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@contextmanager
def skewed(minutes: int) -> Iterator[None]:
    """Let this process's clock be wrong by so much, and go on ticking."""
    wrong = datetime.now(UTC) + timedelta(minutes=minutes)
    with time_machine.travel(wrong, tick=True):
        assert abs(clock.now() - timezone.now()) > timedelta(minutes=9)
        yield


def look(meet: Meet, minutes: int) -> dict[str, bool]:
    """Runs in a child with a wrong clock: what it would take from others."""
    with skewed(minutes):
        lease = take("job", MINUTE)
        claim = pass_barrier(Capture.objects.get(key="k"), None, "default")
        tick(workers=0, deliver=False)
    return {"lease": lease is not None, "claim": isinstance(claim, Claim)}


@pytest.mark.parametrize("minutes", [10, -10])
def test_no_lease_is_stolen_and_no_rung_is_climbed_early(minutes: int) -> None:
    soon = make_invoice("soon", due_at=timezone.now() + 9 * MINUTE)
    since = make_invoice("since", due_at=timezone.now() - 9 * MINUTE)
    assert take("job", MINUTE) is not None
    capture = services.request(charge, key="k")
    assert isinstance(pass_barrier(capture, None, "default"), Claim)

    (seen,) = in_processes(f"{__name__}.{look.__name__}", [minutes])

    assert seen == {"lease": False, "claim": False}
    assert Invoice.objects.get(pk=soon.pk).status == "open"
    assert Invoice.objects.get(pk=since.pk).rung == "reminder"
    assert Capture.objects.get(key="k").token == 1


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_lease_taken_by_a_wrong_clock_lasts_as_long_as_any(minutes: int) -> None:
    in_processes(f"{__name__}.{hold.__name__}", [minutes])
    lease = Lease.objects.get()
    assert lease.expires_at - lease.taken_at == MINUTE
    assert abs(lease.taken_at - clock.now()) < timedelta(minutes=5)


def hold(meet: Meet, minutes: int) -> None:
    """Runs in a child with a wrong clock: take a lease."""
    with skewed(minutes):
        assert take("job", MINUTE)
