"""A calibration: a file of maps from a judge's numbers to the ratings people would give, and its application.

The file is plain JSON: for each aspect the numbers that its map takes (`inputs`, by name), the map, the interval, and
how well it did; and under `made` what it was fitted on. Everything in it is checked, since it may come from anybody.
Calibrated ratings are added beside the raw scores of a verdict and change none of them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from beholder.bands import IntervalBand, rating_interval
from beholder.errors import UsageError
from beholder.images.image import regular_file
from beholder.rubrics.rubric import Number
from beholder.verdicts.verdict import CalibratedRating, Jury, Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration_maps import CalibrationMap


CALIBRATION_KIND, CALIBRATION_FORMAT = "beholder calibration", 1
MAX_CALIBRATION_BYTES = 32 * 1024 * 1024
MAX_INPUTS = 2_000
GIVEN_PREFIX = "given."  # begins the names of inputs that a file holds
PIXELS_PREFIX = "pixels."  # begins the names of inputs that instruments measure on the images
JUROR_PREFIX = "juror."  # begins the names of inputs that other judges said
SHORT_DIGEST_LENGTH = 12

RARELY_MISSING = 0.1  # share of the fitted cases
_ANSWER_NUMBERS = {"yes": 1.0, "no": 0.0}
_COMBINATION_SIGNS = re.compile(r"[(),]")
_OVERALL_NAMES = ("score", "passed")  # a criterion with one of these keys goes by `KEY.score`


@dataclass(frozen=True, slots=True)
class MapInput:
    """A number that a map takes.

    Attributes:
        name: See `collect_numbers`.
        median: What replaces the number where it is missing, as in the fitting.
        missing: The share of cases where it was missing in the fitting. Of what was hardly ever missing there, half of
            what comes from one source may not be missing later; see `_explain_gap`.
    """

    name: str
    median: float
    missing: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AspectMap:
    """The map for one aspect.

    Attributes:
        scale: The human scale, lowest and highest rating.
        raw: The name of the judge's own number for the aspect.
        low: What is added to a prediction for the lower end of its interval; `high` for the upper end.
        holds: The share of the cases whose mean rating lies in the interval.
        scores: How well the map did when it was fitted.
        bands: Intervals by the size of the prediction, in its order; where there are none, one for all.
    """

    aspect: str
    scale: tuple[float, float]
    raw: str
    inputs: tuple[MapInput, ...]
    map: CalibrationMap
    low: float
    high: float
    holds: float
    scores: Mapping[str, object]
    bands: tuple[IntervalBand, ...] = ()

    def rating(self, numbers: Mapping[str, float]) -> tuple[float, float, float]:
        """Return the rating and the ends of its interval, all on the human scale.

        A number that is missing is replaced by its median.
        """
        import numpy as np

        row = np.array([[numbers.get(input_.name, input_.median) for input_ in self.inputs]], np.float64)
        return rating_interval(float(self.map.predict(row)[0]), self.scale, (self.low, self.high), self.bands)


class CalibrationScope(msgspec.Struct, frozen=True):
    """The judges, rubrics (name → version) and styles that a calibration was fitted for; empty: any."""

    judges: tuple[str, ...] = ()
    rubrics: dict[str, str] = {}
    styles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """The content of a calibration file.

    Attributes:
        aspects: The maps by aspect.
        made: What the calibration was fitted on, as in the file.
        fitted_for: The part of `made` that decides which verdicts it applies to.
        digest: The digest of the file's content.
    """

    aspects: Mapping[str, AspectMap]
    made: Mapping[str, object]
    fitted_for: CalibrationScope
    digest: str

    @property
    def instrument_names(self) -> tuple[str, ...]:
        """The names of the instruments whose measurements it needs."""
        names = (input_.name for aspect in self.aspects.values() for input_ in aspect.inputs)
        return tuple(
            dict.fromkeys(name.removeprefix(PIXELS_PREFIX) for name in names if name.startswith(PIXELS_PREFIX))
        )

    def explain_misfit(self, verdict: Verdict) -> str:
        """Return why the calibration does not apply to a verdict (another rubric, version, style or judge than it was
        fitted for); empty where it does."""
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
    """Return the calibration in a file. Raises `UsageError` where it cannot be read or is not valid."""
    file = Path(path)
    try:
        if regular_file(file).stat().st_size > MAX_CALIBRATION_BYTES:
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
    """Return the calibration that JSON values describe. Raises `UsageError` where they describe none."""
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
        scope = msgspec.convert(
            {key: made[key] for key in CalibrationScope.__struct_fields__ if key in made}, CalibrationScope
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"What it was made for is wrong: {error}.") from None
    parsed = {str(name): _parse_aspect(str(name), aspect) for name, aspect in aspects.items()}
    return Calibration(parsed, made, scope, digest_calibration(values))


def digest_calibration(values: object) -> str:
    """Return the SHA-256 of JSON values, whatever their layout in the file."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def aspect_to_dict(aspect: AspectMap) -> dict[str, object]:
    """Return an aspect as it is written in a calibration file."""
    from beholder.verdicts.calibration_maps import map_to_dict

    return {
        "scale": list(aspect.scale),
        "raw": aspect.raw,
        "interval": {"holds": aspect.holds, "low": aspect.low, "high": aspect.high}
        | ({"bands": [asdict(band) for band in aspect.bands]} if aspect.bands else {}),
        "scores": dict(aspect.scores),
        "inputs": [asdict(input_) for input_ in aspect.inputs],
        "map": map_to_dict(aspect.map),
    }


