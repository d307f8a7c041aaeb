"""How unpaid bills are dunned."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db import models
from django.db.models import Q

from idempotent_actions import LadderAction, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from tests.hosts.dunning.effects import write_to_buyer
from tests.hosts.dunning.models import Bill, Dunning

__all__ = ["DunBills"]


@register
class DunBills(LadderAction):
    """A reminder, a warning and a final notice for every bill that stays unpaid."""

    model = Dunning
    lock = ("bill",)

    def get_queryset(self) -> models.QuerySet[Dunning]:
        """Leave deleted bills and resting tenants alone; every deadline needs the tenant."""
        rows = Dunning.objects.filter(bill__deleted_at=None, bill__tenant__dunning_paused=False)
        return rows.select_related("bill__tenant")

    def missing_subjects(self, now: datetime) -> Iterator[Dunning]:
        """Yield a side row for every bill that was sent since the last poll."""
        sent = Bill.objects.filter(state=Bill.State.SENT, dunning=None).select_related("tenant")
        for bill in sent:
            day_after = bill.due_on + timedelta(days=1)
            yield Dunning(bill=bill, due_at=bill.tenant.morning_of(day_after))

    def resolved_when(self) -> Q:
        """The bill's own state says when it is over."""
        return Q(bill__state__in=[Bill.State.PAID, Bill.State.WRITTEN_OFF])

    def why_not(self, subject: Dunning, now: datetime) -> str:
        """Nobody is dunned for a bill that is argued about."""
        return "disputed" if subject.bill.state == Bill.State.DISPUTED else ""

    def effects(self, subject: Dunning, step: Step) -> Iterable[Intent]:
        """Write a letter at each rung; when they are used up, people take over."""
        if step.rung:
            bill = subject.bill
            yield write_to_buyer(to=bill.email, bill=bill.number, rung=step.rung.name)
