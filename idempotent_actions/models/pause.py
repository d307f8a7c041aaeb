"""The pause: a person's word that everything, one action or one effect stands still for now."""

from datetime import datetime
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import Q

__all__ = ["EVERYTHING", "Pause", "PauseQuerySet", "PauseScope"]


class PauseScope(models.TextChoices):
    """What a pause stops."""

    EVERYTHING = "everything"
    ACTION = "action"
    EFFECT = "effect"


EVERYTHING = PauseScope.EVERYTHING.value


class PauseQuerySet(models.QuerySet["Pause"]):
    """The questions asked of pauses, as words."""

    def active(self, now: datetime) -> Self:
        """Pauses that stop something at ``now``: not lifted, and their end not come."""
        return self.filter(Q(until=None) | Q(until__gt=now), lifted_at=None)

    def since(self, instant: datetime) -> Self:
        """Pauses that have stopped something after ``instant``, be they over or not."""
        return self.filter(
            Q(until=None) | Q(until__gt=instant), Q(lifted_at=None) | Q(lifted_at__gt=instant)
        )


class Pause(models.Model):
    """One stop, who set it, why and until when; once lifted, who lifted it and why.

    Written by ``pause_services`` alone, and never deleted: it is part of the audit.
    """

    scope = models.CharField(max_length=20, choices=PauseScope.choices)
    name = models.CharField(
        max_length=255, blank=True, help_text="The action's or effect's; empty for everything."
    )
    reason = models.CharField(max_length=255)
    actor = models.CharField(max_length=150)
    paused_at = models.DateTimeField()
    until = models.DateTimeField(
        null=True, blank=True, help_text="It ends by itself then; without, when somebody lifts it."
    )
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=150, blank=True)
    lift_reason = models.CharField(max_length=255, blank=True)

    objects = PauseQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        permissions: ClassVar[list[tuple[str, Any]]] = [
            ("set_pause", "Can pause and lift a pause"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # Every batch and every barrier asks what is paused: a handful of rows, at most.
            models.Index(
                fields=["scope", "name"],
                name="idempotent_pause_active",
                condition=Q(lifted_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.name}".strip()

    def is_active(self, now: datetime) -> bool:
        """Tell whether it stops something at ``now``."""
        return self.lifted_at is None and (self.until is None or self.until > now)