class _IntervalRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    holds: float
    low: float
    high: float
    bands: list[IntervalBand] = []


class _AspectRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scale: tuple[float, float]
    raw: str
    interval: _IntervalRecord
    inputs: list[MapInput]
    map: dict[str, Any]
    scores: dict[str, Any] = {}


for _type in (CalibrationScope, _AspectRecord):  # prepared, see rubrics/rubric.py
    msgspec.json.Decoder(_type)


def _parse_aspect(name: str, values: object) -> AspectMap:
    from beholder.verdicts.calibration_maps import parse_map

    try:
        record = msgspec.convert(values, _AspectRecord)
    except msgspec.ValidationError as error:
        raise UsageError(f"Its aspect {name[:60]!r} is wrong: {error}.") from None
    names = [input_.name for input_ in record.inputs]
    if not 0 < len(names) <= MAX_INPUTS or len(set(names)) < len(names) or record.raw not in names:
        raise UsageError(
            f"Its aspect {name[:60]!r} needs 1 to {MAX_INPUTS:,} inputs, all different, {record.raw[:60]!r} among them."
        )
    if not record.scale[0] < record.scale[1] or not record.interval.low <= record.interval.high:
        raise UsageError(f"Its aspect {name[:60]!r} has a scale or an interval that ends before it begins.")
    ends = [math.inf if band.up_to is None else band.up_to for band in record.interval.bands]
    if ends != sorted(set(ends)) or any(band.low > band.high for band in record.interval.bands):
        raise UsageError(f"Its aspect {name[:60]!r} has bands that do not rise, or one that ends before it begins.")
    return AspectMap(
        name,
        record.scale,
        record.raw,
        tuple(record.inputs),
        parse_map(record.map, len(names)),
        record.interval.low,
        record.interval.high,
        record.interval.holds,
        record.scores,
        tuple(record.interval.bands),
    )


