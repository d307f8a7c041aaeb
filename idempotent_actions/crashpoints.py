"""Named points between the steps of a delivery, where a test lets it crash. Nothing in production.

In the order they are passed: ``after_intent``, ``before_barrier_commit``, ``after_barrier_commit``,
``after_effect``, ``before_settle_commit``, ``after_settle_commit``.
"""

from collections.abc import Callable

__all__ = ["CRASH_POINTS", "crash_point", "install"]

CRASH_POINTS = (
    "after_intent",
    "before_barrier_commit",
    "after_barrier_commit",
    "after_effect",
    "before_settle_commit",
    "after_settle_commit",
)

_crash: Callable[[str], object] | None = None


def crash_point(name: str) -> None:
    """Tell a test, if one is listening, that delivery has come to this point."""
    if _crash is not None:
        _crash(name)


def install(crash: Callable[[str], object] | None) -> None:
    """Call ``crash`` with the name of each point from now on; None: no longer."""
    global _crash
    _crash = crash
