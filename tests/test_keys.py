"""Idempotency keys: two facts never share one, and what can't be stored is refused."""

import enum
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from hypothesis import assume, given
from hypothesis import strategies as st

from idempotent_actions.exceptions import InvalidKey
from idempotent_actions.keys import MAX_KEY_LENGTH, make_key

Parts = list[str | int]

# Every character that means something in a key, some digits of other scripts, and some plain ones.
tricky = st.text(alphabet=":%'-0123456789٣²aA25\n @", min_size=1, max_size=6)
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
part = st.one_of(tricky, anything.map(lambda text: text[:6]), st.integers(-10_000, 10_000))
parts = st.lists(part, min_size=1, max_size=4)


def told_apart(given: Parts) -> list[tuple[type, str | int]]:
    return [(type(each), each) for each in given]


@given(parts, parts)
def test_different_facts_give_different_keys(one: Parts, other: Parts) -> None:
    assume(told_apart(one) != told_apart(other))
    assert make_key(*one) != make_key(*other)


@given(parts, st.randoms(use_true_random=False))
def test_cutting_one_text_elsewhere_gives_another_key(given: Parts, random: Any) -> None:
    joined = ":".join(str(each) for each in given)
    cut = random.randrange(len(joined) + 1)
    other: Parts = [each for each in (joined[:cut], joined[cut:]) if each]
    assume(told_apart(given) != told_apart(other))
    assert make_key(*given) != make_key(*other)


@given(parts)
def test_the_same_facts_give_the_same_key(given: Parts) -> None:
    key = make_key(*given)
    assert key == make_key(*list(given))
    assert 0 < len(key) <= MAX_KEY_LENGTH


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a:b", "c"), ("a", "b:c")),
        (("a", "b"), ("a:b",)),
        (("a%3Ab",), ("a:b",)),
        ((1,), ("1",)),
        ((1,), ("'1",)),
        (("1",), ("'1",)),
        ((-1,), ("-1",)),
        (("007",), (7,)),
        (("007",), ("7",)),
        (("a", "b"), ("b", "a")),
        (("a",), ("A",)),
        (("app1.invoice", 1), ("app2.invoice", 1)),
    ],
)
def test_near_misses_are_told_apart(one: Parts, other: Parts) -> None:
    assert make_key(*one) != make_key(*other)


def test_a_key_can_be_read() -> None:
    key = make_key("billing.invoice", 42, "dunning", 1, "reminder")
    assert key == "billing.invoice:42:dunning:1:reminder"


def test_a_uuid_is_a_part() -> None:
    pk = UUID("12345678123456781234567812345678")
    assert make_key("x", pk) == "x:12345678-1234-5678-1234-567812345678"


class Size(enum.IntEnum):
    LARGE = 3


class Colour(enum.StrEnum):
    RED = "red:ish"


class Weight(int, enum.Enum):
    HEAVY = 3


class Taste(str, enum.Enum):  # noqa: UP042 - what older code has
    SOUR = "sour"


def test_an_enum_of_numbers_or_texts_is_its_value() -> None:
    assert make_key("x", Size.LARGE, Colour.RED) == make_key("x", 3, "red:ish")
    assert make_key("x", Weight.HEAVY, Taste.SOUR) == make_key("x", 3, "sour")


def test_a_key_needs_a_part() -> None:
    with pytest.raises(InvalidKey, match="at least one part"):
        make_key()


@pytest.mark.parametrize("given", [("",), ("a", ""), ("", 1)])
def test_an_empty_part_is_refused(given: Parts) -> None:
    with pytest.raises(InvalidKey, match="is empty"):
        make_key(*given)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfffb"])
def test_a_nul_or_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey, match="a NUL or a lone surrogate"):
        make_key("a", text)


@pytest.mark.parametrize("length", [256, 300, 3000])
def test_a_key_that_is_too_long_is_refused(length: int) -> None:
    with pytest.raises(InvalidKey) as caught:
        make_key("n" * length)
    assert f"{length} characters long and at most 255 are allowed" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_length_counts_as_the_column_does() -> None:
    assert len(make_key("n" * 255)) == len(make_key("é" * 255)) == 255
    with pytest.raises(InvalidKey):
        make_key("n" * 251, "%:")  # 8 characters once they are escaped


@pytest.mark.parametrize("given", [None, 1.0, True, b"a", ["a"], object()])
def test_a_part_of_another_type_is_refused(given: Any) -> None:
    with pytest.raises(InvalidKey, match="is text, a whole number or a UUID"):
        make_key("a", given)


def test_a_huge_number_is_refused_like_any_long_key() -> None:
    with pytest.raises(InvalidKey):
        make_key("a", 10**300)


@pytest.mark.django_db
@given(tricky)
def test_a_key_comes_back_from_the_database_as_it_went_in(text: str) -> None:
    key = make_key("x", text)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(%s AS varchar(255))", [key])
        assert cursor.fetchone() == (key,)
