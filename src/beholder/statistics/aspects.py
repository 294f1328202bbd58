"""Matching the aspects that people rated with a judge's columns, and bringing both onto one scale.

A pair is given as `ASPECT=CRITERION` (`--map`), where the criterion may also be the minimum, maximum or mean of
several: `SC=min(edit_success,over_editing)`. Otherwise aspects are matched by name, ignoring case, punctuation and the
word `and`; `color` equals `colour`, and `overall` is the rubric's own score.

A scale that nobody gave is inferred from the rubric, or else from the range of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.data import COMPARABLE_KINDS, Column, ColumnKind, Floats, Ratings, Scores
from beholder.verdicts.calibration_maps import COMBINERS, Combination, parse_combination

Scale = tuple[float, float]

OVERALL_ASPECT = "overall"  # what people call the number for everything; a rubric calls its own `score`
MAX_LISTED_NAMES = 12

_SCALE_PATTERN = re.compile(r"\s*(?P<low>-?\d+(\.\d+)?)\s*\.\.\s*(?P<high>-?\d+(\.\d+)?)\s*")


def match_aspects(aspects: Iterable[str], scores: Scores, given: Sequence[str] = ()) -> dict[str, Column]:
    """Find the column that answers each aspect.

    Args:
        aspects: Names of rated aspects.
        scores: The judge's scores.
        given: Pairs `ASPECT=CRITERION`, which take precedence over names.

    Returns:
        Columns by aspect, in the order of `aspects`; aspects without a matching column are missing.

    Raises:
        UsageError: A pair names something unknown, a name matches two columns, or nothing matches at all.
    """
    wanted = list(dict.fromkeys(aspects))
    pairs = _parse_pairs(given)
    unknown = [aspect for aspect in pairs if aspect not in wanted]
    if unknown:
        raise UsageError(
            f"A pair names the aspect {unknown[0]!r}, which nobody rated; rated are {_join_names(wanted)}."
        )
    matches = {
        aspect: column
        for aspect in wanted
        if (column := find_column(pairs[aspect], scores) if aspect in pairs else _match_by_name(aspect, scores))
        is not None
    }
    if not matches:
        raise UsageError(
            f"None of the aspects that people rated ({_join_names(wanted)}) has the name of a criterion of "
            f"{scores.name} ({_list_criteria(scores)}); say which belong together, "
            "ASPECT=CRITERION (--map or map_=)."
        )
    return matches


def describe_matches(
    matches: Mapping[str, Column], aspects: Iterable[str] = (), given: Sequence[str] = ()
) -> list[str]:
    """Return sentences on inferred and unmatched names; none where all names are the same on both sides."""
    by_hand = _parse_pairs(given)
    inferred = [
        f"{aspect} = {column.name}"
        for aspect, column in matches.items()
        if column.name != aspect and aspect not in by_hand
    ]
    left = [aspect for aspect in dict.fromkeys(aspects) if aspect not in matches]
    sentences = (
        [f"Inferred by name: {_join_names(inferred)} (ASPECT=CRITERION changes it: --map or map_=)."]
        if inferred
        else []
    )
    if left:
        sentences.append(
            f"Rated, but no criterion has the name: {_join_names(left)} (ASPECT=CRITERION adds it: --map or map_=)."
        )
    return sentences


def find_column(text: str, scores: Scores) -> Column:
    """Return the column of this name, or a combination of columns: `min(a,b)`, `max(a,b)`, `mean(a,b)`.

    A combination is missing (nan) where one of its parts is.

    Raises:
        UsageError: The name is unknown, or the parts of a combination are on different scales.
    """
    exact = scores.columns.get(text.strip())
    if exact is not None:
        return exact
    combined = parse_combination(text)
    if combined is None and ("(" in text or ")" in text):
        raise UsageError(
            f"{text.strip()!r} is neither a criterion of {scores.name} nor several as one, which is written min(a,b), "
            f"max(a,b) or mean(a,b); there are {_list_criteria(scores)}."
        )
    if combined is None:
        return _find_named_column(text.strip(), scores)
    if combined.how not in COMBINERS:
        raise UsageError(f"Criteria are combined by {', '.join(COMBINERS)}, not by {combined.how!r}.")
    parts = [_find_named_column(name, scores) for name in combined.parts]
    scales = {part.scale for part in parts}
    if len(scales) > 1:
        raise UsageError(f"The parts of {text!r} are on different scales, so that they cannot be combined.")
    combination = Combination(combined.how, tuple(part.name for part in parts))
    return Column(str(combination), parts[0].kind, combination.combine([part.values for part in parts]), parts[0].scale)


def rescale(column: Column, to: Scale) -> Column:
    """Map a column linearly so that the ends of its scale fall on the ends of `to`.

    Raises:
        UsageError: The column's scale is not known or has no width.
    """
    if column.scale is None:
        raise UsageError(
            f"The scale of {column.name!r} is not known; give it, such as {column.name}=0..10 (--scale or scale=)."
        )
    (low, high), (new_low, new_high) = column.scale, to
    if column.scale == to:
        return column
    if low == high:
        raise UsageError(
            f"The scale of {column.name!r} is the one value {low:g}; give it, such as {column.name}=0..10 "
            "(--scale or scale=)."
        )
    stretch = (new_high - new_low) / (high - low)
    return replace(column, values=new_low + (column.values - low) * stretch, scale=to)


def infer_scales(
    column: Column,
    rated: Scale,
    scale: Scale | None = None,
    rating_scale: Scale | None = None,
    seen: Scale | None = None,
) -> tuple[Scale, Scale]:
    """Return the scale of the judge's numbers and the scale of the people's ratings.

    A given scale is taken as it is; then the rubric's own scale; otherwise the range of the numbers. Both sides are
    taken to be on one scale where the numbers of one fit the scale of the other (`fits_scale`) and nothing else is
    given.

    Args:
        column: The judge's numbers.
        rated: Range of the ratings.
        scale: The judge's scale, if given.
        rating_scale: The people's scale, if given.
        seen: Range of the judge's numbers, where more than this column is known of it.
    """
    judge_scale = scale or column.scale
    if judge_scale is not None:
        return judge_scale, rating_scale or (judge_scale if fits_scale(rated, judge_scale) else rated)
    seen = seen or find_range(column.values) or rated
    if rating_scale is not None:
        return (rating_scale if fits_scale(seen, rating_scale) else seen), rating_scale
    both = min(seen[0], rated[0]), max(seen[1], rated[1])
    return (both, both) if fits_scale(seen, both) and fits_scale(rated, both) else (seen, rated)


def fits_scale(seen: Scale, scale: Scale) -> bool:
    """Return whether numbers in the range `seen` may be on the scale.

    They must lie inside, and span half of it unless they begin above its low end: ratings from 4 to 6 fit 1..7, but
    ratings from 0 to 1 do not fit 0..10.
    """
    inside = scale[0] <= seen[0] and seen[1] <= scale[1]
    return inside and (2 * (seen[1] - seen[0]) >= scale[1] - scale[0] or seen[0] > scale[0])


def find_range(values: Floats) -> Scale | None:
    """Return the smallest and largest value; None where all are nan."""
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if len(known) else None


def parse_scale(text: str) -> Scale:
    """Parse a scale as it is written on the command line, such as `1..7`.

    Raises:
        UsageError: The text is no scale.
    """
    match = _SCALE_PATTERN.fullmatch(text)
    if match is None or not float(match["low"]) < float(match["high"]):
        raise UsageError(f"A scale is written from its low to its high end, such as 1..7, not {text!r}.")
    return float(match["low"]), float(match["high"])


def normalize_name(name: str) -> str:
    """Return a name in the form in which names are compared: lower-case words without `and`, `colour` as `color`."""
    words = re.findall(r"[^\W_]+", name.casefold())
    return " ".join(word for word in words if word != "and").replace("colour", "color")


def _parse_pairs(given: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        aspect, sign, criterion = (part.strip() for part in text.partition("="))
        if not (aspect and sign and criterion):
            raise UsageError(
                f"A pair (--map or map_=) is ASPECT=CRITERION, such as SC=min(edit_success,over_editing), not {text!r}."
            )
        if aspect in pairs:
            raise UsageError(f"Two pairs name the aspect {aspect!r}; keep one.")
        pairs[aspect] = criterion
    return pairs


def _match_by_name(aspect: str, scores: Scores) -> Column | None:
    alike = _find_similar_columns(aspect, scores)
    if not alike and normalize_name(aspect) == OVERALL_ASPECT:
        alike = [
            column for column in scores.columns.values() if column.kind is ColumnKind.OVERALL and column.name == "score"
        ]
    if len(alike) > 1:
        names = _join_names(column.name for column in alike)
        raise UsageError(
            f"The aspect {aspect!r} could be any of {names}; say which, {aspect}=CRITERION (--map or map_=)."
        )
    return alike[0] if alike else None


def _find_named_column(name: str, scores: Scores) -> Column:
    alike = _find_similar_columns(name, scores)
    if len(alike) != 1:
        raise UsageError(f"{scores.name} has no criterion {name!r}; there are {_list_criteria(scores)}.")
    return alike[0]


def _find_similar_columns(name: str, scores: Scores) -> list[Column]:
    if name in scores.columns:
        return [scores.columns[name]]
    return [column for key, column in scores.columns.items() if normalize_name(key) == normalize_name(name)]


def _list_criteria(scores: Scores) -> str:
    """Return the names that a person would match: not measurements, single assertions or a jury's spread."""
    return _join_names(name for name, column in scores.columns.items() if column.kind in COMPARABLE_KINDS)


