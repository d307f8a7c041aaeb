"""The capture: the durable record of one effect. Ledger and outbox in one table."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import Q
from django_fsm import transition

from idempotent_actions.keys import MAX_KEY_LENGTH, provider_key
from idempotent_actions.models.escalation import Escalation, find_subject, subject_labels
from idempotent_actions.models.fields import StatusField
from idempotent_actions.policies import MAX_EFFECT_NAME, Receipt

__all__ = ["FINISHED", "LIVE_CAPTURES", "Capture", "CaptureQuerySet", "CaptureState"]


class CaptureState(models.TextChoices):
    """The states of a capture. Only ``unknown`` and ``sending`` may have an effect nobody saw."""

    PENDING = "pending"
    SENDING = "sending"
    UNKNOWN = "unknown"
    REVIEW = "review"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VOID = "void"


PENDING, SENDING, UNKNOWN = (
    CaptureState.PENDING.value,
    CaptureState.SENDING.value,
    CaptureState.UNKNOWN.value,
)
REVIEW, FAILED = CaptureState.REVIEW.value, CaptureState.FAILED.value
SUCCEEDED, VOID = CaptureState.SUCCEEDED.value, CaptureState.VOID.value

LIVE_CAPTURES = [PENDING, SENDING, UNKNOWN]
"""States that delivery looks at by itself; each has a ``wake_at``."""

FINISHED = [SUCCEEDED, FAILED, VOID]


class CaptureQuerySet(models.QuerySet["Capture"]):
    """The questions asked of the ledger, as words."""

    def due(self, now: datetime) -> Self:
        """Captures that delivery has something to do about: pending, lapsed or unknown ones."""
        return self.filter(state__in=LIVE_CAPTURES, wake_at__lte=now)

    def about(self, subject: models.Model) -> Self:
        """Captures of one subject, in the order they were requested."""
        return self.filter(
            subject_model__in=subject_labels(subject), subject_pk=str(subject.pk)
        ).order_by("id")

    def unsettled(self) -> Self:
        """Captures that a ladder waits for; one that failed may be told not to stop it."""
        given_up = Q(state=FAILED, policy__on_failed="proceed")
        return self.exclude(state__in=[SUCCEEDED, VOID]).exclude(given_up)

    def for_a_person(self) -> Self:
        """Captures that go no further until a person decides, or mends a hook."""
        return self.filter(Q(state__in=[REVIEW, FAILED]) | ~Q(hook_error=""))


def _may_be_done(capture: Any) -> bool:
    return bool(capture.state == UNKNOWN or capture.in_doubt)


class Capture(models.Model):
    """One effect outside this database: its key, frozen parameters, state and result.

    Written by ``idempotent_actions.captures`` alone. ``token`` counts the barriers passed: a worker
    that holds an older one has lost the capture.
    """

    key = models.CharField(max_length=MAX_KEY_LENGTH)
    generation = models.IntegerField(default=1)
    effect = models.CharField(max_length=MAX_EFFECT_NAME)
    params = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=64)
    policy = models.JSONField(default=dict)
    state = StatusField(choices=CaptureState.choices, default=PENDING, protected=True)
    token = models.IntegerField(default=0)
    attempts = models.IntegerField(default=0, help_text="In this generation.")
    in_doubt = models.BooleanField(
        default=False, help_text="Some try of this generation may have done it, for all we know."
    )
    wake_at = models.DateTimeField(
        null=True, help_text="Looked at again from then on; a sending one's lease ends then."
    )
    waiting_for = models.CharField(
        max_length=50, blank=True, help_text="Why it was last left as it is."
    )
    waiting_since = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    first_sent_at = models.DateTimeField(null=True, help_text="Of this generation.")
    finished_at = models.DateTimeField(null=True)
    pruned_at = models.DateTimeField(null=True)
    provider_ref = models.CharField(max_length=255, blank=True)
    result = models.JSONField(null=True)
    result_is_repr = models.BooleanField(
        default=False, help_text="The effect returned what is no JSON: its repr is kept."
    )
    error = models.JSONField(null=True, help_text="Class, code and message of the last one.")
    hook_error = models.TextField(blank=True, help_text="Of settled() or the next deadline.")
    action = models.CharField(max_length=150, blank=True)
    subject_model = models.CharField(max_length=200, blank=True)
    subject_pk = models.CharField(max_length=255, blank=True)
    expects = models.CharField(
        max_length=255,
        blank=True,
        help_text="The state, left by act or hook, in which its subject wants it.",
    )
    escalation = models.ForeignKey(
        Escalation,
        null=True,
        on_delete=models.PROTECT,
        related_name="captures",
        db_index=False,
    )

    objects = CaptureQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        permissions: ClassVar[list[tuple[str, Any]]] = [
            ("decide_capture", "Can decide an unknown or failed effect"),
            ("renew_capture", "Can send an effect again under a new key"),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["key"], name="idempotent_capture_key"),
            # Few and short: PostgreSQL takes them apart anew for each statement.
            models.CheckConstraint(
                name="idempotent_capture_times",
                condition=Q(state__in=LIVE_CAPTURES, wake_at__isnull=False, finished_at=None)
                | Q(state__in=FINISHED, wake_at=None, finished_at__isnull=False)
                | Q(state=REVIEW, wake_at=None, finished_at=None),
            ),
            models.CheckConstraint(
                name="idempotent_capture_was_sent",
                condition=Q(state__in=[PENDING, *FINISHED])
                | Q(
                    Q(attempts__gte=1) | Q(state=REVIEW), token__gte=1, first_sent_at__isnull=False
                ),
            ),
            models.CheckConstraint(
                name="idempotent_capture_counts",
                condition=Q(generation__gte=1, token__gte=0, attempts__gte=0),
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            # The two questions: what is there to do, and what needs a person? Partial: nearly all
            # captures are finished, and neither index grows with them.
            models.Index(
                fields=["wake_at", "id"],
                name="idempotent_capture_due",
                condition=Q(state__in=LIVE_CAPTURES),
            ),
            models.Index(
                fields=["state", "id"],
                name="idempotent_capture_person",
                condition=Q(state__in=[REVIEW, FAILED]) | ~Q(hook_error=""),
            ),
            models.Index(
                fields=["subject_model", "subject_pk", "id"], name="idempotent_capture_subject"
            ),
            # A provider's letter names its own reference.
            models.Index(
                fields=["provider_ref"],
                name="idempotent_capture_reference",
                condition=~Q(provider_ref=""),
            ),
            models.Index(
                fields=["escalation"],
                name="idempotent_capture_act",
                condition=Q(escalation__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.state}"

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        """Reload as Django does, the protected state included."""
        self.__dict__["_refreshing"] = True
        try:
            super().refresh_from_db(*args, **kwargs)
        finally:
            del self.__dict__["_refreshing"]

    @property
    def subject(self) -> models.Model | None:
        """The subject as it is now; None where there is none, or it is gone."""
        return find_subject(self.subject_model, self.subject_pk, self._state.db)

    @property
    def provider_key(self) -> str:
        """The key that the provider is given: opaque, new for each generation."""
        return provider_key(self.key, self.generation)

    # -- the state machine: the machine's own acts

    @transition(field="state", source=[PENDING, UNKNOWN], target=SENDING)
    def claim(self, now: datetime, lease: timedelta) -> None:
        """Take it, before the effect: from here on nobody can say for sure that it is not done."""
        self.token += 1
        self.attempts += 1
        self.first_sent_at = self.first_sent_at or now
        self.wake_at = now + lease
        self.waiting_for, self.waiting_since = "", None

    @transition(field="state", source=[PENDING, SENDING, UNKNOWN, REVIEW], target=SUCCEEDED)
    def succeed(self, now: datetime, receipt: Receipt, is_repr: bool = False) -> None:
        """Note that it is done. A late worker's success is the truth wherever the row stands."""
        self._finish(now)
        self.provider_ref, self.result = receipt.provider_ref, receipt.result
        self.result_is_repr, self.error, self.in_doubt = is_repr, None, False

    @transition(field="state", source=[SENDING, UNKNOWN, REVIEW], target=FAILED)
    def refuse(self, now: datetime, error: dict[str, str]) -> None:
        """Note that it is definitely not done, for good; of a known key a provider would tell."""
        self._finish(now)
        self.error, self.in_doubt = error, False

    @transition(field="state", source=[SENDING, UNKNOWN, REVIEW], target=PENDING)
    def put_off(self, wake_at: datetime, error: dict[str, str]) -> None:
        """Note that this try has definitely not done it, and try again later."""
        self.wake_at, self.error = wake_at, error

    @transition(field="state", source=SENDING, target=UNKNOWN)
    def lose_track(self, wake_at: datetime, error: dict[str, str]) -> None:
        """Note that nobody can say whether it is done. Later tries don't take that back."""
        self.wake_at, self.error, self.in_doubt = wake_at, error, True

    @transition(field="state", source=[UNKNOWN, PENDING], target=REVIEW, conditions=[_may_be_done])
    def park(self, reason: str) -> None:
        """Leave it to a person."""
        self.wake_at, self.waiting_for = None, reason

    @transition(field="state", source=UNKNOWN, target=PENDING)
    def find_absent(self, now: datetime) -> None:
        """Note the provider's word that it is not done: it is sent again, with the same key."""
        self.wake_at, self.in_doubt = now, False

    @transition(field="state", source=[PENDING, REVIEW, FAILED], target=VOID)
    def void(self, now: datetime, reason: str) -> None:
        """Give it up: no longer wanted, or a person's decision."""
        self._finish(now)
        self.waiting_for = reason

    # -- a person's decisions

    @transition(field="state", source=[UNKNOWN, REVIEW, FAILED], target=SUCCEEDED)
    def mark_succeeded(self, now: datetime, provider_ref: str) -> None:
        """Note a person's word that it is done."""
        self._finish(now)
        self.provider_ref, self.in_doubt = provider_ref, False

    @transition(field="state", source=[UNKNOWN, REVIEW], target=FAILED)
    def mark_failed(self, now: datetime) -> None:
        """Note a person's word that it is not done."""
        self._finish(now)
        self.in_doubt = False

    @transition(field="state", source=[REVIEW, FAILED], target=PENDING)
    def retry(self, now: datetime) -> None:
        """Send it again, with the same provider key. An earlier try stays in doubt, if it was."""
        self.wake_at, self.finished_at = now, None
        self.waiting_for, self.waiting_since, self.attempts = "", None, 0

    def begin_generation(self, params: dict[str, Any], fingerprint: str) -> None:
        """Give it a new provider key: to the provider it is another request. With ``retry``."""
        self.generation += 1
        self.first_sent_at, self.error, self.in_doubt, self.pruned_at = None, None, False, None
        self.params, self.fingerprint = params, fingerprint

    def _finish(self, now: datetime) -> None:
        self.finished_at, self.wake_at = now, None
        self.waiting_for, self.waiting_since = "", None
