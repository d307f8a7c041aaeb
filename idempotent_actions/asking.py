"""What a person asks and what is answered: arguments are checked before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict, TypeVar

from django.db import models, transaction

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.acts import Asked
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import retry_transient
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.models.capture import Capture
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.registry import registry

__all__ = [
    "Outcome",
    "Request",
    "actor_of",
    "asked_by",
    "check_subject",
    "check_text",
    "in_transaction",
    "registered",
]

T = TypeVar("T")


class Request(TypedDict):
    """What every service takes beside the subject, as keyword arguments."""

    by: Any
    """Who asks: a user, or a text of at most 150 characters."""
    reason: str
    """Why, in at most 255 characters; kept in the audit row."""
    seen: NotRequired[tuple[int, str] | None]
    """The (cycle, rung) that the person saw. If the subject has moved since: ``stale_view``."""
    now: NotRequired[datetime | None]
    """The instant of the act, for simulations; the database's clock otherwise."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a person's act. True when it was applied.

    ``reason`` says why not: ``stale_view``, ``wrong_status``, ``not_due``, ``held``, ``paused``,
    ``resolved``, ``gone``, ``healed``, or the host's own veto. ``subject`` is the row as it is now
    (None when it is gone); the instance handed in is never changed. ``capture``: the one that was
    decided.
    """

    applied: bool
    reason: str = ""
    escalation: Escalation | None = None
    subject: Any = None
    capture: Capture | None = None

    def __bool__(self) -> bool:
        return self.applied


def in_transaction(work: Callable[[], T], using: str) -> T:
    return retry_transient(
        transaction.atomic(using=using)(work), using=using, tries=get_settings().MAX_TRIES
    )


def registered(action: str | type[Action]) -> Action:
    if isinstance(action, str):
        return registry.get(action)
    for each in registry:
        if type(each) is action:
            return each
    raise UnknownAction(f"{action!r} is not registered. Decorate it with @register.")


def check_subject(subject: Any, model: type[models.Model]) -> None:
    if not isinstance(subject, model):
        raise InvalidInput(f"subject must be a {model.__name__}, not {subject!r}.")
    if subject.pk is None:
        raise InvalidInput("subject has no primary key: save it first.")


def asked_by(action: Action, request: Any, poll: bool = False) -> Asked:
    if unknown := set(request) - set(Request.__annotations__):
        raise TypeError(f"unknown argument {unknown.pop()!r}; see Request")
    if missing := {"by", "reason"} - set(request):
        raise TypeError(f"missing argument {missing.pop()!r}; see Request")
    by, reason, now = request["by"], request["reason"], request.get("now")
    _check_seen(request.get("seen"))
    actor = actor_of(by)
    check_text("reason", reason, 255)
    if now is not None:
        clock.check_instant(now, "now")
    return Asked(now or clock.now(action.using), actor, reason, poll=poll, wait=True)


def actor_of(by: Any) -> str:
    actor: str = by.get_username() if hasattr(by, "get_username") else by
    check_text("by", actor, 150)
    return actor


def _check_seen(seen: Any) -> None:
    match seen:
        case None | (int(), str()):
            return
    raise InvalidInput(f"seen must be the (cycle, rung) that was shown, not {seen!r}.")


def check_text(name: str, value: Any, longest: int) -> None:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > longest
        or not _is_storable(value)
    ):
        raise InvalidInput(f"{name} must be a text of 1 to {longest} characters, not {value!r}.")


def _is_storable(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
