"""Which scale each aspect was judged and rated on, where nobody said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """
    said = _ranges({aspect: ratings[aspect].values for aspect in columns})
    seen = _ranges({aspect: column.values for aspect, column in columns.items() if column.scale is None})
    return {
        aspect: scales_of(
            column,
            said[aspect] or (0.0, 0.0),
            judged.get(aspect, judged.get("")),
            rated.get(aspect, rated.get("")),
            seen.get(aspect),
        )
        for aspect, column in columns.items()
    }


def scales_given(texts: Sequence[str]) -> dict[str, Scale]:
    """Scales as they are written on the command line: `0..10` for all aspects, `SC=0..10` for one."""
    split = (text.rpartition("=") for text in texts)
    return {aspect.strip(): range_given(ends) for aspect, _, ends in split}


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
