"""What the school does to the world outside."""

from datetime import timedelta

from idempotent_actions import Receipt, effect
from idempotent_actions.effects import Call
from tests.hosts import outside

__all__ = ["tell_about_absence"]


@effect(timeout=timedelta(seconds=10))
def tell_about_absence(call: Call) -> Receipt:
    """Call the parents, the counselor or the administrator, whose turn it is."""
    params = call.params
    with outside.reached():
        ref = outside.do(
            "notice", params["student"], call.idempotency_key, rung=params["rung"],
            programme=params["programme"],
        )  # fmt: skip
    return Receipt(ref)
