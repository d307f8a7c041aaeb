"""What happens to an unpaid invoice."""

from django.db.models import Q

from idempotent_actions import LadderAction, register
from project.billing.models import Invoice

__all__ = ["EscalateInvoices"]


@register
class EscalateInvoices(LadderAction):
    """Dunning: a reminder, a warning, a final notice."""

    model = Invoice

    def resolved_when(self) -> Q:
        """Return the paid ones."""
        return Q(paid_at__isnull=False)
