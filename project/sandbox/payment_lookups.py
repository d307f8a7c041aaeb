"""What Stripe's endpoints tell: one object, a list, or a search by metadata."""

import json
import re
import sqlite3
from typing import Any

from project.sandbox.payment_acts import find
from project.sandbox.payment_book import Call
from project.sandbox.payment_errors import Answer, Body, Refused, error

__all__ = ["list_objects", "retrieve", "search_intents"]

LIMIT = 10  # objects on a page, as at Stripe
MOST = 100

# metadata['order']:'42', in either quotes; a quote inside is escaped by a backslash
CLAUSE = re.compile(r"""metadata\[(['"])(.+?)\1\]:(['"])((?:\\.|(?!\3).)*)\3""")


def retrieve(db: sqlite3.Connection, kind: str, object_id: str) -> Answer:
    """Return one object; see `find`."""
    return Answer(200, find(db, kind, object_id))


def list_objects(db: sqlite3.Connection, call: Call, kind: str) -> Answer:
    """Return a page of all objects of a type, the newest first.

    Args:
        db: the transaction.
        call: the request; ``limit``, ``starting_after`` and ``payment_intent`` narrow it down.
        kind: Stripe type, like ``refund``.
    """
    query = "SELECT rowid, body FROM objects WHERE object = ?"
    given: list[Any] = [kind]
    if after := call.params.get("starting_after"):
        query += " AND rowid < (SELECT rowid FROM objects WHERE id = ?)"
        given.append(after)
    if intent := call.params.get("payment_intent"):
        query += " AND intent = ?"
        given.append(intent)
    limit = _limit(call)
    rows = db.execute(f"{query} ORDER BY rowid DESC LIMIT ?", [*given, limit + 1]).fetchall()
    return Answer(200, _page(call, "list", rows, limit))


def search_intents(db: sqlite3.Connection, call: Call) -> Answer:
    """Return the payment intents with one metadata value, the newest first.

    Stripe's own search lags behind by up to a minute. This one does not.
    """
    asked = CLAUSE.fullmatch(call.params.get("query", "").strip())
    if not asked:
        message = "Only metadata['name']:'value' can be searched for here."
        raise Refused(error(400, "invalid_request_error", message, param="query"))
    value = re.sub(r"\\(.)", r"\1", asked[4])
    limit, offset = _limit(call), int(call.params.get("page") or 0)
    rows = db.execute(
        "SELECT o.rowid, o.body FROM metadata m JOIN objects o ON o.id = m.intent"
        " WHERE m.name = ? AND m.value = ? ORDER BY o.rowid DESC LIMIT ? OFFSET ?",
        (asked[2], value, limit + 1, offset),
    ).fetchall()
    page = _page(call, "search_result", rows, limit)
    page["next_page"] = str(offset + limit) if page["has_more"] else None
    return Answer(200, page)


def _limit(call: Call) -> int:
    given = call.params.get("limit", str(LIMIT))
    if not (given.isascii() and given.isdigit() and 1 <= int(given) <= MOST):
        message = f"limit must be from 1 to {MOST}, not {given}."
        raise Refused(error(400, "invalid_request_error", message, param="limit"))
    return int(given)


def _page(call: Call, kind: str, rows: list[Any], limit: int) -> Body:
    return {
        "object": kind,
        "url": call.path,
        "data": [json.loads(row["body"]) for row in rows[:limit]],
        "has_more": len(rows) > limit,
    }
