"""Charts whose marks are links: each leads to what it counts.

A mark says in words what it is (`aria-label`, and a tooltip), so that a chart can be read and used without seeing it;
axes are decoration. `charts.js` makes the marks of a chart one stop of the Tab key, with arrow keys between them. No
chart has more than some hundred marks: of many cases a mark is a cell of a grid, which the caller counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup, escape

from beholder.reports.text import escape_hidden, use_minus_sign
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE, Interval
from beholder.statistics.data import Floats

PLOT_SIZE = 320  # the square with the points
PLOT_LEFT, PLOT_TOP, PLOT_BOTTOM, PLOT_RIGHT = 48, 32, 48, 16  # margins for the numbers and names of the axes
MAX_DOT_RADIUS, MIN_DOT_RADIUS = 14.0, 5.0
HIT_RADIUS = 12.0  # a small dot can be hit as easily as a larger one
BARS_WIDTH, BARS_HEIGHT = 384, 240
TREND_HEIGHT, TREND_LEFT, TREND_STEP, TREND_NAMES = 152, 64, 56, 32  # a run is a step wide, over its name
MIN_TREND_WIDTH = 320
MAX_POINTS = 200  # dots of a plot; of more places, cells of a grid are drawn
GRID = 16  # cells on each axis

ScaleRange = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PlotCell:
    """Cases that share a dot: where it is, the ranges of both axes that it stands for, how many they are, and the row
    of the first."""

    x: float
    y: float
    x_range: ScaleRange
    y_range: ScaleRange
    count: int
    row: int


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A dot of a plot.

    Attributes:
        x, y: Its place on the axes.
        count: How many cases it stands for; its area grows with them.
        link: Where it leads.
        label: What it is, in words.
        error: The interval of `y`.
    """

    x: float
    y: float
    count: int
    link: str
    label: str
    error: Interval | None = None


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A bar: its ends on the axis, how many cases it counts, where it leads, what it is, and a CSS class."""

    low: float
    high: float
    count: int
    link: str
    label: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A run in a chart over runs: its value with an interval, where it leads, what it is, and the name under it; a gap
    where there is no value."""

    estimate: Interval
    link: str
    label: str
    tick: str


@dataclass(frozen=True, slots=True)
class SharePart:
    """A part of a run's bar: a CSS class, its share, where it leads, and what it is."""

    tone: str
    share: float
    link: str
    label: str


@dataclass(frozen=True, slots=True)
class ShareBar:
    """The bar of a run: its parts, their sum with its interval, and the name under it."""

    parts: tuple[SharePart, ...]
    whole: Interval
    tick: str


def gather_points(xs: Floats, ys: Floats, scale: ScaleRange) -> tuple[list[PlotCell], bool]:
    """Return a dot for each place where cases are; or, where these are more than `MAX_POINTS`, for each cell of a grid.

    Args:
        xs: One value for each case; where it or that of `ys` is nan, the case has no dot.
        ys: The same for the other axis.
        scale: Of both axes.

    Returns:
        The dots, and whether they are cells of a grid.
    """
    rows = np.flatnonzero(~np.isnan(xs) & ~np.isnan(ys))
    places = np.column_stack([xs[rows].round(3), ys[rows].round(3)])
    found, first, counts = _count_places(places)
    if len(found) <= MAX_POINTS:
        return [
            PlotCell(x, y, (x, x), (y, y), count, int(rows[at]))
            for (x, y), at, count in zip(found.tolist(), first, counts, strict=True)
        ], False
    low, width = scale[0], (scale[1] - scale[0]) or 1.0
    shares = (np.column_stack([xs[rows], ys[rows]]) - low) / width
    found, first, counts = _count_places(np.clip(np.floor(shares * GRID + EQUALITY_TOLERANCE), 0, GRID - 1))

    def ends(cell: float) -> ScaleRange:
        return low + width * cell / GRID, low + width * (cell + 1) / GRID

    return [
        PlotCell(sum(ends(x)) / 2, sum(ends(y)) / 2, ends(x), ends(y), count, int(rows[at]))
        for (x, y), at, count in zip(found.tolist(), first, counts, strict=True)
    ], True


