"""The escalation: the audit row of one act on a subject, and by its unique key a guard as well."""

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models

from idempotent_actions.keys import MAX_KEY_LENGTH
from idempotent_actions.ladders import MAX_RUNG_LENGTH
from idempotent_actions.models.run import Run

__all__ = ["Escalation", "EscalationQuerySet", "find_subject", "subject_labels", "subject_ref"]


def subject_ref(subject: models.Model) -> str:
    """Name a subject in reports and errors, like ``billing.invoice:42``; a new one by its text."""
    name = f"({subject})" if subject.pk is None else subject.pk
    return f"{subject._meta.label_lower}:{name}"


def find_subject(label: str, pk: str, using: str | None) -> models.Model | None:
    """Return the row of the model ``label`` with this key, or None when either is gone."""
    try:
        return models.QuerySet(apps.get_model(label)).using(using).get(pk=pk)
    except (LookupError, ValueError, ValidationError, models.ObjectDoesNotExist):
        return None


def subject_labels(subject: models.Model) -> set[str]:
    """Return the models a row is acted on as: a proxy, or a child's parent, is the same row."""
    models_of_row = [cls for cls in type(subject).__mro__ if hasattr(cls, "_meta")]
    return {cls._meta.label_lower for cls in models_of_row if not cls._meta.abstract}


class EscalationQuerySet(models.QuerySet["Escalation"]):
    """The questions asked of the audit trail, as words."""

    def about(self, subject: models.Model) -> Self:
        """Audit rows of one subject, in the order they were written."""
        return self.filter(
            subject_model__in=subject_labels(subject), subject_pk=str(subject.pk)
        ).order_by("id")

    def by_key(self, keys: Iterable[str]) -> dict[str, "Escalation"]:
        """Return those audit rows that exist for these unique keys."""
        return {row.key: row for row in self.filter(key__in=list(keys))}

    def newest(self, action: str, model_label: str, pks: Iterable[Any]) -> dict[str, "Escalation"]:
        """Return each subject's newest act under ``action``, by the text of its primary key."""
        texts = [str(pk) for pk in pks]
        rows = self.filter(action=action, subject_model=model_label, subject_pk__in=texts)
        # Two statements: in one they get a nested loop where statistics still count no rows.
        newest = rows.order_by().values("subject_pk").annotate(newest=models.Max("id"))
        ids = list(newest.values_list("newest", flat=True))
        return {row.subject_pk: row for row in self.filter(pk__in=ids)} if ids else {}


class Escalation(models.Model):
    """One act on a subject, by a poll or a person, with the state before and after it.

    Append-only. The key is made of business facts, so that a second row for the same act can't be
    written even by code that bypasses lock and guard. What stands after the act is kept in full:
    a subject that a stale write has put back is healed from it.
    """

    key = models.CharField(max_length=MAX_KEY_LENGTH)
    action = models.CharField(max_length=150)
    transition = models.CharField(max_length=100)
    subject_model = models.CharField(max_length=200)
    subject_pk = models.CharField(max_length=255)
    from_status = models.CharField(max_length=255, blank=True)
    to_status = models.CharField(max_length=255, blank=True)
    from_rung = models.CharField(max_length=MAX_RUNG_LENGTH, blank=True)
    rung = models.CharField(max_length=MAX_RUNG_LENGTH, blank=True)
    cycle = models.PositiveIntegerField(null=True, blank=True)
    revision = models.PositiveIntegerField(null=True, blank=True)
    next_at = models.DateTimeField(null=True, blank=True)
    hold_until = models.DateTimeField(null=True, blank=True)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=255, blank=True)
    acted_at = models.DateTimeField()
    run = models.ForeignKey(
        Run, null=True, blank=True, on_delete=models.PROTECT, related_name="escalations"
    )

    objects = EscalationQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        permissions: ClassVar[list[tuple[str, Any]]] = [
            ("escalate_subject", "Can escalate a subject now, skip a rung, step back a rung"),
            ("hold_subject", "Can hold a subject and release it"),
            ("resolve_subject", "Can resolve, cancel and reopen a subject"),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["key"], name="idempotent_escalation_key"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["subject_model", "subject_pk", "-id"], name="idempotent_escalation_subject"
            ),
            models.Index(fields=["-acted_at"], name="idempotent_escalation_acted"),
        ]

    def __str__(self) -> str:
        to = self.rung if self.transition == "escalate" else self.to_status
        return f"{self.subject_model}:{self.subject_pk} {self.transition} -> {to}"

    @property
    def subject(self) -> models.Model | None:
        """The subject as it is now, or None when the row or its model is gone."""
        return find_subject(self.subject_model, self.subject_pk, self._state.db)
