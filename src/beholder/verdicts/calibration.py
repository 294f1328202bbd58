"""A calibration: a file of maps from what a judge said to what people would say, and how it is applied to a verdict.

The file is plain JSON: for each aspect the numbers that its map takes (`inputs`, by names that say what they are), the
map, the interval, and how well it did; and under `made` its pedigree. It is read with suspicion, since it may come from
anybody. Applied, it stands beside the raw scores and changes none of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beholder.errors import UsageError
from beholder.rubrics.rubric import Number
from beholder.verdicts.verdict import CalibratedRating, Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration_maps import CalibrationMap


CALIBRATION_KIND, CALIBRATION_FORMAT = "beholder calibration", 1
MAX_CALIBRATION_BYTES = 32 * 1024 * 1024
MAX_INPUTS = 2_000
PIXELS_PREFIX = "pixels."  # the prefix of what has to be measured on the images
SHORT_DIGEST_LENGTH = 12  # of the digest

_ANSWER_NUMBERS = {"yes": 1.0, "no": 0.0}
_OVERALL_NAMES = ("score", "passed")  # a criterion of such a name is called otherwise


@dataclass(frozen=True, slots=True)
class MapInput:
    """A number that a map takes. Where it is missing the `median` stands in, as it did in the fitting; but what was
    never missing there (`missing`, a share, is 0) may not be missing later."""

    name: str
    median: float
    missing: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AspectMap:
    """The map for one aspect. `raw` names the judge's own number for it. `low` and `high` are what is added to a
    prediction for the interval that holds the share `holds` of the cases' mean ratings."""

    aspect: str
    scale: tuple[float, float]
    raw: str
    inputs: tuple[MapInput, ...]
    map: CalibrationMap
    low: float
    high: float
    holds: float
    scores: Mapping[str, object]

    def rating(self, numbers: Mapping[str, float]) -> tuple[float, float, float]:
        """The rating with its interval, from numbers by name, where one that is not there is the median. All of it lies
        on the human scale; the interval is that around the rating, not around what the map says beyond the scale."""
        import numpy as np

        row = np.array([[numbers.get(one.name, one.median) for one in self.inputs]], np.float64)
        first, last = self.scale
        value = min(max(float(self.map.predict(row)[0]), first), last)
        return value, min(max(value + self.low, first), value), max(min(value + self.high, last), value)


class CalibrationScope(msgspec.Struct, frozen=True):
    """What a verdict must have for a calibration to be for it: one of these judges, rubrics (by name their version) and
    styles; what is empty is not asked for."""

    judges: tuple[str, ...] = ()
    rubrics: dict[str, str] = {}
    styles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Maps by aspect, their pedigree with what of it decides (`fitted_for`), and the digest of the file they came
    from."""

    aspects: Mapping[str, AspectMap]
    made: Mapping[str, object]
    fitted_for: CalibrationScope
    digest: str

    @property
    def instrument_names(self) -> tuple[str, ...]:
        """The instruments whose measurements it needs."""
        names = (one.name for aspect in self.aspects.values() for one in aspect.inputs)
        return tuple(
            dict.fromkeys(name.removeprefix(PIXELS_PREFIX) for name in names if name.startswith(PIXELS_PREFIX))
        )

    def explain_misfit(self, verdict: Verdict) -> str:
        """Why it is not for this verdict: another rubric, version, style or judge than it was fitted for. Empty where
        it is; what the file does not name is not asked for."""
        fitted = self.fitted_for
        if fitted.rubrics and verdict.rubric not in fitted.rubrics:
            return f"it was fitted for the rubric {', '.join(fitted.rubrics)}, and this is {verdict.rubric}"
        version = fitted.rubrics.get(verdict.rubric, verdict.rubric_version)
        if version != verdict.rubric_version:
            return f"it was fitted for {verdict.rubric} {version}, and this is version {verdict.rubric_version}"
        if fitted.styles and verdict.style and verdict.style not in fitted.styles:
            return f"it was fitted for the style {', '.join(fitted.styles)}, and this is {verdict.style}"
        if fitted.judges and verdict.judge not in fitted.judges:
            return f"it was fitted for the judge {', '.join(fitted.judges)}, and this is {verdict.judge}"
        return ""


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """The calibration in a file. Raises `UsageError` with what is wrong for anything that is none."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_CALIBRATION_BYTES:
            raise UsageError(f"{str(file)!r} is larger than {MAX_CALIBRATION_BYTES >> 20} MB; no calibration is.")
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"The calibration {str(file)!r} cannot be read: {error.strerror or error}.") from None
    try:
        return parse_calibration(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"The calibration {str(file)!r} is no JSON: {error}.") from None
    except UsageError as error:
        raise UsageError(f"{str(file)!r} is no calibration that can be used: {error}") from None


