"""Freezing an effect's parameters: one stored form, and one fingerprint for what means the same.

The rules, which are the same on every backend:

* text, None, True and False stand for themselves; ``True`` is not 1;
* numbers are compared by value: 10, 10.0, ``Decimal("10.00")`` are one, ``"10"`` is another;
* an aware datetime is its instant, in any zone and to the microsecond; a naive one only itself;
* an Enum is its value, a tuple a list, a set a sorted list; the order of a mapping's keys is
  nothing, that of a list everything;
* keys of a mapping are text; NaN, infinities, bytes and objects are refused.

Everything comes back as it was, but for Enum, tuple and set.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any
from uuid import UUID

from idempotent_actions.exceptions import InvalidParameters

__all__ = ["fingerprint", "freeze", "is_shallow", "thaw"]

_DEEPEST = 50
"""Levels of lists and mappings in each other. Far below where reading JSON breaks the stack."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL's jsonb takes neither

_LARGEST = 100_000
"""Values on one level."""

_to_json = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

_TAG = "$"
"""Begins the one key of a mapping that stands for a value JSON doesn't have."""


def freeze(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` as plain JSON values, to be stored.

    Raises ``InvalidParameters``, naming the place, for what can't be stored or compared.
    """
    if not isinstance(params, Mapping):
        raise InvalidParameters(f"Parameters are a mapping of names to values, not {params!r}.")
    if not is_shallow(params):
        raise InvalidParameters(
            f"Parameters are nested more than {_DEEPEST} levels deep, or hold themselves."
        )
    frozen: dict[str, Any] = _freeze(params, "params")
    return frozen


def is_shallow(value: Any) -> bool:
    """Tell whether ``value`` is nested no deeper than what can safely be stored and read."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for each in level for child in _children(each)]
        if not level:
            return True
        if len(level) > _LARGEST:
            return False  # it holds itself, many times
    return False


def thaw(frozen: Any) -> Any:
    """Return what ``freeze`` was given, from what it returned."""
    if isinstance(frozen, list):
        return [thaw(each) for each in frozen]
    if not isinstance(frozen, dict):
        return frozen
    if len(frozen) == 1:
        ((name, value),) = frozen.items()
        if name in _THAW:
            return _THAW[name](value)
    return {name.removeprefix(_TAG): thaw(each) for name, each in frozen.items()}


def fingerprint(effect: str, frozen: Mapping[str, Any]) -> str:
    """Return 64 hex digits that two captures share when they ask for the same."""
    return sha256(_to_json([effect, _comparable(frozen)]).encode()).hexdigest()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def _freeze(value: Any, where: str) -> Any:
    match value:
        case Enum():
            return _freeze(value.value, where)
        case None | bool():
            return value
        case str():
            return _text(value, where)
        case int():
            return _checked(int(value), where)
        case float():
            if not math.isfinite(value):
                raise InvalidParameters(f"{where} is {value!r}, which equals nothing.")
            return {"$float": repr(float(value))}
        case Decimal():
            if not value.is_finite():
                raise InvalidParameters(f"{where} is {value!r}, which equals nothing.")
            return {"$decimal": str(value)}
        case datetime():
            return {"$datetime": _in_utc(value, where).isoformat()}
        case date():
            return {"$date": value.isoformat()}
        case timedelta():
            return {"$timedelta": [value.days, value.seconds, value.microseconds]}
        case UUID():
            return {"$uuid": str(value)}
        case list() | tuple():
            return [_freeze(each, f"{where}[{index}]") for index, each in enumerate(value)]
        case set() | frozenset():
            members = [_freeze(each, f"{where}{{...}}") for each in value]
            return sorted(members, key=lambda each: json.dumps(_comparable(each), sort_keys=True))
        case Mapping():
            frozen = {
                _name(name, where): _freeze(each, f"{where}[{name!r}]")
                for name, each in value.items()
            }
            if len(frozen) < len(value):
                raise InvalidParameters(f"{where} has two keys that are one as text: {list(value)}")
            return frozen
    raise InvalidParameters(
        f"{where} is a {type(value).__name__}, which can't be stored and compared. Pass text, a "
        f"number, a date, a UUID, or a list or mapping of them; of a row pass its primary key."
    )


def _name(name: Any, where: str) -> str:
    if isinstance(name, Enum):
        name = name.value
    if not isinstance(name, str):
        raise InvalidParameters(f"{where} has the key {name!r}: keys are text, as in JSON.")
    text = _text(name, where)
    return _TAG + text if text.startswith(_TAG) else text


def _in_utc(value: datetime, where: str) -> datetime:
    if value.utcoffset() is None:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidParameters(f"{where} is {value}, which UTC's calendar doesn't hold.") from None


def _text(value: str, where: str) -> str:
    if _UNSTORABLE.search(value):
        raise InvalidParameters(f"{where} holds a NUL or a lone surrogate.")
    plain: str = str.__str__(value)  # of a subclass, too
    return plain


def _checked(value: int, where: str) -> int:
    try:
        str(value)
    except ValueError:
        raise InvalidParameters(f"{where} is a number of thousands of digits.") from None
    return value


def _comparable(frozen: Any) -> Any:
    """Bring numbers of all types to one form, so that equal ones give one fingerprint."""
    match frozen:
        case bool() | None | str():
            return frozen
        case int():
            return {"$number": _whole(frozen)}
        case {"$float": text} | {"$decimal": text} if len(frozen) == 1:
            return {"$number": _digits(Decimal(text))}
        case list():
            return [_comparable(each) for each in frozen]
    return {name: _comparable(each) for name, each in frozen.items()}


def _whole(value: int) -> str:
    """Return what ``_digits`` does, at a fraction of its cost."""
    digits = str(value)
    stripped = digits.rstrip("0")
    return f"{stripped}e{len(digits) - len(stripped)}" if value else "0"


def _digits(value: Decimal) -> str:
    # Decimal.normalize() would round to the context's precision.
    sign, digits, exponent = value.as_tuple()
    significant = "".join(map(str, digits)).lstrip("0")
    stripped = significant.rstrip("0")
    if not stripped:
        return "0"
    return f"{'-' if sign else ''}{stripped}e{int(exponent) + len(significant) - len(stripped)}"


_THAW: dict[str, Any] = {
    "$float": float,
    "$decimal": Decimal,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$uuid": UUID,
}
