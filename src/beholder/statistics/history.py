"""History of a suite (`beholder history`): the mean of each run, paired changes between runs, and the trend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import (
    CONFIDENCE_LEVEL,
    ClusterBootstrap,
    Interval,
    estimate_means,
    sum_by_group,
    t_quantile,
    undefined_estimate,
)
from beholder.statistics.data import COMPARABLE_KINDS, SOURCE_GROUP, ColumnKind, Floats, Scores
from beholder.statistics.pairs import ComparedRun, pair_cases
from beholder.statistics.significance import TARGET_POWER, estimate_differences

MIN_TREND_RUNS = 3  # two runs have a difference; a trend begins with three
SLOW_QUANTILE = 0.95


class HistoryPoint(msgspec.Struct, frozen=True):
    """One run in a history.

    Attributes:
        run: Name of the run.
        mean: Mean over its own cases.
        cases: Cases with a number.
        without: Cases without one.
        change: Paired difference to the previous run; None for the first.
        p: P-value of the change.
        common: Cases that both runs have.
    """

    run: str
    mean: Interval
    cases: int
    without: int
    change: Interval | None = None
    p: float | None = None
    common: int = 0


class HistoryLine(msgspec.Struct, frozen=True):
    """One column over all runs.

    Attributes:
        name: The column.
        points: One point per run.
        slope: Mean change per run, by a straight line through each case that has a number in every run. Its interval
            covers the choice of cases, not what may have been special about a single run.
        common: Number of these cases.
        detectable: The smallest slope that is found in 80 of 100 such histories; None where not known.
    """

    name: str
    points: tuple[HistoryPoint, ...]
    slope: Interval
    common: int
    detectable: float | None = None


class RunUsage(msgspec.Struct, frozen=True):
    """What a run took, and how much of it came to nothing.

    Attributes:
        verdicts: Verdicts that were asked for.
        scored: How many of them have a score.
        unscored: The share of those without one.
        cost_usd: Mean cost of a verdict in US dollars; of answers that this run paid for.
        latency_s: Mean time of a verdict in seconds; of answers that this run asked for.
        slow_s: The time within which 95 of 100 verdicts came.
        outcomes: Verdicts without a score by outcome.
    """

    verdicts: int
    scored: int
    unscored: Interval
    cost_usd: Interval
    latency_s: Interval
    slow_s: float | None
    outcomes: Mapping[str, int]


def measure_usage(
    run: ComparedRun, *, group: str | None = None, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED
) -> RunUsage:
    """Return cost, latency and the share without a score of a run, with intervals by the groups of its cases.

    Args:
        run: The run.
        group: The group by which cases are clustered; None for `source`.
        draw_count: Number of bootstrap draws.
        seed: Seed of the draws.
    """
    calls, scores = run.calls, run.scores
    unscored, cost, latency = (
        np.array(values, np.float64) for values in (calls.unscored, calls.cost_usd, calls.latency_s)
    )
    given = scores.groups.get(group or SOURCE_GROUP)
    groups = [given[row] or scores.cases[row] if given else scores.cases[row] for row in calls.row]
    means = _estimate_run_means([unscored, cost, latency], groups, draw_count, seed)
    timed = latency[~np.isnan(latency)]
    return RunUsage(
        verdicts=int((~np.isnan(unscored)).sum()),
        scored=int((unscored == 0).sum()),
        unscored=means[0],
        cost_usd=means[1],
        latency_s=means[2],
        slow_s=float(np.quantile(timed, SLOW_QUANTILE)) if len(timed) else None,
        outcomes=dict(calls.outcomes.most_common()),
    )


def analyze_history(
    runs: Sequence[Scores],
    on: Sequence[str] = (),
    *,
    group: str | None = None,
    draw_count: int = DEFAULT_DRAWS,
    seed: int = DEFAULT_SEED,
) -> list[HistoryLine]:
    """Follow columns over several runs.

    Args:
        runs: Scores of the runs in order.
        on: Column names; every overall score by default.
        group: The group by which cases are clustered; None for `source`.
        draw_count: Number of bootstrap draws.
        seed: Seed of draws and flips.

    Returns:
        One line per column.

    Raises:
        UsageError: No run has such a column, or no case has the named group.
    """
    kinds = {name: column.kind for scores in runs for name, column in scores.columns.items()}
    names = list(on) or [name for name, kind in kinds.items() if kind is ColumnKind.OVERALL]
    unknown = [name for name in names if name not in kinds]
    if unknown or not names:
        listed = ", ".join(name for name, kind in kinds.items() if kind in COMPARABLE_KINDS)
        there = f"; there are: {listed}" if listed else ": nothing in them has a score"
        wanted = repr(unknown[0]) if unknown else "an overall score"
        raise UsageError(f"No run has {wanted} to follow{there}.")
    if group is not None and not any(group in scores.groups for scores in runs):
        listed = ", ".join(dict.fromkeys(name for scores in runs for name in scores.groups)) or "none"
        raise UsageError(f"No case is in a group {group!r}; there are: {listed}.")
    means = [
        _estimate_run_means(_column_values(scores, names), scores.groups.get(group or SOURCE_GROUP), draw_count, seed)
        for scores in runs
    ]
    changes = [_estimate_changes(before, after, names, group, draw_count, seed) for before, after in pairwise(runs)]
    slopes = _estimate_slopes(names, runs, group, draw_count, seed)
    lines = []
    for at, name in enumerate(names):
        points = []
        for run, scores in enumerate(runs):
            known = int((~np.isnan(_column_values(scores, [name])[0])).sum())
            change = changes[run - 1][at] if run else (None, None, 0)
            points.append(HistoryPoint(scores.name, means[run][at], known, len(scores) - known, *change))
        lines.append(HistoryLine(name, tuple(points), *slopes[at]))
    return lines


def _column_values(scores: Scores, names: Sequence[str]) -> list[Floats]:
    """Return the values of each column, nan where a run lacks it."""
    nothing = np.full(len(scores), np.nan)
    return [scores.columns[name].values if name in scores.columns else nothing for name in names]


def _estimate_run_means(
    columns: Sequence[Floats], groups: Sequence[str] | None, draw_count: int, seed: int
) -> list[Interval]:
    """Return the means of all columns over the same draws, since generating draws takes most of the time."""
    if not len(columns[0]):
        return [undefined_estimate("there is no case")] * len(columns)
    bootstrap = ClusterBootstrap(groups, len(columns[0]), count=draw_count, seed=seed)
    return estimate_means(bootstrap, sum_by_group(bootstrap, columns))


def _estimate_changes(
    before: Scores, after: Scores, names: Sequence[str], group: str | None, draw_count: int, seed: int
) -> list[tuple[Interval, float | None, int]]:
    if not set(before.cases) & set(after.cases):
        return [(undefined_estimate("no case is in both runs"), None, 0)] * len(names)
    pairs = pair_cases(before, after, group if group in before.groups or group in after.groups else None)
    columns = {column.name: column.difference for column in pairs.columns if column.name in names}
    bootstrap = ClusterBootstrap(pairs.groups, len(pairs.cases), count=draw_count, seed=seed)
    differences = estimate_differences(bootstrap, list(columns.values()))
    by_name: dict[str, tuple[Interval, float | None, int]] = {}
    for at, name in enumerate(columns):
        common = int(differences.cases[at])
        by_name[name] = differences.means[at], float(differences.p[at]) if common else None, common
    missing = undefined_estimate("the runs do not both have it on one scale"), None, 0
    return [by_name.get(name, missing) for name in names]


def _estimate_slopes(
    names: Sequence[str], runs: Sequence[Scores], group: str | None, draw_count: int, seed: int
) -> list[tuple[Interval, int, float | None]]:
    if len(runs) < MIN_TREND_RUNS:
        return [(undefined_estimate(f"a trend takes {MIN_TREND_RUNS} runs at least"), 0, None)] * len(names)
    rows = [{case: row for row, case in enumerate(scores.cases)} for scores in runs]
    common = [case for case in runs[0].cases if all(case in known for known in rows)]
    if not common:
        return [(undefined_estimate("no case is in every run"), 0, None)] * len(names)
    places = [[known[case] for case in common] for known in rows]
    table = np.array(
        [
            [column[case_rows] for column in _column_values(scores, names)]
            for scores, case_rows in zip(runs, places, strict=True)
        ]
    )  # runs × columns × cases
    when = np.arange(len(runs)) - (len(runs) - 1) / 2
    slopes: Floats = np.tensordot(when, table, 1) / float(when @ when)  # nan where a run has no number
    given = runs[0].groups.get(group or SOURCE_GROUP)
    groups = None if given is None else [given[row] for row in places[0]]
    bootstrap = ClusterBootstrap(groups, len(common), count=draw_count, seed=seed)
    sums = sum_by_group(bootstrap, list(slopes))
    counts = (~np.isnan(slopes)).sum(axis=1)
    return [
        (mean, int(count), _detectable_slope(float(error), int(many)))
        for mean, count, error, many in zip(
            estimate_means(bootstrap, sums), counts, sums.standard_errors(), sums.groups_with_values, strict=True
        )
    ]


def _detectable_slope(standard_error: float, groups: int) -> float | None:
    """Return the smallest slope whose interval excludes 0 in 80 of 100 cases."""
    if groups < 2 or not standard_error > 0:
        return None
    reach = (t_quantile(share, groups - 1) for share in ((1 + CONFIDENCE_LEVEL) / 2, TARGET_POWER))
    return sum(reach) * standard_error
