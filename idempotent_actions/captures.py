"""The ledger of effects: each is done at most once per idempotency key, and none is lost.

``request`` notes an effect in the caller's transaction; ``perform`` does one now. What is requested
is done by ``deliver``. A duplicate is no error: it is answered with the capture that is there.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import models

from idempotent_actions import clock
from idempotent_actions.barrier import Claim
from idempotent_actions.crashpoints import crash_point
from idempotent_actions.deliveries import carry_out, deliver_one
from idempotent_actions.delivering import DeliveryReport, deliver, home
from idempotent_actions.effects import Effect
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.intents import Wanted, subject_columns, wanted
from idempotent_actions.ledger import claim_new, request_row
from idempotent_actions.models.capture import Capture
from idempotent_actions.nudges import nudge
from idempotent_actions.running import refuse_inside_transaction

__all__ = ["DeliveryReport", "deliver", "perform", "request"]

Key = str | Sequence[str | int | UUID]


def request(
    effect: Effect,
    *,
    key: Key,
    params: Mapping[str, Any] | None = None,
    subject: models.Model | None = None,
) -> Capture:
    """Note that ``effect`` is to be done once for ``key``: by delivery, after the commit.

    Joins the caller's transaction, and goes with it when that rolls back. ``key`` is text of
    business facts, or a sequence of parts for ``make_key``; ``params`` are frozen now; ``subject``
    is the row it is about, for the record.

    Returns the stored capture, also where the key was requested before. Raises ``KeyReused`` if it
    was for another effect or other parameters, ``InvalidKey`` or ``InvalidParameters``.
    """
    using = home()
    new = _wanted(effect, key, params, subject).capture(clock.now(using))
    capture = request_row(new, using)
    nudge(using)
    return capture


def perform(
    effect: Effect,
    *,
    key: Key,
    params: Mapping[str, Any] | None = None,
    subject: models.Model | None = None,
) -> Capture:
    """Do ``effect`` now, unless it was done for ``key`` before; arguments as for ``request``.

    Returns the capture as it is afterwards. Its ``state`` says what is known: ``succeeded`` (see
    ``result``), ``failed``, ``pending`` (not sent, tried again by delivery), ``unknown`` or
    ``review``, or ``sending`` when another worker is at it right now.

    Raises ``InsideTransaction`` inside one, before anything is done, and what ``request`` raises.
    """
    refuse_inside_transaction()
    using = home()
    capture, claimed = claim_new(_wanted(effect, key, params, subject), using)
    if claimed:
        crash_point("after_barrier_commit")
        assert capture.first_sent_at is not None  # noqa: S101 - claiming sets it
        claim = Claim(capture, effect, None, subject, capture.first_sent_at)
        done = carry_out(claim, using)
    elif capture.wake_at is not None and capture.wake_at <= clock.now(using):
        delivered = deliver_one(capture.pk, None, using, patient=True)
        if delivered is None:
            return capture
        done = delivered
    else:
        return capture
    if done.interrupt is not None:
        raise done.interrupt
    if done.capture is not None:
        return done.capture
    capture.refresh_from_db()
    return capture


def _wanted(
    effect: Effect,
    key: Key,
    params: Mapping[str, Any] | None,
    subject: models.Model | None,
) -> Wanted:
    if subject is not None and (not isinstance(subject, models.Model) or subject.pk is None):
        raise InvalidInput(f"subject must be a saved row, not {subject!r}.")
    return wanted(effect, key, params, **subject_columns(subject))
