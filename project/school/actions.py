"""What happens after a no-show."""

from django.db.models import Q

from idempotent_actions import LadderAction, register
from project.school.models import Intervention

__all__ = ["EscalateNoShows"]


@register
class EscalateNoShows(LadderAction):
    """A notice home, a referral, a review."""

    model = Intervention

    def resolved_when(self) -> Q:
        """Return those who came after all."""
        return Q(attended=True)
