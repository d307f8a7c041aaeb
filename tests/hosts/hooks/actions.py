"""A ladder for each of them."""

from idempotent_actions import LadderAction, register
from tests.hosts.hooks.models import Fine, Loan, Parcel, Rental

__all__ = ["EscalateFines", "EscalateLoans", "EscalateParcels", "EscalateRentals"]


@register
class EscalateFines(LadderAction):
    """Escalates a model with a ``save()`` of its own."""

    model = Fine


@register
class EscalateRentals(LadderAction):
    """Escalates a model with a mixin's ``save()``."""

    model = Rental


@register
class EscalateLoans(LadderAction):
    """Escalates a model with receivers of the save signals."""

    model = Loan


@register
class EscalateParcels(LadderAction):
    """Escalates a model with receivers of the transition signals."""

    model = Parcel
