"""What was tried with a capture, and what people decided about it. Append-only."""

from typing import ClassVar

from django.db import models

from idempotent_actions.models.capture import Capture, CaptureState

__all__ = ["CaptureAttempt", "CaptureDecision"]


class CaptureAttempt(models.Model):
    """One worker's try: written before the effect, completed after it.

    An attempt without ``finished_at`` is of a worker that was killed, or still runs. A worker that
    comes back after it has lost the capture leaves its truth here alone: ``late``.
    """

    capture = models.ForeignKey(
        Capture, on_delete=models.CASCADE, related_name="tries", db_index=False
    )
    token = models.IntegerField()
    generation = models.IntegerField(default=1)
    worker = models.CharField(max_length=100, help_text="Host and process.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    outcome = models.CharField(
        max_length=20, blank=True, help_text="succeeded, not_sent, refused or unknown."
    )
    provider_ref = models.CharField(max_length=255, blank=True)
    error = models.JSONField(null=True)
    late = models.BooleanField(default=False)

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["capture", "token"], name="idempotent_attempt_capture_token"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.capture_id} #{self.token} {self.outcome or 'unfinished'}"


class CaptureDecision(models.Model):
    """What a person decided about a capture, and why."""

    capture = models.ForeignKey(Capture, on_delete=models.CASCADE, related_name="decisions")
    decision = models.CharField(max_length=30)
    from_state = models.CharField(max_length=20, choices=CaptureState.choices)
    to_state = models.CharField(max_length=20, choices=CaptureState.choices)
    token = models.PositiveIntegerField()
    generation = models.PositiveIntegerField(help_text="After the decision.")
    provider_ref = models.CharField(max_length=255, blank=True)
    actor = models.CharField(max_length=150)
    note = models.CharField(max_length=255)
    decided_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]

    def __str__(self) -> str:
        return f"{self.decision} by {self.actor}"
