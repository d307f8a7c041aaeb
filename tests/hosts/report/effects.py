"""What the report does to the world outside."""

from datetime import timedelta

from idempotent_actions import Receipt, effect
from idempotent_actions.effects import Call
from tests.hosts import outside

__all__ = ["mail_report"]


@effect(per="recipient", timeout=timedelta(seconds=10))
def mail_report(call: Call) -> Receipt:
    """Mail the report of a day. ``recipient`` stays the same where the address is corrected."""
    with outside.reached():
        ref = outside.do(
            "report", call.params["to"], call.idempotency_key, day=call.params["day"]
        )  # fmt: skip
    return Receipt(ref)
