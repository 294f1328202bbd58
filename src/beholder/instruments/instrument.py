"""What an instrument is, and what it says.

Numbers as people read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
    """One thing that was measured. `value` is None where it has no meaning here, and `sentence` then says why.

    `name` is `family.instrument`. `unit` is "ΔE", "px", "share" (0–1), "×", "dB" or nothing. `better` is the direction
    in which the after image is nearer to the before image (or, for quality, better); "" where neither is. `map`, where
    there is one, lies in the frame of `pair.before`, in the same unit; `map_top` is the top of its legend.
    """

    name: str
    value: float | None
    unit: str = ""
    better: Better = ""
    sentence: str = ""
    map: Floats | None = field(default=None, compare=False, repr=False)
    map_top: float | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.name} measured {self.value}; a measurement without a meaning has the value None")
        if self.value is None and not self.sentence:
            raise ValueError(f"{self.name} has no value; its sentence must say why")


@dataclass(frozen=True, slots=True)
class Instrument:
    """One thing that can be measured. `about` is one sentence: what it measures, and by which convention.

    `measure` takes a `Pair` (kind "pair"), a `Picture` ("image") or a text's parts ("text"). It never raises for an
    image, however odd. `cheap` ones are quick enough for an audit.
    """

    name: str
    about: str
    measure: Callable[..., Measurement]
    kind: InstrumentKind = "pair"
    cheap: bool = True


class PairReading(NamedTuple):
    """What a pair instrument read: the parts of a `Measurement` that differ from pair to pair."""

    value: float | None
    sentence: str
    map: Floats | None = None
    map_top: float | None = None


def make_pair_instrument(
    name: str,
    about: str,
    read: Callable[[ImagePair], PairReading],
    *,
    unit: str = "",
    better: Better = "",
    cheap: bool = True,
    needs_registration: bool = True,
) -> Instrument:
    """An instrument for pairs from the function that reads them. Where pixels cannot be compared (`pair.incomparable_reason`) an
    instrument that `compares` them is not asked, and its measurement says why."""

    def measure(pair: ImagePair) -> Measurement:
        if needs_registration and pair.incomparable_reason:
            return Measurement(name, None, unit, better, f"Not measured: {pair.incomparable_reason}.")
        value, sentence, values, top = read(pair)
        return Measurement(name, value, unit, better, sentence, values, top)

    return Instrument(name, about, measure, "pair", cheap)


def format_percent(share: float) -> str:
    """A share (0–1) as "31 %"; nothing that is there becomes "0 %", and nothing that is missing "100 %"."""
    points = 100 * share
    if 0 < points < 0.1:
        return "under 0.1 %"
    if points < 2 or 98 < points < 100:
        return f"{min(points, 99.9) if points < 100 else points:.1f}".removesuffix(".0") + " %"
    return f"{points:.0f} %"


def format_factor(factor: float) -> str:
    """A factor as "0.85×"."""
    return f"{factor:.2f}×" if factor < 10 else f"{factor:.0f}×"


def join_phrases(parts: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
