"""The dry run: what the next tick does on the same data, by the tick's own rules and decision.

It takes no lock, fires no signal and writes nothing, not even a sequence value.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cmp_to_key, partial, reduce
from typing import Any

from django.db import models
from django.db.models import Q

from idempotent_actions import machines
from idempotent_actions.actions import Action, Branch, Decision, Reason
from idempotent_actions.acts import Asked, Plan, find_behind, plan
from idempotent_actions.candidates import candidate_pks, in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.models.ladder import Status
from idempotent_actions.reports import Planned, Report
from idempotent_actions.subjects import not_existing, would_find

__all__ = ["preview"]


def preview(
    action: Action, now: datetime, report: Report, limit: int | None = None, mark: bool = True
) -> None:
    """Fill ``report`` with what a poll of ``action`` at ``now`` would do; ``planned`` lists it.

    ``limit`` and ``mark`` mean what they mean to the poll. Raises what the action's rules raise.
    """
    _Preview(action, now, report, limit, mark).run()


class _Preview:
    def __init__(
        self, action: Action, now: datetime, report: Report, limit: int | None, mark: bool
    ) -> None:
        self.action = action
        self.now = now
        self.report = report
        self.limit = limit
        self.settings = get_settings()
        self.detection = action.detection if isinstance(action, LadderAction) and mark else None

    def run(self) -> None:
        missing = list(self._missing())
        self.report.missing = len(missing)
        self._count_resolved(missing)
        found = would_find(self._rows(self._rule()), missing)
        self._note_due(found, would_find(self._rows(self._due()), found))
        for subjects in in_batches(self._in_order(found), self.settings.BATCH_SIZE):
            self._decide_all([each for each in subjects if self._reaches_decision(each)])

    def _rows(self, rule: Q) -> models.QuerySet[Any]:
        return self.action.get_queryset().using(self.action.using).filter(rule).order_by()

    def _missing(self) -> Iterator[Any]:
        for batch in in_batches(self.action.missing_subjects(self.now), self.settings.BATCH_SIZE):
            yield from not_existing(batch, self.action.using)

    def _count_resolved(self, missing: Sequence[Any]) -> None:
        if isinstance(self.action, LadderAction) and self.action.resolution is not None:
            settled = self._rows(self.action.resolution.rule(self.now))
            self.report.resolved = settled.values("pk").distinct().count()
            self.report.resolved += len(would_find(settled, missing))

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
        for pks in candidate_pks(self.action, branch, self.settings.BATCH_SIZE):
            found = {row.pk: row for row in self._rows(Q(pk__in=pks))}
            due = self._rows(self._due() & Q(pk__in=pks)).values_list("pk", flat=True)
            self._note_due(list(found.values()), [found[pk] for pk in due if pk in found])
            yield from (found[pk] for pk in pks if pk in found)

    def _reaches_decision(self, subject: Any) -> bool:
        """Do in memory what detection would do, without a transition, so without its signals."""
        detection = self.detection
        if detection is None or subject.status not in (Status.OPEN, Status.ESCALATED):
            return True
        try:
            blocked = detection.blocked(subject, self.now, detection.transition)
        except Exception as error:
            self._fail(subject, error)
            return False
        if blocked:
            self._skip(blocked)
            return False
        self.report.marked += 1
        machines.set_state(subject, detection.state_field, Status.OVERDUE.value)
        return bool(subject._due_once_marked)

    def _decide_all(self, subjects: Sequence[Any]) -> None:
        decided = [(subject, self._plan(subject)) for subject in subjects]
        plans = [each for _, each in decided if isinstance(each, Plan)]
        behind = find_behind(self.action, plans, Asked(self.now))
        for subject, planned in decided:
            if self._is_full():
                return
            if isinstance(planned, Exception):
                self._fail(subject, planned)
            elif subject.pk in behind:
                self._skip(Reason.HEALED)
            elif planned.decision.reason:
                self._skip(planned.decision.reason)
            else:
                self._apply(subject, planned.decision)

    def _plan(self, subject: Any) -> Plan | Exception:
        try:
            return plan(self.action, subject, Asked(self.now))
        except Exception as error:
            return error

    def _is_full(self) -> bool:
        return self.limit is not None and self.report.applied >= self.limit

    def _apply(self, subject: Any, decision: Decision) -> None:
        step = decision.step
        rung = step.rung.name if step and step.rung else ""
        self.report.selected += 1
        self.report.applied += 1
        self.report.marked += self.action.counted_as == "marked"
        self.report.exhausted += bool(step and step.exhausted)
        self.report.planned.append(Planned(subject_ref(subject), decision.transition, rung))

    def _skip(self, reason: str) -> None:
        self.report.selected += 1
        self.report.skipped[reason] += 1

    def _fail(self, subject: Any, error: Exception) -> None:
        self.report.selected += 1
        self.report.add_error(subject_ref(subject), error, self.settings.ERRORS_KEPT)


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
