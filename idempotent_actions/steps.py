"""What is decided about a subject: the step that follows, or the reason code why none does."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q

from idempotent_actions.ladders import Rung

__all__ = ["MAX_REASON_LENGTH", "POLL", "Branch", "Decision", "Reason", "Step"]

POLL = "poll"
"""The actor of everything that no person asked for."""

MAX_REASON_LENGTH = 50
"""Characters of a reason code. It is counted in a run, so it must be one of few."""


class Reason:
    """Reason codes for a row that was selected and not applied, or a capture not delivered.

    ``why_not`` adds a host's own.
    """

    CONDITION = "condition"
    EXCLUDED = "excluded"
    FORGOTTEN = "unknown_effect"
    GONE = "gone"
    HEALED = "healed"
    HELD = "held"
    LOCKED = "locked"
    MOVED_ON = "moved_on"
    NOT_DUE = "not_due"
    PAUSED = "paused"
    RESOLVED = "resolved"
    STALE_VIEW = "stale_view"
    UNKNOWN_ACTION = "unknown_action"
    UNKNOWN_RUNG = "unknown_rung"
    WAITING = "waiting"
    WRONG_STATUS = "wrong_status"


@dataclass(frozen=True, slots=True)
class Step:
    """What is about to happen to a subject: the rung, if any, the instant, who asked, and why."""

    now: datetime
    by: str = POLL
    reason: str = ""
    rung: Rung | None = None
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Either a transition to fire with its step, or the reason code why not."""

    transition: str = ""
    step: Step | None = None
    reason: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """One part of what an action looks for, with the order that an index can serve."""

    rule: Q
    order_by: tuple[str, ...]
    never_null: bool = False
    """The rule itself leaves no null in an ordering column."""
