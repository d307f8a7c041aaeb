"""The same ladder on tables with different keys and managers."""

from datetime import timedelta
from typing import ClassVar
from uuid import uuid4

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Badge", "Device", "Locker", "Membership", "Parking", "Permit", "Ticket"]

LADDER = Ladder(Rung("notice", timedelta(days=7)), Rung("visit", timedelta(days=7)))


class Badge(LadderModel):
    """Counted by the database."""

    ladder: ClassVar[Ladder] = LADDER

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"badge {self.pk}"


class Locker(LadderModel):
    """Numbered by hand, not beginning at 1 and not in a column called id."""

    ladder: ClassVar[Ladder] = LADDER

    number = models.IntegerField(primary_key=True)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"locker {self.number}"


class Device(LadderModel):
    """Known by a UUID."""

    ladder: ClassVar[Ladder] = LADDER

    uid = models.UUIDField(primary_key=True, default=uuid4)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"device {self.uid}"


class Permit(LadderModel):
    """Known by a text: "007" and "7" are two permits."""

    ladder: ClassVar[Ladder] = LADDER

    code = models.CharField(max_length=20, primary_key=True)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"permit {self.code}"


class Parking(LadderModel):
    """A side row whose key is that of the permit it belongs to."""

    ladder: ClassVar[Ladder] = LADDER

    permit = models.OneToOneField(Permit, on_delete=models.CASCADE, primary_key=True)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"parking of {self.permit_id}"


class NotDeleted(models.Manager[models.Model]):
    """Leaves out what was deleted softly."""

    def get_queryset(self) -> models.QuerySet[models.Model]:
        return super().get_queryset().filter(deleted=False)


class SoftDeletable(models.Model):
    """A base class of the host."""

    deleted = models.BooleanField(default=False)

    objects = NotDeleted()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.pk}"


class Ticket(LadderModel, SoftDeletable):
    """Names the app's base class first."""

    ladder: ClassVar[Ladder] = LADDER

    class Meta(LadderModel.Meta):
        pass


class Membership(SoftDeletable, LadderModel):
    """Names the host's base class first."""

    ladder: ClassVar[Ladder] = LADDER

    class Meta(LadderModel.Meta):
        pass
