"""LadderAction: the decision which rung a subject climbs, or why it doesn't."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import models
from django.db.models import Q

from idempotent_actions.actions import POLL, Action, Branch, Decision, Reason, Step
from idempotent_actions.exceptions import LadderExhausted, UnknownRung
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel, Status
from idempotent_actions.passes import BY_DEADLINE, MarkOverdue, ResolveSettled, not_held
from idempotent_actions.rules import opposite

__all__ = ["EXHAUSTED", "LadderAction", "ladder_name"]

EXHAUSTED = "@exhausted"
"""Stands for a rung in keys, where the ladder has ended."""

_ENDS = (Status.EXHAUSTED, Status.RESOLVED, Status.CANCELLED)


def ladder_name(model: type[models.Model]) -> str:
    """Return a ladder action's default name, like ``escalate_overdue:billing.invoice``."""
    return f"escalate_overdue:{model._meta.label_lower}"


class LadderAction(Action):
    """Escalates overdue subjects of a ``LadderModel``, one rung a deadline. Set ``model``."""

    model: type[LadderModel]
    transition = "escalate"
    order_by = BY_DEADLINE
    reads_trail = True

    def __init__(self) -> None:
        if not self.name and isinstance(getattr(self, "model", None), type):
            self.name = ladder_name(self.model)

    def due(self, now: datetime) -> Q:
        """Return the subjects whose deadline has lapsed and that nobody holds. Compose by ``&``."""
        return Q(due_at__lte=now) & not_held(now)

    def resolved_when(self) -> Q | None:
        """Return when the host's own state says it is over (paid, written off); None: never.

        Asked of subjects about to be marked or to climb. An exhausted one, which the poll never
        looks at again, is for ``services.resolve``.
        """
        return None

    def occurrence(self, subject: Any) -> str:
        """Return the cycle; the rung and the revision join it in the key."""
        return str(subject.cycle)

    def decide(
        self, subject: Any, now: datetime, *, by: str = POLL, reason: str = "", poll: bool = True
    ) -> Decision:
        """Decide which rung ``subject`` climbs, that it is exhausted, or why neither.

        Raises ``LadderExhausted`` for a person's act at the ladder's end.
        """
        try:
            rung = subject.ladder.next(subject.rung)
        except UnknownRung:
            return Decision(reason=Reason.UNKNOWN_RUNG)
        except LadderExhausted:
            if not poll:
                raise
            rung = None
        transition = self.transition if rung else "exhaust"
        if blocked := self.blocked(subject, now, transition):
            return Decision(reason=blocked)
        if subject.next_at is not None and subject.next_at > now:
            # Detection leaves none of these. A raw write that put the state back does.
            return Decision(transition, self._step(rung, now, by, reason), Reason.WAITING)
        return Decision(transition, self._step(rung, now, by, reason), arguments={"now": now})

    def key_parts(self, subject: Any, step: Step) -> tuple[str | int, ...]:
        """Return cycle, rung and revision: once round the ladder, each rung has one audit row."""
        return subject.cycle, step.rung.name if step.rung else EXHAUSTED, subject.revision

    def branches(self, now: datetime) -> list[Branch]:
        """Return the overdue rows by deadline; a host's own ``order_by`` may hold nulls."""
        own_order = tuple(self.order_by) != BY_DEADLINE
        return [replace(each, never_null=not own_order) for each in super().branches(now)]

    def rule(self, now: datetime) -> Q:
        """Return the whole guard; a subject that its host has settled is never due.

        The candidates are read without that last part: what is settled was resolved just before,
        and reading them needs no join.
        """
        return super().rule(now) & self.unresolved()

    def unresolved(self) -> Q:
        """Return the rows of which the host's own state doesn't say that it is over."""
        over = self.resolved_when()
        return Q() if over is None else opposite(self.model, over)

    def is_behind(self, subject: Any, newest: Escalation, now: datetime) -> bool:
        """Tell whether the trail is ahead: in a later cycle, at its end, higher up, on hold."""
        here, there = (subject.cycle, subject.revision), (newest.cycle, newest.revision)
        if here != there:
            return here < there
        if newest.to_status in _ENDS:
            return bool(subject.status != newest.to_status)
        if newest.hold_until and newest.hold_until > now and not subject.hold_until:
            return True
        names = ["", *(rung.name for rung in subject.ladder)]
        if newest.rung not in names or subject.rung not in names:
            return False
        return names.index(subject.rung) < names.index(newest.rung)

    def why_not_due(self, subjects: Sequence[Any], now: datetime, using: str) -> dict[Any, str]:
        """Tell held and resolved subjects from those that are merely not due."""
        over = self.resolved_when()
        resolved: set[Any] = set()
        if over is not None:
            rows = self.get_queryset().using(using).filter(pk__in=[each.pk for each in subjects])
            resolved = set(rows.filter(over).values_list("pk", flat=True))
        held = {each.pk for each in subjects if each.hold_until and each.hold_until > now}
        return dict.fromkeys(held, Reason.HELD) | dict.fromkeys(resolved, Reason.RESOLVED)

    @cached_property
    def detection(self) -> MarkOverdue:
        """The pass that marks lapsed deadlines. It is an action of its own on the same path."""
        return MarkOverdue(self)

    @cached_property
    def resolution(self) -> ResolveSettled | None:
        """The pass that ends the ladder of what is settled; None without ``resolved_when``."""
        return None if self.resolved_when() is None else ResolveSettled(self)

    def _step(self, rung: Any, now: datetime, by: str, reason: str) -> Step:
        return Step(now, by, reason, rung, exhausted=rung is None)
