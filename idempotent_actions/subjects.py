"""The subjects that ought to exist and don't: insert them, or say what would be inserted."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

from django.db import models, transaction
from django.db.models import Q
from django.db.models.expressions import Value
from django.db.models.sql import Query
from django.db.models.sql.constants import SINGLE

from idempotent_actions.actions import Action
from idempotent_actions.candidates import in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import is_transient, is_unique_violation, retry_transient
from idempotent_actions.writing import Failure, hooks_into_save

__all__ = ["insert_missing", "not_existing", "would_match"]


def insert_missing(
    action: Action, now: datetime, batch_size: int
) -> Iterator[tuple[int, list[Failure]]]:
    """Insert what ``action.missing_subjects`` yields, ignoring what exists by a unique constraint.

    Yields for each batch its number of rows and those that could not be inserted for another
    reason. Models with save hooks and children under multi-table inheritance are saved singly.
    """
    for batch in in_batches(action.missing_subjects(now), batch_size):
        failures = retry_transient(
            partial(_insert_batch, batch, action.using),
            using=action.using,
            tries=get_settings().MAX_TRIES,
        )
        yield len(batch), failures


def _insert_batch(subjects: Sequence[models.Model], using: str) -> list[Failure]:
    model = type(subjects[0])
    with transaction.atomic(using=using):
        if not hooks_into_save(model) and not model._meta.parents and _insert_all(subjects, using):
            return []
        errors = [(subject, _insert(subject, using)) for subject in subjects]
    return [
        Failure(subject, error)
        for subject, error in errors
        if error is not None and not is_unique_violation(error)
    ]


def not_existing(subjects: Sequence[models.Model], using: str) -> list[models.Model]:
    """Return those of the unsaved ``subjects`` that no unique constraint finds there already."""
    taken: set[int] = set()
    first: Any = subjects[0]
    checks, _date_checks = first._get_unique_checks(include_meta_constraints=True)
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


def would_match(subject: models.Model, rule: Q, using: str) -> bool | None:
    """Tell whether ``rule`` would find the unsaved ``subject``; None where that can't be said.

    The database judges the row's values, and those of its forward relations, without the row. A
    rule with a subquery or another column on its right side can be judged only once the row exists.
    """
    query = Query(None)
    try:
        judged = _on_values(subject, rule, query)
    except (AttributeError, LookupError, TypeError):
        return None
    query.add_annotation(Value(1), "_found")
    query.add_q(judged)
    return query.get_compiler(using=using).execute_sql(SINGLE) is not None


def _on_values(subject: models.Model, rule: Q, query: Query) -> Q:
    """Rewrite ``rule`` on values that are added to ``query``; raise where a part of it can't be."""
    children: list[Any] = []
    for child in rule.children:
        if isinstance(child, Q):
            children.append(_on_values(subject, child, query))
            continue
        path, wanted = cast(
            tuple[str, Any], child
        )  # a TypeError for an expression like Exists(...)
        if hasattr(wanted, "resolve_expression"):
            raise TypeError("the right side is an expression")
        owner: Any = subject
        names = path.split("__")
        while True:
            field = owner._meta.pk if names[0] == "pk" else owner._meta.get_field(names[0])
            names = names[1:]
            if not (field.is_relation and names and hasattr(field.related_model, "_meta")):
                break
            if not _is_field(field.related_model, names[0]):
                break
            owner = getattr(owner, field.name)
        alias = f"_value{len(query.annotations)}"
        output = field.target_field if field.is_relation else field
        value = getattr(owner, field.attname)
        query.add_annotation(Value(value, output_field=output), alias, select=False)
        children.append(("__".join([alias, *names]), getattr(wanted, "pk", wanted)))
    return Q(*children, _connector=rule.connector, _negated=rule.negated)


def _is_field(model: Any, name: str) -> bool:
    return name == "pk" or any(name == each.name for each in model._meta.get_fields())


def _insert_all(subjects: Sequence[models.Model], using: str) -> bool:
    """Try them in one statement; False where one is at fault and each must be tried alone."""
    rows: models.QuerySet[Any] = models.QuerySet(type(subjects[0])).using(using)
    try:
        with transaction.atomic(using=using):
            rows.bulk_create(subjects, ignore_conflicts=True)
    except Exception as error:
        if is_transient(error) or transaction.get_rollback(using):
            raise
        return False
    return True


def _insert(subject: models.Model, using: str) -> Exception | None:
    try:
        with transaction.atomic(using=using):
            subject.save(using=using, force_insert=True)
    except Exception as error:
        if is_transient(error) or transaction.get_rollback(using):
            raise
        return error
    return None
