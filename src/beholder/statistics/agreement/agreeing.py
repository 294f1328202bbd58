"""A judge against people, criterion by criterion: coefficients with intervals, how far people agree among themselves,
and what a constant and other metrics do on the same cases.

Conventions. Rank coefficients, Pearson, mean absolute error and bias compare the judge with the mean rating of a case
(`Against.MEAN`), or with each single rating as a point of its own (`Against.EACH`). Kappa and exact agreement are
always with single ratings, since a mean is on no scale; where people say yes or no, Cohen's kappa, exact agreement,
precision and recall of failures are with their majority, a tie counting as a failure, or with each rating. A kappa with
a side that always says the same is not defined: it would be 0 whatever the other says. A judge on another scale is
first mapped linearly onto the people's. What people do among themselves is told of the same cases.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.agreement.coefficients import MOST_LEVELS, decisions, hits, paired, together
from beholder.statistics.agreement.drawing import (
    DECISIONS,
    JUDGE,
    PEOPLE,
    Against,
    always_one_number,
    judge_and_people,
    other_metric,
    people_themselves,
    reference,
    yes_or_no,
)
from beholder.statistics.agreement.raters import Rater, each_rater
from beholder.statistics.agreement.weighing import Drawn, Weighed, Weights
from beholder.statistics.agreement.words import classes_told, explained, notes, nothing_shared
from beholder.statistics.data import Bools, Column, Floats, Ints, Kind, Ratings, Scores
from beholder.statistics.intervals import DRAWS, SEED, Draws, Estimate, undefined
from beholder.statistics.mapping import Scale, matched, on_scale
from beholder.statistics.reading import group_of
from beholder.statistics.scales import maps, scales_by_aspect, told_scales

OVERALL = ("mae", "constant", "difference")


@dataclass(frozen=True, slots=True)
class Asked:
    """How to compare. `mapped` are pairs `ASPECT=CRITERION`; `scales` and `rating_scales` go by aspect, `""` for all;
    `group` is what belongs together; `beside` are other metrics, as the scores of judges: one whose single column has
    no rated aspect's name stands beside every aspect."""

    mapped: Sequence[str] = ()
    against: Against = Against.MEAN
    scales: Mapping[str, Scale] = field(default_factory=dict)
    rating_scales: Mapping[str, Scale] = field(default_factory=dict)
    group: str | None = None
    beside: Sequence[Scores] = ()
    draws: int = DRAWS
    seed: int = SEED


@dataclass(frozen=True, slots=True)
class Constant:
    """Always saying one number. `value` is the best one, the median of what people say. Its error `mae` is a fair one:
    each case is told the median of the other groups. `difference` is the judge's error less this one."""

    value: float
    mae: Estimate
    difference: Estimate

    def to_dict(self) -> dict[str, object]:
        return {"value": self.value, "mae": self.mae.to_dict(), "difference": self.difference.to_dict()}


@dataclass(frozen=True, slots=True)
class Beside:
    """Another metric on the cases that it has: its rank correlation, and the judge's less the metric's strength (its
    sign does not count, since in many metrics less is better)."""

    name: str
    cases: int
    spearman: Estimate
    difference: Estimate

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "cases": self.cases}
        return found | {"spearman": self.spearman.to_dict(), "difference": self.difference.to_dict()}


