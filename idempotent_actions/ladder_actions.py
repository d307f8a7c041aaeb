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
from idempotent_actions.models.capture import Capture
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
        if subject.rung == newest.rung:
            # Detection leaves a rung's deadline as it is: only a raw write makes a row that is
            # marked while its notice is unsettled.
            marked = subject.status in (Status.OPEN, Status.OVERDUE)
            return bool(marked and subject.rung and subject.next_at is None)
        return names.index(subject.rung) < names.index(newest.rung)

    # -- the effects of a rung

    def await_effects(self, subject: Any) -> None:
        """Set no deadline yet: no rung is climbed while the notice before it is unsent."""
        subject.next_at = None

    def moved_on(self, subject: Any, capture: Capture) -> str:
        """Return why a rung's effects are no longer wanted: it stands elsewhere, or is settled."""
        if capture.escalation is None or not _stands_on(subject, capture.escalation):
            over = subject.status in (Status.RESOLVED, Status.CANCELLED)
            return str(subject.status) if over else Reason.MOVED_ON
        over_when = self.resolved_when()
        rows: models.QuerySet[Any] = models.QuerySet(self.model).using(self.using)
        if over_when is not None and rows.filter(over_when, pk=subject.pk).exists():
            return Reason.RESOLVED
        return ""

    def was_put_back(self, subject: Any, newest: Escalation, now: datetime) -> bool:
        """Ask ``is_behind``: a ladder's trail holds all there is to know."""
        return self.is_behind(subject, newest, now)

    def state_after(self, newest: Escalation) -> str:
        """Return the state in the trail."""
        return newest.to_status

    def held_back(self, subject: Any, now: datetime) -> str:
        """Return ``not_due`` (the host has moved the deadline), ``held``, or the host's veto."""
        if subject.due_at is None or subject.due_at > now:
            return Reason.NOT_DUE
        if subject.hold_until is not None and subject.hold_until > now:
            return Reason.HELD
        return self.vetoed(subject, now)

    def effects_settled(self, subject: Any, escalation: Escalation, now: datetime) -> None:
        """Set the next deadline once the last effect of the rung has settled."""
        if _stands_on(subject, escalation) and subject.status == Status.ESCALATED:
            subject.next_at = self._deadline(subject, escalation)

    def deadline_after_settling(self, subject: Any) -> datetime | None:
        """Return what ``next_at`` is, by the captures, for a subject on a rung; None: unsettled."""
        climbs = Escalation.objects.using(self.using).about(subject)
        climb = climbs.filter(
            transition=self.transition,
            cycle=subject.cycle,
            revision=subject.revision,
            rung=subject.rung,
        ).last()
        return None if climb is None else self._deadline(subject, climb)

    def _deadline(self, subject: Any, climb: Escalation) -> datetime | None:
        captures = climb.captures.using(self.using)
        if captures.unsettled().exists():
            return None
        sent_at = captures.aggregate(last=models.Max("finished_at"))["last"]
        deadline: datetime = subject.next_deadline(climb.rung, sent_at or climb.acted_at)
        return deadline

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


def _stands_on(subject: LadderModel, climb: Escalation) -> bool:
    there = (climb.cycle, climb.revision, climb.rung, climb.to_status)
    return (subject.cycle, subject.revision, subject.rung, subject.status) == there
