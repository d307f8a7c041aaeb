"""Idempotency keys: made of business facts, never of the clock, an attempt or a random value."""

import re
from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from uuid import UUID

from idempotent_actions.exceptions import InvalidKey

__all__ = ["MAX_KEY_LENGTH", "check_key", "extend_key", "make_key", "provider_key"]

MAX_KEY_LENGTH = 255
"""Characters. Short enough for a unique index on every backend, so that all give one answer."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# A text part that reads like a number, or begins with the mark itself, gets the mark: so that the
# text primary key "7" and the integer 7 make different keys.
_LOOKS_LIKE_A_NUMBER = re.compile(r"-?\d+\Z|'")


def make_key(*parts: str | int | UUID) -> str:
    """Join business facts into one idempotency key.

    ``parts`` are text, whole numbers or UUIDs, in an order that the caller keeps. ``("a:b", "c")``
    and ``("a", "b:c")`` give different keys, and so do ``1`` and ``"1"``.

    Returns at most ``MAX_KEY_LENGTH`` characters. Raises ``InvalidKey`` for no parts, an empty
    part, a part of another type, a NUL, a lone surrogate, or a key that would be too long.

    >>> make_key("billing.invoice", 42, "dunning", 1, "reminder")
    'billing.invoice:42:dunning:1:reminder'
    """
    if not parts:
        raise InvalidKey("A key needs at least one part.")
    return _short(":".join(_escape(part) for part in parts))


def check_key(key: str | Sequence[str | int | UUID]) -> str:
    """Return ``key`` if it can serve as an idempotency key; a sequence is made into one.

    Raises ``InvalidKey`` as ``make_key`` does.
    """
    if isinstance(key, list | tuple):
        return make_key(*key)
    if not isinstance(key, str):
        raise InvalidKey(f"A key is text, or a sequence of parts for make_key, not {key!r}.")
    _check_text(key)
    return _short(str.__str__(key))


def extend_key(key: str, *parts: str | int | UUID) -> str:
    """Return ``key``, made by ``make_key``, with more parts behind it. Raises as that does."""
    return _short(f"{key}:{make_key(*parts)}")


def provider_key(key: str, generation: int) -> str:
    """Return what a provider is given for ``key``: 36 opaque characters, new for each generation.

    Shaped as a UUID, the one form that every provider takes.
    """
    return str(UUID(bytes=sha256(f"{generation}:{key}".encode()).digest()[:16]))


def _short(key: str) -> str:
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKey(
            f"The key is {len(key)} characters long and at most {MAX_KEY_LENGTH} are allowed: "
            f"{key[:60]!r}... Shorten the name or the primary key it is made from."
        )
    return key


def _escape(part: str | int | UUID) -> str:
    if isinstance(part, Enum):
        part = part.value
    if isinstance(part, UUID):
        return str(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return str(part)
    if not isinstance(part, str):
        raise InvalidKey(f"A part of a key is text, a whole number or a UUID, not {part!r}.")
    _check_text(part)
    mark = "'" if _LOOKS_LIKE_A_NUMBER.match(part) else ""
    return mark + part.replace("%", "%25").replace(":", "%3A")


def _check_text(text: str) -> None:
    if not text:
        raise InvalidKey("A part of a key is empty: it would not tell two facts apart.")
    if "\0" in text or _LONE_SURROGATE.search(text):
        raise InvalidKey(f"A part of a key holds a NUL or a lone surrogate: {text!r}.")
