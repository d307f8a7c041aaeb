"""The nudge: after a commit that requested effects, the queue is asked to deliver them at once."""

import logging
from datetime import timedelta

from django.apps import apps
from django.db import connections, transaction

from idempotent_actions.conf import get_settings
from idempotent_actions.leases import Held, take

__all__ = ["LASTS", "NAME", "nudge"]

NAME = "nudge"
"""The lease that one nudge holds until a worker has taken it up: many commits, one delivery."""

LASTS = timedelta(minutes=1)
"""The minute's delivery finds what a lost nudge was about, so none need be waited for longer."""

_logger = logging.getLogger("idempotent_actions")


def nudge(using: str) -> None:
    """Ask for a delivery once the caller's transaction on the alias ``using`` has committed.

    A lost nudge costs a minute, never an effect: what it was about is found by the next tick.
    """
    if not get_settings().NUDGE or not apps.is_installed("django_q"):
        return
    hooks = connections[using].run_on_commit
    if not any(hook is _push for _savepoints, hook, *_ in hooks):
        transaction.on_commit(_push, using=using, robust=True)


def _push() -> None:
    held: Held | None = None
    try:
        held = take(NAME, LASTS)
        if held is not None:
            from django_q.tasks import async_task

            async_task("idempotent_actions.tasks.deliver_now", str(held.token), group=NAME)
    except Exception:
        if held is not None:
            held.release()
        _logger.warning("the queue took no nudge", exc_info=True, extra={"action": "nudge.lost"})
