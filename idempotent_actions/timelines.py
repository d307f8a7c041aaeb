"""The timeline of a subject: acts, effects with their tries, people's decisions, newest first."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import models

from idempotent_actions.delivering import home
from idempotent_actions.models import Capture, CaptureAttempt, CaptureDecision, Escalation
from idempotent_actions.models.escalation import find_subject, subject_labels

__all__ = ["Entry", "Timeline", "timeline"]

_MOST = 200
"""Acts, and as many effects, that are read at a time."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened: exactly one of ``act``, ``requested``, ``tried``, ``decided``."""

    at: datetime
    act: Escalation | None = None
    requested: Capture | None = None
    tried: CaptureAttempt | None = None
    decided: CaptureDecision | None = None


@dataclass(slots=True)
class Timeline:
    """What is known of a subject: its row (None when it is gone) and what happened, newest first.

    ``older_than``: there is more; ask again with this as ``before``.
    """

    subject: models.Model | None
    entries: list[Entry] = field(default_factory=list)
    older_than: datetime | None = None

    def __bool__(self) -> bool:
        return self.subject is not None or bool(self.entries)


def timeline(label: str, pk: str, before: datetime | None = None) -> Timeline:
    """Return the timeline of the row ``pk`` of the model ``label``, like ``billing.invoice``.

    A row or model that is gone keeps its timeline. ``before``: what happened before that instant.
    False when nothing at all is known of it.
    """
    using = home()
    found = Timeline(find_subject(label, pk, using))
    labels, key = {label}, pk
    if found.subject is not None:
        labels, key = subject_labels(found.subject), str(found.subject.pk)
    about = {"subject_model__in": labels, "subject_pk": key}
    acts = Escalation.objects.using(using).filter(**about)
    captures = Capture.objects.using(using).filter(**about)
    if before is not None:
        acts, captures = acts.filter(acted_at__lt=before), captures.filter(created_at__lt=before)
    newest_acts = list(acts.order_by("-acted_at", "-id")[: _MOST + 1])
    newest = captures.order_by("-created_at", "-id").prefetch_related("tries", "decisions")
    newest_captures = list(newest[: _MOST + 1])
    ends = [row.acted_at for row in newest_acts[_MOST - 1 : -1]]
    ends += [row.created_at for row in newest_captures[_MOST - 1 : -1]]
    found.older_than = max(ends, default=None)
    entries = [*_of_acts(newest_acts), *_of_captures(newest_captures)]
    if found.older_than is not None:
        entries = [each for each in entries if each.at >= found.older_than]
    found.entries = sorted(entries, key=_order, reverse=True)
    return found


def _of_acts(acts: list[Escalation]) -> Iterator[Entry]:
    for each in acts:
        yield Entry(each.acted_at, act=each)


def _of_captures(captures: list[Capture]) -> Iterator[Entry]:
    for capture in captures:
        yield Entry(capture.created_at, requested=capture)
        tries: Any = capture.tries.all()
        for each in tries:
            each.capture = capture
            yield Entry(each.started_at, tried=each)
        decisions: Any = capture.decisions.all()
        for each in decisions:
            each.capture = capture
            yield Entry(each.decided_at, decided=each)


def _order(entry: Entry) -> tuple[datetime, int, int]:
    """At one instant: first the act, then the effects it requested, then what was tried."""
    for rank, row in enumerate((entry.act, entry.requested, entry.tried, entry.decided)):
        if row is not None:
            return entry.at, rank, row.pk
    return entry.at, 0, 0
