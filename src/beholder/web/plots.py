"""Charts that only the app has, as SVG for the eye: people against a judge. Their numbers stand beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from beholder.statistics.intervals import Estimate

SIDE, EDGE = 320, 40  # of the square that is drawn in, and the room for its numbers
LEAN_WIDTH, LEAN_HEIGHT = 160, 20
_LARGEST = 14.0  # radius of the dot that most cases share

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Step:
    """Cases for which the judge says about the same: what it says on average, what people say, how many they are."""

    judge: float
    people: Estimate
    cases: int


def scatter(
    points: Sequence[tuple[float, float]], scale: Scale, constant: float | None, person: float | None = None
) -> Markup:
    """A dot for each pair (judge, people), larger where cases share it; a dashed line where both say the same, around
    it a band as wide as one `person` is off from the others (the ceiling), and a level line for the best constant."""
    low, high = scale
    drawn, labels = [_frame(scale)], []
    if person:
        corners = [(low, low), (low, low + person), (high - person, high), (high, high), (high, high - person)]
        corners.append((low + person, low))
        ends = " ".join(f"{x:.1f},{y:.1f}" for x, y in (_at(*corner, scale) for corner in corners))
        if person < high - low:  # else the band is everything
            drawn.append(Markup('<polygon class="ceiling" points="{}"/>').format(ends))
        labels.append(_text("label end", *_beside(high, low, scale, -6), f"band: one person, ±{person:.2g}"))
    drawn.append(_line("same", *_at(low, low, scale), *_at(high, high, scale)))
    if constant is not None:
        drawn.append(_line("constant", *_at(low, constant, scale), *_at(high, constant, scale)))
        under = constant > high - (high - low) / 12  # above there is no room
        labels.append(
            _text("label start", *_beside(low, constant, scale, 16 if under else -6), f"constant {constant:.3g}")
        )
    counted = Counter((round(x, 3), round(y, 3)) for x, y in points)
    most = max(counted.values(), default=1)
    for (x, y), many in sorted(counted.items(), key=lambda one: -one[1]):
        left, top = _at(x, y, scale)
        radius = max(3.0, _LARGEST * (many / most) ** 0.5 if most > 1 else 4.0)
        drawn.append(Markup('<circle class="point" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(left, top, radius))
    return Markup("").join([*drawn, *labels, Markup("</svg>")])


def lean(bias: float | None, reach: float) -> Markup:
    """How far above the others somebody rates: a line from the middle, where nobody is, to a dot. `reach` is as far as
    the ends are."""
    middle, y = LEAN_WIDTH / 2, LEAN_HEIGHT / 2
    drawn = [
        Markup(
            '<svg class="chart lean" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true" focusable="false">'
        ).format(LEAN_WIDTH, LEAN_HEIGHT, LEAN_WIDTH, LEAN_HEIGHT),
        _line("axis", 0, y, LEAN_WIDTH, y),
        _line("axis", middle, 2, middle, LEAN_HEIGHT - 2),
    ]
    if bias is not None:
        x = middle + (middle - 6) * bias / (reach or 1)
        drawn.append(_line("interval", middle, y, x, y))
        drawn.append(Markup('<circle class="dot" cx="{:.1f}" cy="{}" r="4.5"/>').format(x, y))
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


def _beside(x: float, y: float, scale: Scale, lower: float) -> tuple[float, float]:
    """A place in the frame for a text, so many pixels under the point."""
    left, top = _at(x, y, scale)
    return left, top + lower


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def _text(kind: str, x: float, y: float, text: object) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, text)
