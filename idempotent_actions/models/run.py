"""The run: the record of one poll."""

from typing import ClassVar

from django.db import models

__all__ = ["Run"]


class Run(models.Model):
    """One reading of current state by an action, and what came of it.

    Written when the poll begins and after each committed batch, so a killed poll leaves an
    unfinished run whose counts may lag behind the audit rows, never ahead of them.
    """

    action = models.CharField(max_length=150)
    now = models.DateTimeField(help_text="The instant that deadlines were compared with.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
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

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["action", "-id"], name="idempotent_run_action"),
            models.Index(fields=["-started_at"], name="idempotent_run_started"),
        ]

    def __str__(self) -> str:
        return f"{self.action} #{self.pk}"

    @property
    def outcome(self) -> str:
        """``unfinished``, ``failed`` (some rows did, the rest are done) or ``succeeded``."""
        if self.finished_at is None:
            return "unfinished"
        return "failed" if self.failed else "succeeded"
