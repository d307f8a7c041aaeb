"""The subjects that ought to exist: insert them, or tell what would be found if they did."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections, models, transaction
from django.db.models import Q

from idempotent_actions.actions import Action
from idempotent_actions.candidates import in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import is_transient, is_unique_violation, retry_transient
from idempotent_actions.writing import Failure, hooks_into_save

__all__ = ["insert_missing", "not_existing", "would_find"]

_AT_A_TIME = 100
"""Unsaved rows in one statement: some columns each, below every backend's limits."""


def insert_missing(
    action: Action, now: datetime, batch_size: int
) -> Iterator[tuple[int, list[Failure]]]:
    """Insert what ``action.missing_subjects`` yields, ignoring what exists by a unique constraint.

    Yields for each batch the number of rows that were missing, and those that could not be
    inserted for another reason. Models with save hooks and children under multi-table inheritance
    are saved one by one.
    """
    using, tries = action.using, get_settings().MAX_TRIES
    for batch in in_batches(action.missing_subjects(now), batch_size):
        new = not_existing(batch, using)
        failures: list[Failure] = []
        if new and not _insert_all(new, using):
            for subject in new:
                insert = partial(_insert, subject, using)
                failures += retry_transient(insert, using=using, tries=tries)
        yield len(new) - len(failures), failures


def not_existing(subjects: Sequence[Any], using: str) -> list[Any]:
    """Return those of the unsaved ``subjects`` that no unique constraint finds there already."""
    taken: set[int] = set()
    checks, _date_checks = subjects[0]._get_unique_checks(include_meta_constraints=True)
    for model, names in checks:
        values = {
            id(each): tuple(getattr(each, model._meta.get_field(n).attname) for n in names)
            for each in subjects
        }
        asked = {key: row for key, row in values.items() if None not in row}
        if not asked:
            continue
        either = Q(
            *[Q(**dict(zip(names, row, strict=True))) for row in asked.values()], _connector=Q.OR
        )
        attnames = [model._meta.get_field(name).attname for name in names]
        there = set(models.QuerySet(model).using(using).filter(either).values_list(*attnames))
        taken |= {key for key, row in asked.items() if row in there}
    return [each for each in subjects if id(each) not in taken]


def would_find(queryset: models.QuerySet[Any], subjects: Sequence[Any]) -> list[Any]:
    """Return those of the unsaved ``subjects`` that ``queryset`` would find if they were rows.

    The database itself answers: for one statement, rows made of their values stand in the place of
    the subjects' table (a WITH of the same name hides it). Joins and subqueries work as ever.
    """
    found: list[Any] = []
    for batch in in_batches(subjects, _AT_A_TIME):
        stand_ins = {-number: each for number, each in enumerate(batch, 1)}
        connection = connections[queryset.db]
        try:
            query = queryset.order_by().values_list("pk").query
            statement, params = query.get_compiler(queryset.db).as_sql()
        except EmptyResultSet:
            return []
        tables, values = _stand_in_tables(stand_ins, connection)
        with connection.cursor() as cursor:
            cursor.execute(f"WITH {tables} {statement}", [*values, *params])
            keys = {row[0] for row in cursor.fetchall()}
        pk = batch[0]._meta.pk
        found += [
            each for key, each in stand_ins.items() if _prepared(pk, each, key, connection) in keys
        ]
    return found


def _stand_in_tables(stand_ins: dict[int, Any], connection: Any) -> tuple[str, list[Any]]:
    """Return ``table (columns) AS (rows)`` for the model and its parents, and the parameters."""
    model = type(stand_ins[-1])._meta.concrete_model
    quote = connection.ops.quote_name
    parts: list[str] = []
    values: list[Any] = []
    for table in (model, *model._meta.all_parents):
        fields = [each for each in table._meta.local_concrete_fields if not each.generated]
        columns = ", ".join(quote(each.column) for each in fields)
        marks = ", ".join(_mark(each, connection) for each in fields)
        rows = " UNION ALL ".join(f"SELECT {marks}" for _ in stand_ins)
        parts.append(f"{quote(table._meta.db_table)} ({columns}) AS ({rows})")
        values += [
            _prepared(field, each, key, connection)
            for key, each in stand_ins.items()
            for field in fields
        ]
    return ", ".join(parts), values


def _mark(field: Any, connection: Any) -> str:
    # SQLite's CAST would turn a date's text into a number; its columns take any type as it is.
    if connection.vendor == "sqlite":
        return "%s"
    return f"CAST(%s AS {field.cast_db_type(connection)})"


def _prepared(field: Any, subject: Any, stand_in: int, connection: Any) -> Any:
    value = getattr(subject, field.attname)
    if value is None and field.primary_key:
        return stand_in
    return field.get_db_prep_save(value, connection)


def _insert_all(subjects: Sequence[Any], using: str) -> bool:
    """Insert them in one statement; False where each must be tried alone."""
    model = type(subjects[0])
    if hooks_into_save(model) or model._meta.concrete_model._meta.parents:
        return False
    try:
        with transaction.atomic(using=using):
            rows: models.QuerySet[Any] = models.QuerySet(model).using(using)
            rows.bulk_create(subjects, ignore_conflicts=True)
            _check_now(using)
    except Exception:
        if connections[using].needs_rollback:
            raise
        return False  # one of them is at fault
    return True


def _insert(subject: Any, using: str) -> list[Failure]:
    try:
        with transaction.atomic(using=using):
            subject.save(using=using, force_insert=True)
            _check_now(using)
    except Exception as error:
        if is_transient(error) or connections[using].needs_rollback:
            raise
        return [] if is_unique_violation(error) else [Failure(subject, error)]
    return []


def _check_now(using: str) -> None:
    """Let a foreign key to a row that was just deleted fail here, and not at a later COMMIT."""
    if connections[using].vendor == "postgresql":
        connections[using].check_constraints()
