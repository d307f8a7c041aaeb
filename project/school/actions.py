"""What happens after a no-show."""

from collections.abc import Iterable

from django.db.models import Q

from idempotent_actions import LadderAction, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from project.school.effects import send_no_show_notice
from project.school.models import Intervention

__all__ = ["EscalateNoShows"]


@register
class EscalateNoShows(LadderAction):
    """A notice home, a referral, a review."""

    model = Intervention

    def resolved_when(self) -> Q:
        """Return those who came after all."""
        return Q(attended=True)

    def effects(self, intervention: Intervention, step: Step) -> Iterable[Intent]:
        """Write home at each rung."""
        if step.rung is not None and intervention.due_at is not None:
            yield send_no_show_notice(
                to=intervention.guardian_email,
                student=intervention.student,
                programme=intervention.programme,
                due_on=intervention.due_at.date(),
                rung=step.rung.name,
            )
