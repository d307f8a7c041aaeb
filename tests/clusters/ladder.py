"""A ladder whose rungs are charged at a provider that would do twice what it is asked twice.

Each charge takes a moment, as over a network. The name of a file may be given that holds charges
up, until it is gone.
"""

import os
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from idempotent_actions import LadderAction, Receipt, Reconcile, Replay, effect
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Intent
from project.billing.models import Invoice
from tests.crashes import provider
from tests.waiting import until

__all__ = ["AT_WORK", "BARRIER", "EFFECTS", "Charges"]

BARRIER = "CLUSTER_TEST_BARRIER"
"""The environment variable that names a file: while it is there, charges wait."""

AT_WORK = ".at_work"
"""Added to that file's name: it appears when a charge waits."""

NETWORK = 0.1  # seconds
TIMEOUT, LEASE, SETTLE_TIME = timedelta(seconds=2), timedelta(seconds=4), timedelta(seconds=3)


def _probe(call: Call) -> Receipt | None:
    ref = provider.ask(call.idempotency_key)
    return None if ref is None else Receipt(provider_ref=ref)


@effect(name="clusters.replay", recovery=Replay(), timeout=TIMEOUT, lease=LEASE)
def by_replay(call: Call) -> Receipt:
    """To a provider that knows its keys."""
    _wait_at_barrier()
    time.sleep(NETWORK)
    return Receipt(provider_ref=provider.act(call.idempotency_key, knows_keys=True))


@effect(
    name="clusters.reconcile",
    recovery=Reconcile(_probe, settle_time=SETTLE_TIME),
    timeout=TIMEOUT,
    lease=LEASE,
)
def by_reconcile(call: Call) -> Receipt:
    """To a provider that knows no keys, and can be asked."""
    time.sleep(NETWORK)
    return Receipt(provider_ref=provider.act(call.idempotency_key, knows_keys=False))


EFFECTS = {"Replay": by_replay, "Reconcile": by_reconcile}


class Charges(LadderAction):
    """The invoice's customer says how the provider is."""

    name = "clusters.charges"
    model = Invoice

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        """Charge each rung."""
        assert step.rung is not None
        yield EFFECTS[invoice.customer](number=invoice.number, rung=step.rung.name)


def _wait_at_barrier() -> None:
    barrier = os.environ.get(BARRIER)
    if barrier is not None and Path(barrier).exists():
        Path(barrier + AT_WORK).touch()
        until(lambda: not Path(barrier).exists(), "the barrier to be taken away", deadline=60)
