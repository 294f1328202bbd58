"""Heatmaps: the map of a measurement, drawn over the image as a PNG sheet.

A sheet has the measurement's name and sentence, the image in dimmed gray with the map glowing on it, a legend with
numbers and unit, and both images as thumbnails beside it. What glows is always the most remarkable: the highest values,
or the lowest where higher is better; the legend says so at its bright end. The colors are matplotlib's "inferno":
lightness rises evenly along it, so that a sheet reads the same without color vision and printed in gray.

Text is drawn by OpenCV. OpenCV 5 has a built-in typeface with every letter we use; OpenCV 4 only has strokes for ASCII,
where a sign such as Δ is replaced by similar letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import cv2
import numpy as np

from beholder.instruments.instrument import Bytes, Floats, Measurement
from beholder.instruments.pair import ImagePair

_REGULAR_WEIGHT, _BOLD_WEIGHT = 400, 600
_STROKE_FONT = cv2.FONT_HERSHEY_SIMPLEX
_STROKE_HEIGHT = 30.0  # pixels of a line of the strokes at scale 1
_ASCII_SUBSTITUTES = {
    "Δ": "d", "×": "x", "–": "-", "−": "-", "—": "-", "≥": ">=", "≤": "<=", "…": "...", "·": ".", "°": " deg",
}  # fmt: skip

RGBColor = tuple[int, int, int]


def draw_text(
    picture: Bytes, text: str, position: tuple[int, int], size: int, color: RGBColor, *, bold: bool = False
) -> None:
    """Draw one line of text into a picture.

    Args:
        picture: RGB; changed in place.
        text: The line.
        position: The left end of its baseline (x, y).
        size: Height in pixels.
        color: RGB.
        bold: Whether it is bold.
    """
    if (face := _load_font_face()) is not None:
        cv2.putText(picture, text, position, color, face, size, _BOLD_WEIGHT if bold else _REGULAR_WEIGHT)
    else:
        scale, thickness = size / _STROKE_HEIGHT, 2 if bold else 1
        cv2.putText(picture, to_ascii(text), position, _STROKE_FONT, scale, color, thickness, cv2.LINE_AA)


def measure_text_width(text: str, size: int) -> int:
    """Return the width in pixels of a line of regular text."""
    if (face := _load_font_face()) is not None:
        # The box of a text ends where its ink ends; the mark at the end keeps trailing blanks in the box.
        (_, _, marked, _), (_, _, mark, _) = (
            cv2.getTextSize((0, 0), line, (0, 0), face, size, _REGULAR_WEIGHT) for line in (f"{text}|", "|")
        )
        return marked - mark
    return cv2.getTextSize(to_ascii(text), _STROKE_FONT, size / _STROKE_HEIGHT, 1)[0][0]


def wrap_text(text: str, size: int, max_width: int) -> list[str]:
    """Split a text into lines of at most `max_width` pixels, between words; a longer word gets a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and measure_text_width(f"{lines[-1]} {word}", size) <= max_width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def to_ascii(text: str) -> str:
    """Return the text in ASCII; what has no counterpart becomes a question mark."""
    return "".join(_ASCII_SUBSTITUTES.get(letter, letter) for letter in text).encode("ascii", "replace").decode("ascii")


@cache
def _load_font_face() -> cv2.FontFace | None:
    return cv2.FontFace("sans") if hasattr(cv2, "FontFace") else None


_IMAGE_SIDE = 1000  # longer side of the image on a sheet
_PIXELATED_SIDE = 160  # a smaller image is shown with its pixels as squares
_MIN_IMAGE_WIDTH = 420  # the least width reserved for the image, so that the sentence above it fits
_MARGIN, _COLUMN_WIDTH, _THUMBNAIL_HEIGHT, _LABEL_HEIGHT = 28, 200, 220, 52  # the column has legend and thumbnails
_BAR_WIDTH, _LEGEND_HEIGHT = 30, 220  # width and height of the legend's bar
_TITLE_SIZE, _TEXT_SIZE, _SMALL_SIZE, _LINE_SPACING = 26, 19, 16, 26  # heights of letters, and from line to line
_BACKGROUND_COLOR, _TEXT_COLOR, _MUTED_COLOR = (255, 255, 255), (24, 24, 24), (95, 95, 95)
_IMAGE_SHARE = np.float32(0.33)  # of the image in the blend; the map has the rest
_BLACK_LEVEL = np.float32(0.25)  # black is this light before it is dimmed: dark photos stay recognisable
_TICKS = 5

