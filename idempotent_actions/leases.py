"""Leases: a name is held by one at a time, for a while. They spare work; nothing rests on them.

Taken, renewed and released in statements of their own, by the database's clock. Who dies holding
one blocks it until it lapses, and no longer.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

from django.db import models, router
from django.db.models import Q

from idempotent_actions import clock
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import inside_transaction, retry_transient
from idempotent_actions.exceptions import InsideTransaction, InvalidInput
from idempotent_actions.models.lease import MAX_LEASE_NAME, Lease
from idempotent_actions.running import worker

__all__ = ["Held", "check_lasting", "check_name", "forget_lapsed", "home", "take"]

_FORGOTTEN_AFTER = timedelta(days=1)
"""A lapsed lease is kept for so long, for whoever wants to know who died holding it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that was taken: proof is the token, not the holder's word."""

    name: str
    token: UUID
    lasts: timedelta

    def renew(self) -> bool:
        """Hold it as long again from now; False when it is another's by now, or was let go."""
        using = home()
        until = clock.now(using) + self.lasts
        return bool(_mine(self, using).update(expires_at=until))

    def release(self) -> bool:
        """Let go of it; False when it was no longer this one's, and nothing was freed."""
        deleted, _by_model = _mine(self, home()).delete()
        return bool(deleted)


def take(name: str, lasts: timedelta) -> Held | None:
    """Take the lease ``name`` for as long as ``lasts``; None while another holds it.

    One that has lapsed is free. Raises ``InvalidInput`` for a name or a time it can't take, and
    ``InsideTransaction`` inside one: others would wait for its end, and a rollback would undo it.
    """
    held = Held(check_name(name), uuid4(), check_lasting(lasts, "lasts"))
    using = home()
    if inside_transaction(using):
        raise InsideTransaction(
            f"The lease {name!r} can't be taken inside a transaction: whoever asks for it next "
            f"would wait for the end of yours. Take it before, or leave it to on_commit()."
        )
    tries = get_settings().MAX_TRIES
    return held if retry_transient(partial(_take, held, using), using=using, tries=tries) else None


def forget_lapsed() -> int:
    """Delete leases that lapsed long ago and that nobody has taken since; return how many."""
    using = home()
    long_ago = clock.now(using) - _FORGOTTEN_AFTER
    deleted, _by_model = Lease.objects.using(using).lapsed(long_ago).delete()
    return deleted


def check_name(name: str) -> str:
    """Return ``name`` if a lease can be called so; raise ``InvalidInput`` otherwise."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_LEASE_NAME or "\0" in name:
        raise InvalidInput(
            f"A lease's name is text of 1 to {MAX_LEASE_NAME} characters, not {name!r}."
        )
    return name


def check_lasting(lasts: timedelta, what: str) -> timedelta:
    """Return ``lasts`` if it is a length of time above zero; raise ``InvalidInput`` otherwise."""
    if not isinstance(lasts, timedelta) or not timedelta(0) < lasts <= timedelta(days=3650):
        raise InvalidInput(f"{what} must be a timedelta above zero, at most 3650 days: {lasts!r}.")
    return lasts


def _take(held: Held, using: str) -> bool:
    now = clock.now(using)
    columns = {
        "token": held.token,
        "owner": worker(),
        "taken_at": now,
        "expires_at": now + held.lasts,
    }
    rows = Lease.objects.using(using)
    # Inserted if nobody has it. The UPDATE then finds what was inserted, or takes over a lapsed
    # one; either way one row says that it is ours. Two who take over a lapsed one queue for its
    # row, and the second finds that it no longer is lapsed.
    rows.bulk_create([Lease(name=held.name, **columns)], ignore_conflicts=True)
    free = Q(token=held.token) | Q(expires_at__lte=now)
    return bool(rows.filter(free, name=held.name).update(**columns))


def _mine(held: Held, using: str) -> models.QuerySet[Lease]:
    return Lease.objects.using(using).filter(name=held.name, token=held.token)


def home() -> str:
    """Return the alias of the database that leases and put-off calls are in."""
    return router.db_for_write(Lease)
