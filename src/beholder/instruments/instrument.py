"""Measurement and Instrument: the contract between instruments and everything that uses them.

Also what all families share: array types, and numbers as people read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from beholder.instruments.pair import ImagePair


Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]
Better = Literal["higher", "lower", ""]
InstrumentKind = Literal["pair", "image", "text"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one instrument.

    Attributes:
        name: `family.instrument`.
        value: The number; None where it has no meaning for this input, and `sentence` then says why.
        unit: "ΔE", "px", "share" (0–1), "×", "dB" … or empty.
        better: The direction in which the image after is nearer to the one before (or, for quality, better); empty
            where neither direction is.
        sentence: The result in one sentence.
        map: Where it was measured, in the frame of `pair.before` and in the same unit, for instruments that have a map.
        map_top: The value at the top of the map's legend.
        boxes: Where most of it lies, in the frame of `pair.before`: (left, top, right, bottom) in shares of width and
            height. Empty where the instrument knows no place, or there is none to point at.
    """

    name: str
    value: float | None
    unit: str = ""
    better: Better = ""
    sentence: str = ""
    map: Floats | None = field(default=None, compare=False, repr=False)
    map_top: float | None = None
    boxes: tuple[tuple[float, float, float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.name} measured {self.value}; a measurement without a meaning has the value None")
        if self.value is None and not self.sentence:
            raise ValueError(f"{self.name} has no value; its sentence must say why")


@dataclass(frozen=True, slots=True)
class Instrument:
    """One thing that can be measured.

    Attributes:
        name: `family.instrument`.
        about: One sentence: what it measures, and by which convention.
        measure: Takes an `ImagePair` (kind "pair"), a `SingleImage` ("image") or a `TextInput` ("text"). Never raises
            for an image, however odd.
        kind: What `measure` takes.
        cheap: Whether it is quick enough for an audit, which measures every case.
    """

    name: str
    about: str
    measure: Callable[..., Measurement]
    kind: InstrumentKind = "pair"
    cheap: bool = True


class PairReading(NamedTuple):
    """The parts of a `Measurement` that differ from pair to pair."""

    value: float | None
    sentence: str
    map: Floats | None = None
    map_top: float | None = None
    boxes: tuple[tuple[float, float, float, float], ...] = ()


PairReader: TypeAlias = "Callable[[ImagePair], PairReading]"


class InstrumentFamily(list[Instrument]):
    """The instruments of one family, in the order in which they are defined.

    Args:
        name: The first part of their names.
        guard: Wraps every function that reads a pair, for a condition that all of them have.
    """

    def __init__(self, name: str, guard: Callable[[PairReader], PairReader] = lambda read: read) -> None:
        super().__init__()
        self._name, self._guard = name, guard

    def pair(
        self,
        name: str,
        about: str = "",
        *,
        unit: str = "",
        better: Better = "",
        cheap: bool = True,
        needs_registration: bool = True,
    ) -> Callable[[PairReader], PairReader]:
        """Return a decorator that adds an instrument for pairs, which the decorated function reads.

        Args:
            name: The second part of the name.
            about: What it measures, in one sentence; the docstring of the function unless given.
            unit: See `Measurement`.
            better: See `Measurement`.
            cheap: See `Instrument`.
            needs_registration: Whether it compares pixels. Where they cannot be compared (`pair.incomparable_reason`),
                the function is not called, and the measurement has no value and says why.
        """
        name = f"{self._name}.{name}"

        def add(read: PairReader) -> PairReader:
            guarded = self._guard(read)

            def measure(pair: ImagePair) -> Measurement:
                if needs_registration and pair.incomparable_reason:
                    return Measurement(name, None, unit, better, f"Not measured: {pair.incomparable_reason}.")
                value, sentence, values, top, boxes = guarded(pair)
                return Measurement(name, value, unit, better, sentence, values, top, boxes)

            self.append(Instrument(name, about or fold_docstring(read), measure, "pair", cheap))
            return read

        return add


def fold_docstring(function: Callable[..., object]) -> str:
    """Return the docstring of a function on one line."""
    return " ".join((function.__doc__ or "").split())


def scale_to_side(shape: tuple[int, ...], side: int) -> tuple[int, int]:
    """Return the (width, height) of an image of this shape (H×W×…) scaled so that its longer side is `side`."""
    height, width = shape[:2]
    scale = side / max(height, width)
    return max(1, round(width * scale)), max(1, round(height * scale))


def format_percent(share: float) -> str:
    """Format a share (0–1) as "31 %". Only 0 becomes "0 %", and only 1 "100 %"."""
    points = 100 * share
    if 0 < points < 0.1:
        return "under 0.1 %"
    if points < 2 or 98 < points < 100:
        return f"{min(points, 99.9) if points < 100 else points:.1f}".removesuffix(".0") + " %"
    return f"{points:.0f} %"


def format_factor(factor: float) -> str:
    """Format a factor as "0.85×"."""
    return f"{factor:.2f}×" if factor < 10 else f"{factor:.0f}×"


def join_phrases(phrases: list[str]) -> str:
    """Join phrases as "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


_CONDITIONS = {"people.kept": "If the edit did what was asked, which is not measured: "}


def state_condition(name: str, sentence: str) -> str:
    """Return the sentence of a prediction as it is shown: where it holds only under a condition, with that before it.

    `people.kept` was fitted on edits that a model had called successful. In verdicts the sentence is stored without it:
    what is stored stays as it is, so that the same case has the same verdict.
    """
    condition = "" if sentence.startswith("Not predicted") else _CONDITIONS.get(name, "")
    return f"{condition}{sentence[0].lower()}{sentence[1:]}" if condition and sentence else sentence
