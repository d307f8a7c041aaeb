"""A person's acts: each locks the row, asks the guard again, writes state and audit row together.

A duplicate is an answer (``Outcome``), not an error. ``InvalidInput`` is raised for arguments that
a service can't take, before anything is written. Services join a transaction of the caller's.
"""

from typing import Any, Unpack

from django.db import models

from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import act_on
from idempotent_actions.adopting import adopt
from idempotent_actions.asking import (
    Outcome,
    Request,
    asked_by,
    check_subject,
    in_transaction,
    registered,
)
from idempotent_actions.captures import deliver, perform, request
from idempotent_actions.decisions import (
    mark_failed,
    mark_succeeded,
    rerun_hook,
    retry_new_key,
    retry_same_key,
    void,
)
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.ladder_services import (
    cancel,
    hold,
    lock_as_seen,
    release,
    reopen,
    resolve,
    skip_rung,
    step_back,
)
from idempotent_actions.models.ladder import LadderModel
from idempotent_actions.nudges import nudge
from idempotent_actions.pause_services import lift, pause
from idempotent_actions.pruning import prune_captures

__all__ = [
    "Outcome",
    "Request",
    "act",
    "adopt",
    "cancel",
    "deliver",
    "hold",
    "lift",
    "mark_failed",
    "mark_succeeded",
    "pause",
    "perform",
    "prune_captures",
    "release",
    "reopen",
    "request",
    "rerun_hook",
    "resolve",
    "retry_new_key",
    "retry_same_key",
    "skip_rung",
    "step_back",
    "void",
]


def act(action: str | type[Action], subject: models.Model, **request: Unpack[Request]) -> Outcome:
    """Apply ``action`` to ``subject`` now: the way in of a button or an API, on the poll's path.

    ``action`` is a registered name or class; ``request`` is described at ``Request``. A subject
    whose deadline has lapsed but which no poll has marked yet is marked first.

    Raises ``LadderExhausted`` at the ladder's end, ``UnknownAction``, and what the transition
    raises.
    """
    chosen = registered(action)
    check_subject(subject, chosen.model)
    asked = asked_by(chosen, request)
    seen = request.get("seen")
    if seen is not None and not isinstance(chosen, LadderAction):
        raise InvalidInput(f"seen is the (cycle, rung) of a ladder, and {chosen.name} is none.")

    def work() -> Outcome:
        if seen is not None and isinstance(subject, LadderModel):
            _, refused = lock_as_seen(subject, seen, chosen.using)
            if refused is not None:
                return refused
        marking = None
        if isinstance(chosen, LadderAction):
            marking = act_on(chosen.detection, [subject.pk], asked)
            for failure in marking.failures:
                raise failure.error
        result = act_on(chosen, [subject.pk], asked)
        for failure in result.failures:
            raise failure.error
        rows: models.QuerySet[Any] = models.QuerySet(chosen.model).using(chosen.using)
        fresh = rows.filter(pk=subject.pk).first()
        if result.applied:
            nudge(chosen.using)
            return Outcome(True, escalation=result.applied[0].escalation, subject=fresh)
        (why,) = result.skipped
        if why == Reason.WRONG_STATUS and marking is not None and marking.skipped:
            (why,) = marking.skipped  # detection knows why it isn't overdue
        return Outcome(False, why, subject=fresh)

    return in_transaction(work, chosen.using)
