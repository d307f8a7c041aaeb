"""The action: which rows are due, which transition to fire, and the decision all callers share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from django.db import models, router
from django.db.models import Q
from django_fsm import can_proceed

from idempotent_actions import machines
from idempotent_actions.effects import Intent
from idempotent_actions.exceptions import InvalidAction
from idempotent_actions.keys import make_key
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.steps import MAX_REASON_LENGTH, POLL, Branch, Decision, Reason, Step

__all__ = ["MAX_REASON_LENGTH", "POLL", "Action", "Branch", "Decision", "Reason", "Step"]


class Action:
    """A named rule: which rows of ``model`` are due, and the django-fsm ``transition`` to fire.

    A subclass sets ``name``, ``model``, ``transition`` and overrides ``due``; the rest has
    defaults. One instance, made by ``register``, serves all callers: it keeps no state.
    """

    name: str = ""
    model: type[models.Model]
    transition: str = ""
    lock: Sequence[str] = ()
    """Forward relations whose rows are locked right after the subject's, like ``("invoice",)``."""
    order_by: Sequence[str] = ()
    """Order of the candidates, best one that an index serves together with ``due``."""

    audited: ClassVar[bool] = True
    reads_trail: ClassVar[bool] = False
    """Whether ``is_behind`` is to be asked, beside whether the very same act was done before."""
    counted_as: ClassVar[str] = "applied"
    pausable: ClassVar[bool] = True
    """Whether a pause of the action, or of everything, stops it."""

    # -- what a host overrides

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return the rows this action may see, with their ``select_related``."""
        return self.model._default_manager.all()

    def due(self, now: datetime) -> Q | None:
        """Return what is due at ``now``. It is asked by the poll *and* again under the row lock.

        None: never polled, started by ``services.act`` only.
        """
        raise NotImplementedError

    def why_not(self, subject: Any, now: datetime) -> str:
        """Return a short reason code against acting now ("disputed"), or "" to go ahead."""
        return ""

    def occurrence(self, subject: Any) -> str:
        """Return the business fact that makes this a new occasion for ``subject``."""
        return "once"

    def effects(self, subject: Any, step: Step) -> Iterable[Intent]:
        """Yield the effects that follow: calls of functions decorated with ``@effect``.

        ``subject`` is as the transition left it. What is yielded is stored in the same transaction
        and done after the commit.
        """
        return ()

    def settled(self, subject: Any, capture: Any) -> None:
        """Change ``subject``, which is locked and then saved, once a capture succeeded or failed.

        Runs in the settle's transaction, in a savepoint: an error here never undoes a known truth.
        It is kept in ``capture.hook_error``, and ``services.rerun_hook`` runs this again.
        """

    def missing_subjects(self, now: datetime) -> Any:
        """Yield unsaved rows that ought to exist: a poll first inserts them, ignoring conflicts."""
        return ()

    # -- what the poll, the button and the preview ask

    def decide(
        self, subject: Any, now: datetime, *, by: str = POLL, reason: str = "", poll: bool = True
    ) -> Decision:
        """Decide what happens to ``subject`` at ``now``. Writes nothing, changes nothing.

        ``poll`` is False for a person's act, which is told of a ladder's end by an exception.
        """
        if blocked := self.blocked(subject, now, self.transition):
            return Decision(reason=blocked)
        arguments = {"now": now} if self.tells_now else {}
        return Decision(self.transition, Step(now, by, reason), arguments=arguments)

    def blocked(self, subject: Any, now: datetime, transition: str) -> str:
        """Return why ``transition`` may not fire: its states, its conditions, the host's veto."""
        method = getattr(subject, transition)
        # django-fsm raises the same error for a wrong state and a failed condition.
        if not can_proceed(method, check_conditions=False):
            return Reason.WRONG_STATUS
        if not can_proceed(method):
            return Reason.CONDITION
        return self.vetoed(subject, now)

    def vetoed(self, subject: Any, now: datetime) -> str:
        """Ask the host's veto, and check that it is a reason code."""
        veto = self.why_not(subject, now)
        if not isinstance(veto, str) or len(veto) > MAX_REASON_LENGTH:
            raise InvalidAction(
                f"{self.name}: why_not must return a reason code of at most {MAX_REASON_LENGTH} "
                f"characters or an empty string, not {veto!r}."
            )
        return veto

    def key(self, subject: Any, step: Step) -> str:
        """Return the unique key of the audit row for this step: business facts only."""
        label = self.model._meta.label_lower
        return make_key(label, subject_pk(subject), self.audit_name, *self.key_parts(subject, step))

    def key_parts(self, subject: Any, step: Step) -> tuple[str | int, ...]:
        """Return what tells this occasion from another one of the same subject."""
        return (self.occurrence(subject),)

    def is_behind(self, subject: Any, newest: Escalation, now: datetime) -> bool:
        """Tell whether ``newest``, the last act on ``subject``, is ahead of what the row says."""
        return False

    # -- what the barrier and the settle ask of an act's effects

    def await_effects(self, subject: Any) -> None:
        """Note on the instance that the act just fired has effects that are not settled yet."""

    def moved_on(self, subject: Any, capture: Capture) -> str:
        """Return why ``capture`` is no longer wanted for good, or ""."""
        state = machines.state_of(subject, self.state_field)
        return "" if str(state) == capture.expects else Reason.MOVED_ON

    def was_put_back(self, subject: Any, newest: Escalation, now: datetime) -> bool:
        """Tell whether a stale write has put ``subject`` back to before its ``newest`` act.

        The poll would say so too: the state before the act, and the same occasion.
        """
        back = str(machines.state_of(subject, self.state_field)) == newest.from_status
        return back and self.key(subject, Step(now)) == newest.key

    def state_after(self, newest: Escalation) -> str:
        """Return the state that ``newest``, or a hook of its effects, has left its subject in."""
        expected = newest.captures.using(self.using).values_list("expects", flat=True).first()
        return expected or newest.to_status

    def held_back(self, subject: Any, now: datetime) -> str:
        """Return why an effect on ``subject`` has to wait for now, or ""."""
        return self.vetoed(subject, now)

    def effects_settled(self, subject: Any, escalation: Escalation, now: datetime) -> None:
        """Change the locked ``subject`` when a capture of ``escalation`` has just settled."""

    def deadline_after_settling(self, subject: Any) -> datetime | None:
        """Return the next deadline of a healed ``subject``, as its captures have it."""
        return None

    # -- the rules, as the poll puts them to the database

    def rule(self, now: datetime) -> Q:
        """Return the whole guard as a Q: the transition's source states and ``due``."""
        return self.sources & (self._checked_due(now) or Q())

    def branches(self, now: datetime) -> list[Branch]:
        """Return the parts of the poll, each in an order an index serves; none if not polled."""
        due = self._checked_due(now)
        return [] if due is None else [Branch(self.sources & due, tuple(self.order_by))]

    def why_not_due(self, subjects: Sequence[Any], now: datetime, using: str) -> dict[Any, str]:
        """Return more telling reasons than "not_due" for rows the guard dropped, by primary key."""
        return {}

    @cached_property
    def tells_now(self) -> bool:
        """Whether the transition takes ``now``: it is then told the instant of the poll or act."""
        return "now" in inspect.signature(getattr(self.model, self.transition)).parameters

    @cached_property
    def sources(self) -> Q:
        """The rows in a state that the transition may start from."""
        return machines.sources_q(self.model, self.transition)

    @cached_property
    def state_field(self) -> models.Field[Any, Any]:
        """The field that the transition changes."""
        return machines.state_field(self.model, self.transition)

    @property
    def audit_name(self) -> str:
        """The action's name in audit rows and keys."""
        return self.name

    @property
    def using(self) -> str:
        """The database alias that subjects and audit rows share."""
        return router.db_for_write(self.model)

    def _checked_due(self, now: datetime) -> Q | None:
        due = self.due(now)
        if due is not None and not isinstance(due, Q):
            raise InvalidAction(
                f"{self.name}: due() must return a django.db.models.Q, or None for an action that "
                f"is never polled, not {due!r}."
            )
        return due


def subject_pk(subject: models.Model) -> str | int:
    """Return a primary key as a part of a key: a whole number as it is, all else as text."""
    pk = subject.pk
    return pk if isinstance(pk, int) else str(pk)