def _join_names(names: Iterable[str]) -> str:
    every = list(names)
    rest = len(every) - MAX_LISTED_NAMES
    return ", ".join(every[:MAX_LISTED_NAMES]) + (f" and {rest} more" if rest > 0 else "") if every else "none"


def infer_scales_by_aspect(
    columns: Mapping[str, Column],
    ratings: Mapping[str, Ratings],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
) -> dict[str, tuple[Scale, Scale]]:
    """Return the scales of judge and people for each aspect, as `infer_scales` finds them.

    Where only the numbers tell, their range is that of all aspects together, unless an aspect spans less than half of
    it: people who were asked twelve questions rarely had twelve scales.

    Args:
        columns: The judge's column by aspect.
        ratings: Ratings by aspect.
        judged: Given scales of the judge by aspect, `""` for all aspects.
        rated: Given scales of the people, likewise.

    Raises:
        UsageError: A number is off the scale that was given for it.
    """
    for aspect, column in columns.items():
        _check_on_scale(
            _get_scale(aspect, judged), column.values, f"the judge gives {aspect!r}", f"{aspect}=", "--scale or scale="
        )
        _check_on_scale(
            _get_scale(aspect, rated),
            ratings[aspect].values,
            f"{aspect!r} is rated",
            f"{aspect}=",
            "--rating-scale or rating_scale=",
        )
    rating_ranges = _find_ranges({aspect: ratings[aspect].values for aspect in columns})
    seen = _find_ranges({aspect: column.values for aspect, column in columns.items() if column.scale is None})
    return {
        aspect: infer_scales(
            column,
            rating_ranges[aspect] or (0.0, 0.0),
            _get_scale(aspect, judged),
            _get_scale(aspect, rated),
            seen.get(aspect),
        )
        for aspect, column in columns.items()
    }


