"""Maps as pictures: where in an image something was measured, laid over the image itself.

A sheet has the measurement's name and sentence, the image in dimmed grey with the map glowing on it, a legend with
numbers and unit, and both images small beside it. What glows is always the most remarkable: the highest values, or the
lowest where higher is better; the legend says so at its bright end. The colours are matplotlib's "inferno": lightness
rises evenly along it, so that a sheet reads the same without colour vision and printed in grey.
"""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.lettering import width_of, wrapped, write
from beholder.instruments.model import Bytes, Floats, Measurement
from beholder.instruments.pair import Pair

_SIDE, _SQUARES = 1000, 160  # longer side of the image on a sheet; what is smaller is shown with its pixels as squares
_NARROWEST = 420  # width that the image's place has at least, for the sentence above it
_MARGIN, _COLUMN, _THUMB, _LABEL = 28, 200, 220, 52  # the column beside the image, heights of a small one and its label
_BAR, _LEGEND = 30, 220  # width and height of the legend's bar
_TITLE, _TEXT, _SMALL, _SPACING = 26, 19, 16, 26  # heights of letters, and from line to line
_PAPER, _INK, _FAINT = (255, 255, 255), (24, 24, 24), (95, 95, 95)
_DIMMED = np.float32(0.33)  # the image's part of the light; the map has the rest
_LIFTED = np.float32(0.25)  # black is this light before it is dimmed: dark photos stay recognisable
_TICKS = 5

_BRIGHT = {"higher": "worse", "lower": "worse", "": "more"}


def png(measurement: Measurement, pair: Pair, about: str = "", *, on_after: bool = False) -> bytes:
    """The sheet as a PNG file."""
    picture = sheet(measurement, pair, about, on_after=on_after)
    done, data = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    if not done:
        raise RuntimeError("OpenCV could not encode a PNG")
    return data.tobytes()


