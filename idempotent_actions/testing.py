"""Helpers for a host's own tests: run a tick inline, travel in time, register actions."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Unpack

from django.utils import timezone

from idempotent_actions import clock, polling
from idempotent_actions.actions import Action
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report

__all__ = ["registered", "tick", "travel"]


@contextmanager
def travel(to: datetime) -> Iterator[None]:
    """Let the app's clock, which is the database's, stand still at ``to``, an aware datetime.

    Deadlines are compared with it and audit rows stamped with it, in this process only. It
    nests, but not across threads: start threads inside of it.
    """
    clock.check_instant(to, "to")
    before = clock._travelled_to
    clock._travelled_to = to if timezone.is_aware(to) else timezone.make_aware(to)
    try:
        yield
    finally:
        clock._travelled_to = before


def tick(*actions: str | type[Action], **options: Unpack[polling.PollOptions]) -> list[Report]:
    """Run a whole tick inline: all registered actions, or these, by name or class.

    Works inside pytest-django's ``db`` fixture. Returns a report for each action; raises
    ``AssertionError`` when a row failed, so that a test never passes over an error. What became of
    the effects is in each report's ``delivery``.
    """
    names = [each if isinstance(each, str) else _name(each) for each in actions]
    options = {"workers": 0, **options}  # other threads don't see what an open test transaction has
    reports = polling.tick(*names, **options)
    errors = [error for report in reports for error in report.errors]
    if errors:
        raise AssertionError(f"Rows failed in this tick: {errors}")
    return reports


@contextmanager
def registered(*classes: type[Action]) -> Iterator[None]:
    """Register actions for the length of a block. Raises ``InvalidAction`` as ``register`` does."""
    names: list[str] = []
    try:
        for each in classes:
            action = each()
            registry.add(action)
            names.append(action.name)
        yield
    finally:
        for name in names:
            registry.remove(name)


def _name(cls: type[Action]) -> str:
    return next((each.name for each in registry if type(each) is cls), cls.name or cls.__name__)
