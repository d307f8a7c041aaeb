"""``enqueue``: a call handed to django-q2 after the commit, and what keeps the queue tidy.

All that is written here is written after the caller's commit, in statements of its own: nobody
waits for the caller's transaction, and its rollback leaves nothing behind.
"""

import inspect
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from django.db import connections, transaction
from django.utils.module_loading import import_string

from idempotent_actions.deferring import check_storable, put_off
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.keys import check_key
from idempotent_actions.leases import Held, check_lasting, home, take
from idempotent_actions.models.lease import Lease
from idempotent_actions.queued import (
    Key,
    let_go,
    path_of,
    push,
    require_queue,
    run,
    short_name,
)

__all__ = ["Debounce", "Unique", "enqueue"]

_logger = logging.getLogger("idempotent_actions")


@dataclass(frozen=True, slots=True)
class Unique:
    """At most one task of a function for ``key`` in the queue at a time; others are skipped.

    ``until``: with ``"done"`` another is skipped until this one has ended, its retries included;
    with ``"start"`` until a worker takes it up, so that what changes from then on gets a task of
    its own. ``lease`` is for how long it holds at most: longer than a task waits and runs.
    The function's path is part of the key. Every skip is logged (``enqueue.skipped``).

    Guaranteed: while the lease holds, no second task is pushed. It frees itself: by the end or the
    start of the task, when the push fails, and at last when it lapses, so that a killed worker, a
    last try that failed or a purged queue blocks the key no longer than that. Not guaranteed: that
    the function runs once, or never twice at once. A queue may deliver a task twice, and a lease
    may lapse while a task waits; in doubt a duplicate is let through rather than a job lost. It
    makes no operation idempotent.
    What leaves the database and must not happen twice is an effect with a capture:
    ``services.request``. To keep calls from overlapping use ``no_overlap``.

    Raises ``InvalidInput`` or ``InvalidKey`` for values that can't work.
    """

    key: Key
    _: KW_ONLY
    lease: timedelta
    until: Literal["done", "start"] = "done"

    def __post_init__(self) -> None:
        """Refuse what can't work."""
        check_key(self.key)
        check_lasting(self.lease, "lease")
        if self.until not in ("done", "start"):
            raise InvalidInput(f'until is "done" or "start", not {self.until!r}.')


@dataclass(frozen=True, slots=True)
class Debounce:
    """Many requests for ``key``, one call, with the last one's arguments.

    It is made once there was no request for ``wait``. ``max_wait`` is how long the first waits at
    most, however many follow. The minute's delivery after that hands the call to the queue. The
    function's path is part of the key.

    Guaranteed, once a request is noted: a call that begins after it and has its arguments, or later
    ones, also where a worker is killed, a push fails or the queue is purged. The request is a row,
    which goes when the call has returned. One that raises is called again, after 2, 4, 8
    minutes and at last each hour. Not guaranteed: that requests see a call each (all but the last
    are dropped), that there is one call only (a worker that is silent for some minutes is given up,
    and its call is made again), or that two never overlap (add ``no_overlap``). It makes no
    operation idempotent. It is refused for effects, of which it would drop all but the last: an
    effect is requested with a capture, ``services.request``.

    Raises ``InvalidInput`` or ``InvalidKey`` for values that can't work.
    """

    key: Key
    _: KW_ONLY
    wait: timedelta
    max_wait: timedelta

    def __post_init__(self) -> None:
        """Refuse what can't work."""
        check_key(self.key)
        check_lasting(self.wait, "wait")
        check_lasting(self.max_wait, "max_wait")
        if self.max_wait < self.wait:
            raise InvalidInput(
                f"max_wait must be at least wait: {self.max_wait!r} is shorter than {self.wait!r}."
            )


