"""Writing a batch: like changes in one UPDATE, audit rows in one INSERT, poison set apart.

Runs inside the batch's transaction, on rows that it has locked.
"""

import copy
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import models, transaction
from django.db.models import signals

from idempotent_actions.databases import is_transient
from idempotent_actions.exceptions import SubjectNotSaved
from idempotent_actions.inserting import insert_rows
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel

__all__ = ["Change", "Failure", "hooks_into_save", "snapshot", "write"]

# Their pre_save does nothing but auto_now, which is taken once for a batch.
_DATE_FIELDS = (models.DateField.pre_save, models.DateTimeField.pre_save, models.TimeField.pre_save)


@dataclass(eq=False, slots=True)
class Change:
    """A subject whose transition has fired, its columns before, its audit row and captures."""

    subject: Any
    before: dict[str, Any]
    escalation: Escalation | None = None
    captures: list[Capture] = field(default_factory=list)
    left_traces: bool = False
    """The transition itself wrote to the database, or registered a hook for after the commit."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that could not be done, and the error. The rest of its batch is not touched by it."""

    subject: Any
    error: Exception


def snapshot(subject: models.Model) -> dict[str, Any]:
    """Copy the loaded columns of ``subject``, to tell afterwards what a transition has changed."""
    loaded = subject.__dict__
    names = [each.attname for each in subject._meta.concrete_fields if each.attname in loaded]
    return {
        name: copy.deepcopy(loaded[name])
        if isinstance(loaded[name], dict | list | set)
        else loaded[name]
        for name in names
    }


def write(changes: Sequence[Change], using: str) -> list[Failure]:
    """Write all changes with their audit rows; return those that the database or a hook refused.

    A refused batch is cut in halves until the poison row stands alone: the other rows cost a few
    more statements, not a transaction each. A deadlock or a lost connection is raised, since the
    whole transaction is gone.
    """
    if not changes:
        return []
    if hooks_into_save(type(changes[0].subject)):
        return [failure for change in changes for failure in _write_halving([change], using)]
    return _write_halving(changes, using)


def hooks_into_save(model: type[models.Model]) -> bool:
    """Tell whether the host has hooks that only ``save()`` runs: they are never skipped in silence.

    A model with its own ``save()``, or receivers of the save signals, is saved row by row.
    """
    owners = {cls for cls in model.__mro__ if "save" in cls.__dict__}
    return (
        bool(owners - {models.Model, LadderModel})
        or signals.pre_save.has_listeners(model)
        or signals.post_save.has_listeners(model)
    )


def _write_halving(changes: Sequence[Change], using: str) -> list[Failure]:
    try:
        with transaction.atomic(using=using):
            _write_subjects(changes, using)
            _write_trail(changes, using)
    except Exception as error:
        # A savepoint that could not be rolled back leaves the connection marked: nothing to save.
        if is_transient(error) or transaction.get_rollback(using):
            raise
        if len(changes) == 1:
            return [Failure(changes[0].subject, error)]
        half = len(changes) // 2
        return _write_halving(changes[:half], using) + _write_halving(changes[half:], using)
    return []


def _write_trail(changes: Sequence[Change], using: str) -> None:
    captures = [capture for each in changes for capture in each.captures]
    rows = [each.escalation for each in changes if each.escalation]
    insert_rows(rows, using, keys_needed=bool(captures))
    for capture in captures:
        capture.escalation = capture.escalation  # takes over the key it has only now
    insert_rows(captures, using)


def _write_subjects(changes: Sequence[Change], using: str) -> None:
    if hooks_into_save(type(changes[0].subject)):
        for change in changes:
            change.subject.save(using=using)
        return
    model = type(changes[0].subject)
    for values, pks in _same_changes(changes):
        rows = models.QuerySet(model).using(using).filter(pk__in=pks).update(**values)
        if rows != len(pks):
            raise SubjectNotSaved


def _same_changes(changes: Sequence[Change]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield each distinct set of new column values with the keys of the rows that take it."""
    fields = [
        each
        for each in changes[0].subject._meta.concrete_fields
        if not each.primary_key and not each.generated
    ]
    stamps = {
        each.attname: each.pre_save(changes[0].subject, False)
        for each in fields
        if type(each).pre_save in _DATE_FIELDS and getattr(each, "auto_now", False)
    }
    computed = [
        each for each in fields if type(each).pre_save not in (models.Field.pre_save, *_DATE_FIELDS)
    ]
    groups: dict[Hashable, tuple[dict[str, Any], list[Any]]] = {}
    for change in changes:
        loaded, before = change.subject.__dict__, change.before
        for each in computed:
            if each.attname in loaded:
                setattr(change.subject, each.attname, each.pre_save(change.subject, False))
        values = stamps | {
            each.attname: loaded[each.attname]
            for each in fields
            if each.attname in loaded
            and each.attname not in stamps
            and (each.attname not in before or before[each.attname] != loaded[each.attname])
        }
        groups.setdefault(_group(values), (values, []))[1].append(change.subject.pk)
    return ((values, pks) for values, pks in groups.values() if values)


def _group(values: dict[str, Any]) -> Hashable:
    try:
        items = tuple(values.items())
        hash(items)
    except TypeError:  # a dict or a list: a group of its own
        return object()
    return items
