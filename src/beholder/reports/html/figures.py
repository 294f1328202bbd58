"""The numbers behind the charts of a report: how scores are spread, means with intervals, and both by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beholder.ledger.facets import STYLE
from beholder.reports.html.gathering import Gathered
from beholder.reports.html.texts import column_title, titles_of
from beholder.statistics.data import SOURCE, Column, Floats, Kind, Scores
from beholder.statistics.grouped import mean_estimates, sums_of
from beholder.statistics.intervals import Draws, Estimate
from beholder.statistics.reading import group_of

BINS = 10  # of a scale whose numbers are not whole
MOST_WHOLE = 11  # steps of a scale of whole numbers that get a bar each
MOST_VALUES = 24  # of a group that is split by


@dataclass(frozen=True, slots=True)
class Bin:
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How one column is spread over its scale, and its mean."""

    key: str
    title: str
    scale: tuple[float, float]
    bins: tuple[Bin, ...]
    count: int
    mean: Estimate

    @property
    def places(self) -> int:
        """Decimals that a mean is shown with."""
        return 3 if self.scale[1] - self.scale[0] <= 1 else 2


@dataclass(frozen=True, slots=True)
class SplitRow:
    """The cases with one value of a group: how many, how many of them have a score, and means by column."""

    value: str
    cases: int
    scored: int
    means: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Split:
    """A run by the values of one group, best first by `by` (a column) where that is defined."""

    group: str
    columns: tuple[Spread, ...]
    rows: tuple[SplitRow, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """`overall` are the rubrics' scores (0–1), `criteria` on their own scales. `told` says how intervals were drawn;
    `unsplit` which groups have too many values to split by."""

    overall: tuple[Spread, ...]
    criteria: tuple[Spread, ...]
    passed: Mapping[str, Estimate]
    splits: tuple[Split, ...]
    told: str
    unsplit: tuple[str, ...] = ()


def figures(gathered: Gathered, group: str | None = None) -> Figures:
    """`group` names what belongs together when intervals are drawn; else `source`, if the cases have it. Raises
    `UsageError` for a group that no case has."""
    scores = gathered.scores
    together = group_of(scores, group)
    draws = Draws(together, len(scores))
    titles = titles_of(gathered.record.rubrics)
    plain_columns = [
        one for kind in (Kind.OVERALL, Kind.CRITERION) for one in scores.columns.values() if one.kind is kind
    ]
    names, unsplit = _split_by(scores, group or SOURCE)
    wanted: dict[str, Floats] = {
        f"{one.kind}/{one.name}": one.values
        for one in scores.columns.values()
        if one.kind in (Kind.OVERALL, Kind.CRITERION, Kind.PASSED)
    }
    for name in names:
        members = np.asarray(scores.groups[name])
        for value in _values(scores, name):
            for one in plain_columns:
                wanted[_cell(name, value, one)] = np.where(members == value, one.values, np.nan)
    means = means_of(draws, wanted)
    spreads = {one.name: _spread(one, means[f"{one.kind}/{one.name}"], titles) for one in plain_columns}
    overall = tuple(spreads[one.name] for one in plain_columns if one.kind is Kind.OVERALL)
    criteria = tuple(spreads[one.name] for one in plain_columns if one.kind is Kind.CRITERION)
    return Figures(
        overall,
        criteria,
        {one.name: means[f"passed/{one.name}"] for one in scores.columns.values() if one.kind is Kind.PASSED},
        tuple(_split(scores, name, plain_columns, spreads, means) for name in names) if plain_columns else (),
        draws.told() if scores.cases else "",
        unsplit,
    )


def means_of(draws: Draws, columns: Mapping[str, Floats]) -> dict[str, Estimate]:
    """The mean of each column with its interval, nan left out, all over the same draws."""
    if not columns or not draws.size:
        return {}
    return dict(zip(columns, mean_estimates(draws, sums_of(draws, list(columns.values()))), strict=True))


def _spread(column: Column, mean: Estimate, titles: Mapping[str, str]) -> Spread:
    values = column.values[~np.isnan(column.values)]
    low, high = column.scale or ((float(values.min()), float(values.max())) if len(values) else (0.0, 1.0))
    title = column_title(column.name, titles)
    return Spread(column.name, title, (low, high), _bins(values, low, high), len(values), mean)


def _bins(values: Floats, low: float, high: float) -> tuple[Bin, ...]:
    steps = high - low
    if steps == int(steps) and 1 < steps < MOST_WHOLE and not (values % 1).any():
        found = np.bincount((values - low).astype(np.int64), minlength=int(steps) + 1)
        return tuple(Bin(f"{low + at:g}", int(count)) for at, count in enumerate(found))
    width = (high - low) / BINS or 1.0
    places = np.clip(((values - low) / width + 1e-9).astype(np.int64), 0, BINS - 1)
    found = np.bincount(places, minlength=BINS)
    return tuple(
        Bin(f"{low + at * width:.3g} to {low + (at + 1) * width:.3g}", int(count)) for at, count in enumerate(found)
    )


def _split_by(scores: Scores, together: str) -> tuple[list[str], tuple[str, ...]]:
    """The groups to split by (style and model first), and those with too many values."""
    names = [name for name in scores.groups if name != together]
    names.sort(key=lambda name: {STYLE: 0, "model": 1}.get(name, 2))
    sizes = {name: len(_values(scores, name)) for name in names}
    few = min(MOST_VALUES, max(2, len(scores) // 2))  # or nearly every case would be a row of its own
    most = {name: MOST_VALUES if name in (STYLE, "model") else few for name in names}
    fitting = [name for name in names if 2 <= sizes[name] <= most[name]]
    return fitting, tuple(name for name in names if sizes[name] > most[name])


def _values(scores: Scores, name: str) -> list[str]:
    return [value for value in dict.fromkeys(scores.groups[name]) if value]


def _cell(name: str, value: str, column: Column) -> str:
    return f"{name}\0{value}\0{column.name}"


def _split(
    scores: Scores,
    name: str,
    columns: Sequence[Column],
    spreads: Mapping[str, Spread],
    means: Mapping[str, Estimate],
) -> Split:
    members = np.asarray(scores.groups[name])
    overall = [one for one in columns if one.kind is Kind.OVERALL] or list(columns[:1])
    rows = []
    for value in _values(scores, name):
        here = members == value
        scored = sum(
            1 for one in zip(*(column.values[here] for column in overall), strict=True) if not np.isnan(one).all()
        )
        found = {one.name: means[_cell(name, value, one)] for one in columns}
        rows.append(SplitRow(value, int(here.sum()), scored, found))
    by = overall[0].name

    def best_first(row: SplitRow) -> tuple[bool, float, str]:
        mean = row.means[by].value
        return mean is None, -(mean or 0.0), row.value

    return Split(name, tuple(spreads[one.name] for one in columns), tuple(sorted(rows, key=best_first)))
