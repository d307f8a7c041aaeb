"""Findings: which of an action's rules find one row, read with it in one statement."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from django.core.exceptions import FieldError
from django.db import DatabaseError, connections, models
from django.db.models import Exists, OuterRef, Q

from idempotent_actions.actions import Action
from idempotent_actions.ladder_actions import LadderAction

__all__ = ["BASE", "DETECTED", "DUE", "SETTLED", "VISIBLE", "Finding", "attempt", "read"]

T = TypeVar("T")

Finding = bool | Exception | None
"""Whether a rule finds the row, the error that it raises, or None where there is no such rule."""

VISIBLE = "visible"
"""The action's own queryset holds it."""

DUE = "due"
"""``due`` finds it."""

BASE = "base"
"""What a ladder's ``due`` is unless a host adds to it: the deadline has lapsed, nobody holds it."""

DETECTED = "detected"
"""A ladder's detection marks it, if its state allows."""

SETTLED = "settled"
"""``resolved_when`` finds it."""

_ALL = (VISIBLE, DUE, BASE, DETECTED, SETTLED)


def attempt(part: Callable[[], T], using: str) -> T | Exception:
    """Return what ``part`` returns or raises.

    Raises a database's error inside a transaction of the caller's, which is lost by it.
    """
    try:
        return part()
    except Exception as error:
        if isinstance(error, DatabaseError) and connections[using].in_atomic_block:
            raise
        return error


def read(action: Action, pk: Any, now: datetime) -> tuple[Any, dict[str, Finding]]:
    """Return the row ``pk`` of the action's model (None: gone), and what each rule says of it.

    The rules are asked one by one only if one of them raises. Raises as ``attempt`` does.
    """
    row = attempt(partial(_read_all, action, pk, now), action.using)
    if not isinstance(row, Exception):
        return row, {name: getattr(row, _column(name), None) for name in _ALL}
    findings: dict[str, Finding] = {
        name: attempt(partial(_ask, action, name, pk, now), action.using) for name in _ALL
    }
    return _rows(action).filter(pk=pk).first(), findings


def _read_all(action: Action, pk: Any, now: datetime) -> Any:
    found_by = {name: _found_by(action, name, now) for name in _ALL}
    columns = {
        _column(name): Exists(rows.filter(pk=OuterRef("pk")))
        for name, rows in found_by.items()
        if rows is not None
    }
    return _rows(action).filter(pk=pk).annotate(**columns).first()


def _ask(action: Action, name: str, pk: Any, now: datetime) -> bool | None:
    rows = _found_by(action, name, now)
    return None if rows is None else rows.filter(pk=pk).exists()


def _found_by(action: Action, name: str, now: datetime) -> models.QuerySet[Any] | None:
    """Return the rows that a rule finds, whether or not the action's own queryset holds them."""
    if name == VISIBLE:
        return action.get_queryset().using(action.using)
    rule = _rule(action, name, now)
    if rule is None:
        return None
    try:
        return _rows(action).filter(rule)
    except FieldError:  # it names what only that queryset annotates
        return action.get_queryset().using(action.using).filter(rule)


def _rule(action: Action, name: str, now: datetime) -> Q | None:
    if name == DUE:
        return action.due(now)
    if not isinstance(action, LadderAction):
        return None
    if name == BASE:
        return LadderAction.due(action, now)
    return action.detection.due(now) if name == DETECTED else action.resolved_when()


def _rows(action: Action) -> models.QuerySet[Any]:
    rows: models.QuerySet[Any] = models.QuerySet(action.model).using(action.using)
    return rows


def _column(name: str) -> str:
    return f"_finding_{name}"
