"""Which scale each aspect was judged and rated on, where nobody said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.data import Column, Floats, Ratings
from beholder.statistics.mapping import Scale, range_given, range_of, scales_of


def scales_by_aspect(
    columns: Mapping[str, Column],
    ratings: Mapping[str, Ratings],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
) -> dict[str, tuple[Scale, Scale]]:
    """The scale of the judge's numbers and of the people's, as `mapping.scales_of` finds them. `judged` and `rated` are
    those that were given, under `""` for all aspects.

    Where only the numbers tell, their range is that of all aspects together, unless an aspect spans less than half of
    it: people who were asked twelve questions seldom had twelve scales.

    Raises `UsageError` where a number is off the scale that was given for it.
    """
    for aspect, column in columns.items():
        _must_lie_on(_for(aspect, judged), column.values, f"the judge gives {aspect!r}", f"--scale {aspect}=")
        _must_lie_on(_for(aspect, rated), ratings[aspect].values, f"{aspect!r} is rated", f"--rating-scale {aspect}=")
    said = _ranges({aspect: ratings[aspect].values for aspect in columns})
    seen = _ranges({aspect: column.values for aspect, column in columns.items() if column.scale is None})
    return {
        aspect: scales_of(
            column,
            said[aspect] or (0.0, 0.0),
            _for(aspect, judged),
            _for(aspect, rated),
            seen.get(aspect),
        )
        for aspect, column in columns.items()
    }


def told_scales(
    columns: Mapping[str, Column],
    ratings: Mapping[str, Ratings],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
    *,
    other_judge: bool = False,
) -> Iterator[str]:
    """What `scales_by_aspect` found and nobody said, in sentences: scales that are mapped onto others, numbers that
    were taken to be on one scale, and scales that cannot be known."""
    whose = "the other judge's" if other_judge else "the ratings'"
    said = _ranges({aspect: ratings[aspect].values for aspect in columns})
    seen = _ranges({aspect: column.values for aspect, column in columns.items() if column.scale is None})
    told: dict[str, list[str]] = {}
    for aspect, (judged_on, rated_on) in scales_by_aspect(columns, ratings, judged, rated).items():
        own = _for(aspect, judged) or columns[aspect].scale
        judge, people = seen.get(aspect) or judged_on, said[aspect] or rated_on
        sentence = ""
        if judged_on != rated_on and maps(judged_on, rated_on):
            sentence = f"Scores on {ends(judged_on)} were mapped linearly onto {whose} {ends(rated_on)}"
        elif judged_on != rated_on:
            sentence = (
                f"One number is no scale, so that scores on {ends(judged_on)} and {whose} {ends(rated_on)} were "
                "compared as they are"
            )
        elif _for(aspect, rated) is None and own is not None and people != own:
            sentence = f"{whose[:1].upper()}{whose[1:]} {ends(people)} were taken to be on the judge's {ends(own)}"
        elif _for(aspect, rated) is None and own is None and judge != people:
            sentence = f"The judge's {ends(judge)} and {whose} {ends(people)} were taken to be on one scale"
        if sentence:
            told.setdefault(sentence, []).append(aspect)
    for sentence, aspects in told.items():
        yield f"{sentence}: {', '.join(aspects)} (--scale and --rating-scale change it)."


def guessed_scales(
    columns: Mapping[str, Column],
    found: Mapping[str, tuple[Scale, Scale]],
    judged: Mapping[str, Scale],
    rated: Mapping[str, Scale],
) -> set[str]:
    """The aspects of which only the ratings themselves tell the people's scale, in what `scales_by_aspect` found: they
    may not have used all of it."""
    return {
        aspect
        for aspect, column in columns.items()
        if _for(aspect, rated) is None and found[aspect][1] != (_for(aspect, judged) or column.scale)
    }


def maps(judged_on: Scale, rated_on: Scale) -> bool:
    """Whether the one scale can be mapped onto the other: a side that always says the same has none."""
    return judged_on[0] < judged_on[1] and rated_on[0] < rated_on[1]


def ends(scale: Scale) -> str:
    """`1 to 7`; a single number for itself."""
    return f"{scale[0]:g} to {scale[1]:g}" if scale[0] < scale[1] else f"{scale[0]:g}"


def scales_given(texts: Sequence[str]) -> dict[str, Scale]:
    """Scales as they are written on the command line: `0..10` for all aspects, `SC=0..10` for one."""
    split = (text.rpartition("=") for text in texts)
    return {aspect.strip(): range_given(ends) for aspect, _, ends in split}


def _for(aspect: str, given: Mapping[str, Scale]) -> Scale | None:
    return given.get(aspect, given.get(""))


def _must_lie_on(scale: Scale | None, values: Floats, said: str, option: str) -> None:
    if scale is None:
        return
    hair = 1e-9 * (scale[1] - scale[0])  # of rounding, in a mean of thirds
    off = values[(values < scale[0] - hair) | (values > scale[1] + hair)]  # nan is neither
    if len(off):
        low, high = (float(one) for one in (np.nanmin(values), np.nanmax(values)))
        wide = f"{min(low, scale[0]):g}..{max(high, scale[1]):g}"
        raise UsageError(
            f"The scale {scale[0]:g}..{scale[1]:g} was given, and {said} {off[0]:g}, which is not on it; "
            f"all numbers are on {option}{wide}."
        )


def _ranges(values: Mapping[str, Floats]) -> dict[str, Scale | None]:
    own = {aspect: range_of(one) for aspect, one in values.items()}
    known = [one for one in own.values() if one is not None]
    if not known:
        return own
    every = min(low for low, _ in known), max(high for _, high in known)
    return {
        aspect: every if one is not None and 2 * (one[1] - one[0]) >= every[1] - every[0] else one
        for aspect, one in own.items()
    }