_BRIGHT_END_WORDS = {"higher": "worse", "lower": "worse", "": "more"}


def render_png(measurement: Measurement, pair: ImagePair, about: str = "", *, on_after: bool = False) -> bytes:
    """Render the sheet of a measurement as a PNG file; arguments as for `render_sheet`."""
    picture = render_sheet(measurement, pair, about, on_after=on_after)
    done, data = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    if not done:
        raise RuntimeError("OpenCV could not encode a PNG")
    return data.tobytes()


def render_sheet(measurement: Measurement, pair: ImagePair, about: str = "", *, on_after: bool = False) -> Bytes:
    """Render the sheet of a measurement that has a map, in RGB.

    Args:
        measurement: With a map.
        pair: What was measured.
        about: The instrument's description, printed at the foot.
        on_after: Whether the map belongs to the second image as it is, not to `pair.aligned`.

    Raises:
        ValueError: The measurement has no map.
    """
    if measurement.map is None:
        raise ValueError(f"{measurement.name} has no map")
    values = np.nan_to_num(measurement.map, nan=0.0)
    top = find_legend_top(measurement)
    background = pair.after if on_after else pair.aligned
    image = _resize_within(
        render_overlay(background, values, top, invert=measurement.better == "higher"), _IMAGE_SIDE, _IMAGE_SIDE
    )
    outline = "" if on_after else _draw_outline(image, measurement, pair)
    height, width = image.shape[:2]
    image_width = max(width, _MIN_IMAGE_WIDTH)
    inner_width = image_width + _MARGIN + _COLUMN_WIDTH
    lines = wrap_text(measurement.sentence, _TEXT_SIZE, inner_width)
    head = _MARGIN + _TITLE_SIZE + len(lines) * _LINE_SPACING + _MARGIN
    thumbnails = {
        label: _resize_within(picture, _COLUMN_WIDTH, _THUMBNAIL_HEIGHT)
        for label, picture in (("before", pair.before), ("after", pair.after))
    }
    column = (
        _LEGEND_HEIGHT
        + _LABEL_HEIGHT // 2 * bool(outline)
        + sum(thumbnail.shape[0] + _LABEL_HEIGHT for thumbnail in thumbnails.values())
    )
    foot = head + max(height, column) + _SMALL_SIZE // 2
    notes = wrap_text(about, _SMALL_SIZE, inner_width)
    sheet = np.full(
        (foot + len(notes) * _LINE_SPACING + _MARGIN, inner_width + 2 * _MARGIN, 3), _BACKGROUND_COLOR, np.uint8
    )
    title_at = _MARGIN, _MARGIN + round(_TITLE_SIZE * 0.8)
    draw_text(sheet, measurement.name, title_at, _TITLE_SIZE, _TEXT_COLOR, bold=True)
    _draw_lines(sheet, lines, _MARGIN + _TITLE_SIZE, _TEXT_SIZE, _TEXT_COLOR)
    _draw_lines(sheet, notes, foot, _SMALL_SIZE, _MUTED_COLOR)
    sheet[head : head + height, _MARGIN : _MARGIN + width] = image
    left = _MARGIN + image_width + _MARGIN
    _draw_legend(sheet, (left, head), measurement, values, top)
    _draw_thumbnails(sheet, (left, head + _LEGEND_HEIGHT), outline, thumbnails)
    return sheet


def _draw_lines(sheet: Bytes, lines: Sequence[str], above: int, size: int, color: RGBColor) -> None:
    for number, words in enumerate(lines, start=1):
        draw_text(sheet, words, (_MARGIN, above + number * _LINE_SPACING), size, color)


