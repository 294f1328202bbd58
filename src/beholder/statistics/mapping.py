"""Which of a judge's numbers answers what people were asked, and bringing the two onto one scale.

A pair is given as `ASPECT=CRITERION`, where the criterion may also be the smallest, largest or mean of several,
`SC=min(edit_success,over_editing)`; else it is inferred by name: case, signs and a filling `and` do not count, and
`color` is `colour`; `overall` is the rubric's own score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.data import Column, Floats, Kind, Scores
from beholder.verdicts.combinations import WAYS, Combination, combination

Scale = tuple[float, float]

OVERALL = "overall"  # what people call the number for everything; a rubric calls its own `score`
LISTED = 12

_RANGE = re.compile(r"\s*(?P<low>-?\d+(\.\d+)?)\s*\.\.\s*(?P<high>-?\d+(\.\d+)?)\s*")


def matched(aspects: Iterable[str], scores: Scores, given: Sequence[str] = ()) -> dict[str, Column]:
    """The column that answers each aspect, in the order of `aspects`; an aspect that no column answers is left out.

    `given` are pairs `ASPECT=CRITERION`. Raises `UsageError` where a pair names what is not there, where a name could
    mean two columns, and where nothing matches at all.
    """
    wanted = list(dict.fromkeys(aspects))
    pairs = _pairs(given)
    unknown = [aspect for aspect in pairs if aspect not in wanted]
    if unknown:
        raise UsageError(f"--map names the aspect {unknown[0]!r}, which nobody rated; rated are {_listed(wanted)}.")
    found = {
        aspect: column
        for aspect in wanted
        if (column := answering(pairs[aspect], scores) if aspect in pairs else _by_name(aspect, scores)) is not None
    }
    if not found:
        raise UsageError(
            f"None of the aspects that people rated ({_listed(wanted)}) has the name of a criterion of {scores.name} "
            f"({_listed(scores.columns)}); say which belong together with --map ASPECT=CRITERION."
        )
    return found


def told(found: Mapping[str, Column], aspects: Iterable[str] = (), given: Sequence[str] = ()) -> list[str]:
    """What was inferred and what was left out, in sentences: nothing where every name is the same on both sides."""
    by_hand = _pairs(given)
    inferred = [
        f"{aspect} = {one.name}" for aspect, one in found.items() if one.name != aspect and aspect not in by_hand
    ]
    left = [aspect for aspect in dict.fromkeys(aspects) if aspect not in found]
    sentences = [f"Inferred by name: {_listed(inferred)} (--map ASPECT=CRITERION changes it)."] if inferred else []
    if left:
        sentences.append(f"Rated, but no criterion has the name: {_listed(left)} (--map ASPECT=CRITERION adds it).")
    return sentences


def answering(text: str, scores: Scores) -> Column:
    """The column of this name, or a combination: `min(a,b)`, `max(a,b)`, `mean(a,b)`.

    A combination is missing where one of its parts is. Raises `UsageError` for a name that is not there, and for parts
    on different scales.
    """
    exact = scores.columns.get(text.strip())
    if exact is not None:
        return exact
    combined = combination(text)
    if combined is None and ("(" in text or ")" in text):
        raise UsageError(
            f"{text.strip()!r} is neither a criterion of {scores.name} nor several as one, which is written min(a,b), "
            f"max(a,b) or mean(a,b); there are {_listed(scores.columns)}."
        )
    if combined is None:
        return _named(text.strip(), scores)
    if combined.how not in WAYS:
        raise UsageError(f"Criteria are combined by {', '.join(WAYS)}, not by {combined.how!r}.")
    parts = [_named(name, scores) for name in combined.parts]
    scales = {part.scale for part in parts}
    if len(scales) > 1:
        raise UsageError(f"The parts of {text!r} are on different scales, so that they cannot be combined.")
    found = Combination(combined.how, tuple(part.name for part in parts))
    return Column(str(found), parts[0].kind, found.of([part.values for part in parts]), parts[0].scale)


def on_scale(column: Column, to: Scale) -> Column:
    """The column moved and stretched so that the ends of its scale fall on the ends of `to`.

    Raises `UsageError` where the column's scale is not known or has no width.
    """
    if column.scale is None:
        raise UsageError(f"The scale of {column.name!r} is not known; give it as --scale {column.name}=0..10.")
    (low, high), (new_low, new_high) = column.scale, to
    if column.scale == to:
        return column
    if low == high:
        raise UsageError(
            f"The scale of {column.name!r} is the one value {low:g}; give it as --scale {column.name}=0..10."
        )
    stretch = (new_high - new_low) / (high - low)
    return replace(column, values=new_low + (column.values - low) * stretch, scale=to)


def scales_of(
    column: Column,
    rated: Scale,
    scale: Scale | None = None,
    rating_scale: Scale | None = None,
    seen: Scale | None = None,
) -> tuple[Scale, Scale]:
    """The scale that the judge's numbers are on, and the one that people's are on, from the range that they `rated` in.

    What is given counts; then the rubric's own scale; else the range of the numbers (`seen`, where more is known of it
    than the column tells). Both are on one scale where the numbers of the one fit the scale of the other (`fits`) and
    nothing else is given.
    """
    own = scale or column.scale
    if own is not None:
        return own, rating_scale or (own if fits(rated, own) else rated)
    seen = seen or range_of(column.values) or rated
    if rating_scale is not None:
        return (rating_scale if fits(seen, rating_scale) else seen), rating_scale
    both = min(seen[0], rated[0]), max(seen[1], rated[1])
    return (both, both) if fits(seen, both) and fits(rated, both) else (seen, rated)


def fits(seen: Scale, scale: Scale) -> bool:
    """Whether numbers in this range may be on the scale: inside, and spanning half of it unless they begin above its
    low end. Ratings from 4 to 6 fit 1..7, and ratings from 0 to 1 do not fit 0..10."""
    inside = scale[0] <= seen[0] and seen[1] <= scale[1]
    return inside and (2 * (seen[1] - seen[0]) >= scale[1] - scale[0] or seen[0] > scale[0])


def range_of(values: Floats) -> Scale | None:
    """From the smallest to the largest; None where there is none."""
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if len(known) else None


def range_given(text: str) -> Scale:
    """A scale as it is written on the command line: `1..7`."""
    found = _RANGE.fullmatch(text)
    if found is None or not float(found["low"]) < float(found["high"]):
        raise UsageError(f"A scale is written from its low to its high end, such as 1..7, not {text!r}.")
    return float(found["low"]), float(found["high"])


def folded(name: str) -> str:
    """A name as it is compared: letters and digits in lower case, without `and`, with `colour` as `color`."""
    words = re.findall(r"[^\W_]+", name.casefold())
    return " ".join(word for word in words if word != "and").replace("colour", "color")


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        aspect, sign, criterion = (part.strip() for part in text.partition("="))
        if not (aspect and sign and criterion):
            raise UsageError(
                f"--map is written ASPECT=CRITERION, such as SC=min(edit_success,over_editing), not {text!r}."
            )
        if aspect in pairs:
            raise UsageError(f"--map names the aspect {aspect!r} twice.")
        pairs[aspect] = criterion
    return pairs


def _by_name(aspect: str, scores: Scores) -> Column | None:
    alike = _alike(aspect, scores)
    if not alike and folded(aspect) == OVERALL:
        alike = [column for column in scores.columns.values() if column.kind is Kind.OVERALL and column.name == "score"]
    if len(alike) > 1:
        names = _listed(column.name for column in alike)
        raise UsageError(f"The aspect {aspect!r} could be any of {names}; say which with --map {aspect}=CRITERION.")
    return alike[0] if alike else None


def _named(name: str, scores: Scores) -> Column:
    alike = _alike(name, scores)
    if len(alike) != 1:
        raise UsageError(f"{scores.name} has no criterion {name!r}; there are {_listed(scores.columns)}.")
    return alike[0]


def _alike(name: str, scores: Scores) -> list[Column]:
    if name in scores.columns:
        return [scores.columns[name]]
    return [column for key, column in scores.columns.items() if folded(key) == folded(name)]


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    rest = len(every) - LISTED
    return ", ".join(every[:LISTED]) + (f" and {rest} more" if rest > 0 else "") if every else "none"
