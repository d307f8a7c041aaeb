"""LadderAction: climbing, and the two independent passes before it, resolving and detecting."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q

from idempotent_actions.actions import POLL, Action, Branch, Decision, Reason, Step
from idempotent_actions.exceptions import LadderExhausted, UnknownRung
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel, Status
from idempotent_actions.rules import opposite

__all__ = [
    "EXHAUSTED",
    "Adopt",
    "LadderAction",
    "MarkOverdue",
    "ResolveSettled",
    "ladder_name",
    "not_held",
]

EXHAUSTED = "@exhausted"
"""Stands for a rung in keys, where the ladder has ended."""

_ENDS = (Status.EXHAUSTED, Status.RESOLVED, Status.CANCELLED)

_BY_DEADLINE = ("due_at",)
_BY_WAIT = ("next_at",)


def ladder_name(model: type[models.Model]) -> str:
    """Return a ladder action's default name, like ``escalate_overdue:billing.invoice``."""
    return f"escalate_overdue:{model._meta.label_lower}"


def not_held(now: datetime) -> Q:
    """Return the rows that no person holds back at ``now``."""
    return Q(hold_until__isnull=True) | Q(hold_until__lte=now)


class LadderAction(Action):
    """Escalates overdue subjects of a ``LadderModel``, one rung a deadline. Set ``model``."""

    model: type[LadderModel]
    transition = "escalate"
    order_by = _BY_DEADLINE
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
        own_order = tuple(self.order_by) != _BY_DEADLINE
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
    def detection(self) -> "MarkOverdue":
        """The pass that marks lapsed deadlines. It is an action of its own on the same path."""
        return MarkOverdue(self)

    @cached_property
    def resolution(self) -> "ResolveSettled | None":
        """The pass that ends the ladder of what is settled; None without ``resolved_when``."""
        return None if self.resolved_when() is None else ResolveSettled(self)

    def _step(self, rung: Any, now: datetime, by: str, reason: str) -> Step:
        return Step(now, by, reason, rung, exhausted=rung is None)


class _Pass(Action):
    """An action on the subjects of a ladder, before they climb."""

    def __init__(self, ladder_action: LadderAction) -> None:
        self.ladder_action = ladder_action
        self.model = ladder_action.model
        self.name = f"{self.transition}:{self.model._meta.label_lower}"
        self.lock = ladder_action.lock

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return the rows that the ladder's action sees."""
        return self.ladder_action.get_queryset()

    def why_not_due(self, subjects: Sequence[Any], now: datetime, using: str) -> dict[Any, str]:
        """Ask the ladder's action."""
        return self.ladder_action.why_not_due(subjects, now, using)

    @property
    def audit_name(self) -> str:
        """The ladder's name, so that one trail tells the whole story."""
        return self.ladder_action.name


class MarkOverdue(_Pass):
    """Detection: marks subjects whose deadline has lapsed. It writes no audit row.

    ``alone``: no resolving has gone before it, so it leaves out what is settled itself.
    """

    transition = "mark_overdue"
    audited: ClassVar[bool] = False
    counted_as: ClassVar[str] = "marked"

    def __init__(self, ladder_action: LadderAction, *, alone: bool = False) -> None:
        super().__init__(ladder_action)
        self.alone = alone

    def due(self, now: datetime) -> Q:
        """Return both kinds: a bill's deadline has lapsed, or the wait after a notice has."""
        return _any(self.branches(now)) & self.ladder_action.unresolved()

    def branches(self, now: datetime) -> list[Branch]:
        """Return one part for each index of ``LadderModel``."""
        lapsed = Q(due_at__lte=now) & not_held(now)
        if self.alone:
            lapsed &= self.ladder_action.unresolved()
        adopted_wait_over = Q(next_at__isnull=True) | Q(next_at__lte=now)
        return [
            Branch(
                Q(status=Status.OPEN.value) & lapsed & adopted_wait_over,
                _BY_DEADLINE,
                never_null=True,
            ),
            Branch(
                Q(status=Status.ESCALATED.value, next_at__lte=now) & lapsed,
                _BY_WAIT,
                never_null=True,
            ),
        ]

    def why_not(self, subject: Any, now: datetime) -> str:
        """Ask the host's veto."""
        return self.ladder_action.why_not(subject, now)


class ResolveSettled(_Pass):
    """Resolves what its host has settled, at the latest when its deadline comes up.

    It looks only at rows that would otherwise be detected or climb: a bill paid in time costs
    nothing until its due moment, and is read once then.
    """

    transition = "resolve"
    counted_as: ClassVar[str] = "resolved"
    reads_trail = True

    def due(self, now: datetime) -> Q:
        """Return the settled rows among those that are about to be acted on."""
        return _any(self.branches(now))

    def branches(self, now: datetime) -> list[Branch]:
        """Return one part for each state and its index."""
        over = self.ladder_action.resolved_when()
        if over is None:
            return []
        return [
            Branch(
                Q(status=Status.OPEN.value, due_at__lte=now) & over, _BY_DEADLINE, never_null=True
            ),
            Branch(
                Q(status=Status.OVERDUE.value, due_at__lte=now) & over,
                _BY_DEADLINE,
                never_null=True,
            ),
            Branch(
                Q(status=Status.ESCALATED.value, next_at__lte=now) & over, _BY_WAIT, never_null=True
            ),
        ]

    def is_behind(self, subject: Any, newest: Escalation, now: datetime) -> bool:
        """Ask the ladder's action."""
        return self.ladder_action.is_behind(subject, newest, now)

    def key_parts(self, subject: Any, step: Step) -> tuple[str | int, ...]:
        """Return the cycle, which is resolved once."""
        return subject.cycle, "@resolve"


class Adopt(_Pass):
    """Puts existing rows in place on a ladder, so that their first tick sends nothing."""

    transition = "adopt"

    def __init__(self, ladder_action: LadderAction, rung: str, next_at: datetime) -> None:
        super().__init__(ladder_action)
        self.rung = rung
        self.next_at = next_at

    def due(self, now: datetime) -> Q:
        """Return every live row, for a person chose them, but for what is settled."""
        return self.ladder_action.unresolved()

    def decide(
        self, subject: Any, now: datetime, *, by: str = POLL, reason: str = "", poll: bool = True
    ) -> Decision:
        """Place ``subject`` unless its state forbids it. Raises ``UnknownRung``."""
        rung = subject.ladder.get(self.rung) if self.rung else None
        if blocked := self.blocked(subject, now, self.transition):
            return Decision(reason=blocked)
        step = Step(now, by, reason, rung)
        arguments = {"rung": self.rung, "next_at": self.next_at}
        return Decision(self.transition, step, arguments=arguments)

    def key_parts(self, subject: Any, step: Step) -> tuple[str | int, ...]:
        """Return the cycle and the revision, which grows with each adoption."""
        return subject.cycle, "@adopt", subject.revision


def _any(branches: Sequence[Branch]) -> Q:
    return Q(*[branch.rule for branch in branches], _connector=Q.OR)
