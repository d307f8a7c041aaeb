"""Two clusters on one database, their workers killed for a minute: each rung and effect once."""

import random
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from idempotent_actions.models import Capture, Escalation, Lease, Run
from project.billing.models import Invoice
from tests.clusters.cluster import ORM, Cluster, in_cluster
from tests.clusters.schedulers import often
from tests.crashes import provider
from tests.invoices import make_invoice
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SUBJECTS = 200
KILLING = 60.0  # seconds
LEAST_KILLS = 20  # on a slow machine it lasts longer
A_LIFE = 12.0  # seconds until a whole cluster is killed, and another takes its place


def make_due_in_turn() -> None:
    """Let one invoice after the other become due while the killing lasts."""
    start = timezone.now()
    for number in range(SUBJECTS):
        due_at = start + timedelta(seconds=KILLING * number / SUBJECTS)
        make_invoice(number, due_at=due_at, customer=("Replay", "Reconcile")[number % 2])


def survive(broker: Mapping[str, Any], seed: int) -> int:
    """Kill at random, and let the clusters come to rest; return the number of kills."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    in_cluster("from django.core.management import call_command as c; c('sync_schedules')", broker)
    kills = 0
    clusters = [Cluster(broker).wait_until_up() for _ in range(2)]
    try:
        with often(broker):
            make_due_in_turn()
            begun = time.monotonic()
            ends = [begun + A_LIFE, begun + 1.5 * A_LIFE]
            while time.monotonic() < begun + KILLING or kills <= LEAST_KILLS:
                time.sleep(dice.uniform(0.2, 1.5))  # how long a worker is left alive
                place = dice.randrange(2)
                clusters[place].kill_somebody(dice)
                kills += 1
                if time.monotonic() > ends[place]:
                    # Who is killed while idle leaves a cluster that hangs for good: django-q2's
                    # queue stays locked. On a host, the watchdog's alarm has it started again.
                    clusters[place].kill()
                    clusters[place] = Cluster(broker)
                    ends[place] = time.monotonic() + A_LIFE
            for place in range(2):
                clusters[place].kill()
                clusters[place] = Cluster(broker)
            until(at_rest, "all to be done", deadline=120)
            for cluster in clusters:
                cluster.stop()
    finally:
        for cluster in clusters:
            cluster.kill()
    return kills


def at_rest() -> bool:
    done = Capture.objects.filter(state="succeeded").count() == SUBJECTS
    return done and not Invoice.objects.filter(status="escalated", next_at=None).exists()


def assert_each_once() -> None:
    keys = [each.provider_key for each in Capture.objects.all()]
    assert provider.done() == dict.fromkeys(keys, 1)
    assert (len(keys), Escalation.objects.count()) == (SUBJECTS, SUBJECTS)
    assert Invoice.objects.filter(status="escalated", rung="reminder").count() == SUBJECTS
    assert not Capture.objects.exclude(state="succeeded").exists()
    assert not Lease.objects.filter(expires_at__gt=timezone.now() + timedelta(minutes=3)).exists()
    slots = Run.objects.filter(slot__isnull=False).values_list("action", "slot")
    assert len(slots) == len(set(slots)) > 5


def test_with_the_orm_broker_each_rung_and_each_effect_is_done_once() -> None:
    kills = survive(ORM, seed=1)
    assert_each_once()
    print(f"{kills} kills, {SUBJECTS} rungs, {provider.done().total()} effects")
    assert kills > LEAST_KILLS


def test_with_redis_that_loses_tasks_each_rung_and_each_effect_is_done_once(
    redis_port: int,
) -> None:
    kills = survive({"redis": {"host": "127.0.0.1", "port": redis_port}}, seed=2)
    assert_each_once()
    print(f"{kills} kills, {SUBJECTS} rungs, {provider.done().total()} effects")
    assert kills > LEAST_KILLS
