"""What an explanation says, in a few words."""

from datetime import datetime
from typing import Any

from idempotent_actions.explaining import Part, explain

__all__ = ["codes", "part", "sentences"]


def part(subject: Any, now: datetime | None = None) -> Part:
    """The only part of the explanation of `subject`."""
    (only,) = explain(subject, now).parts
    return only


def codes(subject: Any, now: datetime | None = None) -> list[str]:
    """The codes of all that stands against it."""
    return [code for code, _ in part(subject, now).reasons]


def sentences(subject: Any, now: datetime | None = None) -> list[str]:
    """The sentences of all that stands against it."""
    return [sentence for _, sentence in part(subject, now).reasons]
