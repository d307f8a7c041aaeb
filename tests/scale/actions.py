"""Chasing accounts that aren't settled."""

from django.db.models import Q

from idempotent_actions import LadderAction, register
from tests.scale.models import Chase

__all__ = ["ChaseAccounts"]


@register
class ChaseAccounts(LadderAction):
    """A ladder on a side row whose end is told by the large table."""

    model = Chase

    def resolved_when(self) -> Q:
        """The account says when it is over."""
        return Q(account__settled=True)
