"""Typed settings, read lazily from ``settings.IDEMPOTENT_ACTIONS``, defaults beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings

from idempotent_actions.exceptions import InvalidSetting

__all__ = ["Settings", "get_settings"]


@dataclass(frozen=True)
class Settings:
    """What a host may set in ``IDEMPOTENT_ACTIONS``; numbers are whole and above zero."""

    BATCH_SIZE: int = 500
    """Subjects locked and written in one transaction. Larger batches gain little speed and hold
    row locks longer."""

    MAX_TRIES: int = 5
    """How often one batch is tried when the database reports a deadlock or a serialization
    failure. Only database work is repeated, never an effect."""

    WORKERS: int = 4
    """Threads in which one process runs effects. Each has a database connection of its own."""

    ERRORS_KEPT: int = 100
    """Errors stored on a run. The count of failed rows is always exact."""

    NUDGE: bool = True
    """Whether a commit with new effects asks the queue to deliver at once. The minute's delivery
    finds whatever the nudge lost. Without django-q2 nothing is asked."""

    SCHEDULES: Mapping[str, Any] = field(default_factory=dict)
    """What ``sync_schedules`` sets up, by name, over the defaults in ``plans.DEFAULTS``; None takes
    a default away."""


def get_settings() -> Settings:
    """Read the settings as they are now.

    Returns the defaults overlaid with the host's values. Raises ``InvalidSetting`` for a name that
    doesn't exist or a value of the wrong kind.
    """
    given: Any = getattr(settings, "IDEMPOTENT_ACTIONS", {})
    if not isinstance(given, dict):
        raise InvalidSetting("IDEMPOTENT_ACTIONS must be a dict, like {'BATCH_SIZE': 500}.")
    known = {field.name: field.type for field in fields(Settings)}
    for name, value in given.items():
        if name not in known:
            raise InvalidSetting(
                f"IDEMPOTENT_ACTIONS has no setting {name!r}. It knows: {', '.join(known)}."
            )
        _check(name, known[name], value)
    return Settings(**given)


def _check(name: str, kind: Any, value: Any) -> None:
    if kind is int and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        wanted = "a whole number above zero"
    elif kind is bool and not isinstance(value, bool):
        wanted = "True or False"
    elif kind not in (int, bool) and not isinstance(value, Mapping):
        wanted = "a dict, like {'tick': {'every': timedelta(hours=1)}}"
    else:
        return
    raise InvalidSetting(f"IDEMPOTENT_ACTIONS[{name!r}] must be {wanted}, not {value!r}.")
