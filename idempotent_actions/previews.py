"""The dry run: what the next tick does on the same data, by the tick's own rules and decision.

It takes no lock, fires no signal and writes nothing, not even a sequence value. Transitions and
``effects`` are rehearsed: what the host's own code locks or writes in them is rolled back.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, cmp_to_key, partial, reduce
from typing import Any

from django.db import models
from django.db.models import Q

from idempotent_actions import machines
from idempotent_actions.actions import Action, Branch, Reason
from idempotent_actions.acts import Asked, Plan, find_behind, plan
from idempotent_actions.candidates import candidate_pks, in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.models.ladder import Status
from idempotent_actions.rehearsing import Rehearsal, rehearse_act
from idempotent_actions.reports import Planned, Report, describe_error
from idempotent_actions.subjects import not_existing, would_find

__all__ = ["PreviewRow", "preview", "preview_rows"]

_MARKABLE = (Status.OPEN, Status.ESCALATED)
"""States that detection starts from."""


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One row that the next tick selects: the transition that it fires, or why it does not.

    ``effects`` are the unsaved captures that the act requests. Without a transition, either
    ``reason`` (a code) or ``error`` says why.
    """

    subject: Any
    transition: str = ""
    rung: str = ""
    effects: tuple[Capture, ...] = ()
    reason: str = ""
    error: str = ""

    @property
    def ref(self) -> str:
        """The subject's name in reports, like ``billing.invoice:42``."""
        return subject_ref(self.subject)

    @property
    def label(self) -> str:
        """The subject's model, like ``billing.invoice``."""
        return str(self.subject._meta.label_lower)

    @property
    def pk(self) -> str:
        """The subject's primary key as text; "" for a row that the tick is going to insert."""
        return "" if self.subject.pk is None else str(self.subject.pk)

    @property
    def text(self) -> str:
        """What the host calls the subject; "" where its ``__str__`` raises."""
        try:
            return str(self.subject)
        except Exception:
            return ""

    @property
    def effect_names(self) -> tuple[str, ...]:
        """The names of the effects, in their order."""
        return tuple(each.effect for each in self.effects)


def preview(
    action: Action, now: datetime, report: Report, limit: int | None = None, mark: bool = True
) -> None:
    """Fill ``report`` with what a poll of ``action`` at ``now`` would do; ``planned`` lists it.

    ``limit`` and ``mark`` mean what they mean to the poll. Raises what the action's rules raise.
    """
    found = _Preview(action, now, report, limit, mark)
    found.count_passes()
    for row in found.rows():
        if row.transition:
            planned = Planned(row.ref, row.transition, row.rung, row.effect_names)
            report.planned.append(planned)


def preview_rows(action: Action, now: datetime, pk: Any = None) -> Iterator[PreviewRow]:
    """Yield what the next tick does with each row that it selects at ``now``, in its order.

    Rows are read as they are asked for, a batch at a time. ``pk``: with this row alone. Raises what
    the action's rules raise.
    """
    return _Preview(action, now, Report(action.name, dry_run=True), pk=pk).rows()


