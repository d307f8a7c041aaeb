"""What a settled capture means for its subject: the ladder's next deadline, the host's hook.

Runs in the settle's transaction on a locked subject, each part in a savepoint: whatever goes wrong
here, what is known of the effect stays known.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import models, transaction

from idempotent_actions import machines
from idempotent_actions.actions import Action
from idempotent_actions.databases import is_transient
from idempotent_actions.models.capture import FAILED, SUCCEEDED, Capture
from idempotent_actions.running import describe
from idempotent_actions.writing import Change, snapshot, write

__all__ = ["follow_up"]


def follow_up(
    capture: Capture, action: Action | None, subject: Any, now: datetime, using: str
) -> BaseException | None:
    """Set the next deadline, then let ``Action.settled`` change the subject; save what changed.

    An error is kept in ``capture.hook_error``, which is emptied when all went well. Returns what
    is no error but an interrupt (SystemExit), to be raised after the commit. Raises only what ends
    the whole transaction.
    """
    error, interrupt = "", None
    if capture.action and action is None:
        error = f"UnknownAction: {capture.action!r} is not registered, so nobody was told."
    if action is not None and subject is not None:
        pk = subject.pk
        parts = _parts(capture, action, now)
        for part in parts:
            try:
                with transaction.atomic(using=using):
                    _apply(part, subject, using)
                    _expect(capture, action, subject, using)
            except BaseException as raised:
                if is_transient(raised):
                    raise
                interrupt = interrupt or (None if isinstance(raised, Exception) else raised)
                told = describe(raised)
                error = error or f"{told['class']}: {told['message']}"
                # What the part did to the instance before it failed must not be saved by the next.
                rows: models.QuerySet[Any] = models.QuerySet(action.model).using(using)
                subject = rows.filter(pk=pk).first()
                if subject is None:
                    break
    if error != capture.hook_error:
        capture.hook_error = error
        capture.save(update_fields=["hook_error"])
    return interrupt


def _parts(capture: Capture, action: Action, now: datetime) -> list[Callable[[Any], object]]:
    parts: list[Callable[[Any], object]] = []
    climb = capture.escalation
    if climb is not None:
        parts.append(lambda subject: action.effects_settled(subject, climb, now))
    if capture.state in (SUCCEEDED, FAILED) and type(action).settled is not Action.settled:
        parts.append(lambda subject: action.settled(subject, capture))
    return parts


def _expect(capture: Capture, action: Action, subject: Any, using: str) -> None:
    """The hook may move the subject on: the act's other effects are wanted there, too."""
    state = str(machines.state_of(subject, action.state_field))
    if capture.escalation_id is not None and state != capture.expects:
        siblings = Capture.objects.using(using).filter(escalation=capture.escalation_id)
        siblings.update(expects=state)
        capture.expects = state


def _apply(part: Callable[[Any], object], subject: Any, using: str) -> None:
    before = snapshot(subject)
    part(subject)
    if snapshot(subject) != before:
        for failure in write([Change(subject, before)], using):
            raise failure.error
