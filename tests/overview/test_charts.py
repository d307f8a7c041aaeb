"""The geometry of the charts: what is more is longer, and nothing leaves the picture."""

import pytest

from idempotent_actions.charts import HEIGHT, LEAST, TOP, WIDTH, bars, columns


def heights(*numbers: tuple[int, int]) -> list[tuple[float, float]]:
    chart = columns(numbers, [""] * len(numbers))
    return [(each.lower_height, each.upper_height) for each in chart.bars]


def test_columns_are_as_high_as_their_numbers() -> None:
    (low, _), (high, _) = heights((10, 0), (20, 0))
    assert high == pytest.approx(2 * low)


def test_the_upper_part_stands_on_the_lower_one() -> None:
    (column,) = columns([(6, 3)], [""]).bars
    assert column.upper_y + column.upper_height == pytest.approx(column.lower_y)
    assert column.upper_height == pytest.approx(column.lower_height / 2)


def test_one_among_very_many_can_still_be_seen_and_none_can_not() -> None:
    (few, none), _ = heights((1, 0), (1_000_000, 0))
    assert (few, none) == (LEAST, 0)


@pytest.mark.parametrize("highest", [0, 1, 3, 4, 5, 9, 99, 101, 1999, 123_456_789])
def test_the_scale_has_few_round_numbers_and_holds_the_highest(highest: int) -> None:
    chart = columns([(highest, 0), (0, highest)], ["", ""])
    numbers = [line.number for line in chart.lines]
    assert numbers[0] == 0
    assert numbers[-1] >= max(highest, 1)
    assert 2 <= len(numbers) <= 5
    assert str(numbers[1]).rstrip("0") in {"1", "2", "5"}
    assert chart.lines[-1].y == TOP
    for each in chart.bars:
        assert each.upper_y >= TOP - LEAST
        assert each.x + chart.width <= WIDTH
        assert each.lower_y + each.lower_height <= HEIGHT


def test_the_longest_bar_fills_the_width_and_rows_dont_overlap() -> None:
    chart = bars([("one", "", 10, 5), ("two", "", 0, 20)])
    assert [(row.first, row.second) for row in chart.rows] == [(200, 100), (0, chart.width)]
    assert chart.rows[0].second_y < chart.rows[1].text_y - 13
    assert chart.rows[1].second_y < chart.height


def test_a_chart_of_nothing_is_drawn() -> None:
    assert bars([]).rows == []
    assert bars([("none", "", 0, 0)]).rows[0].first == 0
    assert columns([], []).bars == []
