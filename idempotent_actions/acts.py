"""One batch, one short transaction: lock, re-check, decide, fire, write. All callers share it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from idempotent_actions import machines
from idempotent_actions.actions import POLL, Action, Decision, Reason
from idempotent_actions.databases import is_transient, lazy_savepoint
from idempotent_actions.guards import lock_and_recheck
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel
from idempotent_actions.models.run import Run
from idempotent_actions.writing import Change, Failure, snapshot, write

__all__ = ["Asked", "BatchResult", "act_on", "audit_row", "heal"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for an act, at what instant, and why.

    ``poll``: False for one person's act on one subject, which is told of errors by exceptions.
    ``wait``: whether to wait for rows that somebody else has locked. ``run``: the poll's record.
    """

    now: datetime
    by: str = POLL
    reason: str = ""
    poll: bool = True
    wait: bool = False
    run: Run | None = None


@dataclass(slots=True)
class BatchResult:
    """What came of a batch. Valid only once its transaction has committed."""

    applied: list[Change] = field(default_factory=list)
    exhausted: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


class _Condemned(Exception):
    """Rows were refused after their transitions had left traces: roll back, go on without them."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__()
        self.failures = failures


def act_on(action: Action, pks: Sequence[Any], asked: Asked) -> BatchResult:
    """Apply ``action`` to the rows ``pks`` that are still due, in one transaction.

    State and audit rows are written together or not at all. A row whose transition raises, or that
    the database refuses, is set apart as a failure and the others are done. Raises what ends the
    whole transaction (a deadlock, a lost connection), with nothing written.
    """
    condemned: list[Failure] = []
    while True:
        without = {failure.subject.pk for failure in condemned}
        try:
            result = _act_once(action, [pk for pk in pks if pk not in without], asked)
        except _Condemned as error:
            condemned += error.failures
        else:
            result.failures += condemned
            return result


def _act_once(action: Action, pks: Sequence[Any], asked: Asked) -> BatchResult:
    using = action.using
    with transaction.atomic(using=using):
        guarded = lock_and_recheck(action, pks, asked.now, wait=asked.wait)
        result = BatchResult(skipped=Counter(guarded.held_back.values()))
        planned = _plan(action, guarded.due, asked, result)
        changes, healed = _fire(action, planned, asked, result)
        failures = write(changes, using) + write(healed, using)
        _condemn(failures, changes)
    refused = {id(failure.subject) for failure in failures}
    result.failures += failures
    result.applied = [each for each in changes if id(each.subject) not in refused]
    result.exhausted = sum(_exhausts(change) for change in result.applied)
    result.skipped[Reason.HEALED] += sum(id(each.subject) not in refused for each in healed)
    result.skipped = +result.skipped  # drops zeros
    return result


@dataclass(slots=True)
class _Plan:
    subject: Any
    decision: Decision
    key: str = ""


def _plan(
    action: Action, subjects: Sequence[Any], asked: Asked, result: BatchResult
) -> list[_Plan]:
    planned = []
    for subject in subjects:
        try:
            with lazy_savepoint(action.using):
                decision = action.decide(
                    subject, asked.now, by=asked.by, reason=asked.reason, poll=asked.poll
                )
                key = ""
                if action.audited and decision.step is not None:
                    key = action.key(subject, decision.step)
        except Exception as error:
            _set_apart(subject, error, asked, result)
            continue
        if decision.step is None:
            result.skipped[decision.reason] += 1
        else:
            planned.append(_Plan(subject, decision, key))
    return planned


def _fire(
    action: Action, planned: Sequence[_Plan], asked: Asked, result: BatchResult
) -> tuple[list[Change], list[Change]]:
    """Fire the transitions in memory; return the changes to write, and those that heal."""
    existing = Escalation.objects.using(action.using).by_key(
        plan.key for plan in planned if plan.key
    )
    behind = [(plan.subject, existing[plan.key]) for plan in planned if plan.key in existing]
    changes = []
    for plan in planned:
        if plan.key in existing:
            continue
        if plan.decision.reason:
            result.skipped[plan.decision.reason] += 1
            continue
        before = snapshot(plan.subject)
        try:
            with lazy_savepoint(action.using) as traces:
                getattr(plan.subject, plan.decision.transition)(**plan.decision.arguments)
        except Exception as error:
            _set_apart(plan.subject, error, asked, result)
            continue
        row = None
        if action.audited and plan.decision.step is not None:
            row = audit_row(action, plan.subject, before, plan.decision.transition, plan.key, asked)
        changes.append(Change(plan.subject, before, row, traces.left))
    return changes, heal(action, behind)


def _condemn(failures: Sequence[Failure], changes: Sequence[Change]) -> None:
    refused = {id(failure.subject) for failure in failures}
    if any(change.left_traces and id(change.subject) in refused for change in changes):
        raise _Condemned(list(failures))


def heal(action: Action, behind: Sequence[tuple[Any, Escalation]]) -> list[Change]:
    """Put back in place the subjects whose row is behind their own audit trail.

    ``behind`` pairs a subject with the audit row of the act that was about to be done again: a
    stale write by the host has undone the state alone. The newest act that moved the subject says
    where it stands. No transition fires and nothing goes out.
    """
    if not behind:
        return []
    newest = Escalation.objects.using(action.using).newest_moves(
        action.audit_name, action.model._meta.label_lower, [str(each.pk) for each, _ in behind]
    )
    changes = []
    for subject, done_before in behind:
        row = newest.get(str(subject.pk), done_before)
        changes.append(Change(subject, snapshot(subject)))
        machines.set_state(subject, action.state_field, row.to_status)
        if isinstance(subject, LadderModel) and row.cycle is not None:
            subject.rung, subject.cycle = row.rung, row.cycle
            subject.revision, subject.next_at = row.revision or 0, row.next_at
    return changes


def audit_row(
    action: Action,
    subject: Any,
    before: dict[str, Any],
    transition: str,
    key: str,
    asked: Asked,
) -> Escalation:
    """Return the unsaved audit row of a transition that has fired on ``subject``."""
    state = action.state_field
    row = Escalation(
        key=key,
        action=action.audit_name,
        transition=transition,
        subject_model=action.model._meta.label_lower,
        subject_pk=str(subject.pk),
        from_status=_text(before.get(state.attname)),
        to_status=_text(machines.state_of(subject, state)),
        actor=asked.by,
        reason=asked.reason,
        acted_at=asked.now,
        run=asked.run,
    )
    if isinstance(subject, LadderModel):
        row.from_rung, row.rung = before.get("rung", ""), subject.rung
        row.cycle, row.revision, row.next_at = subject.cycle, subject.revision, subject.next_at
    return row


def _set_apart(subject: Any, error: Exception, asked: Asked, result: BatchResult) -> None:
    if is_transient(error) or not asked.poll:
        raise error
    result.failures.append(Failure(subject, error))


def _exhausts(change: Change) -> bool:
    return change.escalation is not None and change.escalation.transition == "exhaust"


def _text(state: Any) -> str:
    return "" if state is None else str(state)
