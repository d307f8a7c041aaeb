"""Eight processes deliver 400 captures: 400 effects outside, none twice."""

from typing import Any

import pytest
from django.db import connection

from idempotent_actions import captures
from idempotent_actions.models import Capture, CaptureAttempt
from idempotent_actions.testing import tick
from project.billing.models import Invoice
from tests.crashes import provider
from tests.crashes.notices import Notices, overdue_invoice
from tests.processes import Meet, in_processes
from tests.registering import only

PROCESSES, CAPTURES = 8, 400


def deliver(meet: Meet) -> dict[str, Any]:
    """Runs in a child: deliver when all children are ready."""
    with only(Notices):
        connection.ensure_connection()
        meet()
        return captures.deliver(workers=2).as_dict()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_processes_deliver_400_captures_as_400_effects() -> None:
    for number in range(CAPTURES):
        overdue_invoice(number)  # the provider would do twice what it is asked twice
    tick(Notices, deliver=False)

    reports = in_processes(f"{__name__}.{deliver.__name__}", *[[]] * PROCESSES, deadline=250)
    reports.append(captures.deliver(workers=0).as_dict())  # what was locked at the wrong moment

    assert provider.done() == {each.provider_key: 1 for each in Capture.objects.all()}
    assert provider.calls() == provider.done()
    assert provider.done().total() == CAPTURES
    assert sum(report["performed"] for report in reports) == CAPTURES
    assert [report["errors"] for report in reports] == [[]] * (PROCESSES + 1)
    assert Capture.objects.filter(state="succeeded", token=1).count() == CAPTURES
    assert CaptureAttempt.objects.filter(outcome="succeeded", late=False).count() == CAPTURES
    assert Invoice.objects.filter(status="escalated", next_at__isnull=False).count() == CAPTURES
    assert sum(report["performed"] > 0 for report in reports[:-1]) > 1, "one process did it all"
