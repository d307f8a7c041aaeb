"""The ledger's own statements: request a capture, claim a new one, settle a claimed one.

On PostgreSQL a new capture is claimed, and a claimed one settled, in one statement each; a look at
the key goes before, so that ``perform`` makes three round trips the first time, and one that writes
nothing from then on. Elsewhere the same is done step by step.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connections, models, transaction

from idempotent_actions import clock
from idempotent_actions.databases import repeating_cursor
from idempotent_actions.exceptions import KeyReused
from idempotent_actions.intents import Wanted
from idempotent_actions.models.attempt import CaptureAttempt
from idempotent_actions.models.capture import SENDING, Capture
from idempotent_actions.pausing import paused_by
from idempotent_actions.running import worker

__all__ = ["claim_new", "open_attempt", "request_row", "write_settled"]


def request_row(new: Capture, using: str) -> Capture:
    """Insert ``new`` unless its key is there already; return the stored row.

    Waits for another transaction that is inserting the same key. Raises ``KeyReused`` where the key
    stands for something else.
    """
    rows = Capture.objects.using(using)
    rows.bulk_create([new], ignore_conflicts=True)
    return _same(rows.get(key=new.key), new.effect, new.fingerprint)


def claim_new(wanted: Wanted, using: str) -> tuple[Capture, bool]:
    """Insert a capture as claimed by this worker, or return the row that has its key.

    Under a pause it is inserted as pending, for a delivery after it. Returns the capture, and
    whether it was claimed. Raises ``KeyReused``.
    """
    postgresql = connections[using].vendor == "postgresql"
    capture, claimed = (_claim_on_postgresql if postgresql else _claim_elsewhere)(wanted, using)
    return capture if claimed else _same(capture, wanted.effect.name, wanted.fingerprint), claimed


def open_attempt(capture: Capture, now: datetime, using: str) -> None:
    """Write down that this worker is about to try; part of the barrier's transaction."""
    CaptureAttempt.objects.using(using).create(
        capture=capture,
        token=capture.token,
        generation=capture.generation,
        worker=worker(),
        started_at=now,
    )


_SETTLED = (
    "state",
    "wake_at",
    "waiting_for",
    "waiting_since",
    "finished_at",
    "provider_ref",
    "result",
    "result_is_repr",
    "error",
    "in_doubt",
)
"""What a settle writes, changed or not: the row may have moved on since it was claimed."""

_TOLD = ("finished_at", "outcome", "provider_ref", "error")
"""What the attempt is told, besides ``late``."""


def write_settled(
    capture: Capture, accepted: Sequence[str], told: Mapping[str, Any], using: str
) -> str:
    """Write a worker's truth, if its token still counts, and complete its attempt either way.

    ``accepted``: the states in which the row takes it. ``told``: what the attempt is told, by
    column. Returns ``settled``, ``late`` (the truth stands on the attempt alone) or ``already``
    (this very worker has settled it before, and the answer was lost).
    """
    connection = connections[using]
    if connection.vendor == "postgresql":
        done, tried = _settle_on_postgresql(capture, accepted, told, connection)
    else:
        done, tried = _settle_elsewhere(capture, accepted, told, using)
    if done:
        return "settled"
    if tried:
        return "late"
    mine = CaptureAttempt.objects.using(using).filter(capture=capture.pk, token=capture.token)
    return "late" if mine.filter(late=True).exists() else "already"


def _settle_elsewhere(
    capture: Capture, accepted: Sequence[str], told: Mapping[str, Any], using: str
) -> tuple[bool, bool]:
    claimed = Capture.objects.using(using).filter(
        pk=capture.pk, token=capture.token, generation=capture.generation, state__in=accepted
    )
    unfinished = CaptureAttempt.objects.using(using).filter(
        capture=capture.pk, token=capture.token, finished_at=None
    )
    with transaction.atomic(using=using):
        done = claimed.update(**{name: getattr(capture, name) for name in _SETTLED})
        tried = unfinished.update(**told, late=not done)
    return bool(done), bool(tried)


def _settle_on_postgresql(
    capture: Capture, accepted: Sequence[str], told: Mapping[str, Any], connection: Any
) -> tuple[bool, bool]:
    statement, of_capture, of_attempt = _settle_statement()
    values = _prepare(of_capture, capture.__dict__, connection)
    told = _prepare(of_attempt, told, connection)
    values |= {f"told_{name}": value for name, value in told.items()}
    values |= {
        "id": capture.pk,
        "token": capture.token,
        "generation": capture.generation,
        "accepted": list(accepted),
    }
    with repeating_cursor(connection) as cursor:
        cursor.execute(statement, values)
        done, tried = cursor.fetchone()
    return done, tried


@cache
def _settle_statement() -> tuple[str, list[Any], list[Any]]:
    fields = [Capture._meta.get_field(name) for name in _SETTLED]
    told = [CaptureAttempt._meta.get_field(name) for name in _TOLD]
    settle = ", ".join(f'"{each.column}" = %({each.attname})s' for each in fields)  # type: ignore[union-attr]
    tell = ", ".join(f'"{each.column}" = %(told_{each.attname})s' for each in told)  # type: ignore[union-attr]
    statement = (
        f'WITH done AS (UPDATE "{Capture._meta.db_table}" SET {settle} '  # noqa: S608 - our names
        "WHERE id = %(id)s AND token = %(token)s AND generation = %(generation)s "
        "AND state = ANY(%(accepted)s) RETURNING 1), "
        f'tried AS (UPDATE "{CaptureAttempt._meta.db_table}" SET {tell}, '
        "late = NOT EXISTS (SELECT FROM done) "
        "WHERE capture_id = %(id)s AND token = %(token)s AND finished_at IS NULL RETURNING 1) "
        "SELECT EXISTS (SELECT FROM done), EXISTS (SELECT FROM tried)"
    )
    return statement, fields, told


