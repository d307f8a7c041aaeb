"""What Stripe's endpoints do that move money. Each acts in the transaction that it is given."""

import json
import secrets
import sqlite3
import time
from typing import Any

from project.sandbox.payment_book import Call, write_act
from project.sandbox.payment_errors import Answer, Body, Refused, error

__all__ = ["cancel", "capture", "create_intent", "find", "refund"]

DECLINED_METHODS = {"pm_card_declined", "pm_card_chargeDeclined"}


def create_intent(db: sqlite3.Connection, call: Call, declined: bool) -> Answer:
    """Create a payment intent, and charge or authorize it if it comes with ``confirm``.

    Args:
        db: the transaction.
        call: the request.
        declined: the bank says no, whatever the payment method.
    """
    amount = _amount(call)
    if not call.params.get("currency"):
        raise _missing("currency")
    method = call.params.get("payment_method")
    manual = call.params.get("capture_method") == "manual"
    intent: Body = {
        "id": _new_id("pi"),
        "object": "payment_intent",
        "amount": amount,
        "amount_capturable": 0,
        "amount_received": 0,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "manual" if manual else "automatic",
        "confirmation_method": "automatic",
        "created": int(time.time()),
        "currency": call.params["currency"],
        "customer": call.params.get("customer"),
        "description": call.params.get("description"),
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": _metadata(call),
        "payment_method": method,
        "status": "requires_confirmation" if method else "requires_payment_method",
    }
    answer = Answer(200, intent)
    if call.params.get("confirm") == "true":
        if not method:
            raise _missing("payment_method")
        if declined or method in DECLINED_METHODS:
            answer = _decline(db, call, intent)
        else:
            _confirm(db, call, intent)
    _save(db, intent)
    for name, value in intent["metadata"].items():
        db.execute("INSERT INTO metadata VALUES (?, ?, ?)", (intent["id"], name, value))
    return answer


def _confirm(db: sqlite3.Connection, call: Call, intent: Body) -> None:
    intent["latest_charge"] = _new_id("ch")
    if intent["capture_method"] == "manual":
        intent.update(status="requires_capture", amount_capturable=intent["amount"])
        write_act(db, "authorize", call, intent, intent["amount"])
    else:
        intent.update(status="succeeded", amount_received=intent["amount"])
        write_act(db, "charge", call, intent, intent["amount"])


def _decline(db: sqlite3.Connection, call: Call, intent: Body) -> Answer:
    message = "Your card was declined."
    more = {"code": "card_declined", "decline_code": "generic_decline"}
    failure = {"type": "card_error", "message": message, **more}
    intent.update(status="requires_payment_method", payment_method=None, last_payment_error=failure)
    write_act(db, "decline", call, intent, intent["amount"])
    return error(402, "card_error", message, **more, payment_intent=dict(intent))


def capture(db: sqlite3.Connection, call: Call, intent_id: str) -> Answer:
    """Take the money of an authorized intent, all of it or ``amount_to_capture``."""
    intent = find(db, "payment_intent", intent_id)
    if intent["status"] != "requires_capture":
        return _unexpected_state(intent, "captured")
    amount = intent["amount_capturable"]
    if "amount_to_capture" in call.params:
        amount = _amount(call, "amount_to_capture")
    if amount > intent["amount_capturable"]:
        raise _invalid("amount_to_capture", "amount_too_large", "That is more than authorized.")
    intent.update(status="succeeded", amount_capturable=0, amount_received=amount)
    write_act(db, "capture", call, intent, amount)
    _save(db, intent)
    return Answer(200, intent)


def cancel(db: sqlite3.Connection, call: Call, intent_id: str) -> Answer:
    """Cancel an intent whose money has not been taken; an authorization is let go."""
    intent = find(db, "payment_intent", intent_id)
    if intent["status"] in ("succeeded", "canceled"):
        return _unexpected_state(intent, "canceled")
    intent.update(
        status="canceled",
        amount_capturable=0,
        canceled_at=int(time.time()),
        cancellation_reason=call.params.get("cancellation_reason"),
    )
    write_act(db, "cancel", call, intent, intent["amount"])
    _save(db, intent)
    return Answer(200, intent)


def refund(db: sqlite3.Connection, call: Call) -> Answer:
    """Give back what an intent took: ``amount``, or all that has not been given back yet."""
    if not call.params.get("payment_intent"):
        raise _missing("payment_intent")
    intent = find(db, "payment_intent", call.params["payment_intent"])
    rows = db.execute(
        "SELECT body FROM objects WHERE object = 'refund' AND intent = ?", (intent["id"],)
    )
    left = intent["amount_received"] - sum(json.loads(row["body"])["amount"] for row in rows)
    if not left:
        message = f"{intent['id']} has no money left to give back."
        return error(400, "invalid_request_error", message, code="charge_already_refunded")
    amount = _amount(call) if "amount" in call.params else left
    if amount > left:
        raise _invalid("amount", "amount_too_large", f"Only {left} can be given back.")
    made: Body = {
        "id": _new_id("re"),
        "object": "refund",
        "amount": amount,
        "charge": intent["latest_charge"],
        "created": int(time.time()),
        "currency": intent["currency"],
        "metadata": _metadata(call),
        "payment_intent": intent["id"],
        "reason": call.params.get("reason"),
        "status": "succeeded",
    }
    write_act(db, "refund", call, intent, amount)
    _save(db, made)
    return Answer(200, made)


def find(db: sqlite3.Connection, kind: str, object_id: str) -> Body:
    """Return a stored object.

    Args:
        db: the transaction.
        kind: its Stripe type, like ``payment_intent``.
        object_id: its id.

    Raises:
        Refused: there is none; Stripe's 404.
    """
    row = db.execute(
        "SELECT body FROM objects WHERE object = ? AND id = ?", (kind, object_id)
    ).fetchone()
    if not row:
        message = f"No such {kind}: {object_id!r}"
        raise Refused(error(404, "invalid_request_error", message, code="resource_missing"))
    found: Body = json.loads(row["body"])
    return found


def _save(db: sqlite3.Connection, body: Body) -> None:
    intent = body.get("payment_intent", body["id"])
    # An upsert keeps the row's place, by which lists are ordered.
    db.execute(
        "INSERT INTO objects VALUES (?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        (body["id"], body["object"], intent, json.dumps(body)),
    )


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


def _metadata(call: Call) -> dict[str, str]:
    return {
        name.removeprefix("metadata[").removesuffix("]"): value
        for name, value in call.params.items()
        if name.startswith("metadata[")
    }


def _amount(call: Call, name: str = "amount") -> int:
    given = call.params.get(name, "")
    if not given:
        raise _missing(name)
    if not (given.isascii() and given.isdigit() and int(given)):
        raise _invalid(name, "parameter_invalid_integer", f"Invalid positive integer: {given}")
    return int(given)


def _missing(name: str) -> Refused:
    return _invalid(name, "parameter_missing", f"Missing required param: {name}.")


def _invalid(name: str, code: str, message: str) -> Refused:
    return Refused(error(400, "invalid_request_error", message, code=code, param=name))


def _unexpected_state(intent: Body, what: str) -> Answer:
    more: dict[str, Any] = {"code": "payment_intent_unexpected_state", "payment_intent": intent}
    message = f"This PaymentIntent could not be {what} because its status is {intent['status']}."
    return error(400, "invalid_request_error", message, **more)
