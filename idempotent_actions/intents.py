"""From an intent to an unsaved capture: everything that can be wrong with it is said here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from idempotent_actions.actions import Action, Step
from idempotent_actions.effects import Effect, Intent
from idempotent_actions.exceptions import InvalidEffect
from idempotent_actions.keys import check_key, extend_key
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.parameters import fingerprint, freeze

__all__ = ["Wanted", "captures_of", "intents_of", "subject_columns", "wanted"]


def intents_of(action: Action, subject: Any, step: Step) -> list[Intent]:
    """Ask the action which effects follow from ``step``.

    Raises ``InvalidEffect`` for what isn't made by calling an effect.
    """
    yielded = action.effects(subject, step)
    if not isinstance(yielded, Iterable):
        raise InvalidEffect(f"{action.name}: effects() must yield effect calls, not {yielded!r}.")
    intents = list(yielded)
    for each in intents:
        if not isinstance(each, Intent):
            raise InvalidEffect(
                f"{action.name}: effects() must yield effect calls, like send_notice(to=...), of a "
                f"function decorated with @effect; not {each!r}."
            )
    return intents


def captures_of(
    action: Action, intents: Sequence[Intent], escalation: Escalation, now: datetime
) -> list[Capture]:
    """Return the unsaved captures of one act; raise what is wrong with a key or a parameter."""
    captures: dict[str, Capture] = {}
    for intent in intents:
        key = extend_key(escalation.key, *intent.key_parts)
        if key in captures:
            raise InvalidEffect(
                f"{action.name} yields {intent.effect.name} twice for one act, which makes one key "
                f"({key}). Name the parameter that tells them apart: @effect(per=...)."
            )
        captures[key] = wanted(
            intent.effect,
            key,
            intent.params,
            action=action.name,
            subject_model=escalation.subject_model,
            subject_pk=escalation.subject_pk,
            expects=escalation.to_status,
            escalation=escalation,
        ).capture(now)
    return list(captures.values())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for, checked and frozen; there may be a capture of it already."""

    effect: Effect
    key: str
    params: dict[str, Any]
    fingerprint: str
    about: dict[str, Any]

    def capture(self, now: datetime) -> Capture:
        """Return an unsaved pending capture of it."""
        return Capture(
            key=self.key,
            effect=self.effect.name,
            params=self.params,
            fingerprint=self.fingerprint,
            policy=self.effect.policy,
            created_at=now,
            wake_at=now,
            **self.about,
        )


def wanted(effect: Effect, key: Any, params: Mapping[str, Any] | None, **about: Any) -> Wanted:
    """Check and freeze what is asked for; ``about`` says which act or subject it belongs to.

    Raises ``InvalidEffect``, ``InvalidKey`` or ``InvalidParameters``.
    """
    if not isinstance(effect, Effect):
        raise InvalidEffect(f"{effect!r} is no effect: decorate the function with @effect.")
    frozen = freeze(params or {})
    return Wanted(effect, check_key(key), frozen, fingerprint(effect.name, frozen), about)


def subject_columns(subject: models.Model | None) -> dict[str, str]:
    """Return the columns that name a subject, empty for none."""
    if subject is None:
        return {}
    return {"subject_model": subject._meta.label_lower, "subject_pk": str(subject.pk)}
