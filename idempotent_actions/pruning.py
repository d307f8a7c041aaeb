"""Pruning: old payloads are blanked, and what keeps an effect from happening again stays."""

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from idempotent_actions import clock
from idempotent_actions.barrier import action_of
from idempotent_actions.delivering import home
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models.attempt import CaptureAttempt
from idempotent_actions.models.capture import FINISHED, Capture
from idempotent_actions.models.ladder import LIVE, LadderModel

__all__ = ["prune_captures"]

_PAGE = 500
"""Captures blanked in one transaction."""


def prune_captures(
    older_than: timedelta,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
    give_up_at: float = math.inf,
) -> int:
    """Blank parameters, results and errors of captures that were finished so long ago.

    Key, fingerprint, state and provider reference stay, so nothing is ever done again. Captures of
    a cycle that is still open are left whole, and so are those of a failed effect's open subject:
    a person may retry them. ``older_than`` is above zero; ``dry_run`` only counts; ``now`` is the
    instant of a simulation, else the database's clock is asked. No page is begun after
    ``give_up_at``, by ``time.monotonic()``.

    Returns how many were pruned. Raises ``InvalidInput``.
    """
    if not isinstance(older_than, timedelta) or older_than <= timedelta(0):
        raise InvalidInput(f"older_than must be a timedelta above zero, not {older_than!r}.")
    using = home()
    if now is not None:
        clock.check_instant(now, "now")
    try:
        before = (clock.now(using) if now is None else now) - older_than
    except OverflowError:
        raise InvalidInput(f"older_than reaches back beyond the calendar: {older_than}.") from None
    rows = Capture.objects.using(using).filter(
        state__in=FINISHED, finished_at__lt=before, pruned_at__isnull=True
    )
    count, last = 0, 0
    while time.monotonic() < give_up_at:
        page = list(rows.filter(pk__gt=last).order_by("pk")[:_PAGE])
        if not page:
            break
        last = page[-1].pk
        closed = [each.pk for each in _of_closed_cycles(page, using)]
        count += len(closed)
        if not dry_run:
            with transaction.atomic(using=using):
                _blank(closed, clock.now(using), using)
    return count


def _blank(pks: Sequence[int], now: datetime, using: str) -> None:
    rows = Capture.objects.using(using).filter(pk__in=pks, state__in=FINISHED)
    rows.update(params={}, result=None, error=None, hook_error="", pruned_at=now)
    CaptureAttempt.objects.using(using).filter(capture__in=pks).update(error=None)


def _of_closed_cycles(page: Sequence[Capture], using: str) -> list[Capture]:
    subjects = _ladder_subjects(page, using)
    return [each for each in page if not _is_open(each, subjects)]


def _ladder_subjects(page: Sequence[Capture], using: str) -> dict[tuple[str, str], Any]:
    wanted: dict[type[LadderModel], set[Any]] = defaultdict(set)
    for capture in page:
        action = action_of(capture)
        if action is None or not issubclass(action.model, LadderModel):
            continue
        try:
            wanted[action.model].add(action.model._meta.pk.to_python(capture.subject_pk))
        except ValidationError:
            continue
    return {
        (model._meta.label_lower, str(row.pk)): row
        for model, pks in wanted.items()
        for row in model._base_manager.using(using).filter(pk__in=pks)
    }


def _is_open(capture: Capture, subjects: dict[tuple[str, str], Any]) -> bool:
    subject = subjects.get((capture.subject_model, capture.subject_pk))
    if subject is None or capture.escalation is None:
        return False
    return subject.status in LIVE and subject.cycle == capture.escalation.cycle
