"""What dunning does to the world outside."""

from datetime import timedelta

from idempotent_actions import Receipt, effect
from idempotent_actions.effects import Call
from tests.hosts import outside

__all__ = ["write_to_buyer"]


@effect(timeout=timedelta(seconds=10))
def write_to_buyer(call: Call) -> Receipt:
    """Send one letter. The post knows no keys and answers no questions."""
    params = call.params
    with outside.reached():
        ref = outside.do(
            "letter", params["to"], call.idempotency_key, bill=params["bill"], rung=params["rung"]
        )
    return Receipt(ref)
