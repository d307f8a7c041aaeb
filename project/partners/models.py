"""The search index: one row an invoice, made anew from the invoices whenever it is asked for."""

from typing import ClassVar, Self

from django.db import models

__all__ = ["SearchEntry"]


class SearchEntryQuerySet(models.QuerySet["SearchEntry"]):
    """The question asked of the index, as a word."""

    def matching(self, words: str) -> Self:
        """Entries that hold each of these words, in any case."""
        found = self
        for word in words.split():
            found = found.filter(text__icontains=word)
        return found


class SearchEntry(models.Model):
    """What an invoice can be found by. No foreign key: an index hinders nobody from deleting."""

    number = models.CharField(max_length=32, unique=True)
    text = models.TextField()

    objects = SearchEntryQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["number"]
        verbose_name_plural = "search entries"

    def __str__(self) -> str:
        return self.number
