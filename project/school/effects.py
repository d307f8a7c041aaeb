"""What the school does to the world outside: it writes home."""

from datetime import timedelta

from idempotent_actions import Park, Receipt, effect
from idempotent_actions.effects import Call
from project.mailing import send_notice

__all__ = ["send_no_show_notice"]


@effect(recovery=Park(), timeout=timedelta(seconds=60))
def send_no_show_notice(call: Call) -> Receipt:
    """Mail the rung's notice. A mail server knows no keys, so an unknown outcome is a person's."""
    return send_notice(call, f"school/{call.params['rung']}.txt", to=call.params["to"])