def enqueue(
    func: Callable[..., Any] | str,
    /,
    *args: Any,
    unique: Unique | None = None,
    debounce: Debounce | None = None,
    cluster: str = "",
    **kwargs: Any,
) -> None:
    """Have ``func`` called with these arguments by a django-q2 worker, after the caller's commit.

    ``func`` is a function at the top of a module, or its dotted path. Its arguments are plain
    values (text, numbers, dates, UUIDs, lists and mappings of them), copied now. ``unique`` and
    ``debounce`` keep the queue tidy; ``cluster`` names a django-q2 cluster other than the default
    one (not with ``debounce``).

    Nothing is written before the commit. A push that fails after it is logged
    (``enqueue.failed``), since the commit can't be undone; without a transaction it is raised. What
    must not be lost is a capture (``services.request``), or polled for by an action.

    Raises ``InvalidInput``, ``InvalidSetting`` without django-q2, before anything is written.
    """
    require_queue("enqueue()")
    path = path_of(func)
    _check(unique, debounce, cluster)
    _check_arguments(path, args, kwargs)
    arguments = check_storable(args, kwargs)
    work = (
        partial(_push, path, arguments, unique, cluster)
        if debounce is None
        else partial(_put_off, path, arguments, debounce)
    )
    connection = connections[home()]
    if not connection.in_atomic_block and connection.get_autocommit():
        work()
        return
    transaction.on_commit(partial(_after_commit, work, path), using=home(), robust=True)


def _check(unique: Any, debounce: Any, cluster: Any) -> None:
    if unique is not None and not isinstance(unique, Unique):
        raise InvalidInput(f"unique is Unique(key, lease=...) or None, not {unique!r}.")
    if debounce is not None and not isinstance(debounce, Debounce):
        raise InvalidInput(f"debounce is Debounce(key, wait=..., max_wait=...), not {debounce!r}.")
    if unique is not None and debounce is not None:
        raise InvalidInput(
            "unique and debounce exclude each other: one drops all but the first request, the "
            "other all but the last."
        )
    if not isinstance(cluster, str):
        raise InvalidInput(f"cluster is the name of a django-q2 cluster, not {cluster!r}.")
    if debounce is not None and cluster:
        raise InvalidInput("A debounced call goes to the default cluster: leave cluster out.")


def _check_arguments(path: str, args: Any, kwargs: Any) -> None:
    function = import_string(path)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C, without one
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidInput(f"{path} can't be called with these arguments: {error}.") from None


def _after_commit(work: Callable[[], None], path: str) -> None:
    try:
        work()
    except Exception:
        told = {"action": "enqueue.failed", "function": path}
        _logger.error("the queue took no call of %s", path, exc_info=True, extra=told)


def _put_off(path: str, arguments: dict[str, Any], debounce: Debounce) -> None:
    name = short_name(f"debounce:{path}:{check_key(debounce.key)}")
    due_at = put_off(name, path, arguments, wait=debounce.wait, max_wait=debounce.max_wait)
    told = {"action": "enqueue.put_off", "lease": name, "until": due_at.isoformat()}
    _logger.info("%s is put off until %s", path, due_at, extra=told)


def _push(path: str, arguments: dict[str, Any], unique: Unique | None, cluster: str) -> None:
    args, kwargs = arguments["args"], arguments["kwargs"]
    if unique is None:
        push(run, path, args, kwargs, group=path, cluster=cluster)
        return
    name = short_name(f"unique:{path}:{check_key(unique.key)}")
    held = take(name, unique.lease)
    if held is None:
        other = Lease.objects.using(home()).filter(name=name).first()
        until = None if other is None else other.expires_at.isoformat()
        told = {"action": "enqueue.skipped", "lease": name, "until": until}
        _logger.info("%s is in the queue already", name, extra=told)
        return
    try:
        lease = _told(held, unique, cluster)
        push(run, path, args, kwargs, lease, group=path, cluster=cluster)
    except BaseException:
        let_go(held)
        raise


def _told(held: Held, unique: Unique, cluster: str) -> dict[str, Any]:
    """Return what the worker must know of the lease, as plain values."""
    from django_q.brokers import Broker, get_broker
    from django_q.conf import Conf

    # A broker without receipts (Redis) never delivers a task again. With the others it is the
    # enqueuing process whose setting goes with the task.
    gives_receipts = type(get_broker(cluster or None)).acknowledge is not Broker.acknowledge
    return {
        "name": held.name,
        "token": str(held.token),
        "seconds": held.lasts.total_seconds(),
        "until": unique.until,
        "retried": gives_receipts and not Conf.ACK_FAILURES and Conf.MAX_ATTEMPTS != 1,
    }
