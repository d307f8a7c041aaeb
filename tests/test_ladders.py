"""The ladder and its rungs."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idempotent_actions import Ladder, Rung
from idempotent_actions.exceptions import (
    IdempotentActionsError,
    InvalidLadder,
    LadderExhausted,
    UnknownRung,
)

WEEK = timedelta(days=7)


def ladder(*names: str) -> Ladder:
    return Ladder(*[Rung(name, WEEK) for name in names])


names = st.lists(
    st.text(min_size=1, max_size=50).filter(lambda name: not name.startswith("@")),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(names)
def test_climbing_from_below_meets_every_rung_once_in_order_and_then_ends(names: list[str]) -> None:
    steps, standing = ladder(*names), ""
    for name in names:
        standing = steps.next(standing).name
        assert standing == name
        assert steps.get(standing).name == name
    with pytest.raises(LadderExhausted):
        steps.next(standing)


def test_below_the_first_rung_the_next_one_is_the_first() -> None:
    assert ladder("reminder", "warning").next("") == Rung("reminder", WEEK)


def test_past_the_end_the_error_names_rung_and_ladder() -> None:
    with pytest.raises(LadderExhausted) as caught:
        ladder("reminder", "warning").next("warning")
    assert str(caught.value) == "'warning' is the last rung of Ladder(reminder, warning)."


@pytest.mark.parametrize("name", ["gone", "Reminder", "reminder ", "@exhausted"])
def test_a_rung_that_is_not_declared_is_unknown(name: str) -> None:
    steps = ladder("reminder")
    for ask in (steps.next, steps.get):
        with pytest.raises(UnknownRung) as caught:
            ask(name)
        assert f"No rung {name!r} on Ladder(reminder)" in str(caught.value)


def test_nobody_stands_on_a_rung_without_a_name() -> None:
    with pytest.raises(UnknownRung):
        ladder("reminder").get("")


def test_a_ladder_is_read_like_a_tuple_of_rungs() -> None:
    steps = ladder("reminder", "warning")
    assert [rung.name for rung in steps] == ["reminder", "warning"]
    assert len(steps) == 2


def test_a_ladder_needs_a_rung() -> None:
    with pytest.raises(InvalidLadder, match="at least one rung"):
        Ladder()


def test_two_rungs_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidLadder, match="same name"):
        ladder("reminder", "warning", "reminder")


@pytest.mark.parametrize("stranger", ["reminder", ("reminder", WEEK), None])
def test_a_ladder_is_made_of_rungs_only(stranger: Any) -> None:
    with pytest.raises(InvalidLadder, match="made of Rung objects"):
        Ladder(Rung("reminder", WEEK), stranger)


@pytest.mark.parametrize("name", ["", "@", "@exhausted", None, 7])
def test_a_rung_needs_a_name_that_no_key_reserves(name: Any) -> None:
    with pytest.raises(InvalidLadder, match="needs a name that doesn't begin with '@'"):
        Rung(name, WEEK)


def test_a_rungs_name_must_fit_its_column() -> None:
    Rung("n" * 50, WEEK)
    with pytest.raises(InvalidLadder, match="longer than 50 characters"):
        Rung("n" * 51, WEEK)


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(microseconds=-1), 7, None, "P7D"])
def test_a_rung_needs_a_wait_above_zero(wait: Any) -> None:
    with pytest.raises(InvalidLadder, match="wait_after as a timedelta above zero"):
        Rung("reminder", wait)


def test_all_errors_have_one_base() -> None:
    for error in (InvalidLadder, LadderExhausted, UnknownRung):
        assert issubclass(error, IdempotentActionsError)
        assert str(error()) == (error.__doc__ or "")
