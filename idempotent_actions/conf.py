"""Typed settings, read lazily from ``settings.IDEMPOTENT_ACTIONS``, defaults beside them."""

from dataclasses import dataclass, fields
from typing import Any

from django.conf import settings

from idempotent_actions.exceptions import InvalidSetting

__all__ = ["Settings", "get_settings"]


@dataclass(frozen=True)
class Settings:
    """What a host may set in ``IDEMPOTENT_ACTIONS``; every value is a whole number above zero."""

    BATCH_SIZE: int = 500
    """Subjects locked and written in one transaction. Larger batches gain little speed and hold
    row locks longer."""

    MAX_TRIES: int = 5
    """How often one batch is tried when the database reports a deadlock or a serialization
    failure. Only database work is repeated, never an effect."""

    ERRORS_KEPT: int = 100
    """Errors stored on a run. The count of failed rows is always exact."""


def get_settings() -> Settings:
    """Read the settings as they are now.

    Returns the defaults overlaid with the host's values. Raises ``InvalidSetting`` for a name that
    doesn't exist or a value that isn't a whole number above zero.
    """
    given: Any = getattr(settings, "IDEMPOTENT_ACTIONS", {})
    if not isinstance(given, dict):
        raise InvalidSetting("IDEMPOTENT_ACTIONS must be a dict, like {'BATCH_SIZE': 500}.")
    known = [field.name for field in fields(Settings)]
    for name, value in given.items():
        if name not in known:
            raise InvalidSetting(
                f"IDEMPOTENT_ACTIONS has no setting {name!r}. It knows: {', '.join(known)}."
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidSetting(
                f"IDEMPOTENT_ACTIONS[{name!r}] must be a whole number above zero, not {value!r}."
            )
    return Settings(**given)
