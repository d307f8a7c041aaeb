"""What the school does about missed sessions."""

from collections.abc import Iterable
from datetime import datetime

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from idempotent_actions import LadderAction, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from tests.hosts.noshow.effects import tell_about_absence
from tests.hosts.noshow.models import Enrolment, Holiday, Session

__all__ = ["EscalateAbsences"]


@register
class EscalateAbsences(LadderAction):
    """A notice to the parents, a referral, a review: one a tick, however much was missed."""

    model = Enrolment

    def get_queryset(self) -> models.QuerySet[Enrolment]:
        """Read the programme along: every notice names it."""
        return Enrolment.objects.select_related("programme")

    def due(self, now: datetime) -> Q:
        """A session was missed since the last notice, and the programme isn't on holiday."""
        unanswered = Q(escalated_at=None) | Q(sessions__starts_at__gt=F("escalated_at"))
        missed = Q(sessions__outcome=Session.Outcome.MISSED) & unanswered
        holiday = Holiday.on(now.date()).filter(programme=OuterRef("programme"))
        return super().due(now) & missed & ~Q(Exists(holiday))

    def resolved_when(self) -> Q:
        """The student has come since the first missed session."""
        return Q(sessions__outcome=Session.Outcome.ATTENDED, sessions__starts_at__gt=F("due_at"))

    def effects(self, subject: Enrolment, step: Step) -> Iterable[Intent]:
        """Tell whom this rung is about; at the end there is nobody left to tell."""
        if step.rung:
            yield tell_about_absence(
                student=subject.student, programme=subject.programme.title, rung=step.rung.name
            )
