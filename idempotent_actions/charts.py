"""Charts as plain numbers, which the templates write out as SVG. Pure.

No library: pygal writes a style block and another host's script into each chart, what there is for
the admin draws with JavaScript, and two kinds of bars are a page of arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BarChart", "Bars", "Column", "Columns", "Line", "bars", "columns"]

WIDTH = 640
"""Units; of a chart over time. It is scrolled where the page is narrower."""

HEIGHT = 200
LEFT, TOP, BOTTOM = 48, 16, 24
"""Units beside the columns for the numbers, above them, and below them for the days."""

BAR_WIDTH = 400
"""Units; as wide as a phone, so that its text stays legible there."""

ROW = 50
"""Units that a rung takes: its name, and two bars below it."""

LEAST = 2
"""Units that a bar is long at least, where there is anything at all."""

MOST_STEPS = 4
"""Of a scale."""


@dataclass(frozen=True, slots=True)
class Line:
    """A number on the scale, and how high its line is."""

    number: int
    y: float


@dataclass(frozen=True, slots=True)
class Column:
    """Two heights, the upper one standing on the lower one."""

    x: float
    lower_y: float
    lower_height: float
    upper_y: float
    upper_height: float
    label: str
    label_x: float


@dataclass(frozen=True, slots=True)
class Columns:
    """A chart over time. ``width`` of a single column, and the whole with its scale."""

    width: float
    bars: list[Column]
    lines: list[Line]
    ground: float
    whole_width: int = WIDTH
    whole_height: int = HEIGHT
    left: int = LEFT


@dataclass(frozen=True, slots=True)
class Bars:
    """One row: a line of text with its baseline, and below it two bars with their lengths."""

    label: str
    numbers: str
    text_y: float
    first_y: float
    first: float
    second_y: float
    second: float


@dataclass(frozen=True, slots=True)
class BarChart:
    """Rows of two bars each, longest where the number is highest."""

    rows: list[Bars]
    height: int
    width: int = BAR_WIDTH


def columns(numbers: Sequence[tuple[int, int]], labels: Sequence[str]) -> Columns:
    """Return the geometry of columns, each of two ``numbers`` on each other, from left to right.

    ``labels``: one for each; an empty one isn't written.
    """
    lines = _scale(max((lower + upper for lower, upper in numbers), default=0))
    top = lines[-1].number
    unit = (HEIGHT - TOP - BOTTOM) / top
    ground = HEIGHT - BOTTOM
    step = (WIDTH - LEFT) / max(len(numbers), 1)
    found = []
    for position, ((lower, upper), label) in enumerate(zip(numbers, labels, strict=True)):
        x = LEFT + position * step + step / 8
        middle = ground - _length(lower, unit)
        upper_height = _length(upper, unit)
        found.append(
            Column(
                x=_rounded(x),
                lower_y=_rounded(middle),
                lower_height=_rounded(ground - middle),
                upper_y=_rounded(middle - upper_height),
                upper_height=_rounded(upper_height),
                label=label,
                label_x=_rounded(x + step * 3 / 8),
            )
        )
    return Columns(_rounded(step * 3 / 4), found, lines, ground)


def bars(rows: Sequence[tuple[str, str, int, int]]) -> BarChart:
    """Return the geometry of ``rows``: a label, the numbers in words, and both on one scale."""
    highest = max((max(first, second) for _, _, first, second in rows), default=0)
    unit = BAR_WIDTH / max(highest, 1)
    found = []
    for position, (label, numbers, first, second) in enumerate(rows):
        y = position * ROW
        lengths = [_rounded(_length(each, unit)) for each in (first, second)]
        found.append(Bars(label, numbers, y + 14, y + 20, lengths[0], y + 34, lengths[1]))
    return BarChart(found, len(rows) * ROW)


def _scale(highest: int) -> list[Line]:
    """Return the lines of a scale, from zero up, in steps of 1, 2 or 5 times a power of ten."""
    step = 1
    while step * MOST_STEPS < highest:
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    steps = max(1, -(-highest // step))
    unit = (HEIGHT - TOP - BOTTOM) / (steps * step)
    numbers = [each * step for each in range(steps + 1)]
    return [Line(number, _rounded(HEIGHT - BOTTOM - number * unit)) for number in numbers]


def _length(number: int, unit: float) -> float:
    return max(number * unit, LEAST) if number else 0.0


def _rounded(number: float) -> float:
    return round(number, 1)