def _count_places(places: Floats) -> tuple[Floats, list[int], list[int]]:
    """Return the different rows of a table of two columns, where each is first, and how often it is there."""
    as_one = places[:, 0] + 1j * places[:, 1]
    found, first, counts = np.unique(as_one, return_index=True, return_counts=True)
    return np.column_stack([found.real, found.imag]), first.tolist(), counts.tolist()


def format_range(ends: ScaleRange) -> str:
    """Return a range as a URL has it: `0.25..0.5`."""
    return f"{ends[0]:.6g}..{ends[1]:.6g}"


def describe_range(ends: ScaleRange) -> str:
    """Return a range for people: `0.25`, or `0.25 to 0.5`."""
    return f"{ends[0]:.4g}" if ends[0] == ends[1] else f"{ends[0]:.4g} to {ends[1]:.4g}"


def scatter_plot(
    points: Sequence[PlotPoint],
    scale: ScaleRange,
    *,
    title: str,
    names: tuple[str, str],
    constant: float | None = None,
    band: float | None = None,
) -> Markup:
    """Draw points on two axes of one scale, with a dashed diagonal where both are the same.

    Args:
        points: What is drawn, larger dots first.
        scale: Of both axes.
        title: What the chart is, for those who do not see it.
        names: Of the axes, x and y.
        constant: A value of y to draw as a level line.
        band: How far from the diagonal a band reaches on both sides; named above the plot.
    """
    low, high = scale
    place = _PlotPlace(scale)
    drawn = _plot_axes(place, names)
    if band:
        corners = [(low, low), (low, low + band), (high - band, high), (high, high), (high, high - band)]
        corners.append((low + band, low))
        ends = " ".join(f"{place.x(x):.1f},{place.y(y):.1f}" for x, y in corners)
        if band < high - low:  # else the band is the whole square
            drawn.append(_element("polygon", "ceiling", points=ends))
        drawn.append(_text("label end", PLOT_LEFT + PLOT_SIZE, PLOT_TOP - 12, f"band: one person, ±{band:.2g}"))
    drawn.append(_line("same", place.x(low), place.y(low), place.x(high), place.y(high)))
    if constant is not None:
        y = place.y(constant)
        drawn.append(_line("constant", place.x(low), y, place.x(high), y))
        below = constant > high - (high - low) / 12  # there is no place above the line
        drawn.append(_text("label start", place.x(low), y + (17 if below else -6), f"constant {constant:.3g}"))
    most = max((point.count for point in points), default=1)
    marks = [
        _dot(point, place.x(point.x), place.y(point.y), most) for point in sorted(points, key=lambda one: -one.count)
    ]
    return _plot(title, drawn, marks)


def reliability_plot(points: Sequence[PlotPoint], scale: ScaleRange, *, title: str, names: tuple[str, str]) -> Markup:
    """Draw means with their intervals over the value that they belong to, as a curve; the diagonal is perfect."""
    place = _PlotPlace(scale)
    drawn = _plot_axes(place, names)
    drawn.append(_line("same", place.x(scale[0]), place.y(scale[0]), place.x(scale[1]), place.y(scale[1])))
    for one, other in pairwise(points):
        drawn.append(_line("curve", place.x(one.x), place.y(one.y), place.x(other.x), place.y(other.y)))
    for point in points:
        if point.error is not None and point.error.low is not None and point.error.high is not None:
            x = place.x(point.x)
            drawn.append(_line("interval", x, place.y(point.error.low), x, place.y(point.error.high)))
    most = max((point.count for point in points), default=1)
    marks = [_dot(point, place.x(point.x), place.y(point.y), most, "dot") for point in points]
    return _plot(title, drawn, marks)