def describe_scales(
    columns: Mapping[str, Column],
    ratings: Mapping[str, Ratings],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
    *,
    other_judge: bool = False,
) -> Iterator[str]:
    """Yield sentences on what `infer_scales_by_aspect` inferred: scales that were mapped onto others, numbers that were
    taken to be on one scale, and scales that cannot be known.
    """
    whose = "the other judge's" if other_judge else "the ratings'"
    rating_ranges = _find_ranges({aspect: ratings[aspect].values for aspect in columns})
    seen = _find_ranges({aspect: column.values for aspect, column in columns.items() if column.scale is None})
    aspects_by_sentence: dict[str, list[str]] = {}
    for aspect, (judged_on, rated_on) in infer_scales_by_aspect(columns, ratings, judged, rated).items():
        judge_scale = _get_scale(aspect, judged) or columns[aspect].scale
        judge, people = seen.get(aspect) or judged_on, rating_ranges[aspect] or rated_on
        scales = f"{format_scale(judged_on)} and {whose} {format_scale(rated_on)}"
        sentence = ""
        if judged_on != rated_on and can_rescale(judged_on, rated_on):
            sentence = f"Scores on {format_scale(judged_on)} were mapped linearly onto {whose} {format_scale(rated_on)}"
        elif judged_on != rated_on:
            sentence = f"One number is no scale, so that scores on {scales} were compared as they are"
        elif _get_scale(aspect, rated) is None and judge_scale is not None and people != judge_scale:
            rated_scale = f"{whose[:1].upper()}{whose[1:]} {format_scale(people)}"
            sentence = f"{rated_scale} were taken to be on the judge's {format_scale(judge_scale)}"
        elif _get_scale(aspect, rated) is None and judge_scale is None and judge != people:
            sentence = (
                f"The judge's {format_scale(judge)} and {whose} {format_scale(people)} were taken to be on one scale"
            )
        if sentence:
            aspects_by_sentence.setdefault(sentence, []).append(aspect)
    for sentence, aspects in aspects_by_sentence.items():
        yield f"{sentence}: {', '.join(aspects)} (--scale and --rating-scale, or scale= and rating_scale=, change it)."


