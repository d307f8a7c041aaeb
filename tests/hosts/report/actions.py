"""The report of yesterday, and of every day that was missed."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import Q

from idempotent_actions import Action, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.models import Capture
from tests.hosts.report.effects import mail_report
from tests.hosts.report.models import DailyReport, Recipient

__all__ = ["CAUGHT_UP", "SendReports"]

CAUGHT_UP = 7
"""Days. Nobody wants the figures of a day that is further back."""


@register
class SendReports(Action):
    """Sends the report of each day that is over, the oldest first."""

    name = "send_reports"
    model = DailyReport
    transition = "send"
    order_by = ("day",)

    def missing_subjects(self, now: datetime) -> Iterator[DailyReport]:
        """Yield a report for each of the last days; those that are there already are left alone."""
        for days_ago in range(CAUGHT_UP, 0, -1):
            yield DailyReport(day=now.date() - timedelta(days=days_ago))

    def due(self, now: datetime) -> Q:
        """Return the days that are over."""
        return Q(day__lt=now.date())

    def effects(self, subject: DailyReport, step: Step) -> Iterable[Intent]:
        """Mail it to each reader, at the address that is known today."""
        for reader in Recipient.objects.filter(active=True).order_by("pk"):
            yield mail_report(recipient=reader.pk, to=reader.email, day=subject.day)

    def settled(self, subject: DailyReport, capture: Capture) -> None:
        """Count whom it has reached."""
        subject.reached += capture.state == "succeeded"
