"""Students, the sessions they are expected at, and the ladder of those who stay away."""

from datetime import date, timedelta
from typing import ClassVar

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Enrolment", "Holiday", "Programme", "Session"]


class Programme(models.Model):
    """An offer like a reading club."""

    title = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.title


class Holiday(models.Model):
    """Days on which nobody writes to the parents of a programme's students."""

    programme = models.ForeignKey(Programme, on_delete=models.CASCADE, related_name="holidays")
    first_day = models.DateField()
    last_day = models.DateField()

    def __str__(self) -> str:
        return f"{self.first_day} to {self.last_day}"

    @classmethod
    def on(cls, day: date) -> models.QuerySet["Holiday"]:
        """Return the holidays that ``day`` is a part of."""
        return cls.objects.filter(first_day__lte=day, last_day__gte=day)


class Enrolment(LadderModel):
    """One student in one programme. ``due_at`` is when the first session was missed."""

    ladder: ClassVar[Ladder] = Ladder(
        Rung("parent_notice", wait_after=timedelta(days=2)),
        Rung("counselor_referral", wait_after=timedelta(days=5)),
        Rung("administrator_review", wait_after=timedelta(days=10)),
    )

    student = models.CharField(max_length=100)
    programme = models.ForeignKey(Programme, on_delete=models.CASCADE, related_name="enrolments")

    class Meta(LadderModel.Meta):
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["student", "programme"], name="one_enrolment_each"),
        ]

    def __str__(self) -> str:
        return f"{self.student} in {self.programme}"


class Session(models.Model):
    """One afternoon of an enrolment."""

    class Outcome(models.TextChoices):
        EXPECTED = "expected"
        ATTENDED = "attended"
        MISSED = "missed"
        EXCUSED = "excused"

    enrolment = models.ForeignKey(Enrolment, on_delete=models.CASCADE, related_name="sessions")
    starts_at = models.DateTimeField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.EXPECTED)

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%d} {self.outcome}"