@dataclass(frozen=True, slots=True)
class Criterion:
    """One aspect: how the judge's `criterion` and people agree on it. `judged_on` and `rated_on` are the scales; all
    numbers are on the people's. `people` is empty where the reference is another judge."""

    aspect: str
    criterion: str
    kind: Kind
    cases: int
    ratings: int
    raters: int
    judged_on: Scale
    rated_on: Scale
    coefficients: Mapping[str, Estimate]
    people: Mapping[str, Estimate]
    constant: Constant
    beside: tuple[Beside, ...] = ()
    each_rater: tuple[Rater, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether both sides say yes or no."""
        return "kappa" in self.coefficients

    def to_dict(self) -> dict[str, object]:
        return {
            "aspect": self.aspect,
            "criterion": self.criterion,
            "kind": str(self.kind),
            "cases": self.cases,
            "ratings": self.ratings,
            "raters": self.raters,
            "judged_on": list(self.judged_on),
            "rated_on": list(self.rated_on),
            "coefficients": {name: one.to_dict() for name, one in self.coefficients.items()},
            "people": {name: one.to_dict() for name, one in self.people.items()},
            "constant": self.constant.to_dict(),
            "baselines": [one.to_dict() for one in self.beside],
            "each_rater": [one.to_dict() for one in self.each_rater],
        }


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge against people, or against another judge as the `reference`. `overall` is the mean over criteria of the
    judge's error (`mae`), the constant's (`constant`) and their `difference`, where all are rated on one scale."""

    judge: str
    reference: str
    against: Against
    cases: int
    criteria: tuple[Criterion, ...]
    overall: Mapping[str, Estimate]
    notes: tuple[str, ...]
    intervals: str

    def to_dict(self) -> dict[str, object]:
        return {
            "judge": self.judge,
            "reference": self.reference,
            "against": str(self.against),
            "cases": self.cases,
            "criteria": [one.to_dict() for one in self.criteria],
            "overall": {name: one.to_dict() for name, one in self.overall.items()},
            "notes": list(self.notes),
            "intervals": self.intervals,
        }


def agree(
    scores: Scores, ratings: Mapping[str, Ratings], asked: Asked | None = None, other_judge: str = ""
) -> Agreement:
    """Compares a judge with people; or with the judge called `other_judge`, whose scores are then given as the ratings
    of one rater (`ratings_of`).

    Raises `UsageError` where names do not match (`mapping.matched`), and where no case has both.
    """
    asked = asked or Asked()
    columns = matched(ratings, scores, asked.mapped)
    aligned = {aspect: ratings[aspect].at(scores.cases) for aspect in columns}
    rows = np.flatnonzero(np.any([_both(columns[aspect], aligned[aspect]) for aspect in columns], axis=0))
    if not len(rows):
        raise UsageError(nothing_shared(scores, ratings, columns))
    names = group_of(scores, asked.group)
    grouped = None if names is None else [names[row] for row in rows]
    draws = Draws(grouped, len(rows), count=asked.draws, seed=asked.seed)
    scales = scales_by_aspect(columns, ratings, asked.scales, asked.rating_scales)
    aspects = [
        _Aspect(
            aspect,
            _on_one_scale(column, aligned[aspect], scales[aspect], rows),
            _judged(column, aligned[aspect], rows),
            *scales[aspect],
            _metrics(asked.beside, aspect, ratings, [scores.cases[row] for row in rows]),
        )
        for aspect, column in columns.items()
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # NumPy lets other threads run while it computes
        made = pool.map(lambda one: _statistics(one, asked.against, draws.group, people=not other_judge), aspects)
        statistics = {one.aspect: own for one, own in zip(aspects, made, strict=True)}
        found = _drawn(draws, lambda weights: _all(statistics, _averaged(aspects), weights, pool))
    criteria = tuple(
        _criterion(one, _under(one.aspect, found), asked.against, other_judge=bool(other_judge)) for one in aspects
    )
    return Agreement(
        judge=scores.name,
        reference=other_judge or "people",
        against=asked.against,
        cases=len(rows),
        criteria=criteria,
        overall=_under("", found),
        notes=(
            *notes(scores, ratings, columns, asked.mapped, other_judge=bool(other_judge)),
            *told_scales(columns, ratings, asked.scales, asked.rating_scales, other_judge=bool(other_judge)),
            *classes_told([one.aspect for one in aspects if _drawn_in_classes(one, asked.against)]),
        ),
        intervals=draws.told(),
    )


def ratings_of(scores: Scores) -> dict[str, Ratings]:
    """Another judge's scores in the place of people's: one rater for each criterion, overall, pass and assertion."""
    kinds = (Kind.CRITERION, Kind.OVERALL, Kind.PASSED, Kind.ASSERTION)
    return {
        name: Ratings(name, scores.cases, (scores.name,), column.values[:, None])
        for name, column in scores.columns.items()
        if column.kind in kinds
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Aspect:
    """One aspect made ready: the judge's numbers on the people's scale, both sides nan where the other has none."""

    aspect: str
    column: Column
    ratings: Ratings
    judged_on: Scale
    rated_on: Scale
    metrics: Mapping[str, Floats]


def _drawn_in_classes(one: _Aspect, against: Against) -> bool:
    sides = one.column.values, reference(one.ratings.values, against)
    return any(len(np.unique(side[~np.isnan(side)])) > MOST_LEVELS for side in sides)


def _both(column: Column, ratings: Ratings) -> Bools:
    found: Bools = ~np.isnan(column.values) & ~np.isnan(ratings.values).all(axis=1)
    return found


def _on_one_scale(column: Column, ratings: Ratings, scales: tuple[Scale, Scale], rows: Ints) -> Column:
    judged_on, rated_on = scales
    values = np.where(_both(column, ratings), column.values, np.nan)[rows]
    own = replace(column, values=values, scale=judged_on)
    return on_scale(own, rated_on) if maps(judged_on, rated_on) else own


def _judged(column: Column, ratings: Ratings, rows: Ints) -> Ratings:
    values = np.where(_both(column, ratings)[:, None], ratings.values, np.nan)[rows]
    return Ratings(ratings.aspect, tuple(ratings.cases[row] for row in rows), ratings.raters, values)


def _metrics(
    beside: Sequence[Scores], aspect: str, ratings: Mapping[str, Ratings], cases: Sequence[str]
) -> dict[str, Floats]:
    found = {}
    for one in beside:
        column = _metric(one, aspect, ratings)
        if column is not None:
            place = {case: row for row, case in enumerate(one.cases)}
            found[one.name] = np.append(column.values, np.nan)[[place.get(case, -1) for case in cases]]
    return found


def _metric(scores: Scores, aspect: str, every: Mapping[str, Ratings]) -> Column | None:
    """The metric's column for an aspect: by name, or its only one where that has no aspect's name."""
    if aspect in scores.columns:
        return scores.columns[aspect]
    alone = list(scores.columns.values())
    return alone[0] if len(alone) == 1 and alone[0].name not in every else None


def _statistics(one: _Aspect, against: Against, group: Ints, *, people: bool) -> Weighed:
    x, values = one.column.values, one.ratings.values
    parts: list[Weighed] = [
        judge_and_people(x, values, against, one.rated_on[0], people=people),
        always_one_number(x, values, against, group),
    ]
    if yes_or_no(x) and yes_or_no(values):
        majority = paired(x, _majority(values, against))
        parts.append(together([decisions(majority), hits(majority, 0.0, 1.0)]))
    if people:
        parts.append(people_themselves(values, against))
    metrics = {name: other_metric(x, metric, values, against) for name, metric in one.metrics.items()}

    def statistics(weights: Drawn) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for part in parts:
            found |= part(weights)
        if people:
            found["rater_difference"] = found["judge_as_rater"] - found["rater_spearman"]
        for name, metric in metrics.items():
            found |= {_joined(name, key): value for key, value in metric(weights).items()}
        return found

    return statistics


def _drawn(draws: Draws, statistics: Weighed) -> dict[str, Estimate]:
    """Estimates from weights of groups, which are fewer than those of cases."""
    if draws.groups < 2:
        return draws.estimates(statistics)
    groups = Draws(None, draws.groups, count=draws.count, seed=draws.seed, method=draws.method)
    return groups.estimates(lambda weights: statistics(Weights(weights, draws.group)))


def _all(
    statistics: Mapping[str, Weighed], averaged: Sequence[str], weights: Drawn, pool: Executor
) -> dict[str, Floats]:
    found = dict(zip(statistics, pool.map(lambda one: one(weights), statistics.values()), strict=True))
    flat = {_joined(aspect, name): value for aspect, own in found.items() for name, value in own.items()}
    if averaged:
        flat |= {_joined("", name): np.mean([found[aspect][name] for aspect in averaged], axis=0) for name in OVERALL}
    return flat


def _averaged(aspects: Sequence[_Aspect]) -> list[str]:
    """The criteria whose errors may be averaged: two or more, on one scale."""
    criteria = [one for one in aspects if one.column.kind is Kind.CRITERION]
    alike = len({one.rated_on for one in criteria}) == 1
    return [one.aspect for one in criteria] if alike and len(criteria) > 1 else []


def _criterion(one: _Aspect, found: Mapping[str, Estimate], against: Against, *, other_judge: bool) -> Criterion:
    there = ~np.isnan(one.ratings.values)
    constant = dict.fromkeys(_of_a_constant(one, against), undefined(""))
    known = {
        name: explained(name, constant.get(name, estimate), one.column, one.ratings, other_judge=other_judge)
        for name, estimate in found.items()
    }
    whose = "the other judge's scores" if other_judge else "people's ratings"
    no_steps = undefined(f"{whose} lie on no equal steps")
    median = np.nanmedian(reference(one.ratings.values, against)) if there.any() else np.nan
    return Criterion(
        aspect=one.aspect,
        criterion=one.column.name,
        kind=one.column.kind,
        cases=int(there.any(axis=1).sum()),
        ratings=int(there.sum()),
        raters=int(there.any(axis=0).sum()),
        judged_on=one.judged_on,
        rated_on=one.rated_on,
        coefficients={name: known.get(name, no_steps) for name in JUDGE}
        | {name: known[name] for name in DECISIONS if name in known},
        people={name: known[name] for name in PEOPLE if name in known},
        constant=Constant(float(median), known["constant"], known["difference"]),
        beside=tuple(
            Beside(
                name,
                int((~np.isnan(metric) & there.any(axis=1)).sum()),
                found[_joined(name, "spearman")],
                found[_joined(name, "difference")],
            )
            for name, metric in one.metrics.items()
        ),
        each_rater=each_rater(one.ratings) if any(name in known for name in PEOPLE) else (),
    )


def _of_a_constant(one: _Aspect, against: Against) -> list[str]:
    """The kappas that have a side which always says the same."""
    x, values = one.column.values, one.ratings.values
    sides = {"quadratic_kappa": values, "kappa": _majority(values, against)}
    return [name for name, y in sides.items() if any(len(np.unique(side[~np.isnan(side)])) < 2 for side in (x, y))]


def _majority(values: Floats, against: Against) -> Floats:
    """1 where most say yes, 0 where half or more say no; or each rating for itself."""
    known = reference(values, against)
    return np.where(np.isnan(known), np.nan, (known > 0.5).astype(np.float64))


def _joined(first: str, second: str) -> str:
    return f"{first}\0{second}"


def _under(aspect: str, found: Mapping[str, Estimate]) -> dict[str, Estimate]:
    start = _joined(aspect, "")
    return {name.removeprefix(start): one for name, one in found.items() if name.startswith(start)}
