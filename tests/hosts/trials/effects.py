"""What a trial's end does to the world outside."""

from datetime import timedelta

from idempotent_actions import Receipt, Reconcile, effect
from idempotent_actions.effects import Call
from tests.hosts import outside

__all__ = ["SETTLE_TIME", "open_account"]

SETTLE_TIME = timedelta(minutes=5)


def find_account(call: Call) -> Receipt | None:
    """Ask the partner whether there is an account for this trial."""
    return outside.find("account", call.params["code"])


@effect(recovery=Reconcile(find_account, settle_time=SETTLE_TIME), timeout=timedelta(seconds=10))
def open_account(call: Call) -> Receipt:
    """Have the partner open an account. It takes no keys: asked twice, it opens two."""
    with outside.reached():
        return Receipt(outside.do("account", call.params["code"], call.idempotency_key))
