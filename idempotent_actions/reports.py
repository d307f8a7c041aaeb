"""The report of a poll: counts that add up, errors with their subjects, and its JSON."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import DatabaseError

from idempotent_actions.acts import BatchResult
from idempotent_actions.models.escalation import subject_ref

__all__ = ["Planned", "Report", "describe_error"]

_LONGEST_ERROR = 1000
"""Characters of an error's message that are kept."""


def describe_error(error: BaseException) -> str:
    """Return an error as class and message, without its traceback.

    Of a database's message only the first line: those behind it quote the row, customers and all.
    """
    message = str(error)
    if isinstance(error, DatabaseError):
        message = message.partition("\n")[0]
    return f"{type(error).__name__}: {message}"[:_LONGEST_ERROR]


@dataclass(frozen=True, slots=True)
class Planned:
    """One act that a dry run found: what the next tick does on the same data.

    ``effects`` are the names of those that it requests, in their order.
    """

    subject: str
    transition: str
    rung: str = ""
    effects: tuple[str, ...] = ()

    def __str__(self) -> str:
        act = f"{self.subject} {self.transition} {self.rung}".rstrip()
        return f"{act} [{', '.join(self.effects)}]" if self.effects else act


@dataclass(slots=True)
class Report:
    """What one action's poll did, or would do in a dry run.

    Every selected row is counted once: ``selected == applied + failed + sum(skipped)``. ``applied``
    includes ``exhausted``; ``marked`` and ``resolved`` are the passes before it. ``stopped`` says
    why there was no run (``overlapping``, ``slot_done``, ``paused``) or why it ended early
    (``paused``, ``out_of_time``, ``no_time`` for anything, ``lease_lost``, ``error``); it is empty
    when all was looked at.
    """

    action: str
    dry_run: bool = False
    run: int | None = None
    stopped: str = ""
    missing: int = 0
    resolved: int = 0
    marked: int = 0
    selected: int = 0
    applied: int = 0
    exhausted: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[dict[str, str]] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    delivery: Any = None
    """The ``DeliveryReport`` of this action's effects; None when none were delivered."""

    def add_error(self, subject: str, error: BaseException, kept: int) -> None:
        """Count a failed row; keep its error among the first ``kept``."""
        self.failed += 1
        if len(self.errors) < kept:
            self.errors.append({"subject": subject, "error": describe_error(error)})

    def count(self, result: BatchResult, kept: int) -> None:
        """Add a committed batch: what was applied, what was skipped and why, what failed."""
        self.applied += len(result.applied)
        self.exhausted += result.exhausted
        self.skipped += result.skipped
        self.selected += len(result.applied) + result.skipped.total() + len(result.failures)
        for failure in result.failures:
            self.add_error(subject_ref(failure.subject), failure.error, kept)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        data: dict[str, Any] = {
            "action": self.action,
            "run": self.run,
            "stopped": self.stopped,
            "missing": self.missing,
            "resolved": self.resolved,
            "selected": self.selected,
            "applied": self.applied,
            "exhausted": self.exhausted,
            "skipped": dict(sorted(self.skipped.items())),
            "failed": self.failed,
            "errors": self.errors,
        }
        if self.delivery is not None:
            data["delivery"] = self.delivery.as_dict()
        if self.dry_run:
            data["planned"] = [asdict(each) for each in self.planned]
        return data
