"""Idempotent scheduled actions for Django: whatever runs a job twice, the second run is boring.

The public names of a host's ``actions.py``. They import no model, so a
``models.py`` may use them too.
"""

from typing import TYPE_CHECKING, Any

from idempotent_actions.effects import (
    NotSent,
    Park,
    Receipt,
    Reconcile,
    Refused,
    Replay,
    effect,
)
from idempotent_actions.ladders import Ladder, Rung

if TYPE_CHECKING:
    from idempotent_actions.actions import Action
    from idempotent_actions.ladder_actions import LadderAction
    from idempotent_actions.registry import register

__all__ = [
    "Action",
    "Ladder",
    "LadderAction",
    "NotSent",
    "Park",
    "Receipt",
    "Reconcile",
    "Refused",
    "Replay",
    "Rung",
    "effect",
    "register",
]

# Actions need models, and a host's models.py imports Ladder from here before any model exists:
# these names are imported when they are first asked for.
_LATER = {
    "Action": "idempotent_actions.actions",
    "LadderAction": "idempotent_actions.ladder_actions",
    "register": "idempotent_actions.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
