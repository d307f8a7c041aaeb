"""Objections: everything that stands against an act on one subject, each asked on its own.

A tick needs one reason and stops at the first. A person wants them all, so each part of the action
is asked here by itself: its queryset, its rules, its veto, its decision, its trail.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.utils import timezone

from idempotent_actions import machines
from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import Asked, newest_acts, plan
from idempotent_actions.findings import BASE, DETECTED, DUE, SETTLED, VISIBLE, Finding, read
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.ladder import Status
from idempotent_actions.rehearsing import Rehearsal
from idempotent_actions.reports import describe_error

__all__ = ["ERROR", "NOT_POLLED", "Objection", "in_words", "objections", "usual"]

ERROR = "error"
"""The code of an exception that the host's rules raise."""

NOT_POLLED = "not_polled"
"""The code of an action without a due rule: a person or a caller starts it."""

_MARKABLE = (Status.OPEN, Status.ESCALATED)
"""States that detection starts from."""

_ENDED = {
    Status.EXHAUSTED.value: "The ladder has ended: no rung is left.",
    Status.RESOLVED.value: "This cycle is resolved. Reopening begins the next one.",
    Status.CANCELLED.value: "This cycle is cancelled. Reopening begins the next one.",
}

_SENTENCES = {
    Reason.CONDITION: "A condition of the transition isn't met.",
    Reason.HEALED: "It is behind its own trail, and is put back to where that has ended.",
    Reason.UNKNOWN_RUNG: "It stands on a rung that the ladder no longer declares.",
}


@dataclass(frozen=True, slots=True)
class Objection:
    """A code and a sentence against an act; ``until``: the instant that ends it, where known."""

    code: str
    sentence: str
    until: datetime | None = None


def objections(action: Action, pk: Any, now: datetime, *, selected: bool) -> list[Objection]:
    """Return everything but a pause that stands against ``action`` on the row ``pk`` at ``now``.

    ``selected``: the tick selects the row, so that the preview has told whether it is behind its
    trail. Parts that raise are named as well (``error``). Takes no lock and writes nothing.
    """
    subject, findings = read(action, pk, now)
    if subject is None:
        return [Objection(Reason.GONE, "There is no such row.")]
    row = _Row(action, subject, findings, now)
    found = list(row.stored())
    with Rehearsal(action.using) as rehearsal:
        for question in row.asked_of_the_host():
            answer = rehearsal.run(partial(list[Objection], question))
            found += [_failed(answer)] if isinstance(answer, Exception) else answer
    if not selected:
        found += row.behind()
    return list(_said_once(found))


def in_words(instant: datetime) -> str:
    """Return an instant in the current zone, to the second."""
    local = timezone.localtime(instant) if timezone.is_aware(instant) else instant
    return local.isoformat(" ", "seconds")


