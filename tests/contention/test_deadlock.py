"""A deadlock with the host's own code is the database's to break, and ours to try again."""

import threading
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from idempotent_actions import services
from idempotent_actions.databases import is_transient
from idempotent_actions.models import Escalation
from tests.contention.threads import Background, until_a_backend_waits_for_a_lock
from tests.hosts.dunning.models import Bill, Dunning, Tenant

ACTION = "escalate_overdue:host_dunning.dunning"


def overdue_bill() -> Dunning:
    tenant = Tenant.objects.create(name="t")
    yesterday = timezone.now() - timedelta(days=1)
    bill = Bill.objects.create(
        tenant=tenant, number="1", state=Bill.State.SENT, net=1, due_on=yesterday.date()
    )
    return Dunning.objects.create(bill=bill, due_at=yesterday)


def lock_in_the_other_order(dunning: Dunning, holds_bill: threading.Event) -> None:
    """Lock the bill first and the side row second, with patience, so that the other side loses."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '60s'")
        Bill.objects.select_for_update().get(pk=dunning.bill_id)
        holds_bill.set()
        until_a_backend_waits_for_a_lock()  # it has the side row and wants the bill
        Dunning.objects.select_for_update(of=("self",)).get(pk=dunning.pk)


def test_a_persons_act_that_loses_a_deadlock_is_tried_again_and_done() -> None:
    dunning, holds_bill = overdue_bill(), threading.Event()
    with Background() as background:
        host = background.run(lambda: lock_in_the_other_order(dunning, holds_bill))
        assert holds_bill.wait(30)
        outcome = services.act(ACTION, dunning, by="ann", reason="asked")
        host.result(30)
    assert outcome.applied
    assert Escalation.objects.count() == 1


def test_a_deadlock_inside_the_callers_transaction_is_the_callers_to_handle() -> None:
    dunning, holds_bill = overdue_bill(), threading.Event()
    with Background() as background:
        host = background.run(lambda: lock_in_the_other_order(dunning, holds_bill))
        assert holds_bill.wait(30)
        with pytest.raises(OperationalError) as told, transaction.atomic():
            services.act(ACTION, dunning, by="ann", reason="asked")
        host.result(30)
    assert is_transient(told.value)
    assert not Escalation.objects.exists()