def parse_calibration(values: object) -> Calibration:
    """The calibration that JSON values describe. Raises `UsageError`."""
    if not isinstance(values, Mapping) or values.get("kind") != CALIBRATION_KIND:
        raise UsageError(f"It should be an object with `kind` {CALIBRATION_KIND!r}, as `beholder calibrate` writes it.")
    if values.get("format") != CALIBRATION_FORMAT:
        raise UsageError(
            f"Its format is {str(values.get('format'))[:20]}, and this Beholder reads format {CALIBRATION_FORMAT}."
        )
    aspects, made = values.get("aspects"), values.get("made")
    if not isinstance(aspects, Mapping) or not aspects or not isinstance(made, Mapping):
        raise UsageError("It should have `aspects`, at least one, and `made`.")
    try:
        fits = msgspec.convert(
            {key: made[key] for key in CalibrationScope.__struct_fields__ if key in made}, CalibrationScope
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"What it was made for is wrong: {error}.") from None
    read = {str(name): _parse_aspect(str(name), one) for name, one in aspects.items()}
    return Calibration(read, made, fits, digest_calibration(values))


def digest_calibration(values: object) -> str:
    """SHA-256 of JSON values, however they are laid out in the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def aspect_to_dict(one: AspectMap) -> dict[str, object]:
    """As it stands in the file."""
    from beholder.verdicts.calibration_maps import map_to_dict

    return {
        "scale": list(one.scale),
        "raw": one.raw,
        "interval": {"holds": one.holds, "low": one.low, "high": one.high},
        "scores": dict(one.scores),
        "inputs": [asdict(each) for each in one.inputs],
        "map": map_to_dict(one.map),
    }


class _IntervalRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    holds: float
    low: float
    high: float


class _AspectRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scale: tuple[float, float]
    raw: str
    interval: _IntervalRecord
    inputs: list[MapInput]
    map: dict[str, Any]
    scores: dict[str, Any] = {}


def _parse_aspect(name: str, values: object) -> AspectMap:
    from beholder.verdicts.calibration_maps import parse_map

    try:
        read = msgspec.convert(values, _AspectRecord)
    except msgspec.ValidationError as error:
        raise UsageError(f"Its aspect {name[:60]!r} is wrong: {error}.") from None
    names = [one.name for one in read.inputs]
    if not 0 < len(names) <= MAX_INPUTS or len(set(names)) < len(names) or read.raw not in names:
        raise UsageError(
            f"Its aspect {name[:60]!r} needs 1 to {MAX_INPUTS:,} inputs, all different, {read.raw[:60]!r} among them."
        )
    if not read.scale[0] < read.scale[1] or not read.interval.low <= read.interval.high:
        raise UsageError(f"Its aspect {name[:60]!r} has a scale or an interval that ends before it begins.")
    return AspectMap(
        name,
        read.scale,
        read.raw,
        tuple(read.inputs),
        parse_map(read.map, len(names)),
        read.interval.low,
        read.interval.high,
        read.interval.holds,
        read.scores,
    )


def collect_numbers(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Everything that the verdicts on one case say in numbers, by the names that inputs go by; see
    `statistics.calibration.features`. An assertion goes by `STYLE/ID`, since `A1` of another style asks something else.
    A criterion goes by its key and by `RUBRIC.KEY`, the overall by `score` and `RUBRIC.score`; where several of these
    verdicts have one of that name, by the longer one alone."""
    found: dict[str, Number | bool | None] = {}
    several = {key for key, count in Counter(key for one in verdicts for key in one.criteria).items() if count > 1}
    for verdict in verdicts:
        for key, result in verdict.criteria.items():
            name = f"{key}.score" if key in _OVERALL_NAMES else key
            found |= {f"{verdict.rubric}.{name}": result.score} | ({} if key in several else {name: result.score})
            for one in result.assertions:
                found[f"{verdict.style}/{one.id}" if verdict.style else one.id] = _ANSWER_NUMBERS.get(one.answer)
        found[f"{verdict.rubric}.score"] = verdict.score
        if len(verdicts) == 1:
            found["score"] = verdict.score
        if verdict.jury is not None:
            found |= {f"spread.{key}": spread for key, spread in verdict.jury.spread.items()}
        for key, value in verdict.measurements.items():
            measured = value.get("value") if isinstance(value, Mapping) else value
            if isinstance(measured, int | float):
                found[f"measured.{key}"] = measured
    return {name: float(number) for name, number in found.items() if number is not None}


