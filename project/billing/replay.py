"""Back-tests the dunning ladder on past invoices, in simulated time; leaves nothing behind."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import uuid4

from django.db import models, transaction
from django.db.models import Count

from idempotent_actions import polling, services
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.models import Escalation
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from project.billing.receivables import Receivable

__all__ = ["Replay", "ReplayError", "days_of", "replay"]

TICK_AT = time(6, tzinfo=UTC)
"""When the one tick of a day runs."""

_BY = "replay"
_DAY = timedelta(days=1)
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
_CLIMBS = ("escalate", "exhaust")


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay: how many invoices climbed each rung, and how many came to the end.

    ``doubled`` counts the rungs that one invoice climbed more than once in one cycle.
    """

    invoices: int
    ticks: int
    rungs: dict[str, int]
    doubled: int


class ReplayError(Exception):
    """A row failed in a tick, so the counts would be wrong. Nothing was stored."""


def days_of(receivables: Sequence[Receivable]) -> list[date]:
    """Return the days to replay: the first invoice's to the one after the last settlement."""
    first = min(row.invoiced_on for row in receivables)
    last = max(row.settled_on for row in receivables) + _DAY
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def replay(
    receivables: Sequence[Receivable],
    *,
    hold_disputed: bool = False,
    on_tick: Callable[[], object] = lambda: None,
) -> Replay:
    """Tick once a day at 06:00 UTC over the days of ``receivables``, then roll all of it back.

    An invoice is due at 00:00 UTC of the day after its due day, and is resolved before the tick of
    the day it was settled. ``hold_disputed`` holds the disputed ones throughout; ``on_tick`` is
    called after each tick. Other invoices are neither read nor locked.

    Returns the counts. Raises ``ReplayError`` when a row failed.
    """
    simulation = _Simulation(receivables, hold_disputed)
    with transaction.atomic(using=simulation.action.using):
        result = simulation.run(on_tick)
        transaction.set_rollback(True, using=simulation.action.using)
    return result


class _ReplayedInvoices(EscalateInvoices):
    """The example's own action on the invoices of one replay. Not registered: no poll meets it."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(number__startswith=self.prefix)

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        """Write to nobody: these customers had their notices years ago."""
        return ()


class _Simulation:
    def __init__(self, receivables: Sequence[Receivable], hold_disputed: bool) -> None:
        self.receivables = receivables
        self.days = days_of(receivables)
        # The file's numbers may be those of invoices that are stored here.
        self.action = _ReplayedInvoices(prefix=f"{uuid4().hex[:12]}:")
        self.hold_disputed = hold_disputed

    def run(self, on_tick: Callable[[], object]) -> Replay:
        invoices = Invoice.objects.using(self.action.using).bulk_create(
            self._invoice(index, row) for index, row in enumerate(self.receivables)
        )
        settling = deque(sorted(zip(self.receivables, invoices, strict=True), key=_settled_on))
        for day in self.days:
            now = _tick_at(day)
            while settling and _settled_on(settling[0]) <= day:
                _, invoice = settling.popleft()
                services.resolve(invoice, by=_BY, reason="settled", now=now)
            report = polling.run_action(self.action, now=now)
            if report.errors:
                error = report.errors[0]
                raise ReplayError(f"{day}, {error['subject']}: {error['error']}")
            on_tick()
        return self._count(invoices)

    def _invoice(self, index: int, row: Receivable) -> Invoice:
        held = self.hold_disputed and row.disputed
        return Invoice(
            number=f"{self.action.prefix}{index}",
            customer=row.customer,
            email="nobody@example.com",
            amount=row.amount,
            due_at=datetime.combine(row.due_on + _DAY, time(tzinfo=UTC)),
            hold_until=_FOREVER if held else None,
            hold_reason="disputed" if held else "",
        )

    def _count(self, invoices: Sequence[Invoice]) -> Replay:
        climbs = Escalation.objects.using(self.action.using).filter(
            subject_model=Invoice._meta.label_lower,
            subject_pk__in=[str(invoice.pk) for invoice in invoices],
            transition__in=_CLIMBS,
        )
        rungs = {rung.name: 0 for rung in Invoice.ladder} | {"exhausted": 0}
        doubled = 0
        acts = climbs.order_by().values("subject_pk", "cycle", "transition", "rung")
        for act in acts.annotate(times=Count("id")):
            rungs[act["rung"] if act["transition"] == "escalate" else "exhausted"] += act["times"]
            doubled += act["times"] > 1
        return Replay(len(invoices), len(self.days), rungs, doubled)


def _settled_on(pair: tuple[Receivable, Invoice]) -> date:
    return pair[0].settled_on


def _tick_at(day: date) -> datetime:
    return datetime.combine(day, TICK_AT)