class _Preview:
    def __init__(
        self,
        action: Action,
        now: datetime,
        report: Report,
        limit: int | None = None,
        mark: bool = True,
        pk: Any = None,
    ) -> None:
        self.action = action
        self.asked = Asked(now)
        self.now = now
        self.report = report
        self.limit = limit
        self.only = Q() if pk is None else Q(pk=pk)
        self.settings = get_settings()
        self.detection = action.detection if isinstance(action, LadderAction) and mark else None

    def count_passes(self) -> None:
        """Count the rows that the tick inserts, and those that it resolves, before it acts."""
        self.report.missing = len(self._missing)
        if isinstance(self.action, LadderAction) and self.action.resolution is not None:
            settled = self._rows(self.action.resolution.rule(self.now))
            self.report.resolved = settled.values("pk").distinct().count()
            self.report.resolved += len(would_find(settled, self._missing))

    def rows(self) -> Iterator[PreviewRow]:
        """Yield the rows, each counted in the report."""
        found = would_find(self._rows(self._rule()), self._missing)
        self._note_due(found, would_find(self._rows(self._due()), found))
        for subjects in in_batches(self._in_order(found), self.settings.BATCH_SIZE):
            yield from self._batch(subjects)

    def _rows(self, rule: Q) -> models.QuerySet[Any]:
        rows = self.action.get_queryset().using(self.action.using)
        return rows.filter(self.only, rule).order_by()

    @cached_property
    def _missing(self) -> list[Any]:
        if self.only:
            return []
        yielded = in_batches(self.action.missing_subjects(self.now), self.settings.BATCH_SIZE)
        return [new for batch in yielded for new in not_existing(batch, self.action.using)]

    def _rule(self) -> Q:
        """What the action or, before it, detection finds."""
        rule = self.action.rule(self.now)
        return rule if self.detection is None else rule | self.detection.rule(self.now)

    def _due(self) -> Q:
        """The action's own rule but for the state, which detection is about to change."""
        return self.action.due(self.now) or Q()

    def _note_due(self, subjects: Sequence[Any], due: Sequence[Any]) -> None:
        identities = {id(each) for each in due}
        for subject in subjects:
            subject._due_once_marked = id(subject) in identities

    def _in_order(self, new: Sequence[Any]) -> Iterator[Any]:
        """Yield subjects in the order in which the tick acts on them, new ones among the others."""
        for branch in self.action.branches(self.now):
            rule = self._rule() if self.detection else branch.rule & self._rule()
            rank = cmp_to_key(partial(_compare, branch.order_by))
            existing = self._existing(replace(branch, rule=rule))
            yield from heapq.merge(existing, sorted(new, key=rank), key=rank)
            new = ()  # a new row is open, and that is the first branch

    def _existing(self, branch: Branch) -> Iterator[Any]:
        if self.only:
            yield from self._read(branch.rule).values()
            return
        for pks in candidate_pks(self.action, branch, self.settings.BATCH_SIZE):
            found = self._read(Q(pk__in=pks))
            yield from (found[pk] for pk in pks if pk in found)

    def _read(self, rule: Q) -> dict[Any, Any]:
        found = {row.pk: row for row in self._rows(rule)}
        if found and self.detection is not None:
            due = self._rows(self._due() & Q(pk__in=list(found))).values_list("pk", flat=True)
            self._note_due(list(found.values()), [found[pk] for pk in due if pk in found])
        return found

    def _batch(self, subjects: Sequence[Any]) -> list[PreviewRow]:
        rows: dict[int, PreviewRow] = {}
        reached = []
        with Rehearsal(self.action.using) as rehearsal:
            for subject in subjects:
                why = rehearsal.run(partial(self._keeps_from_marking, subject))
                if why:
                    rows[id(subject)] = self._left_out(subject, why)
                elif self._mark(subject):
                    reached.append(subject)
            answers = [self._plan(subject, rehearsal) for subject in reached]
            plans = [each for each in answers if isinstance(each, Plan)]
            behind = find_behind(self.action, plans, self.asked)
            for subject, answer in zip(reached, answers, strict=True):
                if self._is_full():
                    break
                told = Reason.HEALED if subject.pk in behind else answer
                rows[id(subject)] = self._decide(subject, told, rehearsal)
        return [rows[id(each)] for each in subjects if id(each) in rows]

    def _keeps_from_marking(self, subject: Any) -> str:
        if self.detection is None or subject.status not in _MARKABLE:
            return ""
        return self.detection.blocked(subject, self.now, self.detection.transition)

    def _mark(self, subject: Any) -> bool:
        """Do in memory what detection would do; return whether it is the action's turn then."""
        if self.detection is None or subject.status not in _MARKABLE:
            return True
        self.report.marked += 1
        machines.set_state(subject, self.detection.state_field, Status.OVERDUE.value)
        return bool(subject._due_once_marked)

    def _plan(self, subject: Any, rehearsal: Rehearsal) -> Plan | Exception:
        return rehearsal.run(partial(plan, self.action, subject, self.asked))

    def _decide(
        self, subject: Any, answer: Plan | str | Exception, rehearsal: Rehearsal
    ) -> PreviewRow:
        if not isinstance(answer, Plan):
            return self._left_out(subject, answer)
        if answer.decision.reason:
            return self._left_out(subject, answer.decision.reason)
        captures = rehearsal.run(partial(rehearse_act, self.action, answer, self.asked))
        if isinstance(captures, Exception):
            return self._left_out(subject, captures)
        return self._applied(answer, captures)

    def _is_full(self) -> bool:
        return self.limit is not None and self.report.applied >= self.limit

    def _applied(self, planned: Plan, captures: Sequence[Capture]) -> PreviewRow:
        step = planned.decision.step
        self.report.selected += 1
        self.report.applied += 1
        self.report.marked += self.action.counted_as == "marked"
        self.report.exhausted += bool(step and step.exhausted)
        rung = step.rung.name if step and step.rung else ""
        transition = planned.decision.transition
        return PreviewRow(planned.subject, transition, rung, tuple(captures))

    def _left_out(self, subject: Any, why: str | Exception) -> PreviewRow:
        self.report.selected += 1
        if isinstance(why, Exception):
            self.report.add_error(subject_ref(subject), why, self.settings.ERRORS_KEPT)
            return PreviewRow(subject, error=describe_error(why))
        self.report.skipped[why] += 1
        return PreviewRow(subject, reason=why)


def _compare(order_by: Sequence[str], one: Any, other: Any) -> int:
    """Compare two rows as ``candidates.ordering`` orders them."""
    for path in order_by:
        names = path.removeprefix("-").split("__")
        left, right = reduce(getattr, names, one), reduce(getattr, names, other)
        if left == right:
            continue
        if left is None or right is None:
            return 1 if left is None else -1
        return 1 if (left > right) != path.startswith("-") else -1
    return 0
