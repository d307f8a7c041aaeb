"""Rules are Q objects: what can be asked of one beside filtering by it."""

from collections.abc import Iterator
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q

__all__ = ["opposite"]


def opposite(model: type[models.Model], rule: Q) -> Q:
    """Return the rows of ``model`` that ``rule`` doesn't find, all of them and no other.

    ``~rule`` is that only for conditions on one row with values on their right side. Along a
    relation to many rows Django negates each condition on its own, though they need not hold for
    one and the same related row; and NOT of a comparison with an expression that is NULL is NULL
    (https://docs.djangoproject.com/en/stable/topics/db/queries/#spanning-multi-valued-relationships).
    """
    if _is_plain(model, rule):
        return ~rule
    same_row: models.QuerySet[Any] = models.QuerySet(model)
    return Q(~Exists(same_row.filter(rule, pk=OuterRef("pk"))))


def _is_plain(model: type[models.Model], rule: Q) -> bool:
    for child in rule.children:
        if isinstance(child, Q):
            if not _is_plain(model, child):
                return False
            continue
        if not isinstance(child, tuple) or hasattr(child[1], "resolve_expression"):
            return False
        relations = _relations_on(model, child[0].split("__"))
        if any(field.one_to_many or field.many_to_many for field in relations):
            return False
    return True


def _relations_on(model: Any, path: list[str]) -> Iterator[Any]:
    for name in path:
        fields = model._meta.get_fields()
        field = next((each for each in fields if name in (each.name, _query_name(each))), None)
        if field is None or not field.is_relation or field.related_model is None:
            return
        yield field
        model = field.related_model


def _query_name(field: Any) -> Any:
    """A reverse relation is filtered by its ``related_query_name``."""
    return field.field.related_query_name() if hasattr(field, "field") else field.name
