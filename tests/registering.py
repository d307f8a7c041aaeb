"""A registry with just the actions that a test is about, and actions that it refuses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from idempotent_actions import Action, LadderAction, register, testing
from idempotent_actions.exceptions import InvalidAction
from idempotent_actions.registry import registry
from tests.oddities.models import DispatchParcels

__all__ = ["dispatch", "ladder_of", "only", "refusal"]


@contextmanager
def only(*classes: type[Action]) -> Iterator[None]:
    """Let `classes` be all the actions there are, for the length of a block."""
    before = dict(registry._actions)
    registry._actions.clear()
    try:
        with testing.registered(*classes):
            yield
    finally:
        registry._actions.clear()
        registry._actions.update(before)


def refusal(cls: Any) -> str:
    """The message with which registration refuses `cls`, which is then not registered."""
    with pytest.raises(InvalidAction) as caught:
        register(cls)
    assert not list(registry)
    return str(caught.value)


def dispatch(**members: Any) -> type[Action]:
    """An action on parcels that differs from a good one in `members`."""
    return type("Odd", (DispatchParcels,), members)


def ladder_of(model: Any, **members: Any) -> type[Action]:
    return type("Odd", (LadderAction,), {"model": model, **members})
