"""The dry run: what the next tick does on the same data, by the tick's own rules and decision.

It takes no lock, fires no signal and writes nothing, not even a sequence value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Q

from idempotent_actions import machines
from idempotent_actions.actions import Action, Branch, Decision, Reason
from idempotent_actions.candidates import candidate_pks, in_batches
from idempotent_actions.conf import get_settings
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.escalation import Escalation, subject_ref
from idempotent_actions.models.ladder import Status
from idempotent_actions.reports import Planned, Report
from idempotent_actions.subjects import not_existing, would_match

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
        if isinstance(self.action, LadderAction) and self.action.resolution is not None:
            rows = self.action.get_queryset().using(self.action.using)
            self.report.resolved = rows.filter(self.action.resolution.rule(self.now)).count()
        for subjects in self._batches():
            self._decide_all([each for each in subjects if self._reaches_decision(each)])
        self._decide_all([each for each in missing if self._reaches_decision(each)])

    def _rule(self) -> Q:
        """What the action or, before it, detection finds."""
        rule = self.action.rule(self.now)
        return rule if self.detection is None else rule | self.detection.rule(self.now)

    def _due(self) -> Q:
        """The action's own rule but for the state, which detection is about to change."""
        return self.action.due(self.now) or Q()

    def _branches(self) -> list[Branch]:
        rule, branches = self._rule(), self.action.branches(self.now)
        if self.detection is None:
            return [replace(branch, rule=branch.rule & rule) for branch in branches]
        return [replace(branch, rule=rule) for branch in branches]

    def _batches(self) -> Iterator[list[Any]]:
        """Yield subjects in the order in which the tick acts on them once they are marked."""
        for branch in self._branches():
            rows = self.action.get_queryset().using(self.action.using)
            for pks in candidate_pks(self.action, branch, self.settings.BATCH_SIZE):
                due = set(rows.filter(self._due(), pk__in=pks).values_list("pk", flat=True))
                found = {row.pk: row for row in rows.filter(pk__in=pks).order_by()}
                for pk, row in found.items():
                    row._due_once_marked = pk in due
                yield [found[pk] for pk in pks if pk in found]

    def _missing(self) -> Iterator[Any]:
        """Yield the rows that the tick would insert and then find due."""
        using = self.action.using
        for batch in in_batches(self.action.missing_subjects(self.now), self.settings.BATCH_SIZE):
            subject: Any
            for subject in not_existing(batch, using):
                found = would_match(subject, self._rule(), using)
                if found is None:
                    self._skip(Reason.NOT_CREATED)
                elif found:
                    subject._due_once_marked = would_match(subject, self._due(), using)
                    yield subject

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
        decided = [(subject, *self._decide(subject)) for subject in subjects]
        there = Escalation.objects.using(self.action.using).by_key(
            key for *_, key in decided if key
        )
        for subject, decision, key in decided:
            if self.limit is not None and self.report.applied >= self.limit:
                return
            if isinstance(decision, Exception):
                self._fail(subject, decision)
            elif key in there:
                self._skip(Reason.HEALED)
            elif decision.reason:
                self._skip(decision.reason)
            else:
                self._apply(subject, decision)

    def _decide(self, subject: Any) -> tuple[Decision | Exception, str]:
        try:
            decision = self.action.decide(subject, self.now)
            if decision.step is None or not self.action.audited:
                return decision, ""
            return decision, self.action.key(subject, decision.step)
        except Exception as error:
            return error, ""

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