def collect_numbers(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return all numbers of the verdicts on one case, by the names that the inputs of maps go by.

    An assertion goes by `STYLE/ID`, since `A1` of another style asks something else. A criterion goes by its key and by
    `RUBRIC.KEY`, the overall score by `score` and `RUBRIC.score`; where several of the verdicts have one of that name,
    by the longer name alone. The spread of a jury is `spread.KEY`, what one of its judges said `juror.JUDGE.KEY`, a
    measurement `measured.NAME`.
    """
    numbers: dict[str, Number | bool | None] = {}
    key_counts = Counter(key for verdict in verdicts for key in verdict.criteria)
    for verdict in verdicts:
        for key, result in verdict.criteria.items():
            name = f"{key}.score" if key in _OVERALL_NAMES else key
            numbers[f"{verdict.rubric}.{name}"] = result.score
            if key_counts[key] == 1:
                numbers[name] = result.score
            for assertion in result.assertions:
                name = f"{verdict.style}/{assertion.id}" if verdict.style else assertion.id
                numbers[name] = _ANSWER_NUMBERS.get(assertion.answer)
        numbers[f"{verdict.rubric}.score"] = verdict.score
        if len(verdicts) == 1:
            numbers["score"] = verdict.score
        if verdict.jury is not None:
            numbers |= {f"spread.{key}": spread for key, spread in verdict.jury.spread.items()}
            numbers |= collect_juror_numbers(verdict.jury)
        for key, value in verdict.measurements.items():
            measured = value.get("value") if isinstance(value, Mapping) else value
            if isinstance(measured, int | float):
                numbers[f"measured.{key}"] = measured
    return {name: float(number) for name, number in numbers.items() if number is not None}


def juror_name(judge: str, key: str) -> str:
    """Return the name of what one of several judges said: `juror.JUDGE.KEY`, without the signs of a combination."""
    return f"{JUROR_PREFIX}{_COMBINATION_SIGNS.sub('_', judge)}.{key}"


def collect_juror_numbers(jury: Jury) -> dict[str, float]:
    """Return what each judge of a jury said, by name; of several samples of one judge the mean."""
    found: dict[str, list[float]] = {}
    for juror in jury.jurors if len({juror.judge for juror in jury.jurors}) > 1 else ():
        for key, score in juror.criteria.items():
            if score is not None:
                found.setdefault(juror_name(juror.judge, key), []).append(float(score))
    return {name: sum(scores) / len(scores) for name, scores in found.items()}


def look_up_number(name: str, numbers: Mapping[str, float]) -> float | None:
    """Return the number of a name, or the combination of several for a name such as `min(a, b)`; `None` where one is
    missing."""
    if name in numbers:
        return numbers[name]
    if "(" not in name:
        return None
    from beholder.verdicts.calibration_maps import COMBINERS, parse_combination

    combined = parse_combination(name)
    if combined is None or combined.how not in COMBINERS or not all(part in numbers for part in combined.parts):
        return None
    return float(combined.combine([numbers[part] for part in combined.parts]))


def apply_calibration(
    calibration: Calibration,
    verdicts: Sequence[Verdict],
    extra: Mapping[str, float] | None = None,
    *,
    anyway: bool = False,
) -> list[Verdict]:
    """Return the verdicts on one case with calibrated ratings; a verdict without an answer is unchanged.

    Each verdict gets the aspects whose raw number is among its own numbers.

    Args:
        calibration: What to apply.
        verdicts: All verdicts on the case, one for each rubric.
        extra: Numbers that verdicts do not hold, by name (`pixels.NAME`, `given.NAME`).
        anyway: Apply the calibration also to a verdict of another rubric, style or judge than it was fitted for.
            Without it such a verdict gets ratings without a value that say why.
    """
    numbers = {**collect_numbers(verdicts), **(extra or {})}
    return [
        replace(verdict, calibrated=_calibrate_verdict(calibration, verdict, numbers, anyway))
        if verdict.answered
        else verdict
        for verdict in verdicts
    ]


def _calibrate_verdict(
    calibration: Calibration, verdict: Verdict, numbers: Mapping[str, float], anyway: bool
) -> dict[str, CalibratedRating]:
    verdict_numbers = collect_numbers([verdict])
    numbers = {**numbers, **verdict_numbers}  # a name that several verdicts have is that of this one
    misfit = "" if anyway else calibration.explain_misfit(verdict)
    other_rubric = bool(misfit) and verdict.rubric not in calibration.fitted_for.rubrics
    ratings = {}
    for name, aspect in calibration.aspects.items():
        raw = look_up_number(aspect.raw, verdict_numbers)
        if raw is None and not other_rubric:
            continue  # another verdict on the case has this aspect, or none has
        ratings[name] = _rate_aspect(aspect, raw, numbers, misfit, calibration.digest[:SHORT_DIGEST_LENGTH])
    return ratings


def _rate_aspect(
    aspect: AspectMap, raw: float | None, numbers: Mapping[str, float], misfit: str, digest: str
) -> CalibratedRating:
    names = [input_.name for input_ in aspect.inputs]
    known = {name: number for name in names if (number := look_up_number(name, numbers)) is not None}
    missing = [input_ for input_ in aspect.inputs if input_.name not in known]
    why = misfit or _explain_gap(aspect, missing)
    if why:
        return CalibratedRating(None, None, None, aspect.scale, raw, digest, why)
    value, low, high = aspect.rating(known)
    return CalibratedRating(
        value, low, high, aspect.scale, raw, digest, filled=tuple(input_.name for input_ in missing)
    )


def _explain_gap(aspect: AspectMap, missing: Sequence[MapInput]) -> str:
    """Return why a rating cannot be predicted without these inputs; empty where medians can stand in for them.

    A few gaps do little harm. But where half of what one judge said, or of what was measured, is missing that never was
    in the fitting, that judge was not asked, or nothing was measured. Of another judge, who may have left out a number
    now and then, and of pixels, that also holds for what was missing in a few of the fitted cases.
    """
    sizes = Counter(_name_source(input_.name) for input_ in aspect.inputs)
    for source, names in itertools.groupby(
        sorted((one.name for one in missing if _is_expected(one) and not _is_overall(one.name)), key=_name_source),
        _name_source,
    ):
        needed = list(names)
        if 2 * len(needed) >= sizes[source]:
            more = f" and {len(needed) - 3} more" if len(needed) > 3 else ""
            return f"{', '.join(needed[:3])}{more} is missing here, which the map needs"
    return ""


def _is_expected(input_: MapInput) -> bool:
    """Return whether a number was there in the fitting, in all cases, or from elsewhere than the verdict in most."""
    return input_.missing <= (RARELY_MISSING if _name_source(input_.name) else 0.0)


def _is_overall(name: str) -> bool:
    """Return whether an input is a rubric's overall score, which tells nothing that its criteria do not."""
    return name == "score" or name.endswith(".score")


def _name_source(name: str) -> str:
    """Return where an input comes from: another judge, the pixels, a file of features; empty for the verdict itself."""
    if PIXELS_PREFIX in name:
        return PIXELS_PREFIX
    if JUROR_PREFIX in name:
        first = name.partition(JUROR_PREFIX)[2].partition(",")[0]  # of a combination
        return JUROR_PREFIX + first.rpartition(".")[0]  # the name of a judge may have dots
    return GIVEN_PREFIX if GIVEN_PREFIX in name else ""
