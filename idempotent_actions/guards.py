"""The lock and the guard: lock rows by primary key, then ask in a second statement if they are due.

Lock and rule in one statement are not a guard. PostgreSQL re-evaluates the WHERE of a blocked
locker on the newest version of the *locked* row only; a subquery in it is still answered from the
old snapshot
(https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections, models
from django_fsm import can_proceed

from idempotent_actions.actions import Action, Reason
from idempotent_actions.models.ladder import LadderModel

__all__ = ["Guarded", "lock_and_recheck", "lock_one", "lock_subject"]


@dataclass(slots=True)
class Guarded:
    """What the guard let through, in the order asked for, and why it held the others back."""

    due: list[Any] = field(default_factory=list)
    held_back: dict[Any, str] = field(default_factory=dict)


def lock_and_recheck(action: Action, pks: Sequence[Any], now: datetime, *, wait: bool) -> Guarded:
    """Lock the rows ``pks`` and re-read which of them ``action`` still finds due at ``now``.

    Must run inside a transaction. ``wait``: False skips rows that somebody else has locked (a
    poll), True waits for them (a person's act). Returns fresh instances.
    """
    using = action.using
    locked = _lock(action.state_field.model, pks, using, wait)
    for path in action.lock:
        locked = _lock_related(action.model, path, locked, using, wait)
    rows = action.get_queryset().using(using).filter(action.rule(now), pk__in=locked).order_by()
    fresh = {row.pk: row for row in rows}  # a to-many join in `due` yields a row twice
    missing = [pk for pk in pks if pk not in fresh]
    held_back = _why(action, missing, locked, now) if missing else {}
    return Guarded([fresh[pk] for pk in pks if pk in fresh], held_back)


def lock_one(subject: LadderModel, using: str) -> Any:
    """Lock the row of ``subject``, waiting for it, and return it as it is now; None if it is gone.

    Must run inside a transaction. The instance handed in is left alone: it may be stale.
    """
    model = type(subject)
    owner = model._meta.get_field("status").model
    if not _lock(owner, [subject.pk], using, wait=True):
        return None
    return models.QuerySet(model).using(using).filter(pk=subject.pk).first()


def lock_subject(action: Action, pk: Any, *, wait: bool) -> tuple[Any, str]:
    """Lock one row of ``action`` with its related rows, and read it as it is now.

    Must run inside a transaction. Returns the row, and why it wasn't had: ``gone``, ``locked`` (by
    somebody else, and not to be waited for), or ``excluded`` by the action's own queryset, in which
    case the row is returned too.
    """
    using = action.using
    rows: models.QuerySet[Any] = models.QuerySet(action.model).using(using).filter(pk=pk)
    if not _lock(action.state_field.model, [pk], using, wait):
        return None, Reason.LOCKED if rows.exists() else Reason.GONE
    for path in action.lock:
        if not _lock_related(action.model, path, {pk}, using, wait):
            return None, Reason.LOCKED
    subject = action.get_queryset().using(using).filter(pk=pk).first()
    if subject is not None:
        return subject, ""
    subject = rows.first()
    return subject, Reason.EXCLUDED if subject else Reason.GONE


def _lock(model: type[models.Model], pks: Sequence[Any], using: str, wait: bool) -> set[Any]:
    """Lock rows of one table in the order of their keys, so that two lockers can't deadlock.

    No join and no filter beside the key: nullable joins can't be locked, and only the table that
    owns the state needs to be. NO KEY leaves foreign keys to these rows insertable meanwhile.
    """
    features = connections[using].features
    rows: models.QuerySet[Any] = models.QuerySet(model).using(using)
    rows = rows.filter(pk__in=pks).order_by("pk")
    rows = rows.select_for_update(
        skip_locked=not wait and features.has_select_for_update_skip_locked,
        no_key=features.has_select_for_no_key_update,
    )
    return set(rows.values_list("pk", flat=True))


def _lock_related(
    model: type[models.Model], path: str, pks: set[Any], using: str, wait: bool
) -> set[Any]:
    """Lock the rows at the end of a forward relation; return the subjects whose row was had."""
    target: Any = model
    for name in path.split("__"):
        target = target._meta.get_field(name).related_model
    pairs = dict(
        models.QuerySet(model).using(using).filter(pk__in=pks).values_list("pk", f"{path}__pk")
    )
    related = {pk for pk in pairs.values() if pk is not None}
    had = _lock(target, list(related), using, wait) if related else set()
    return {pk for pk, related_pk in pairs.items() if related_pk is None or related_pk in had}


def _why(action: Action, missing: Sequence[Any], locked: set[Any], now: datetime) -> dict[Any, str]:
    rows: models.QuerySet[Any] = models.QuerySet(action.model).using(action.using)
    subjects = {row.pk: row for row in rows.filter(pk__in=missing)}
    visible = set(
        action.get_queryset()
        .using(action.using)
        .filter(pk__in=list(subjects))
        .values_list("pk", flat=True)
    )
    telling = action.why_not_due(list(subjects.values()), now, action.using)

    def why(pk: Any) -> str:
        if pk not in subjects:
            return Reason.GONE
        if pk not in locked:
            return Reason.LOCKED
        if pk not in visible:
            return Reason.EXCLUDED
        if pk in telling:
            return telling[pk]
        method = getattr(subjects[pk], action.transition)
        right_status = can_proceed(method, check_conditions=False)
        return Reason.NOT_DUE if right_status else Reason.WRONG_STATUS

    return {pk: why(pk) for pk in missing}
