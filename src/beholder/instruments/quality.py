"""Technical quality: of one image as it is, and of an output against its input.

The measures are in `technical.py`; here they become instruments. Against the input both images are looked at with the
same number of pixels along the longer side (that of the smaller one), since shrinking sharpens and takes noise away;
only the coding grid and clipped pixels are looked for in the pixels as they came. What is said of the output is said of
the image after as it is, not as it was laid over the image before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import cv2
import numpy as np

from beholder.instruments import technical
from beholder.instruments.model import Better, Bytes, Instrument, Measurement, Reading, pair_instrument
from beholder.instruments.pair import Pair, Picture
from beholder.instruments.wording import percent, times

SOFT, SHARP = 0.25, 0.45  # sharpness of photographs blurred by 3 px and by 1.5 px at 512 px
NOISY = 6.0  # levels: grain that is seen at a glance
BLOCKY = 1.5  # the coding grid of JPEG at quality 30
BANDED = 2.0  # levels
FRINGED = 0.08  # unsharp masking by once the detail
PRINT_PPI = 300
SCREEN = (1920, 1080)

_SAME_RATIO, _SAME_DIFFERENCE = 0.1, 0.01  # changes under these are none to speak of


@dataclass(frozen=True, slots=True)
class _Seen:
    """One image: its grey levels at the size of comparison and as they came, and the scale of the latter."""

    rgb: Bytes
    compared: Bytes
    grey: Bytes
    scale: float


@dataclass(frozen=True, slots=True)
class _Measure:
    """A measure of one image, and how it is said. `differs` measures are compared by difference, others by ratio;
    `words` are said of an output with less and with more than the input."""

    name: str
    about: str
    read: Callable[[_Seen], float | str]
    said: Callable[[float], str]
    words: tuple[str, str]
    unit: str = ""
    better: Better = "lower"
    differs: bool = False
    cheap: bool = True


_pairs: WeakKeyDictionary[Pair, tuple[_Seen, _Seen]] = WeakKeyDictionary()


def pictures(pair: Pair) -> tuple[Picture, Picture]:
    """Both images of a pair for the image instruments, each with the size of its file."""
    return Picture(pair.before, size=pair.sizes[0]), Picture(pair.after, size=pair.sizes[1])


def _look(picture: Picture, side: int | None = None) -> _Seen:
    grey = np.asarray(cv2.cvtColor(picture.pixels, cv2.COLOR_RGB2GRAY), np.uint8)
    compared = grey
    if side is not None and max(grey.shape) > side:
        height, width = (max(1, round(one * side / max(grey.shape))) for one in grey.shape)
        compared = np.asarray(cv2.resize(grey, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return _Seen(picture.pixels, compared, grey, min(1.0, max(grey.shape) / max(picture.size)))


def _looks(pair: Pair) -> tuple[_Seen, _Seen]:
    if pair not in _pairs:
        # No finer than either image is.
        side = min(max(pair.before.shape[:2]), max(pair.after.shape[:2]))
        one, other = pictures(pair)
        _pairs[pair] = _look(one, side), _look(other, side)
    return _pairs[pair]


def _alone(measure: _Measure) -> Instrument:
    name = f"quality.{measure.name}"

    def read(picture: Picture) -> Measurement:
        value = measure.read(_look(picture))
        if isinstance(value, str):
            return Measurement(name, None, measure.unit, measure.better, f"Not measured: {value}.")
        return Measurement(name, value, measure.unit, measure.better, f"{measure.said(value)}.")

    return Instrument(name, measure.about, read, "image", measure.cheap)


def _against_input(measure: _Measure) -> Instrument:
    unit = measure.unit if measure.differs else "×"

    def read(pair: Pair) -> Reading:
        found = [measure.read(one) for one in _looks(pair)]
        for which, value in zip(("before", "after"), found, strict=True):
            if isinstance(value, str):
                return Reading(None, f"Not measured: of the image {which}, {value}.")
        before, after = (float(value) for value in found)
        change = after - before if measure.differs else after / before
        said = measure.said(after)
        if after == before:
            return Reading(change, f"{said}, as in the input.")
        less, more = measure.words
        small = abs(change) < _SAME_DIFFERENCE if measure.differs else abs(change - 1) < _SAME_RATIO
        word = "about as in the input" if small else less if after < before else more
        how = f"{_plain(before, measure.unit)} in the input" if measure.differs else f"{times(change)} the input's"
        return Reading(change, f"{said}, {how}: {word}.")

    told = "after minus before" if measure.differs else "after, as a multiple of before"
    about = f"{measure.about.removesuffix('.')}: {told}, both at the size of the smaller image."
    if measure.name in ("blockiness", "clipping"):
        about = f"{measure.about.removesuffix('.')}: {told}."
    name = f"quality.{measure.name}_change"
    return pair_instrument(name, about, read, unit=unit, better=measure.better, cheap=measure.cheap, compares=False)


def _plain(value: float, unit: str) -> str:
    return percent(value) if unit == "share" else f"{value:.1f}"


def _said_sharpness(value: float) -> str:
    word = "soft" if value < SOFT else "sharp" if value > SHARP else "fairly sharp"
    return f"Sharpness {value:.2f} ({word})"


def _said_noise(value: float) -> str:
    word = "strong grain" if value > NOISY else "hardly any" if value < 1.5 else "some grain"
    return f"Noise of {value:.1f} levels ({word})"


def _said_blockiness(value: float) -> str:
    word = "a coding grid is seen" if value > BLOCKY else "no grid" if value < 1.1 else "a faint grid"
    return f"Blockiness {value:.2f} ({word})"


def _said_banding(value: float) -> str:
    word = "contours are seen" if value > BANDED else "smooth" if value <= 1 else "faint contours"
    return f"Smooth areas rise in steps of {value:.1f} levels ({word})"


def _said_halos(value: float) -> str:
    word = "fringes are seen" if value > FRINGED else "no fringes" if value < FRINGED / 3 else "slight fringes"
    return f"Edges overshoot by {percent(value)} of their height ({word})"


def _said_clipping(value: float) -> str:
    return f"{percent(value)} of the pixels are pure white or black"


_MEASURES = (
    _Measure(
        "sharpness",
        "Sharpness, 0–1: the share of the change from pixel to pixel that a blur over 11 px takes away (1 − the blur "
        "effect of Crété et al. 2007); noise counts as sharp.",
        lambda seen: technical.sharpness(seen.compared),
        _said_sharpness,
        ("softer", "sharper"),
        better="higher",
    ),
    _Measure(
        "noise",
        "Standard deviation of the noise in levels of 255 (Immerkær's operator in the calmest fifth of 16×16 blocks; "
        "0.29 is what rounding has).",
        lambda seen: technical.noise(seen.compared),
        _said_noise,
        ("less noise", "more noise"),
        unit="levels",
    ),
    _Measure(
        "blockiness",
        "Mean step across the lines of an 8×8 coding grid, as a multiple of the step between them (1 is no grid).",
        lambda seen: technical.blockiness(seen.grey, seen.scale),
        _said_blockiness,
        ("less blocky", "blockier"),
        unit="×",
    ),
    _Measure(
        "banding",
        "Height of the contours in which smooth areas rise, in levels of 255 (up to 1 is as smooth as eight bits "
        "allow).",
        lambda seen: technical.banding(seen.compared),
        _said_banding,
        ("smoother", "more banded"),
        unit="levels",
        differs=True,
        cheap=False,
    ),
    _Measure(
        "clipping",
        "Share of the pixels that are pure white (all channels ≥ 254) or black (all ≤ 1).",
        lambda seen: sum(technical.clipped(seen.rgb)),
        _said_clipping,
        ("less clipped", "more clipped"),
        unit="share",
        differs=True,
    ),
    _Measure(
        "halos",
        "How far pixels beside tall edges overshoot the even ground behind them, as a share of the edge's height, in "
        "the median edge.",
        lambda seen: technical.halos(seen.compared),
        _said_halos,
        ("less fringed", "more fringed"),
        unit="share",
        differs=True,
        cheap=False,
    ),
)


def _print_size(picture: Picture) -> Measurement:
    width, height = (side / PRINT_PPI * 2.54 for side in picture.size)
    pixels = f"{picture.size[0]}×{picture.size[1]} px"
    shown = (
        f"{width:.1f} × {height:.1f} cm" if min(width, height) >= 0.1 else f"{width * 10:.1f} × {height * 10:.1f} mm"
    )
    says = f"{pixels} print at {shown} with {PRINT_PPI} pixels an inch."
    return Measurement("quality.print_size", max(width, height), "cm", "higher", says)


def _screen_size(picture: Picture) -> Measurement:
    wide, high = sorted(picture.size, reverse=True)
    value = max(wide / SCREEN[0], high / SCREEN[1])
    fills = "fill" if value >= 1 else f"are enlarged {times(1 / value)} to fill"
    says = f"{picture.size[0]}×{picture.size[1]} px {fills} a screen of {SCREEN[0]}×{SCREEN[1]}."
    return Measurement("quality.screen_size", value, "×", "higher", says)


INSTRUMENTS: tuple[Instrument, ...] = (
    *(_alone(measure) for measure in _MEASURES),
    Instrument(
        "quality.print_size",
        f"Longer side of a print with {PRINT_PPI} pixels an inch, in cm, from the size of the file.",
        _print_size,
        "image",
    ),
    Instrument(
        "quality.screen_size",
        f"How many times the file's pixels fill a screen of {SCREEN[0]}×{SCREEN[1]} (or {SCREEN[1]}×{SCREEN[0]}), as "
        "large as one side allows.",
        _screen_size,
        "image",
    ),
    *(_against_input(measure) for measure in _MEASURES),
)
