"""Reading candidates: primary keys in an order an index serves, page by page, in flat memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Cast

from idempotent_actions.actions import Action, Branch

__all__ = ["PAGE_IN_BATCHES", "candidate_pks", "candidate_query", "in_batches", "ordering"]

T = TypeVar("T")

PAGE_IN_BATCHES = 20
"""Batches of keys read by one query. Deadlines are often equal (midnight), and a page is sorted
within equal ones: many small pages over one large group would each sort that group again."""

_ANYHOW = "_anyhow"


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` items, reading no further ahead."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def candidate_pks(action: Action, branch: Branch, page_size: int) -> Iterator[list[Any]]:
    """Yield pages of at most ``page_size`` primary keys that ``branch`` finds, each key once.

    Rows may change between two pages: the keyset goes on after the last row it has seen, and what
    it names is asked again under the lock.
    """
    last: tuple[Any, ...] | None = None
    while True:
        rows = list(candidate_query(action, branch, last)[:page_size])
        yield list(dict.fromkeys(row[-1] for row in rows))  # a to-many join yields a key twice
        if len(rows) < page_size:
            return
        last = rows[-1]


def candidate_query(
    action: Action, branch: Branch, last: tuple[Any, ...] | None = None
) -> models.QuerySet[Any, Any]:
    """Return the query for (order values ..., pk) of ``branch`` behind the row ``last``."""
    query = action.get_queryset().using(action.using).filter(branch.rule)
    names = [path.removeprefix("-") for path in branch.order_by]
    if not names:
        # Never ORDER BY pk LIMIT n: to save a sort, PostgreSQL walks the whole primary key until it
        # has met n due rows. As text it can't.
        query = query.annotate(**{_ANYHOW: Cast("pk", models.CharField(max_length=255))})
        branch = Branch(branch.rule, (_ANYHOW,), never_null=True)
        names = [_ANYHOW]
    if last is not None:
        query = query.filter(_behind(branch.order_by, last, branch.never_null))
    return query.order_by(*ordering(branch)).values_list(*names, "pk")


def ordering(branch: Branch) -> list[Any]:
    """Return the ORDER BY terms: the primary key last, nulls at the end on every backend."""
    if branch.never_null:  # spares MariaDB and SQLite a second term that no index serves
        return [*branch.order_by, "pk"]
    terms = [
        F(path.removeprefix("-")).desc(nulls_last=True)
        if path.startswith("-")
        else F(path).asc(nulls_last=True)
        for path in branch.order_by
    ]
    return [*terms, "pk"]


def _behind(order_by: tuple[str, ...], last: tuple[Any, ...], never_null: bool) -> Q:
    if not order_by:
        return Q(pk__gt=last[0])
    rest = _behind(order_by[1:], last[1:], never_null)
    name, value = order_by[0].removeprefix("-"), last[0]
    if value is None:
        return Q(**{f"{name}__isnull": True}) & rest
    beyond, from_there = ("lt", "lte") if order_by[0].startswith("-") else ("gt", "gte")
    behind = Q(**{f"{name}__{beyond}": value}) | (Q(**{name: value}) & rest)
    if not never_null:
        return behind | Q(**{f"{name}__isnull": True})
    # Says the same again in a form that lets an index start where the last page ended.
    return Q(**{f"{name}__{from_there}": value}) & behind