def look_up_number(name: str, numbers: Mapping[str, float]) -> float | None:
    """The number of this name, or the least, greatest or mean of several: `min(a, b)`; None where one is missing."""
    if name in numbers:
        return numbers[name]
    if "(" not in name:
        return None
    from beholder.verdicts.calibration_maps import COMBINERS, parse_combination

    combined = parse_combination(name)
    if combined is None or combined.how not in COMBINERS or not all(part in numbers for part in combined.parts):
        return None
    return float(combined.of([numbers[part] for part in combined.parts]))


def apply_calibration(
    calibration: Calibration,
    verdicts: Sequence[Verdict],
    extra: Mapping[str, float] | None = None,
    *,
    anyway: bool = False,
) -> list[Verdict]:
    """The verdicts on one case, each with the aspects that its own numbers answer. `extra` are numbers that verdicts do
    not hold, by name (`pixels.NAME`, `given.NAME`).

    A verdict without scores stays as it is. A calibration for another rubric, style or judge is not applied, and says
    so, unless `anyway`.
    """
    numbers = {**collect_numbers(verdicts), **(extra or {})}
    return [
        replace(one, calibrated=_calibrate_verdict(calibration, one, numbers, anyway)) if one.scored else one
        for one in verdicts
    ]


def _calibrate_verdict(
    calibration: Calibration, verdict: Verdict, numbers: Mapping[str, float], anyway: bool
) -> dict[str, CalibratedRating]:
    own = collect_numbers([verdict])
    misfit = "" if anyway else calibration.explain_misfit(verdict)
    stranger = bool(misfit) and verdict.rubric not in calibration.fitted_for.rubrics
    found = {}
    for name, aspect in calibration.aspects.items():
        raw = look_up_number(aspect.raw, own)
        if raw is None and not stranger:
            continue  # another verdict on the case answers it, or none does
        found[name] = _rate_aspect(aspect, raw, numbers, misfit, calibration.digest[:SHORT_DIGEST_LENGTH])
    return found


def _rate_aspect(
    aspect: AspectMap, raw: float | None, numbers: Mapping[str, float], misfit: str, digest: str
) -> CalibratedRating:
    known = {one.name: number for one in aspect.inputs if (number := look_up_number(one.name, numbers)) is not None}
    gaps = [one for one in aspect.inputs if one.name not in known]
    lacking = [one.name for one in gaps if not one.missing]
    why = misfit
    if not why and lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        why = f"{', '.join(lacking[:3])}{more} is missing here, which the map needs"
    if why:
        return CalibratedRating(None, None, None, aspect.scale, raw, digest, why)
    value, low, high = aspect.rating(known)
    return CalibratedRating(value, low, high, aspect.scale, raw, digest, filled=tuple(one.name for one in gaps))
