"""What the shop does to the world outside: it takes money, and gives it back."""

from datetime import timedelta

from idempotent_actions import Receipt, Replay, effect
from idempotent_actions.effects import Call
from tests.hosts import outside

__all__ = ["give_back", "take_money"]

REMEMBERED = Replay(window=timedelta(hours=23))
"""The bank answers a key that it knows from memory."""


@effect(recovery=REMEMBERED, timeout=timedelta(seconds=10))
def take_money(call: Call) -> Receipt:
    """Charge a card."""
    return _ask_bank("charge", call.params["card"], call)


@effect(recovery=REMEMBERED, timeout=timedelta(seconds=10))
def give_back(call: Call) -> Receipt:
    """Refund a card."""
    return _ask_bank("refund", call.params["card"], call)


def _ask_bank(kind: str, card: str, call: Call) -> Receipt:
    order, amount = call.params["order"], call.params["amount"]
    with outside.reached():
        ref = outside.do(
            kind, card, call.idempotency_key, keeps_keys=True, order=order, amount=amount
        )
    return Receipt(ref)
