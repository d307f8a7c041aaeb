"""Explaining: would a subject be acted on at the next tick, and if not, all that stands against it.

Whether it would is the preview's answer about this one row. The reasons come from asking each part
of the same rules on its own, so that the second one doesn't hide behind the first.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.asking import check_subject
from idempotent_actions.effects import find_effect
from idempotent_actions.exceptions import UnknownAction
from idempotent_actions.findings import attempt
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.models.pause import Pause
from idempotent_actions.objections import ERROR, Objection, in_words, objections, usual
from idempotent_actions.pausing import paused_by
from idempotent_actions.previews import PreviewRow, preview_rows
from idempotent_actions.registry import registry
from idempotent_actions.reports import describe_error
from idempotent_actions.running import HIDDEN

__all__ = ["ExplainedEffect", "Explanation", "Part", "explain"]


@dataclass(frozen=True, slots=True)
class ExplainedEffect:
    """An effect that the act would request: frozen parameters, those declared secret hidden.

    ``paused`` says why it would not be done at once, if a pause holds it back.
    """

    name: str
    params: dict[str, Any]
    paused: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What the next tick of one action means for the subject.

    ``climbs``: it fires ``transition`` (to ``rung``, on a ladder) and requests ``effects``. Else
    ``reasons`` holds a code and a sentence for everything that stands against it, and ``due_from``
    is the instant from which nothing does any more, where time alone settles it all.
    """

    action: str
    climbs: bool = False
    transition: str = ""
    rung: str = ""
    effects: tuple[ExplainedEffect, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    due_from: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "action": self.action,
            "climbs": self.climbs,
            "transition": self.transition,
            "rung": self.rung,
            "effects": [
                {"name": each.name, "params": each.params, "paused": each.paused}
                for each in self.effects
            ],
            "reasons": [{"code": code, "sentence": sentence} for code, sentence in self.reasons],
            "due_from": self.due_from and self.due_from.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """A subject (like ``billing.invoice:42``) as each action on its model sees it at ``now``."""

    subject: str
    now: datetime
    parts: tuple[Part, ...]

    @property
    def climbs(self) -> bool:
        """Whether the next tick does anything with it."""
        return any(part.climbs for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "subject": self.subject,
            "at": self.now.isoformat(),
            "climbs": self.climbs,
            "actions": [part.as_dict() for part in self.parts],
        }


def explain(subject: models.Model, now: datetime | None = None) -> Explanation:
    """Return what the next tick does with ``subject``, and everything that stands against it.

    The row is read as it is now: of the instance only model and primary key count. ``now``: as if
    the tick began then; the database's clock otherwise. Takes no lock and writes nothing. Raises
    ``UnknownAction`` where no action is registered for the model, ``InvalidInput`` for an instance
    without a primary key.
    """
    check_subject(subject, models.Model)
    actions = [each for each in registry if _is_about(each, subject)]
    if not actions:
        raise UnknownAction(f"No action is registered for {subject._meta.label}.")
    now = clock.now(actions[0].using) if now is None else clock.check_instant(now, "now")
    parts = tuple(_part(each, subject.pk, now) for each in actions)
    return Explanation(subject_ref(subject), now, parts)


def _is_about(action: Action, subject: models.Model) -> bool:
    """A proxy is the same row, and so is a parent under multi-table inheritance."""
    model = action.model._meta.concrete_model
    return model is not None and issubclass(type(subject), model)


def _part(action: Action, pk: Any, now: datetime) -> Part:
    using = action.using
    is_any = Pause.objects.using(using).active(now).exists()  # there hardly ever is one
    pause = paused_by(using, now, action=action.audit_name) if is_any else None
    foretold = _foretold(action, pk, now)
    climbs = foretold is not None and bool(foretold.transition)
    against = [] if pause is None else [_stop(pause)]
    if not climbs:
        against += objections(action, pk, now, selected=foretold is not None)
        against += _not_said_yet(foretold, against)
    if against or foretold is None:
        return _refused(action, against)
    effects = tuple(_effect(each, using, now, is_any) for each in foretold.effects)
    return Part(action.name, True, foretold.transition, foretold.rung, effects)


def _foretold(action: Action, pk: Any, now: datetime) -> PreviewRow | None:
    """Ask the preview about this row alone; None: the tick doesn't select it."""
    rows = attempt(lambda: list(preview_rows(action, now, pk)), action.using)
    if isinstance(rows, Exception):
        return PreviewRow(None, error=describe_error(rows))
    return next(iter(rows), None)


def _not_said_yet(foretold: PreviewRow | None, said: list[Objection]) -> list[Objection]:
    """Return what the preview knows, and no single question has brought up."""
    if foretold is None:
        return [] if said else [usual(Reason.NOT_DUE)]
    if foretold.error:
        return [Objection(ERROR, foretold.error)]
    return [] if foretold.reason in {each.code for each in said} else [usual(foretold.reason)]


def _refused(action: Action, against: list[Objection]) -> Part:
    ends = [each.until for each in against if each.until is not None]
    return Part(
        action.name,
        reasons=tuple(dict.fromkeys((each.code, each.sentence) for each in against)),
        due_from=max(ends) if len(ends) == len(against) else None,
    )


def _stop(pause: Pause) -> Objection:
    until = f" until {in_words(pause.until)}" if pause.until else ""
    sentence = f"Paused{until} ({pause}) by {pause.actor}: {pause.reason}"
    return Objection(Reason.PAUSED, sentence, pause.until)


def _effect(capture: Capture, using: str, now: datetime, is_any: bool) -> ExplainedEffect:
    effect = find_effect(capture.effect)
    shown = {
        name: HIDDEN if effect is None or name in effect.secret else value
        for name, value in capture.params.items()
    }
    pause = paused_by(using, now, effect=capture.effect) if is_any else None
    return ExplainedEffect(capture.effect, shown, "" if pause is None else pause.reason)