class _Row:
    """One row, and the questions about it, from what is particular to what is general."""

    def __init__(
        self, action: Action, subject: Any, findings: dict[str, Finding], now: datetime
    ) -> None:
        self.action = action
        self.subject = subject
        self.findings = findings
        self.now = now
        self.ladder = action if isinstance(action, LadderAction) else None
        self.is_markable = self.ladder is not None and subject.status in _MARKABLE

    def stored(self) -> Iterator[Objection]:
        """Yield what the row, the rules and the ledger say."""
        errors = [each for each in self.findings.values() if isinstance(each, Exception)]
        yield from dict.fromkeys(_failed(each) for each in errors)
        if self.findings[VISIBLE] is False:
            yield Objection(Reason.EXCLUDED, "The action's own queryset leaves it out.")
        if self.ladder is not None:
            yield from self._ended()
            yield from self._held()
            yield from self._waits_for_effects()
            yield from self._not_yet()
        yield from self._not_due()

    def asked_of_the_host(self) -> Iterator[Iterator[Objection]]:
        """Yield the questions that run the host's code."""
        yield self._vetoed()
        yield self._detected()
        yield self._decided()
        yield self._told()

    def behind(self) -> Iterator[Objection]:
        """Compare the row with its trail, as a delivery does."""
        newest = newest_acts(self.action, [self.subject.pk]).get(self.subject.pk)
        if newest is not None and self.action.was_put_back(self.subject, newest, self.now):
            yield usual(Reason.HEALED)

    def _ended(self) -> Iterator[Objection]:
        if self.subject.status in _ENDED:
            yield Objection(str(self.subject.status), _ENDED[self.subject.status])
        if self.findings[SETTLED] is True:
            yield Objection(Reason.RESOLVED, "The host's own data say that it is settled.")

    def _held(self) -> Iterator[Objection]:
        until = self.subject.hold_until
        if until is not None and until > self.now:
            why = f": {self.subject.hold_reason}" if self.subject.hold_reason else "."
            yield Objection(Reason.HELD, f"It is held until {in_words(until)}{why}", until)

    def _waits_for_effects(self) -> Iterator[Objection]:
        subject = self.subject
        if subject.status != Status.ESCALATED or subject.next_at is not None:
            return
        captures = Capture.objects.using(self.action.using).about(subject)
        here = captures.filter(
            escalation__cycle=subject.cycle,
            escalation__revision=subject.revision,
            escalation__rung=subject.rung,
        )
        waits = False
        for each in here.unsettled():
            waits = True
            why = f" ({each.waiting_for})" if each.waiting_for else ""
            sentence = f"It waits for the effect {each.effect}, which is {each.state}{why}."
            yield Objection(Reason.WAITING, sentence)
        if not waits:
            sentence = "No next deadline is set: see what followed its effects."
            yield Objection(Reason.WAITING, sentence)

    def _not_yet(self) -> Iterator[Objection]:
        """Name the deadlines that lie ahead, if it is for them that a rule doesn't find it."""
        subject = self.subject
        if self.findings[DUE] is not False and not self._waits_for_detection():
            return
        if subject.due_at is None:
            yield Objection(Reason.NOT_DUE, "It has no due date.")
        elif subject.due_at > self.now:
            sentence = f"It is due at {in_words(subject.due_at)}."
            yield Objection(Reason.NOT_DUE, sentence, subject.due_at)
        if subject.next_at is not None and subject.next_at > self.now:
            yield self._wait(Reason.NOT_DUE)

    def _waits_for_detection(self) -> bool:
        return self.is_markable and self.findings[DETECTED] is False

    def _wait(self, code: str) -> Objection:
        until = self.subject.next_at
        after = f"after {self.subject.rung}" if self.subject.rung else "before the first rung"
        return Objection(code, f"The wait {after} lasts until {in_words(until)}.", until)

    def _not_due(self) -> Iterator[Objection]:
        """Name the rule that the host has written itself."""
        if self.findings[DUE] is None:
            sentence = "It is never polled: a person or a caller starts it."
            yield Objection(NOT_POLLED, sentence)
        elif self.findings[DUE] is False and self.findings[BASE] is not False:
            yield Objection(Reason.NOT_DUE, "The action's own rule doesn't find it due.")

    def _vetoed(self) -> Iterator[Objection]:
        if veto := self.action.vetoed(self._as_decided_on(), self.now):
            yield Objection(veto, f"The host's own veto: {veto}.")

    def _detected(self) -> Iterator[Objection]:
        if self.ladder is not None and self.is_markable:
            detection = self.ladder.detection
            if why := detection.blocked(self.subject, self.now, detection.transition):
                yield usual(why)

    def _decided(self) -> Iterator[Objection]:
        why = plan(self.action, self._as_decided_on(), Asked(self.now)).decision.reason
        if why == Reason.WRONG_STATUS:
            if self.ladder is None or self.subject.status not in _ENDED:
                state = machines.state_of(self.subject, self.action.state_field)
                yield Objection(why, f"{self.action.transition} can't start from {state!r}.")
        elif why == Reason.WAITING:
            if not self.is_markable:  # else detection waits for it, which was named
                yield self._wait(why)
        elif why:
            yield usual(why)

    def _told(self) -> Iterator[Objection]:
        """Ask what the guard says of it, where a host has words of its own."""
        if type(self.action).why_not_due in (Action.why_not_due, LadderAction.why_not_due):
            return
        told = self.action.why_not_due([self.subject], self.now, self.action.using)
        yield from (usual(code) for code in told.values())

    def _as_decided_on(self) -> Any:
        """Return the row as detection would leave it, for those that detection is for."""
        if not self.is_markable:
            return self.subject
        marked = machines.silenced(self.subject)
        machines.set_state(marked, self.action.state_field, Status.OVERDUE.value)
        return marked


def _said_once(found: list[Objection]) -> Iterator[Objection]:
    """Leave out a usual sentence where something before it has said more."""
    known: set[str] = set()
    for each in found:
        if each.code not in known or each != usual(each.code):
            yield each
        known.add(each.code)


def _failed(error: Exception) -> Objection:
    return Objection(ERROR, describe_error(error))


def usual(code: str) -> Objection:
    """Return the objection of a code with its usual sentence."""
    return Objection(code, _SENTENCES.get(code, f"The tick passes it over: {code}."))
