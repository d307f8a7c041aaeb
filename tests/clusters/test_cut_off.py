"""Two hosts, one cut off amid an effect: the other finishes, and the late word is fenced."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from idempotent_actions.models import Capture, CaptureAttempt, Escalation
from project.billing.models import Invoice
from tests.clusters.cluster import ORM, Cluster, in_cluster
from tests.clusters.ladder import AT_WORK, BARRIER
from tests.clusters.namespaces import hosts
from tests.clusters.schedulers import often
from tests.crashes import provider
from tests.invoices import make_invoice
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_what_a_cut_off_host_says_late_changes_nothing(tmp_path: Path) -> None:
    barrier = tmp_path / "barrier"
    barrier.touch()
    number = make_invoice(1, customer="Replay", due_at=timezone.now() - timedelta(days=1)).number
    in_cluster("from django.core.management import call_command as c; c('sync_schedules')", ORM)
    with hosts(2) as (first, second), often(ORM):
        held_up = {"DATABASE_URL": first.database_url, BARRIER: str(barrier)}
        free = {"DATABASE_URL": second.database_url, BARRIER: str(tmp_path / "none")}
        with Cluster(ORM, prefix=first.prefix, **held_up):
            until(Path(f"{barrier}{AT_WORK}").exists, "the first host to be at work", deadline=60)
            first.cut_off()
            with Cluster(ORM, prefix=second.prefix, **free):
                until(succeeded, "the second host to finish", deadline=60)
                assert provider.done().total() == 1
                first.reconnect()
                barrier.unlink()
                until(late_word, "the first host's late word", deadline=60)
    capture = Capture.objects.get()
    assert (capture.state, capture.token) == ("succeeded", 2)
    assert provider.done() == {capture.provider_key: 1}
    assert [each.token for each in CaptureAttempt.objects.order_by("token")] == [1, 2]
    assert Escalation.objects.count() == 1
    assert Invoice.objects.get(number=number).rung == "reminder"


def succeeded() -> bool:
    return Capture.objects.filter(state="succeeded").exists()


def late_word() -> bool:
    return CaptureAttempt.objects.filter(token=1, late=True, outcome="succeeded").exists()
