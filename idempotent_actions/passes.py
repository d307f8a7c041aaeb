"""The passes over a ladder's subjects beside climbing: resolving, detecting, adopting.

Each is an action of its own on the same path of lock, guard and audit.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models
from django.db.models import Q

from idempotent_actions.actions import POLL, Action, Branch, Decision, Step
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import Status

if TYPE_CHECKING:
    from idempotent_actions.ladder_actions import LadderAction

__all__ = ["BY_DEADLINE", "Adopt", "MarkOverdue", "ResolveSettled", "not_held"]

BY_DEADLINE = ("due_at",)
"""The order that the index on (status, due_at) serves."""

BY_WAIT = ("next_at",)
"""The order that the index on (status, next_at) serves."""


def not_held(now: datetime) -> Q:
    """Return the rows that no person holds back at ``now``."""
    return Q(hold_until__isnull=True) | Q(hold_until__lte=now)


class _Pass(Action):
    """An action on the subjects of a ladder, before they climb."""

    def __init__(self, ladder_action: "LadderAction") -> None:
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

    def state_after(self, newest: Escalation) -> str:
        """Ask the ladder's action."""
        return self.ladder_action.state_after(newest)

    def deadline_after_settling(self, subject: Any) -> datetime | None:
        """Ask the ladder's action."""
        return self.ladder_action.deadline_after_settling(subject)

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

    def __init__(self, ladder_action: "LadderAction", *, alone: bool = False) -> None:
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
                BY_DEADLINE,
                never_null=True,
            ),
            Branch(
                Q(status=Status.ESCALATED.value, next_at__lte=now) & lapsed,
                BY_WAIT,
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
                Q(status=Status.OPEN.value, due_at__lte=now) & over, BY_DEADLINE, never_null=True
            ),
            Branch(
                Q(status=Status.OVERDUE.value, due_at__lte=now) & over,
                BY_DEADLINE,
                never_null=True,
            ),
            Branch(
                Q(status=Status.ESCALATED.value, next_at__lte=now) & over, BY_WAIT, never_null=True
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
    pausable: ClassVar[bool] = False  # a person's word on where rows stand; it sends nothing

    def __init__(self, ladder_action: "LadderAction", rung: str, next_at: datetime) -> None:
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
