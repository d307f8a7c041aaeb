"""A large existing table, and a side row for each of its rows."""

from datetime import timedelta

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Account", "Chase"]


class Account(models.Model):
    """A row of the host's large table, which knows when it is settled."""

    settled = models.BooleanField(default=False)
    padding = models.CharField(max_length=200, default="")

    def __str__(self) -> str:
        return str(self.pk)


class Chase(LadderModel):
    """The ladder of an account."""

    ladder = Ladder(Rung("call", wait_after=timedelta(days=7)))

    account = models.OneToOneField(Account, on_delete=models.CASCADE)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"chase of {self.account_id}"
