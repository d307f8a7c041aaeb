"""One model for each way to take something from LadderModel, and some that take nothing."""

# ruff: noqa: DJ008 - no row of these is ever shown

from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel


class FieldForField(LadderModel):
    rung = models.IntegerField(default=0)  # type: ignore[assignment]

    class Meta(LadderModel.Meta): ...


class SimilarFieldForField(LadderModel):
    rung = models.CharField(max_length=50, blank=True, default="", db_default="", editable=False)

    class Meta(LadderModel.Meta): ...


class MethodForField(LadderModel):
    def cycle(self) -> int:  # type: ignore[override]
        return 1

    class Meta(LadderModel.Meta): ...


class PropertyForField(LadderModel):
    @property
    def hold_reason(self) -> str:  # type: ignore[override]
        return "because"

    class Meta(LadderModel.Meta): ...


class FieldForTransition(LadderModel):
    cancel = models.BooleanField(default=False)

    class Meta(LadderModel.Meta): ...


class UndecoratedTransition(LadderModel):
    def escalate(self, now: datetime | None = None) -> None: ...

    class Meta(LadderModel.Meta): ...


class NothingForTransition(LadderModel):
    resolve = None

    class Meta(LadderModel.Meta): ...


class Reopening:
    def reopen(self) -> None: ...


class TransitionOfAMixin(Reopening, LadderModel):
    class Meta(LadderModel.Meta): ...


class RungNumber(models.Model):
    rung = models.IntegerField(default=0)

    class Meta:
        abstract = True


class FieldOfAnotherParent(RungNumber, LadderModel):  # type: ignore[misc]
    class Meta(LadderModel.Meta): ...


class WithoutIndexes(LadderModel):
    class Meta:
        ordering: ClassVar[list[str]] = ["pk"]


class WithOneIndex(LadderModel):
    class Meta:
        indexes: ClassVar[list[models.Index]] = [models.Index(fields=["status", "due_at"])]


class WithTooSmallAnIndex(LadderModel):
    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["status"]),
            models.Index(fields=["status", "next_at"]),
        ]


class WellMade(LadderModel):
    """Takes every hook there is."""

    ladder: ClassVar[Ladder] = Ladder(Rung("letter", timedelta(days=7)))
    fee = models.IntegerField(default=0)

    class Meta(LadderModel.Meta):
        ordering: ClassVar[list[str]] = ["due_at"]

    def on_climb(self, rung: Rung) -> None:
        self.fee += 10

    def deadline_after(self, rung: Rung, sent_at: datetime) -> datetime:
        return sent_at + timedelta(days=1)

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)


class WithLongerIndexes(LadderModel):
    """Its own `Meta` inherits nothing and forgets nothing."""

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["status", "due_at", "id"], name="misfits_by_due_at"),
            models.Index(fields=["status", "next_at"], name="misfits_by_next_at"),
        ]


class ChildOfAWellMadeOne(WellMade):
    """Its indexes are its parent's."""

    colour = models.CharField(max_length=9)


class ProxyOfAWellMadeOne(WellMade):
    class Meta:
        proxy = True

    def on_climb(self, rung: Rung) -> None: ...


class UndecoratedTransitionOfAProxy(WellMade):
    class Meta:
        proxy = True

    def exhaust(self, now: datetime | None = None) -> None: ...