def difference_bars(bars: Sequence[PlotBar], reach: float, *, title: str) -> Markup:
    """Draw how differences are spread, from `-reach` to `reach`; a bar's height is its count."""
    top, bottom = 24, BARS_HEIGHT - 44
    left, right = 16, BARS_WIDTH - 16

    def x(value: float) -> float:
        return left + (right - left) * (value + reach) / (2 * reach)

    most = max((bar.count for bar in bars), default=1)
    drawn = [_line("axis", left, bottom, right, bottom), _line("axis", x(0), top, x(0), bottom + 6)]
    for value in (-reach, -reach / 2, 0.0, reach / 2, reach):
        kind = "tick start" if value == -reach else "tick end" if value == reach else "tick"
        at = {-reach: left, reach: right}.get(value, x(value))
        drawn += [
            _line("axis", x(value), bottom, x(value), bottom + 5),
            _text(kind, at, bottom + 20, f"{value:+g}" if value else "0"),
        ]
    drawn.append(_text("name", (left + right) / 2, BARS_HEIGHT - 6, "now less before"))
    marks = []
    for bar in bars:
        if not bar.count:
            continue
        tall = max(2.0, (bottom - top) * bar.count / most)
        start, end = x(bar.low) + 1, x(bar.high) - 1
        highest = bar.count == most
        count = _text("count", (start + end) / 2, bottom - tall - 4, f"{bar.count:,}") if highest else Markup()
        parts = [
            _element("rect", "hit", x=start, y=top, width=end - start, height=bottom - top),
            _element("rect", f"bar {bar.tone}", x=start, y=bottom - tall, width=end - start, height=tall),
            count,
        ]
        marks.append(_mark(bar.link, bar.label, parts))
    return _svg("bars", BARS_WIDTH, BARS_HEIGHT, title, drawn, marks)


