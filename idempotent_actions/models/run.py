"""The run: the record of one poll."""

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, Self

from django.db import models

__all__ = ["GOOD_ENDS", "Run", "RunQuerySet"]

GOOD_ENDS = ["", "out_of_time"]
"""What ``stopped`` says of a run that did what it could in its time."""


class RunQuerySet(models.QuerySet["Run"]):
    """The questions asked of runs, as words."""

    def good(self) -> Self:
        """Runs that came to their end, whatever single rows did."""
        return self.filter(finished_at__isnull=False, stopped__in=GOOD_ENDS)

    def silent(self, since: datetime) -> Self:
        """Unfinished runs that have given no sign of life since then: their process has died."""
        return self.filter(finished_at=None, beat_at__lt=since)

    def newest(self, actions: Iterable[str]) -> Self:
        """The newest of these runs of each of ``actions``: one look into the index for each."""
        newest = [self.filter(action=name).order_by("-id").values("pk")[:1] for name in actions]
        return self.filter(pk__in=[models.Subquery(each) for each in newest])


class Run(models.Model):
    """One reading of current state by an action, and what came of it.

    Written when the poll begins and after each committed batch, so a killed poll leaves an
    unfinished run whose counts may lag behind the audit rows, never ahead of them. A slot, the
    instant for which it was scheduled, has one run: one that resumes it takes the slot over.
    """

    action = models.CharField(max_length=150)
    now = models.DateTimeField(help_text="The instant that deadlines were compared with.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    slot = models.DateTimeField(
        null=True, blank=True, help_text="The instant for which it was scheduled."
    )
    resumes = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="resumed_by",
        help_text="The unfinished run whose slot this one took over.",
    )
    # Defaults of the database, too: while a deploy is under way, older code inserts rows as well.
    worker = models.CharField(
        max_length=100, blank=True, default="", db_default="", help_text="Host and process."
    )
    beat_at = models.DateTimeField(
        null=True, blank=True, help_text="Its last sign of life: after each batch."
    )
    stopped = models.CharField(
        max_length=50,
        blank=True,
        default="",
        db_default="",
        help_text="Why it ended before all was looked at.",
    )
    marked = models.PositiveIntegerField(default=0, help_text="Found overdue by detection.")
    resolved = models.PositiveIntegerField(default=0, help_text="Settled by the host's own state.")
    selected = models.PositiveIntegerField(default=0)
    applied = models.PositiveIntegerField(default=0)
    exhausted = models.PositiveIntegerField(
        default=0, help_text="Part of applied: subjects that came to the ladder's end."
    )
    failed = models.PositiveIntegerField(default=0)
    skipped = models.JSONField(default=dict, help_text="Selected, not applied: counts by reason.")
    errors = models.JSONField(default=list, help_text="The first errors, with their subjects.")

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["action", "slot"], name="idempotent_run_slot")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["action", "-id"], name="idempotent_run_action"),
            models.Index(fields=["-started_at"], name="idempotent_run_started"),
        ]

    def __str__(self) -> str:
        return f"{self.action} #{self.pk}"

    @property
    def outcome(self) -> str:
        """``unfinished``, ``stopped`` early, ``failed`` (some rows did) or ``succeeded``."""
        if self.finished_at is None:
            return "unfinished"
        if self.stopped:
            return "stopped"
        return "failed" if self.failed else "succeeded"
