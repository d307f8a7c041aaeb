"""The settings: read when they are needed, wrong ones are named."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings

from idempotent_actions.conf import Settings, get_settings
from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.testing import tick, travel
from tests.invoices import DUE, LADDER, make_invoice


def test_without_any_the_defaults_hold() -> None:
    assert get_settings() == Settings()
    assert get_settings() == Settings(BATCH_SIZE=500, MAX_TRIES=5, ERRORS_KEPT=100)


@pytest.mark.parametrize("name", ["BATCH_SIZE", "MAX_TRIES", "ERRORS_KEPT"])
def test_one_of_them_leaves_the_others_at_their_defaults(name: str) -> None:
    with override_settings(IDEMPOTENT_ACTIONS={name: 7}):
        changed: Any = {name: 7}
        assert get_settings() == replace(Settings(), **changed)
    assert get_settings() == Settings()


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={"BATCHSIZE": 7}),
        pytest.raises(InvalidSetting) as caught,
    ):
        get_settings()
    assert "has no setting 'BATCHSIZE'" in str(caught.value)
    known = "BATCH_SIZE, MAX_TRIES, WORKERS, ERRORS_KEPT, NUDGE, SCHEDULES"
    assert f"It knows: {known}." in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, 1.5, "500", None, True, False])
@pytest.mark.parametrize("name", ["BATCH_SIZE", "MAX_TRIES", "ERRORS_KEPT"])
def test_only_whole_numbers_above_zero_are_taken(name: str, value: Any) -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={name: value}),
        pytest.raises(InvalidSetting) as caught,
    ):
        get_settings()
    assert f"IDEMPOTENT_ACTIONS[{name!r}] must be a whole number above zero" in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_the_nudge_is_on_or_off(value: Any) -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS={"NUDGE": value}),
        pytest.raises(InvalidSetting, match=r"\['NUDGE'\] must be True or False, not"),
    ):
        get_settings()


@pytest.mark.parametrize("value", [None, [], "BATCH_SIZE", Settings()])
def test_they_are_a_dict(value: Any) -> None:
    with (
        override_settings(IDEMPOTENT_ACTIONS=value),
        pytest.raises(InvalidSetting, match="must be a dict, like"),
    ):
        get_settings()


@pytest.mark.django_db
def test_the_batch_size_is_that_of_the_next_tick() -> None:
    for number in range(5):
        make_invoice(number, status="overdue")
    sizes: list[int] = []
    with override_settings(IDEMPOTENT_ACTIONS={"BATCH_SIZE": 2}), travel(DUE):
        tick(LADDER, on_progress=sizes.append)
    assert sizes == [2, 2, 1]
