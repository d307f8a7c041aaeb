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
from idempotent_actions.intents import captures_of, intents_of
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel, Status
from idempotent_actions.models.run import Run
from idempotent_actions.pausing import paused_by
from idempotent_actions.writing import Change, Failure, snapshot, write

__all__ = [
    "Asked",
    "BatchResult",
    "Plan",
    "act_on",
    "audit_row",
    "find_behind",
    "fire_one",
    "heal",
    "newest_acts",
    "plan",
]


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
    paused: bool = False
    """A pause stands against it: nothing was locked, and nothing is written."""


class _Condemned(Exception):
    """Rows were refused after their transitions had left traces: roll back, go on without them."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__()
        self.failures = failures


def act_on(action: Action, pks: Sequence[Any], asked: Asked) -> BatchResult:
    """Apply ``action`` to the rows ``pks`` that are still due, in one transaction.

    State and audit rows are written together or not at all. A row whose transition raises, or that
    the database refuses, is set apart as a failure and the others are done. A pause of the action
    is read first, in the same transaction. Raises what ends the whole transaction (a deadlock, a
    lost connection), with nothing written.
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
        if action.pausable and paused_by(using, asked.now, action=action.audit_name):
            return BatchResult(skipped=Counter({Reason.PAUSED: len(pks)}), paused=True)
        guarded = lock_and_recheck(action, pks, asked.now, wait=asked.wait)
        result = BatchResult(skipped=Counter(guarded.held_back.values()))
        plans = _plan_all(action, guarded.due, asked, result)
        changes, healed = _fire(action, plans, asked, result)
        failures = write(changes, using) + write(healed, using)
        _condemn(failures, changes)
    refused = {id(failure.subject) for failure in failures}
    result.failures += failures
    result.applied = [each for each in changes if id(each.subject) not in refused]
    result.exhausted = sum(_exhausts(change) for change in result.applied)
    result.skipped[Reason.HEALED] += sum(id(each.subject) not in refused for each in healed)
    result.skipped = +result.skipped  # drops zeros
    return result


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided for a subject, and the unique key of the audit row it would write."""

    subject: Any
    decision: Decision
    key: str = ""


def plan(action: Action, subject: Any, asked: Asked) -> Plan:
    """Decide, and name the audit row. Raises what the action's rules raise."""
    decision = action.decide(subject, asked.now, by=asked.by, reason=asked.reason, poll=asked.poll)
    if decision.step is None or not action.audited:
        return Plan(subject, decision)
    return Plan(subject, decision, action.key(subject, decision.step))


def find_behind(action: Action, plans: Sequence[Plan], asked: Asked) -> dict[Any, Escalation]:
    """Return the subjects whose row is behind their own audit trail, by primary key.

    A stale write by the host has put the row back, and not the trail: the very same act was done
    before, or a later one. The audit row returned says where the subject ought to stand.
    """
    audited = [each for each in plans if each.key]
    if not audited:
        return {}
    trail = Escalation.objects.using(action.using)
    done = trail.by_key(each.key for each in audited)
    read = [each for each in audited if action.reads_trail or each.key in done]
    newest = newest_acts(action, [each.subject.pk for each in read])
    return {
        each.subject.pk: newest[each.subject.pk]
        for each in read
        if each.subject.pk in newest
        and (each.key in done or action.is_behind(each.subject, newest[each.subject.pk], asked.now))
    }


def newest_acts(action: Action, pks: Sequence[Any]) -> dict[Any, Escalation]:
    """Return the newest audit row of each of these subjects that has one, by primary key."""
    if not pks:
        return {}
    label = action.model._meta.label_lower
    rows = Escalation.objects.using(action.using).newest(action.audit_name, label, pks)
    return {pk: rows[str(pk)] for pk in pks if str(pk) in rows}


def _plan_all(
    action: Action, subjects: Sequence[Any], asked: Asked, result: BatchResult
) -> list[Plan]:
    plans = []
    for subject in subjects:
        try:
            with lazy_savepoint(action.using):
                planned = plan(action, subject, asked)
        except Exception as error:
            _set_apart(subject, error, asked, result)
            continue
        if planned.decision.step is None:
            result.skipped[planned.decision.reason] += 1
        else:
            plans.append(planned)
    return plans


def _fire(
    action: Action, plans: Sequence[Plan], asked: Asked, result: BatchResult
) -> tuple[list[Change], list[Change]]:
    """Fire the transitions in memory; return the changes to write, and those that heal."""
    behind = find_behind(action, plans, asked)
    changes = []
    for each in plans:
        subject, decision = each.subject, each.decision
        if subject.pk in behind:
            continue
        if decision.reason:
            result.skipped[decision.reason] += 1
            continue
        change = Change(subject, snapshot(subject))
        try:
            with lazy_savepoint(action.using) as traces:
                fire_one(action, each, change, asked)
        except Exception as error:
            _set_apart(subject, error, asked, result)
            continue
        change.left_traces = traces.left
        changes.append(change)
    healed = []
    for each in plans:
        if each.subject.pk in behind:
            healed.append(Change(each.subject, snapshot(each.subject)))
            heal(action, each.subject, behind[each.subject.pk])
    return changes, healed


def fire_one(action: Action, planned: Plan, change: Change, asked: Asked) -> None:
    """Fire the planned transition on its subject in memory; note in ``change`` what follows.

    Raises what the host's code raises, and what is wrong with an effect's key or parameters.
    """
    subject, decision = planned.subject, planned.decision
    getattr(subject, decision.transition)(**decision.arguments)
    if not planned.key or decision.step is None:
        return
    intents = intents_of(action, subject, decision.step)
    if intents:
        action.await_effects(subject)
    row = audit_row(action, subject, change.before, decision.transition, planned.key, asked)
    change.escalation = row
    change.captures = captures_of(action, intents, row, asked.now)


def _condemn(failures: Sequence[Failure], changes: Sequence[Change]) -> None:
    refused = {id(failure.subject) for failure in failures}
    if any(change.left_traces and id(change.subject) in refused for change in changes):
        raise _Condemned(list(failures))


def heal(action: Action, subject: Any, newest: Escalation) -> None:
    """Put the instance of a row that is behind where its ``newest`` act left it. Fires nothing."""
    machines.set_state(subject, action.state_field, action.state_after(newest))
    if isinstance(subject, LadderModel) and newest.cycle is not None:
        subject.rung, subject.cycle = newest.rung, newest.cycle
        subject.revision, subject.next_at = newest.revision or 0, newest.next_at
        subject.hold_until = newest.hold_until
        if newest.next_at is None and newest.to_status == Status.ESCALATED:
            subject.next_at = action.deadline_after_settling(subject)
        if newest.transition == "hold":
            subject.hold_reason = newest.reason


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
        row.hold_until = subject.hold_until
    return row


def _set_apart(subject: Any, error: Exception, asked: Asked, result: BatchResult) -> None:
    if is_transient(error) or not asked.poll:
        raise error
    result.failures.append(Failure(subject, error))


def _exhausts(change: Change) -> bool:
    return change.escalation is not None and change.escalation.transition == "exhaust"


def _text(state: Any) -> str:
    return "" if state is None else str(state)
