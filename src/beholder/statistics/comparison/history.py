"""Many runs of one suite, in order: where each stands, what changed from one to the next, and where it is going."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.comparison.differing import differences_of
from beholder.statistics.comparison.pairing import shared_cases
from beholder.statistics.data import SOURCE, Floats, Kind, Scores
from beholder.statistics.grouped import mean_estimates, sums_of
from beholder.statistics.intervals import DRAWS, SEED, Draws, Estimate, undefined

LEAST_RUNS = 3  # two runs have a difference; a trend begins with three


@dataclass(frozen=True, slots=True)
class Point:
    """One run: the mean over its own cases, how many those are, and how many have no number. `change` is the paired
    difference to the run before over the `common` cases, `p` its sign-flip test; None for the first."""

    run: str
    mean: Estimate
    cases: int
    without: int
    change: Estimate | None = None
    p: float | None = None
    common: int = 0

    def to_dict(self) -> dict[str, object]:
        return {
            "run": self.run,
            "mean": self.mean.to_dict(),
            "cases": self.cases,
            "without": self.without,
            "change": None if self.change is None else self.change.to_dict(),
            "p": self.p,
            "common": self.common,
        }


@dataclass(frozen=True, slots=True)
class Line:
    """One column over all runs. `slope` is the mean change a run, by a straight line through each of the `common` cases
    that have a number in every run; its interval tells of the cases, not of what a single run may have met."""

    name: str
    points: tuple[Point, ...]
    slope: Estimate
    common: int

    def to_dict(self) -> dict[str, object]:
        points = [one.to_dict() for one in self.points]
        return {"name": self.name, "points": points, "slope": self.slope.to_dict(), "common": self.common}


def history(
    runs: Sequence[Scores],
    on: Sequence[str] = (),
    *,
    group: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Line]:
    """A line for each column that `on` names, else for every overall score; the runs in order. Raises `UsageError`
    where no run has such a column, or no case is in the named group."""
    there = {name: one.kind for scores in runs for name, one in scores.columns.items()}
    names = list(on) or [name for name, kind in there.items() if kind is Kind.OVERALL]
    unknown = [name for name in names if name not in there]
    if unknown or not names:
        listed = ", ".join(there) or "none"
        raise UsageError(f"No run has {unknown[0] if unknown else 'an overall score'!r}; there are: {listed}.")
    if group is not None and not any(group in scores.groups for scores in runs):
        listed = ", ".join(dict.fromkeys(name for scores in runs for name in scores.groups)) or "none"
        raise UsageError(f"No case is in a group {group!r}; there are: {listed}.")
    return [_line(name, runs, group, draws, seed) for name in names]


def _line(name: str, runs: Sequence[Scores], group: str | None, draws: int, seed: int) -> Line:
    points = []
    for at, scores in enumerate(runs):
        values = _values(scores, name)
        mean = _mean(values, scores.groups.get(group or SOURCE), draws, seed)
        count = int((~np.isnan(values)).sum())
        change, p, common = _change(runs[at - 1], scores, name, group, draws, seed) if at else (None, None, 0)
        points.append(Point(scores.name, mean, count, len(scores) - count, change, p, common))
    slope, common = _slope(name, runs, group, draws, seed)
    return Line(name, tuple(points), slope, common)


def _values(scores: Scores, name: str) -> Floats:
    column = scores.columns.get(name)
    return np.full(len(scores), np.nan) if column is None else column.values


def _mean(values: Floats, groups: Sequence[str] | None, count: int, seed: int) -> Estimate:
    if not len(values):
        return undefined("there is no case")
    draws = Draws(groups, len(values), count=count, seed=seed)
    return mean_estimates(draws, sums_of(draws, [values]))[0]


def _change(
    before: Scores, after: Scores, name: str, group: str | None, count: int, seed: int
) -> tuple[Estimate, float | None, int]:
    if not set(before.cases) & set(after.cases):
        return undefined("no case is in both runs"), None, 0
    pairs = shared_cases(before, after, group if _has(before, after, group) else None)
    column = next((one for one in pairs.columns if one.name == name), None)
    if column is None:
        return undefined("the runs do not both have it on one scale"), None, 0
    draws = Draws(pairs.groups, len(pairs.cases), count=count, seed=seed)
    found = differences_of(draws, [column.difference])
    common = int(found.cases[0])
    return found.means[0], float(found.p[0]) if common else None, common


def _has(before: Scores, after: Scores, group: str | None) -> bool:
    return group in before.groups or group in after.groups


def _slope(name: str, runs: Sequence[Scores], group: str | None, count: int, seed: int) -> tuple[Estimate, int]:
    if len(runs) < LEAST_RUNS:
        return undefined(f"a trend takes {LEAST_RUNS} runs at least"), 0
    rows = [{case: row for row, case in enumerate(scores.cases)} for scores in runs]
    common = [case for case in runs[0].cases if all(case in known for known in rows)]
    if not common:
        return undefined("no case is in every run"), 0
    table = np.array(
        [_values(scores, name)[[known[case] for case in common]] for scores, known in zip(runs, rows, strict=True)]
    )
    when = np.arange(len(runs)) - (len(runs) - 1) / 2
    slopes: Floats = when @ table / float(when @ when)  # nan where a run has no number
    given = runs[0].groups.get(group or SOURCE)
    groups = None if given is None else [given[rows[0][case]] for case in common]
    return _mean(slopes, groups, count, seed), int((~np.isnan(slopes)).sum())
