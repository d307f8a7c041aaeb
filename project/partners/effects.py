"""What is done to the partner: an entry is written to its ledger."""

from datetime import timedelta

from idempotent_actions import Receipt, Refused, Replay, effect
from idempotent_actions.effects import Call
from project.partners.ledger import Entry, KeyTaken, partner_ledger

__all__ = ["TIMEOUT", "post_invoice"]

TIMEOUT = timedelta(seconds=40)
"""Longer than the ledger's file may be busy, shorter than a worker may take over one task."""


@effect(
    # The ledger never forgets a key. But what nobody could write for a month is worth a look.
    recovery=Replay(window=timedelta(days=30)),
    timeout=TIMEOUT,
)
def post_invoice(call: Call) -> Receipt:
    """Write what an invoice amounts to into the partner's ledger, once for the call's key."""
    try:
        reference = partner_ledger().post(call.idempotency_key, Entry(**call.params))
    except KeyTaken as error:
        raise Refused(str(error), code="key_taken") from error
    return Receipt(provider_ref=reference)
