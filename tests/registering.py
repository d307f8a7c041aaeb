"""A registry with just the actions that a test is about."""

from collections.abc import Iterator
from contextlib import contextmanager

from idempotent_actions import Action, testing
from idempotent_actions.registry import registry

__all__ = ["only"]


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
