"""Models of a host that does more on a save, or on a transition, than store the row."""

from datetime import timedelta
from typing import Any, ClassVar

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Fine", "History", "Loan", "Parcel", "Rental"]

LADDER = Ladder(Rung("notice", timedelta(days=7)), Rung("visit", timedelta(days=7)))


class History(models.Model):
    """What the host's own code has noted, in the order in which it happened."""

    what = models.CharField(max_length=100)

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]

    def __str__(self) -> str:
        return self.what

    @classmethod
    def note(cls, *words: object) -> None:
        """Write a line."""
        cls.objects.create(what=" ".join(str(word) for word in words))

    @classmethod
    def lines(cls) -> list[str]:
        """Return all lines."""
        return [each.what for each in cls.objects.all()]


class Fine(LadderModel):
    """Has a ``save()`` of its own: it keeps a column for the search up to date."""

    ladder: ClassVar[Ladder] = LADDER

    name = models.CharField(max_length=20)
    search_text = models.CharField(max_length=100, blank=True)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, and note it."""
        self.search_text = f"{self.name} {self.status} {self.rung}".strip()
        super().save(*args, **kwargs)
        History.note("saved", self.search_text)


class SavesHistory(models.Model):
    """A mixin of the host, which its models put behind the app's own base class."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, and note it."""
        super().save(*args, **kwargs)
        History.note("saved", self)


class Rental(LadderModel, SavesHistory):
    """Has the ``save()`` of a mixin that stands behind LadderModel in its bases."""

    ladder: ClassVar[Ladder] = LADDER

    name = models.CharField(max_length=20)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"{self.name} {self.status} {self.rung}".strip()


class Loan(LadderModel):
    """Has receivers of the save signals, in receivers.py."""

    ladder: ClassVar[Ladder] = LADDER

    name = models.CharField(max_length=20)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"{self.name} {self.status} {self.rung}".strip()


class Parcel(LadderModel):
    """Has receivers of django-fsm's signals, in receivers.py."""

    ladder: ClassVar[Ladder] = LADDER

    name = models.CharField(max_length=20)

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"{self.name} {self.status} {self.rung}".strip()