def _draw_thumbnails(sheet: Bytes, position: tuple[int, int], outline: str, thumbnails: Mapping[str, Bytes]) -> None:
    """Draw the label of the outline, if there is one, and both images with their labels."""
    left, below = position
    if outline:
        below += _LABEL_HEIGHT // 2
        draw_text(sheet, outline, (left, below + _SMALL_SIZE // 2), _SMALL_SIZE, _MUTED_COLOR)
    for label, picture in thumbnails.items():
        below += _LABEL_HEIGHT
        draw_text(sheet, label, (left, below - _SMALL_SIZE // 2), _SMALL_SIZE, _MUTED_COLOR)
        sheet[below : below + picture.shape[0], left : left + picture.shape[1]] = picture
        below += picture.shape[0]


def render_overlay(image: Bytes, values: Floats, top: float, *, invert: bool = False) -> Bytes:
    """Render values (H×W, 0 to `top`, clipped beyond) glowing on the dimmed image, in RGB.

    The high values glow, or with `invert` the low ones.
    """
    share = np.clip(values / np.float32(top), 0, 1)
    gray = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float32) / np.float32(255)
    return _blend_map(1 - share if invert else share, gray)


def find_legend_top(measurement: Measurement) -> float:
    """Return the value at the top of the legend: the measurement's own, else the map's highest; 1 where that is 0."""
    top = measurement.map_top
    if top is None and measurement.map is not None:
        top = float(np.nan_to_num(measurement.map, nan=0.0, posinf=0.0).max(initial=0.0))
    return top if top is not None and np.isfinite(top) and top > 0 else 1.0


def _blend_map(share: Floats, gray: Floats) -> Bytes:
    ramp = cv2.applyColorMap(np.arange(256, dtype=np.uint8)[:, None], cv2.COLORMAP_INFERNO)[:, 0, ::-1]
    colors = np.asarray(ramp, np.float32)[np.rint(share * 255).astype(np.uint8)]
    dimmed = (_BLACK_LEVEL + (1 - _BLACK_LEVEL) * gray)[:, :, None] * 255
    return np.rint(colors * (1 - _IMAGE_SHARE) + dimmed * _IMAGE_SHARE).astype(np.uint8)


def _draw_outline(image: Bytes, measurement: Measurement, pair: ImagePair) -> str:
    """Draw a white line around the region of the edit and return its label, or "" if there is none.

    Drawn around a mask that was given, and around an inferred region for measurements about it.
    """
    if pair.mask is None and not measurement.name.startswith("locality."):
        return ""
    region = cv2.resize(pair.region.astype(np.uint8), image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    contours, _ = cv2.findContours(region, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(image, contours, -1, _BACKGROUND_COLOR, 2, cv2.LINE_AA)
    return ("white line: the inferred edit" if pair.region_is_inferred else "white line: the mask") if contours else ""


def _draw_legend(sheet: Bytes, position: tuple[int, int], measurement: Measurement, values: Floats, top: float) -> None:
    """Draw a bar with the high numbers on top, and a word at the end that glows."""
    left, above = position
    invert = measurement.better == "higher"
    share = np.linspace(0 if invert else 1, 1 if invert else 0, _LEGEND_HEIGHT, dtype=np.float32)
    bar = np.repeat(share[:, None], _BAR_WIDTH, axis=1)
    sheet[above : above + _LEGEND_HEIGHT, left : left + _BAR_WIDTH] = _blend_map(bar, np.full_like(bar, 0.5))
    above_it = "≥ " if float(values.max(initial=0)) > top * 1.001 else ""
    below_it = "≤ " if float(values.min(initial=0)) < top * -0.001 else ""
    for tick in range(_TICKS):
        y = above + round((_LEGEND_HEIGHT - 1) * tick / (_TICKS - 1))
        value = top * (1 - tick / (_TICKS - 1))
        beyond = above_it if tick == 0 else below_it if tick == _TICKS - 1 else ""
        text = f"{beyond}{format_value(value, measurement.unit)}"
        cv2.line(sheet, (left + _BAR_WIDTH, y), (left + _BAR_WIDTH + 6, y), _TEXT_COLOR, 1)
        draw_text(sheet, text, (left + _BAR_WIDTH + 12, y + round(_SMALL_SIZE * 0.35)), _SMALL_SIZE, _TEXT_COLOR)
        if tick == (_TICKS - 1 if invert else 0):
            at_end = (
                left + _BAR_WIDTH + 12 + measure_text_width(f"{text}  ", _SMALL_SIZE),
                y + round(_SMALL_SIZE * 0.35),
            )
            draw_text(sheet, _BRIGHT_END_WORDS[measurement.better], at_end, _SMALL_SIZE, _MUTED_COLOR)


def format_value(value: float, unit: str) -> str:
    """Format a value with its unit for people: three digits, a share in per cent."""
    if unit == "share":
        value, unit = value * 100, "%"
    return f"{value:.3g} {unit}".strip() if abs(value) < 999.5 else f"{value:,.0f} {unit}".strip()


def _resize_within(image: Bytes, width: int, height: int) -> Bytes:
    scale = min(width / image.shape[1], height / image.shape[0])
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    interpolation = (
        cv2.INTER_AREA
        if scale < 1
        else cv2.INTER_NEAREST
        if max(image.shape[:2]) < _PIXELATED_SIDE
        else cv2.INTER_CUBIC
    )
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), np.uint8)
