"""Adoption: existing rows take their place on a ladder, and nothing goes out for them."""

from datetime import datetime
from functools import partial
from typing import Any

from django.db import models

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.acts import act_on
from idempotent_actions.asking import asked_by, in_transaction, registered
from idempotent_actions.candidates import in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.ladders import Ladder
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.passes import Adopt
from idempotent_actions.reports import Report
from idempotent_actions.subjects import insert_missing

__all__ = ["adopt"]


def adopt(
    action: str | type[Action],
    queryset: models.QuerySet[Any],
    *,
    next_at: datetime,
    rung: str = "",
    by: Any,
    reason: str,
    now: datetime | None = None,
) -> Report:
    """Put existing rows in place on a ladder, so that nothing goes out for them on the first tick.

    Every live row of ``queryset`` stands on ``rung`` (below the first when empty) and is not due
    before ``next_at``. Side rows that ``missing_subjects`` yields are inserted first. Each row gets
    an audit row and no effect. ``by``, ``reason``, ``now``: as for ``act``.

    Returns a report: ``applied`` rows, ``skipped`` by reason (``wrong_status`` or ``resolved`` for
    those that are over), ``failed`` ones with their errors. Raises ``InvalidInput`` for a
    ``next_at`` that isn't in the future or a queryset of another model.
    """
    chosen = registered(action)
    if not isinstance(chosen, LadderAction):
        raise InvalidInput(f"{chosen.name} is no ladder: there is nothing to adopt onto.")
    if not isinstance(queryset, models.QuerySet) or queryset.model is not chosen.model:
        raise InvalidInput(f"queryset must hold rows of {chosen.model._meta.label}.")
    asked = asked_by(chosen, {"by": by, "reason": reason, "now": now}, poll=True)
    if clock.check_instant(next_at, "next_at") <= asked.now:
        raise InvalidInput(f"next_at must lie in the future, not at {next_at.isoformat()}.")
    settings = get_settings()
    ladder = getattr(chosen.model, "ladder", None)
    if rung and isinstance(ladder, Ladder):
        ladder.get(rung)  # one misspelt for all of them is told at once
    adoption = Adopt(chosen, rung, next_at)
    report = Report(adoption.name)
    for _count, failures in insert_missing(chosen, asked.now, settings.BATCH_SIZE):
        for failure in failures:
            report.add_error(subject_ref(failure.subject), failure.error, settings.ERRORS_KEPT)
    pks = list(queryset.using(chosen.using).values_list("pk", flat=True))
    for batch in in_batches(pks, settings.BATCH_SIZE):
        result = in_transaction(partial(act_on, adoption, batch, asked), chosen.using)
        report.count(result, settings.ERRORS_KEPT)
    return report
