"""What happens to trials by themselves."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Q

from idempotent_actions import Action, register
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from tests.hosts.trials.effects import open_account
from tests.hosts.trials.models import PaidTrial, Trial

__all__ = ["ConvertPaidTrials", "ExpireTrials"]


@register
class ExpireTrials(Action):
    """Locks out who has come to the end of a trial or a subscription."""

    name = "expire_trials"
    model = Trial
    transition = "expire"
    order_by = ("ends_on",)

    def due(self, now: datetime) -> Q:
        """Return what ended before today."""
        return Q(ends_on__lt=now.date())

    def occurrence(self, subject: Trial) -> str:
        """A renewal moves the end, so each end expires once."""
        return subject.ends_on.isoformat()


@register
class ConvertPaidTrials(Action):
    """Makes a subscription of a trial with a card."""

    name = "convert_paid_trials"
    model = PaidTrial
    transition = "convert"

    def due(self, now: datetime) -> Q:
        """Return what is to be charged by now."""
        return Q(charge_on__lte=now.date())

    def effects(self, subject: PaidTrial, step: Step) -> Iterable[Intent]:
        """Let the partner know its new customer."""
        yield open_account(code=subject.code)