def trend_plot(points: Sequence[TrendPoint], scale: ScaleRange, *, title: str, tick: str = "{:g}") -> Markup:
    """Draw a number over runs, the oldest first, each with its interval; a run without the number is a gap.

    Args:
        points: A point for each run.
        scale: Lowest and highest value of the axis.
        title: What the chart is.
        tick: How numbers of the axis are written.
    """
    low, high = scale
    top, bottom = 12, TREND_HEIGHT - TREND_NAMES

    def y(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / ((high - low) or 1.0)

    width = _trend_width(len(points))
    drawn = []
    for level in (low, (low + high) / 2, high):
        drawn.append(_line("grid", TREND_LEFT, y(level), width, y(level)))
        drawn.append(_text("tick end", TREND_LEFT - 8, y(level) + 4, tick.format(level)))
    drawn += _run_ticks([point.tick for point in points])
    marks: list[Markup] = []
    last: tuple[float, float] | None = None
    for number, point in enumerate(points):
        value = point.estimate.value
        if value is None:
            last = None
            continue
        x = _trend_x(number)
        if last is not None:
            drawn.append(_line("curve", *last, x, y(value)))
        last = (x, y(value))
        if point.estimate.low is not None and point.estimate.high is not None:
            drawn.append(_line("interval", x, y(max(low, point.estimate.low)), x, y(min(high, point.estimate.high))))
        hit = _element("rect", "hit", x=x - TREND_STEP / 2, y=top - 8, width=TREND_STEP, height=bottom - top + 16)
        marks.append(_mark(point.link, point.label, [hit, _element("circle", "point", cx=x, cy=y(value), r=5.0)]))
    return _svg("trend", width, TREND_HEIGHT, title, drawn, marks)


def share_bars(runs: Sequence[ShareBar], *, title: str, tick: str = "{:.0%}") -> Markup:
    """Draw a bar of parts for each run, with the interval of the whole, on an axis from nothing to at least a tenth."""
    top, bottom = 12, TREND_HEIGHT - TREND_NAMES
    high = max([0.1, *(run.whole.value or 0.0 for run in runs), *(run.whole.high or 0.0 for run in runs)])
    width = _trend_width(len(runs))
    drawn = []
    for value in (0.0, high / 2, high):
        at = bottom - (bottom - top) * value / high
        drawn.append(_line("grid", TREND_LEFT, at, width, at))
        drawn.append(_text("tick end", TREND_LEFT - 8, at + 4, tick.format(value)))
    drawn += _run_ticks([run.tick for run in runs])
    marks = []
    for number, run in enumerate(runs):
        floor, x = float(bottom), _trend_x(number)
        for part in run.parts:
            tall = max(2.0, (bottom - top) * part.share / high)
            bar = _element("rect", f"slice s-{part.tone}", x=x - 14, y=floor - tall, width=28.0, height=tall)
            marks.append(_mark(part.link, part.label, [bar]))
            floor -= tall
        if run.whole.low is not None and run.whole.high is not None:
            ends = [bottom - (bottom - top) * end / high for end in (run.whole.low, run.whole.high)]
            drawn.append(_line("interval", x + 20, ends[0], x + 20, ends[1]))
    return _svg("trend", width, TREND_HEIGHT, title, drawn, marks)


def _run_ticks(ticks: Sequence[str]) -> list[Markup]:
    return [_text("tick", _trend_x(number), TREND_HEIGHT - 4, tick) for number, tick in enumerate(ticks)]


def _trend_width(runs: int) -> int:
    return max(MIN_TREND_WIDTH, TREND_LEFT + runs * TREND_STEP)


def _trend_x(number: int) -> float:
    return TREND_LEFT + (number + 0.5) * TREND_STEP


class _PlotPlace:
    """Pixels of values on the two axes of a plot; an inset keeps large dots inside the square."""

    def __init__(self, scale: ScaleRange) -> None:
        self.scale = scale
        self._width = (scale[1] - scale[0]) or 1.0
        self._inset = MAX_DOT_RADIUS / 2

    def x(self, value: float) -> float:
        return PLOT_LEFT + self._inset + (PLOT_SIZE - 2 * self._inset) * (value - self.scale[0]) / self._width

    def y(self, value: float) -> float:
        share = (value - self.scale[0]) / self._width
        return PLOT_TOP + PLOT_SIZE - self._inset - (PLOT_SIZE - 2 * self._inset) * share


def _plot_axes(place: _PlotPlace, names: tuple[str, str]) -> list[Markup]:
    low, high = place.scale
    width = high - low
    ticks = [low + width * share for share in (0, 0.25, 0.5, 0.75, 1)]
    if width == int(width) and 1 < width <= 10:
        ticks = [low + step for step in range(int(width) + 1)]
    end = PLOT_TOP + PLOT_SIZE
    parts = [
        _line("axis", PLOT_LEFT, end, PLOT_LEFT + PLOT_SIZE, end),
        _line("axis", PLOT_LEFT, PLOT_TOP, PLOT_LEFT, end),
    ]
    for tick in ticks:
        parts.append(_text("tick", place.x(tick), end + 18, f"{tick:g}"))
        parts.append(_text("tick end", PLOT_LEFT - 8, place.y(tick) + 4, f"{tick:g}"))
    parts.append(_text("name", PLOT_LEFT + PLOT_SIZE / 2, end + 40, names[0]))
    parts.append(_text("name start", 0, PLOT_TOP - 12, names[1]))
    return parts


def _plot(title: str, drawn: Iterable[Markup], marks: Sequence[Markup]) -> Markup:
    size = PLOT_LEFT + PLOT_SIZE + PLOT_RIGHT, PLOT_TOP + PLOT_SIZE + PLOT_BOTTOM
    return _svg("plot", *size, title, drawn, marks)


def _dot(point: PlotPoint, x: float, y: float, most: int, kind: str = "point") -> Markup:
    radius = max(MIN_DOT_RADIUS, MAX_DOT_RADIUS * (point.count / most) ** 0.5 if most > 1 else MIN_DOT_RADIUS)
    hit = _element("circle", "hit", cx=x, cy=y, r=max(radius, HIT_RADIUS))
    return _mark(point.link, point.label, [hit, _element("circle", kind, cx=x, cy=y, r=radius)])


def _mark(link: str, label: str, parts: Iterable[Markup]) -> Markup:
    said = use_minus_sign(escape_hidden(label))
    inner = Markup("").join([Markup("<title>{}</title>").format(said), *parts])
    return Markup('<a href="{}" aria-label="{}">{}</a>').format(link, said, inner)


def _svg(
    kind: str, width: float, height: float, title: str, drawn: Iterable[Markup], marks: Sequence[Markup]
) -> Markup:
    return Markup(
        '<svg class="chart {}" viewBox="0 0 {:g} {:g}" width="{:g}" height="{:g}" role="group" aria-label="{}"'
        ' data-marks><g aria-hidden="true">{}</g>{}</svg>'
    ).format(kind, width, height, width, height, title, Markup("").join(drawn), Markup("").join(marks))


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return _element("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    shown = escape(use_minus_sign(text))
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, shown)


def _element(tag: str, kind: str, **values: float | str) -> Markup:
    written = "".join(
        f' {name}="{value:.1f}"' if isinstance(value, float | int) else f' {name}="{escape(value)}"'
        for name, value in values.items()
    )
    return Markup(f'<{tag} class="{escape(kind)}"{written}/>')  # numbers, and texts that are escaped
