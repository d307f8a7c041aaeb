"""Parameters: what means the same has one fingerprint, and what can't be compared is refused.

Trials T24 and T25, by the rules that `idempotent_actions.parameters` states.
"""

import enum
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidParameters, KeyReused
from idempotent_actions.models import Capture
from idempotent_actions.parameters import fingerprint, freeze
from tests.ledger.outside import book, charge

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PARIS, NAIVE = timezone(timedelta(hours=1)), NOON.replace(tzinfo=None)
TICK = timedelta(microseconds=1)


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Text(str):
    """A text of the host's own."""

    def __str__(self) -> str:
        return "something else"


def print_of(value: Any) -> str:
    return fingerprint("effect", freeze({"value": value}))


# -- T24

SAME_ORDER: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"x": {"a": [1, {"p": 1, "q": 2}], "b": 2}}, {"x": {"b": 2, "a": [1, {"q": 2, "p": 1}]}}),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("one", "other"), SAME_ORDER)
def test_t24_the_order_of_names_is_nothing(one: Any, other: Any) -> None:
    first = services.perform(charge, key="k", params=one)
    assert services.perform(charge, key="k", params=other) == first
    assert services.request(charge, key="k", params=other) == first
    assert len(book()) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("ask", [services.perform, services.request])
def test_t24_the_order_of_a_list_is_everything(ask: Callable[..., Capture]) -> None:
    ask(charge, key="k", params={"ids": [1, 2]})
    with pytest.raises(KeyReused, match="'k' was used before for other parameters"):
        ask(charge, key="k", params={"ids": [2, 1]})
    assert Capture.objects.get().params == {"ids": [1, 2]}


# -- T25: each row is one documented answer

SAME: list[tuple[Any, Any]] = [
    (Decimal("10.0"), Decimal("10.00")),
    (Decimal("10.00"), 10),
    (10, 10.0),
    (Decimal("1E+1"), 10),
    (Decimal("0.1"), 0.1),
    (0, Decimal("-0.00")),
    (0.0, -0.0),
    (NOON, NOON.astimezone(PARIS)),
    (Colour.RED, "red"),
    (Size.LARGE, 3),
    (Text("red"), "red"),
    ((1, 2), [1, 2]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), {"a", "b"}),
    ({Decimal("2.0"), "x", None, 1}, {1.0, None, 2, "x"}),
    ({Colour.RED: 1}, {"red": 1}),
]

DIFFERENT: list[tuple[Any, Any]] = [
    (10, "10"),
    (Decimal(10), "10"),
    (True, 1),
    (False, 0),
    (None, "None"),
    (None, ""),
    ([], {}),
    ([1], [[1]]),
    (NOON, NOON + TICK),
    (NOON, NAIVE),
    (NOON, NOON.isoformat()),
    (NOON.date(), NOON.date().isoformat()),
    (NAIVE.replace(hour=0), NOON.date()),
    (UUID(int=1), str(UUID(int=1))),
    (timedelta(1), 86400),
    (timedelta(1), timedelta(1) + TICK),
    (10**30, 10**30 + 1),
    (Decimal("1" * 40), Decimal("1" * 39 + "2")),
    (0.1, 0.1 + 2**-54),
    (Decimal("1E-400"), 0),
    ("é", "e\u0301"),
    ({"$number": "1e1"}, 1),
    ({"$float": "10.0"}, 10.0),
    ({"$decimal": "10"}, Decimal(10)),
    ({"$uuid": str(UUID(int=1))}, UUID(int=1)),
    ({"a": None}, {}),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_t25_what_means_the_same_is_the_same(one: Any, other: Any) -> None:
    assert print_of(one) == print_of(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_t25_what_differs_is_told_apart(one: Any, other: Any) -> None:
    assert print_of(one) != print_of(other)


def test_another_effect_is_another_thing() -> None:
    assert fingerprint("a", {}) != fingerprint("b", {})


class Opaque:
    """Nothing that can be stored."""


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def holding_itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


REFUSED: list[tuple[Any, str]] = [
    (float("nan"), r"params\['value'\] is nan, which equals nothing"),
    (float("inf"), "equals nothing"),
    (Decimal("NaN"), "equals nothing"),
    (Decimal("sNaN"), "equals nothing"),
    (Decimal("-Infinity"), "equals nothing"),
    (b"bytes", "is a bytes"),
    (bytearray(b"x"), "is a bytearray"),
    (1j, "is a complex"),
    (time(12), "is a time"),
    (Opaque(), "is a Opaque"),
    (Opaque, "is a type"),
    (iter(()), "is a tuple_iterator"),
    ({1: "a"}, "has the key 1: keys are text"),
    ({1: "a", "1": "b"}, "has the key 1: keys are text"),
    ({None: 1}, "has the key None"),
    ({Size.LARGE: 1}, "has the key 3"),
    ({("a", "b"): 1}, "has the key"),
    ({"a": [1, {"b": float("nan")}]}, r"params\['value'\]\['a'\]\[1\]\['b'\] is nan"),
    ({"a", b"b"}, "is a bytes"),
    ("a\0b", "a NUL or a lone surrogate"),
    ("\ud800", "a NUL or a lone surrogate"),
    ({"a\0": 1}, "a NUL or a lone surrogate"),
    ({"\udfff": 1}, "a NUL or a lone surrogate"),
    (10**5000, "thousands of digits"),
    (nested(10_000), "nested more than 50 levels deep"),
    (holding_itself(), "or hold themselves"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("value", "why"), REFUSED, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("ask", [services.perform, services.request])
def test_t25_what_cant_be_compared_is_refused_before_any_effect(
    ask: Callable[..., Capture], value: Any, why: str
) -> None:
    with pytest.raises(InvalidParameters, match=why):
        ask(charge, key="k", params={"value": value})
    assert (book(), Capture.objects.count()) == ([], 0)


@pytest.mark.parametrize("params", [[], "text", 1, {"a"}])
def test_parameters_are_a_mapping(params: Any) -> None:
    with pytest.raises(InvalidParameters, match="a mapping of names to values"):
        freeze(params)
