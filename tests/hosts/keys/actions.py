"""A ladder for each of them, with nothing said but the model."""

from idempotent_actions import LadderAction, register
from tests.hosts.keys import models

__all__: list[str] = []


@register
class EscalateBadges(LadderAction):
    """Badges."""

    model = models.Badge


@register
class EscalateLockers(LadderAction):
    """Lockers."""

    model = models.Locker


@register
class EscalateDevices(LadderAction):
    """Devices."""

    model = models.Device


@register
class EscalatePermits(LadderAction):
    """Permits."""

    model = models.Permit


@register
class EscalateParking(LadderAction):
    """Parking."""

    model = models.Parking


@register
class EscalateTickets(LadderAction):
    """Tickets."""

    model = models.Ticket


@register
class EscalateMemberships(LadderAction):
    """Memberships."""

    model = models.Membership