def _claim_elsewhere(wanted: Wanted, using: str) -> tuple[Capture, bool]:
    with transaction.atomic(using=using):
        stored = Capture.objects.using(using).filter(key=wanted.key).first()
        if stored is not None:
            return stored, False
        now = clock.now(using)
        if paused_by(using, now, effect=wanted.effect.name):
            return request_row(wanted.capture(now), using), False
        new = wanted.capture(now)
        new.claim(now, wanted.effect.lease)
        new.save(using=using, force_insert=True)
        open_attempt(new, now, using)
    return new, True


def _claim_on_postgresql(wanted: Wanted, using: str) -> tuple[Capture, bool]:
    """The same in one statement. A key that was used before is found by reading alone."""
    connection = connections[using]
    values: dict[str, Any] = {}
    with repeating_cursor(connection) as cursor:
        while True:
            cursor.execute(_find_statement(), {"key": wanted.key})
            if row := cursor.fetchone():
                return _read(row, connection), False
            if paused_by(using, clock.fixed(), effect=wanted.effect.name):
                return request_row(wanted.capture(clock.now(using)), using), False
            values = values or _claim_values(wanted, connection)
            cursor.execute(_claim_statement(), values)
            if row := cursor.fetchone():
                return _read(row, connection), True
            # Somebody committed the key since the look: it is there for the next one.


def _claim_values(wanted: Wanted, connection: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "key": wanted.key,
        "effect": wanted.effect.name,
        "params": wanted.params,
        "fingerprint": wanted.fingerprint,
        "policy": wanted.effect.policy,
        "subject_model": "",
        "subject_pk": "",
        **wanted.about,
    }
    values = _prepare([Capture._meta.get_field(name) for name in values], values, connection)
    return values | {"now": clock.fixed(), "lease": wanted.effect.lease, "worker": worker()}


def _read(row: Sequence[Any], connection: Any) -> Capture:
    """Return the capture of a row, as Django would from a query of its own."""
    fields = Capture._meta.concrete_fields
    names = [field.attname for field in fields]
    values = dict(zip(names, row, strict=True))
    for name in values.keys() & _json_fields().keys():
        values[name] = _json_fields()[name].from_db_value(values[name], None, connection)
    return Capture.from_db(connection.alias, names, list(values.values()))


_NOW = "COALESCE(%(now)s, STATEMENT_TIMESTAMP())"
_CLAIMED = {
    **{name: f"%({name})s" for name in ("key", "effect", "params", "fingerprint", "policy")},
    **{name: f"%({name})s" for name in ("subject_model", "subject_pk")},
    "state": f"'{SENDING}'",
    "created_at": _NOW,
    "first_sent_at": _NOW,
    "wake_at": f"{_NOW} + %(lease)s",
    "generation": "1",
    "token": "1",
    "attempts": "1",
    "in_doubt": "false",
    "result_is_repr": "false",
    **dict.fromkeys(("waiting_for", "provider_ref", "hook_error", "action", "expects"), "''"),
}
"""A row that is claimed at its first request, as ``Capture.claim`` leaves it; the rest is null."""


@cache
def _find_statement() -> str:
    return f'SELECT {_every_column()} FROM "{Capture._meta.db_table}" WHERE "key" = %(key)s'  # noqa: S608 - our names


@cache
def _claim_statement() -> str:
    table, attempts = Capture._meta.db_table, CaptureAttempt._meta.db_table
    names = ", ".join(f'"{name}"' for name in _CLAIMED)
    marks = ", ".join(_CLAIMED.values())
    return (
        f'WITH new AS (INSERT INTO "{table}" ({names}) VALUES ({marks}) '  # noqa: S608 - our names
        f"ON CONFLICT (key) DO NOTHING RETURNING {_every_column()}), "
        f'opened AS (INSERT INTO "{attempts}" (capture_id, token, generation, worker, started_at, '
        "outcome, provider_ref, late) "
        "SELECT id, 1, 1, %(worker)s, created_at, '', '', false FROM new) "
        "TABLE new"
    )


def _every_column() -> str:
    return ", ".join(f'"{field.column}"' for field in Capture._meta.concrete_fields)


def _prepare(fields: Sequence[Any], row: Mapping[str, Any], connection: Any) -> dict[str, Any]:
    """Return columns of ``row`` as parameters; PostgreSQL takes all but JSON as they are."""
    values = {field.attname: row[field.attname] for field in fields}
    for name, field in _json_fields().items():
        if name in values:
            values[name] = field.get_db_prep_save(values[name], connection)
    return values


@cache
def _json_fields() -> dict[str, Any]:
    every = [*Capture._meta.concrete_fields, *CaptureAttempt._meta.concrete_fields]
    return {field.attname: field for field in every if isinstance(field, models.JSONField)}


def _same(stored: Capture, effect: str, fingerprint: str) -> Capture:
    if (stored.effect, stored.fingerprint) != (effect, fingerprint):
        what = "other parameters" if stored.effect == effect else f"effect {stored.effect}"
        raise KeyReused(
            f"The key {stored.key!r} was used before for {what}. A key stands for one effect with "
            f"one set of parameters: put the fact that differs into the key."
        )
    return stored
