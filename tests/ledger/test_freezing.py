"""Frozen parameters come back as they were, through JSON and the database; equal ones are equal."""

import contextlib
import enum
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidParameters
from idempotent_actions.models import Capture
from idempotent_actions.parameters import fingerprint, freeze, thaw
from tests.ledger.outside import charge

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
names = st.one_of(texts, st.sampled_from(["$", "$$", "$float", "$$float", "$decimal", "$uuid"]))
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    datetime.fromisoformat("0001-01-03"),
    datetime.fromisoformat("9999-12-29"),
    timezones=st.one_of(st.none(), zones),
)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    moments,
    st.dates(),
    st.timedeltas(),
    st.uuids(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
mappings = st.dictionaries(names, values, max_size=4)


@given(mappings)
def test_what_is_frozen_comes_back_as_it_was(params: dict[str, Any]) -> None:
    back = thaw(freeze(params))
    assert back == params
    assert repr(freeze(back)) == repr(freeze(params))  # types, digits and signs of zero included


@given(mappings)
def test_freezing_changes_nothing_of_what_it_is_given(params: dict[str, Any]) -> None:
    before = repr(params)
    freeze(params)
    assert repr(params) == before


@pytest.mark.django_db
@given(mappings)
def test_what_is_stored_comes_back_with_its_fingerprint(params: dict[str, Any]) -> None:
    Capture.objects.all().delete()
    capture = services.request(charge, key="k", params=params)
    assert thaw(Capture.objects.get().params) == params
    assert services.request(charge, key="k", params=thaw(capture.params)) == capture
    assert fingerprint("ledger.charge", Capture.objects.get().params) == capture.fingerprint


numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(),
    st.integers(-20, 20),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(-20, 20, places=1),
)


@given(numbers, numbers)
def test_two_numbers_share_a_fingerprint_exactly_if_they_are_equal(one: Any, other: Any) -> None:
    prints = [fingerprint("effect", freeze({"value": each})) for each in (one, other)]
    assert (prints[0] == prints[1]) == (one == other)


@given(st.lists(st.one_of(st.integers(-9, 9), texts), max_size=6), st.randoms())
def test_a_set_is_the_same_however_it_was_filled(members: list[Any], random: Any) -> None:
    shuffled = list(members)
    random.shuffle(shuffled)
    assert freeze({"value": set(members)}) == freeze({"value": set(shuffled)})


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:00:00-02:00"])
def test_an_instant_beyond_the_calendar_in_utc_is_frozen_or_refused(text: str) -> None:
    """A host's "always" or "never", in its own zone."""
    with contextlib.suppress(InvalidParameters):
        freeze({"value": datetime.fromisoformat(text)})


def test_two_names_that_become_one_are_refused() -> None:
    with pytest.raises(InvalidParameters):
        freeze({"value": {"red": Decimal(1), Colour.RED: Decimal(2)}})
