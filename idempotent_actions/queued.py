"""What goes through the queue: a function by its path, and what a worker does with it.

Nothing here catches SystemExit, by which django-q2 ends a task that takes too long. What is
returned is plain: a result that can't be pickled makes the queue run the task again and again.
"""

import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

from django.apps import apps
from django.db import Error, transaction
from django.utils.module_loading import import_string

from idempotent_actions import clock
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import reconnect_if_lost, retry_transient
from idempotent_actions.effects import Effect
from idempotent_actions.exceptions import InvalidInput, InvalidSetting
from idempotent_actions.leases import Held, home, take
from idempotent_actions.models.lease import MAX_LEASE_NAME, DeferredCall
from idempotent_actions.parameters import thaw
from idempotent_actions.running import describe

__all__ = [
    "GIVE_UP_AFTER",
    "Key",
    "is_lazy",
    "let_go",
    "path_of",
    "push",
    "require_queue",
    "run",
    "run_deferred",
    "short_name",
]

Key = str | Sequence[str | int | UUID]

GIVE_UP_AFTER = timedelta(minutes=5)
"""Without an answer before a call that was handed out is handed out again. Longer than a task
usually waits and runs; a purged queue or a killed worker delays the call by this much."""

_MARGIN = timedelta(minutes=1)
"""Beyond the worker's timeout, where that is longer: the worker is gone by then."""

_LONGEST_BACK_OFF = timedelta(hours=1)

_LONGEST_RESULT = 1000
"""Characters of a result that isn't JSON."""

_LONGEST_GROUP = 100
"""Characters of django-q2's column for a task's group."""

_logger = logging.getLogger("idempotent_actions")


def run(
    function: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    lease: Mapping[str, Any] | None = None,
) -> Any:
    """Call a function that was enqueued; ``lease`` tells, in plain values, what was taken for it.

    Returns the function's result as JSON values, or its ``repr`` where it has none. Raises what the
    function raises.
    """
    call = partial(_call, function, thaw(args), thaw(kwargs))
    if lease is None:
        return call()
    held = Held(lease["name"], UUID(lease["token"]), timedelta(seconds=lease["seconds"]))
    if lease["until"] == "start":
        let_go(held)
        return call()
    kept = lease["retried"]
    if not held.renew():
        # It lapsed, or this task was run before. In doubt a duplicate, rather than a lost job.
        again = take(held.name, held.lasts)
        if again is None:
            told = {"action": "enqueue.overran", "lease": held.name}
            _logger.warning("%s runs beside another", function, extra=told)
            return call()
        # The queue's next try knows the old token only: kept, this lease would be foreign to it.
        held, kept = again, False
    done = False
    try:
        result = call()
        done = True
    finally:
        if done or not kept:
            let_go(held)
    return result


def run_deferred(pk: int, token: str) -> Any:
    """Make the call that was handed out under ``token``, unless another worker has it by now.

    Returns as ``run`` does. Raises what the function raises, after noting when to try again.
    """
    using = home()
    rows = DeferredCall.objects.using(using).filter(pk=pk)
    # A token of its own: a second delivery of this task, or a second handing out, finds nothing.
    mine = uuid4()
    given_up_at = clock.now(using) + _patience()
    if not rows.filter(token=UUID(token)).update(token=mine, serial=0, due_at=given_up_at):
        return {"skipped": "handed out again"}
    call = rows.filter(token=mine).first()
    if call is None:
        return {"skipped": "handed out again"}
    try:
        result = _call(call.function, thaw(call.args), thaw(call.kwargs))
    except Exception as error:
        reconnect_if_lost(using)
        _note(call.pk, mine, error, using)
        raise
    _note(call.pk, mine, None, using)
    return result


