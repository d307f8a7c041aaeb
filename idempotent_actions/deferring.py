"""Calls that are put off: noted in a row, asked for again in the same row, made once it is due.

The row is the truth and the queue only the messenger: what the queue loses is handed out again.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db import transaction

from idempotent_actions import clock
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import retry_transient
from idempotent_actions.exceptions import InvalidInput, InvalidParameters
from idempotent_actions.leases import home
from idempotent_actions.models.lease import DeferredCall
from idempotent_actions.parameters import freeze
from idempotent_actions.queued import GIVE_UP_AFTER, push, run_deferred

__all__ = ["GIVE_UP_AFTER", "check_storable", "hand_out", "put_off"]

_logger = logging.getLogger("idempotent_actions")


def put_off(
    name: str,
    function: str,
    arguments: Mapping[str, Any],
    *,
    wait: timedelta,
    max_wait: timedelta,
) -> datetime:
    """Note that ``function`` is to be called in ``wait`` from now, in the row called ``name``.

    A row that is there is put off, with these arguments (from ``check_storable``) instead of its
    own, but not beyond ``max_wait`` after the first request since it was last called.

    Returns when it is due.
    """
    using = home()

    @transaction.atomic(using=using)
    def work() -> datetime:
        now = clock.now(using)
        first = {"asked_at": now, "latest_at": now, "due_at": now, "serial": 0}
        rows = DeferredCall.objects.using(using).select_for_update()
        call, _created = rows.get_or_create(name=name, defaults=first)
        if call.serial == 0:  # the first request since it was last called
            call.latest_at = now + max_wait
        call.function = function
        call.args, call.kwargs = arguments["args"], arguments["kwargs"]
        call.asked_at = now
        call.serial += 1
        call.due_at = min(now + wait, call.latest_at)
        call.save(using=using)
        return call.due_at

    return retry_transient(work, using=using, tries=get_settings().MAX_TRIES)


def check_storable(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments as a row stores them; they come back by ``parameters.thaw``.

    Raises ``InvalidInput`` for what is neither text, a number, a date, a UUID, nor made of them.
    """
    try:
        return freeze({"args": list(args), "kwargs": dict(kwargs)})
    except InvalidParameters as error:
        raise InvalidInput(f"A call takes plain values through the queue: {error}") from error


def hand_out(limit: int = 100) -> int:
    """Give the calls that are due, at most ``limit`` of them, to the queue; return how many.

    To be called each minute. A call that was handed out and not answered for is handed out again
    after ``GIVE_UP_AFTER``. Several may hand out at once. A push that fails ends it, and is logged:
    the next sweep finds the call due.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidInput(f"limit must be a whole number of at least 0, not {limit!r}.")
    if not apps.is_installed("django_q"):
        return 0
    using = home()
    rows = DeferredCall.objects.using(using)
    now = clock.now(using)
    count = 0
    for call in rows.due(now).only("due_at", "token", "function")[:limit]:
        # One that has not begun keeps its token: where the queue is slower than the patience here,
        # the first of its tasks to come makes the call, and the others find nothing to do.
        token = call.token or uuid4()
        there = rows.filter(pk=call.pk, due_at=call.due_at)
        if not there.update(token=token, due_at=now + GIVE_UP_AFTER):
            continue  # another sweep has it, or it was put off meanwhile
        try:
            push(run_deferred, call.pk, str(token), group=call.function)
        except Exception:
            rows.filter(pk=call.pk, token=token).update(due_at=call.due_at)
            told = {"action": "hand_out.failed", "function": call.function}
            _logger.warning(
                "the queue took no call of %s", call.function, exc_info=True, extra=told
            )
            break
        count += 1
    return count
