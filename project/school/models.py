"""Assigned interventions, and the ladder a student's missed sessions climb."""

from datetime import timedelta
from typing import ClassVar

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Intervention"]


class Intervention(LadderModel):
    """A session that a student was assigned to; ``due_at`` is when it ought to take place."""

    ladder: ClassVar[Ladder] = Ladder(
        Rung("parent_notice", wait_after=timedelta(days=2)),
        Rung("counselor_referral", wait_after=timedelta(days=5)),
        Rung("administrator_review", wait_after=timedelta(days=10)),
    )

    student = models.CharField(max_length=100)
    programme = models.CharField(max_length=100)
    guardian_email = models.EmailField()
    attended = models.BooleanField(default=False)

    class Meta(LadderModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["student", "programme"], name="one_per_programme"),
        ]

    def __str__(self) -> str:
        return f"{self.student}, {self.programme}"