def path_of(function: Callable[..., Any] | str) -> str:
    """Return the dotted path by which a worker finds ``function``, which may be that path.

    Raises ``InvalidInput`` for what can't be imported back to the same object (a lambda, a method,
    a function inside another), for coroutine and generator functions, and for an effect.
    """
    found = _imported(function) if isinstance(function, str) else function
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    path = f"{module}.{name}"
    if isinstance(found, Effect) or isinstance(_imported(path), Effect):
        raise InvalidInput(
            f"{function!r} is an effect, and effects aren't enqueued: a queue may lose them or do "
            f"them twice, and Debounce would drop all but the last. Call services.request(), which "
            f"notes it in your transaction, or services.perform()."
        )
    if not callable(found) or inspect.isclass(found) or module == "__main__":
        raise InvalidInput(f"{function!r} is no function of a module that a worker can import.")
    if len(path) > MAX_LEASE_NAME or _imported(path) is not found:
        raise InvalidInput(
            f"{function!r} can't be found again by a worker under {path!r}. Pass a function that "
            f"is defined at the top of a module, no lambda, method or inner function; what "
            f"decorates it must keep its name (functools.wraps)."
        )
    if is_lazy(found):
        raise InvalidInput(
            f"{path} is a coroutine or generator function: calling it would do nothing. Make it a "
            f"plain function."
        )
    return path


def is_lazy(function: Callable[..., Any]) -> bool:
    """Tell whether a call of ``function`` only makes something that is still to be run."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def require_queue(what: str) -> None:
    """Raise ``InvalidSetting`` unless django-q2 is installed; ``what`` needs it."""
    if not apps.is_installed("django_q"):
        raise InvalidSetting(
            f"{what} needs django-q2: add 'django_q' to INSTALLED_APPS and set Q_CLUSTER."
        )


def push(task: Callable[..., Any], *args: Any, group: str, cluster: str = "") -> None:
    """Hand a function of this module to the queue now; ``group`` is shown beside it."""
    from django_q.tasks import async_task

    where = {"cluster": cluster} if cluster else {}
    async_task(f"{__name__}.{task.__name__}", *args, group=group[-_LONGEST_GROUP:], **where)


def let_go(held: Held) -> bool:
    """Release a lease after the work; False when it had become another's.

    What is done is done: an error of the database here must not have it done again, nor hide an
    error of the work. The lease then lapses by itself.
    """
    try:
        return held.release()
    except Error:
        reconnect_if_lost(home())  # the work may have lost it
    try:
        return held.release()
    except Error:
        told = {"action": "lease.kept", "lease": held.name}
        _logger.warning("%s is kept until it lapses", held.name, exc_info=True, extra=told)
        return True


def short_name(name: str) -> str:
    """Return ``name`` as a lease's: its end becomes a hash where it would be too long."""
    if len(name) <= MAX_LEASE_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()
    return f"{name[: MAX_LEASE_NAME - len(digest) - 1]}#{digest}"


def _call(function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return _plain(import_string(function)(*args, **kwargs))


def _plain(result: Any) -> Any:
    try:
        return json.loads(json.dumps(result))
    except Exception:  # whatever it is that a strange object raises
        with suppress(Exception):
            return repr(result)[:_LONGEST_RESULT]
        return f"<{type(result).__name__}>"


def _note(pk: int, token: UUID, error: Exception | None, using: str) -> None:
    work = partial(_note_once, pk, token, error, using)
    retry_transient(work, using=using, tries=get_settings().MAX_TRIES)


def _note_once(pk: int, token: UUID, error: Exception | None, using: str) -> None:
    with transaction.atomic(using=using):
        mine = DeferredCall.objects.using(using).filter(pk=pk, token=token)
        call = mine.select_for_update().first()
        if call is None:
            return  # it was given up, and is another worker's
        if error is None and call.serial == 0:
            call.delete()
            return
        call.tries = 0 if error is None else call.tries + 1
        call.error = "" if error is None else "{class}: {message}".format(**describe(error))
        if call.serial == 0:
            call.token = None
            pause = min(timedelta(minutes=2 ** min(call.tries, 10)), _LONGEST_BACK_OFF)
            call.due_at = clock.now(using) + pause
        # Else its new request says when; and it may have been handed out under this token already.
        call.save(using=using, update_fields=["token", "tries", "error", "due_at"])


def _patience() -> timedelta:
    from django_q.conf import Conf

    return max(GIVE_UP_AFTER, timedelta(seconds=Conf.TIMEOUT or 0) + _MARGIN)


def _imported(path: str) -> Any:
    try:
        return import_string(path)
    except (ImportError, ValueError):
        return None