def find_guessed_scales(
    columns: Mapping[str, Column],
    scales: Mapping[str, tuple[Scale, Scale]],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
) -> set[str]:
    """Return the aspects whose human scale was inferred from the ratings alone, which may not use all of it.

    Args:
        columns: The judge's column by aspect.
        scales: What `infer_scales_by_aspect` returned.
        judged: Given scales of the judge by aspect, `""` for all aspects.
        rated: Given scales of the people, likewise.
    """
    return {
        aspect
        for aspect, column in columns.items()
        if _get_scale(aspect, rated) is None and scales[aspect][1] != (_get_scale(aspect, judged) or column.scale)
    }


def can_rescale(judged_on: Scale, rated_on: Scale) -> bool:
    """Return whether one scale can be mapped onto the other: neither may be a single value."""
    return judged_on[0] < judged_on[1] and rated_on[0] < rated_on[1]


def format_scale(scale: Scale) -> str:
    """Format a scale as `1 to 7`, or as one number where both ends are the same."""
    return f"{scale[0]:g} to {scale[1]:g}" if scale[0] < scale[1] else f"{scale[0]:g}"


def parse_scales(texts: Sequence[str]) -> dict[str, Scale]:
    """Parse scales as they are written on the command line: `0..10` for all aspects (key `""`), `SC=0..10` for one."""
    split = (text.rpartition("=") for text in texts)
    return {aspect.strip(): parse_scale(ends) for aspect, _, ends in split}


def _get_scale(aspect: str, given: Mapping[str, Scale]) -> Scale | None:
    return given.get(aspect, given.get(""))


def _check_on_scale(scale: Scale | None, values: Floats, said: str, start: str, option: str) -> None:
    if scale is None:
        return
    hair = 1e-9 * (scale[1] - scale[0])  # of rounding, in a mean of thirds
    off = values[(values < scale[0] - hair) | (values > scale[1] + hair)]  # nan is neither
    if len(off):
        low, high = (float(end) for end in (np.nanmin(values), np.nanmax(values)))
        wide = f"{min(low, scale[0]):g}..{max(high, scale[1]):g}"
        raise UsageError(
            f"The scale {scale[0]:g}..{scale[1]:g} was given, and {said} {off[0]:g}, which is not on it; "
            f"all numbers are on {start}{wide} ({option})."
        )


def _find_ranges(values: Mapping[str, Floats]) -> dict[str, Scale | None]:
    ranges = {aspect: find_range(value) for aspect, value in values.items()}
    known = [range_ for range_ in ranges.values() if range_ is not None]
    if not known:
        return ranges
    every = min(low for low, _ in known), max(high for _, high in known)
    return {
        aspect: every if range_ is not None and 2 * (range_[1] - range_[0]) >= every[1] - every[0] else range_
        for aspect, range_ in ranges.items()
    }