def sheet(measurement: Measurement, pair: Pair, about: str = "", *, on_after: bool = False) -> Bytes:
    """The sheet of a measurement that has a map, in RGB. The map lies over `pair.aligned`, or `on_after` over the
    second image as it is; `about`, the instrument's own words on what it measures, stands at the foot."""
    if measurement.map is None:
        raise ValueError(f"{measurement.name} has no map")
    values = np.nan_to_num(measurement.map, nan=0.0)
    top = legend_top(measurement)
    ground = pair.after if on_after else pair.aligned
    image = _within(overlay(ground, values, top, turned=measurement.better == "higher"), _SIDE, _SIDE)
    line = "" if on_after else _outline(image, measurement, pair)
    height, width = image.shape[:2]
    place = max(width, _NARROWEST)
    room = place + _MARGIN + _COLUMN
    lines = wrapped(measurement.sentence, _TEXT, room)
    head = _MARGIN + _TITLE + len(lines) * _SPACING + _MARGIN
    small = {label: _within(one, _COLUMN, _THUMB) for label, one in (("before", pair.before), ("after", pair.after))}
    column = _LEGEND + _LABEL // 2 * bool(line) + sum(one.shape[0] + _LABEL for one in small.values())
    foot = head + max(height, column) + _SMALL // 2
    notes = wrapped(about, _SMALL, room)
    paper = np.full((foot + len(notes) * _SPACING + _MARGIN, room + 2 * _MARGIN, 3), _PAPER, np.uint8)
    write(paper, measurement.name, (_MARGIN, _MARGIN + round(_TITLE * 0.8)), _TITLE, _INK, bold=True)
    for number, words in enumerate(lines, start=1):
        write(paper, words, (_MARGIN, _MARGIN + _TITLE + number * _SPACING), _TEXT, _INK)
    for number, words in enumerate(notes, start=1):
        write(paper, words, (_MARGIN, foot + number * _SPACING), _SMALL, _FAINT)
    paper[head : head + height, _MARGIN : _MARGIN + width] = image
    left = _MARGIN + place + _MARGIN
    _draw_legend(paper, (left, head), measurement, values, top)
    below = head + _LEGEND
    if line:
        below += _LABEL // 2
        write(paper, line, (left, below + _SMALL // 2), _SMALL, _FAINT)
    for label, picture in small.items():
        below += _LABEL
        write(paper, label, (left, below - _SMALL // 2), _SMALL, _FAINT)
        paper[below : below + picture.shape[0], left : left + picture.shape[1]] = picture
        below += picture.shape[0]
    return paper


def overlay(image: Bytes, values: Floats, top: float, *, turned: bool = False) -> Bytes:
    """Values (H×W, from 0 to `top`; what is beyond is shown as the end) glowing on the dimmed image, in RGB. The high
    values glow, or the low ones if `turned`."""
    share = np.clip(values / np.float32(top), 0, 1)
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float32) / np.float32(255)
    return _mixed(1 - share if turned else share, grey)


def legend_top(measurement: Measurement) -> float:
    """The value at the top of the legend: the measurement's own, or else the map's highest; 1 where that is 0."""
    top = measurement.map_top
    if top is None and measurement.map is not None:
        top = float(np.nan_to_num(measurement.map, nan=0.0, posinf=0.0).max(initial=0.0))
    return top if top is not None and np.isfinite(top) and top > 0 else 1.0


def _mixed(share: Floats, grey: Floats) -> Bytes:
    ramp = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO)[:, 0, ::-1]
    glow = np.asarray(ramp, np.float32)[np.rint(share * 255).astype(np.uint8)]
    dimmed = (_LIFTED + (1 - _LIFTED) * grey)[:, :, None] * 255
    return np.rint(glow * (1 - _DIMMED) + dimmed * _DIMMED).astype(np.uint8)


def _outline(image: Bytes, measurement: Measurement, pair: Pair) -> str:
    """Draws a white line around where the edit belongs, and says what it is: always around a mask that was given, and
    around an inferred region where the measurement is about it."""
    if pair.mask is None and not measurement.name.startswith("locality."):
        return ""
    region = cv2.resize(pair.region.astype(np.uint8), image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    contours, _ = cv2.findContours(region, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(image, contours, -1, _PAPER, 2, cv2.LINE_AA)
    return ("white line: the inferred edit" if pair.inferred else "white line: the mask") if contours else ""


def _draw_legend(paper: Bytes, at: tuple[int, int], measurement: Measurement, values: Floats, top: float) -> None:
    """A bar with the high numbers above, and a word at the end that glows."""
    left, above = at
    turned = measurement.better == "higher"
    share = np.linspace(0 if turned else 1, 1 if turned else 0, _LEGEND, dtype=np.float32)
    bar = np.repeat(share[:, None], _BAR, axis=1)
    paper[above : above + _LEGEND, left : left + _BAR] = _mixed(bar, np.full_like(bar, 0.5))
    above_it = "≥ " if float(values.max(initial=0)) > top * 1.001 else ""
    below_it = "≤ " if float(values.min(initial=0)) < top * -0.001 else ""
    for tick in range(_TICKS):
        y = above + round((_LEGEND - 1) * tick / (_TICKS - 1))
        value = top * (1 - tick / (_TICKS - 1))
        beyond = above_it if tick == 0 else below_it if tick == _TICKS - 1 else ""
        text = f"{beyond}{number_of(value, measurement.unit)}"
        cv2.line(paper, (left + _BAR, y), (left + _BAR + 6, y), _INK, 1)
        write(paper, text, (left + _BAR + 12, y + round(_SMALL * 0.35)), _SMALL, _INK)
        if tick == (_TICKS - 1 if turned else 0):
            at_end = (left + _BAR + 12 + width_of(f"{text}  ", _SMALL), y + round(_SMALL * 0.35))
            write(paper, _BRIGHT[measurement.better], at_end, _SMALL, _FAINT)


def number_of(value: float, unit: str) -> str:
    """A value with its unit, as people write it: three figures, a share in per cent."""
    if unit == "share":
        value, unit = value * 100, "%"
    return f"{value:.3g} {unit}".strip() if abs(value) < 999.5 else f"{value:,.0f} {unit}".strip()


def _within(image: Bytes, width: int, height: int) -> Bytes:
    scale = min(width / image.shape[1], height / image.shape[0])
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST if max(image.shape[:2]) < _SQUARES else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, size, interpolation=how), np.uint8)
