"""Small charts as SVG. Each is for the eye only (`aria-hidden`): its numbers stand beside it in a table or in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from beholder.reports.html.figures import Bin, Spread
from beholder.statistics.intervals import Estimate

WIDTH, BARS, GAP = 240, 72, 2
STRIP_WIDTH, STRIP_HEIGHT, EDGE = 160, 20, 6

_SVG = Markup('<svg class="chart {}" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true" focusable="false">')


def spread_chart(spread: Spread) -> Markup:
    """Bars for the numbers of verdicts, with the mean and its interval on the same axis below them."""
    height = BARS + 34
    slot = WIDTH / len(spread.bins)
    most = max((one.count for one in spread.bins), default=0) or 1
    whole = len(spread.bins) > 1 and " to " not in spread.bins[0].label
    parts = [_opened("spread", WIDTH, height)]
    for at, one in enumerate(spread.bins):
        tall = round((BARS - 14) * one.count / most, 1)
        if one.count:
            parts.append(_rect("bar", at * slot + GAP, BARS - max(tall, 1.5), slot - 2 * GAP, max(tall, 1.5)))
            parts.append(_text("count", (at + 0.5) * slot, BARS - max(tall, 1.5) - 3, one.count))
    parts.append(_line("axis", 0, BARS, WIDTH, BARS))
    low, high = spread.scale
    # Whole numbers stand in the middle of their bars, others run from edge to edge.
    left, right = (slot / 2, WIDTH - slot / 2) if whole else (0.0, float(WIDTH))

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low) if high > low else left

    parts += _dot(spread.mean, x, BARS + 9)
    if whole:
        parts += [_text("tick", (at + 0.5) * slot, height - 4, one.label) for at, one in enumerate(spread.bins)]
    else:
        middle = (low + high) / 2
        parts.append(_text("tick start", 0, height - 4, f"{low:g}"))
        parts.append(_text("tick", WIDTH / 2, height - 4, f"{middle:g}"))
        parts.append(_text("tick end", WIDTH, height - 4, f"{high:g}"))
    return Markup("").join([*parts, Markup("</svg>")])


def strip(estimate: Estimate, scale: tuple[float, float], middle: float | None = None) -> Markup:
    """A mean as a dot and its interval as a line, on the whole of its scale; `middle` is marked, where there is one."""
    low, high = scale
    span = STRIP_WIDTH - 2 * EDGE
    y = STRIP_HEIGHT / 2

    def x(value: float) -> float:
        return EDGE + span * (value - low) / (high - low) if high > low else EDGE

    parts = [_opened("strip", STRIP_WIDTH, STRIP_HEIGHT), _line("axis", EDGE, y, STRIP_WIDTH - EDGE, y)]
    ends = (EDGE, STRIP_WIDTH - EDGE) if middle is None else (x(middle),)
    parts += [
        _line("axis", end, y - (3 if middle is None else 8), end, y + (3 if middle is None else 8)) for end in ends
    ]
    return Markup("").join([*parts, *_dot(estimate, x, y), Markup("</svg>")])


def share_bar(count: int, of: int, tone: str = "bad") -> Markup:
    """How much of a whole."""
    filled = STRIP_WIDTH * count / of if of else 0
    parts = [
        _opened("share", STRIP_WIDTH, 8),
        _rect("track", 0, 0, STRIP_WIDTH, 8),
        _rect(f"bar {tone}", 0, 0, filled, 8),
    ]
    return Markup("").join([*parts, Markup("</svg>")])


def stacked(parts: Sequence[tuple[str, int]]) -> Markup:
    """Parts of a whole beside each other; `parts` are CSS classes with counts."""
    whole = sum(count for _, count in parts) or 1
    width, at, drawn = (
        1000.0,
        0.0,
        [
            Markup(
                '<svg class="chart stacked" viewBox="0 0 1000 12" preserveAspectRatio="none" aria-hidden="true" '
                'focusable="false">'
            )
        ],
    )
    for tone, count in parts:
        wide = width * count / whole
        drawn.append(_rect(f"slice {tone}", at, 0, max(wide - 2, 1.0), 12))
        at += wide
    return Markup("").join([*drawn, Markup("</svg>")])


def bars(bins: Sequence[Bin]) -> Markup:
    """Bars with a name under each: grades."""
    slot = WIDTH / max(1, len(bins))
    crowded = any(len(one.label) * 7 > slot for one in bins)  # then every second name is a line lower
    height = BARS + (34 if crowded else 18)
    most = max((one.count for one in bins), default=0) or 1
    parts = [_opened("spread", WIDTH, height)]
    for at, one in enumerate(bins):
        tall = max(round((BARS - 14) * one.count / most, 1), 1.5 if one.count else 0)
        if one.count:
            parts.append(_rect("bar", at * slot + GAP, BARS - tall, slot - 2 * GAP, tall))
        parts.append(_text("count", (at + 0.5) * slot, BARS - tall - 3, one.count))
        parts.append(_text("tick", (at + 0.5) * slot, BARS + (30 if crowded and at % 2 else 14), one.label))
    return Markup("").join([*parts, _line("axis", 0, BARS, WIDTH, BARS), Markup("</svg>")])


def _dot(estimate: Estimate, x: Callable[[float], float], y: float) -> list[Markup]:
    parts = []
    if estimate.low is not None and estimate.high is not None:
        parts.append(_line("interval", x(estimate.low), y, x(estimate.high), y))
    if estimate.value is not None:
        parts.append(Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(x(estimate.value), y))
    return parts


def _opened(kind: str, width: int, height: int) -> Markup:
    return _SVG.format(kind, width, height, width, height)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
        kind, x, y, width, height
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(kind: str, x: float, y: float, text: object) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)
