"""The effect that all legs perform: nothing, and it is counted."""

from typing import Any

from idempotent_actions.effects import Call, effect

__all__ = ["benchmark_noop", "done", "nothing"]

_calls = 0


def nothing(params: dict[str, Any]) -> dict[str, Any]:
    """Do nothing and return a small result."""
    global _calls
    _calls += 1
    return {"parameters": len(params)}


def done() -> int:
    """Return how often nothing was done."""
    return _calls


@effect
def benchmark_noop(call: Call) -> Any:
    """Do nothing, once per key."""
    return nothing(call.params)
