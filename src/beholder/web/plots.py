"""Two charts that only the app has, as SVG for the eye: people against a judge. Their numbers stand beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from beholder.statistics.intervals import Estimate

SIDE, EDGE = 320, 40  # of the square that is drawn in, and the room for its numbers
_LARGEST = 14.0  # radius of the dot that most cases share

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Step:
    """Cases for which the judge says about the same: what it says on average, what people say, how many they are."""

    judge: float
    people: Estimate
    cases: int


def scatter(points: Sequence[tuple[float, float]], scale: Scale, constant: float | None) -> Markup:
    """A dot for each pair (judge, people), larger where cases share it; a dashed line where both say the same, a level
    one for the best constant."""
    drawn = [_frame(scale), _line("same", *_at(scale[0], scale[0], scale), *_at(scale[1], scale[1], scale))]
    if constant is not None:
        drawn.append(_line("constant", *_at(scale[0], constant, scale), *_at(scale[1], constant, scale)))
    counted = Counter((round(x, 3), round(y, 3)) for x, y in points)
    most = max(counted.values(), default=1)
    for (x, y), many in sorted(counted.items(), key=lambda one: -one[1]):
        left, top = _at(x, y, scale)
        radius = max(3.0, _LARGEST * (many / most) ** 0.5 if most > 1 else 4.0)
        drawn.append(Markup('<circle class="point" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(left, top, radius))
    return Markup("").join([*drawn, Markup("</svg>")])


def reliability(steps: Sequence[Step], scale: Scale) -> Markup:
    """What people say where the judge says so much, with intervals; a dashed line where both would say the same."""
    drawn = [_frame(scale), _line("same", *_at(scale[0], scale[0], scale), *_at(scale[1], scale[1], scale))]
    known = [(step, step.people.value) for step in steps if step.people.value is not None]
    for (one, low), (other, high) in pairwise(known):
        drawn.append(_line("curve", *_at(one.judge, low, scale), *_at(other.judge, high, scale)))
    for step, value in known:
        if step.people.low is not None and step.people.high is not None:
            ends = (*_at(step.judge, step.people.low, scale), *_at(step.judge, step.people.high, scale))
            drawn.append(_line("interval", *ends))
        left, top = _at(step.judge, value, scale)
        drawn.append(Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(left, top))
    return Markup("").join([*drawn, Markup("</svg>")])


def _frame(scale: Scale) -> Markup:
    low, high = scale
    ticks = [low + (high - low) * share for share in (0, 0.25, 0.5, 0.75, 1)]
    whole = high - low
    if whole == int(whole) and 1 < whole <= 10:
        ticks = [low + step for step in range(int(whole) + 1)]
    size = SIDE + 2 * EDGE
    parts = [
        Markup(
            '<svg class="chart plot" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true" focusable="false">'
        ).format(size, size, size, size),
        _line("axis", EDGE, SIDE + EDGE, SIDE + EDGE, SIDE + EDGE),
        _line("axis", EDGE, EDGE, EDGE, SIDE + EDGE),
    ]
    for tick in ticks:
        left, _ = _at(tick, low, scale)
        _, top = _at(low, tick, scale)
        parts.append(_text("tick", left, SIDE + EDGE + 18, f"{tick:g}"))
        parts.append(_text("tick end", EDGE - 8, top + 4, f"{tick:g}"))
    parts.append(_text("name", EDGE + SIDE / 2, size - 4, "judge"))
    parts.append(_text("name start", 0, EDGE - 16, "people"))
    return Markup("").join(parts)


def _at(x: float, y: float, scale: Scale) -> tuple[float, float]:
    low, high = scale
    width = (high - low) or 1.0
    inset = _LARGEST / 2
    room = SIDE - 2 * inset
    return EDGE + inset + room * (x - low) / width, EDGE + SIDE - inset - room * (y - low) / width


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(kind: str, x: float, y: float, text: object) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)
