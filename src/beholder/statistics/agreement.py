"""Agreement of a judge with people (`beholder agree`): coefficients with intervals, explained in sentences.

For each criterion there is how the judge ranks and how far off it is, how far people agree among themselves, and how a
constant and other metrics do on the same cases.

Conventions: Rank coefficients, Pearson, mean absolute error and bias compare the judge with the mean rating of a case
(`ReferenceMode.MEAN`), or with each single rating (`ReferenceMode.EACH`). Quadratic kappa and exact agreement are
always with single ratings, since a mean need not be a step of the scale. Where people say yes or no, Cohen's kappa,
exact agreement, precision and recall of failures are with the majority, a tie counting as a failure, or with each
rating. A kappa with a constant side is reported as not defined, since it would be 0 whatever the other side says. A
judge on another scale is first mapped linearly onto the people's. Agreement among people is computed on the same cases.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from msgspec import structs

from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.aspects import (
    Scale,
    can_rescale,
    describe_scales,
    infer_scales_by_aspect,
    match_aspects,
    rescale,
)
from beholder.statistics.bootstrap import ClusterBootstrap, Interval, to_json_values, undefined_estimate
from beholder.statistics.claims import (
    AnswerVariety,
    compute_rank_p_values,
    correct_claims,
    count_answers,
    p_of_interval,
)
from beholder.statistics.coefficients import (
    MAX_LEVELS,
    BootstrapWeights,
    WeightedStatistics,
    WeightsLike,
    combine_sums,
    decision_statistics,
    exact_agreement_statistics,
    pair_scores,
)
from beholder.statistics.data import Bools, Column, ColumnKind, Floats, Ints, Ratings, Scores, select_group
from beholder.statistics.raters import (
    DECISION_COEFFICIENTS,
    JUDGE_COEFFICIENTS,
    PEOPLE_COEFFICIENTS,
    RaterSummary,
    ReferenceMode,
    constant_statistics,
    is_binary,
    judge_statistics,
    metric_statistics,
    people_statistics,
    reference_ratings,
    summarize_raters,
)
from beholder.statistics.sentences import describe_data, describe_rank_bins, explain_no_shared_cases, explain_undefined

AVERAGED_STATISTICS = ("mae", "constant", "difference")


@dataclass(frozen=True, slots=True)
class AgreementOptions:
    """Options of `agree`.

    Attributes:
        pairs: Pairs `ASPECT=CRITERION` (`--map`).
        against: Whether to compare with mean ratings or with single ones.
        scales: The judge's scale by aspect, `""` for all.
        rating_scales: The people's scale by aspect, `""` for all.
        group: The group by which cases are clustered; None for `source`.
        baselines: Other metrics, in the form of a judge's scores. One whose only column has no rated aspect's name is
            compared on every aspect.
        draw_count: Number of bootstrap draws.
        seed: Seed of the draws.
    """

    pairs: Sequence[str] = ()
    against: ReferenceMode = ReferenceMode.MEAN
    scales: Mapping[str, Scale] = field(default_factory=dict)
    rating_scales: Mapping[str, Scale] = field(default_factory=dict)
    group: str | None = None
    baselines: Sequence[Scores] = ()
    draw_count: int = DEFAULT_DRAWS
    seed: int = DEFAULT_SEED


class ConstantBaseline(msgspec.Struct, frozen=True):
    """A constant prediction.

    Attributes:
        value: The best constant: the median of the ratings.
        mae: Its mean absolute error, where each case is predicted by the median of the other groups.
        difference: The judge's error minus `mae`.
    """

    value: float
    mae: Interval
    difference: Interval


class MetricBaseline(msgspec.Struct, frozen=True):
    """Another metric on the cases it covers.

    Attributes:
        name: Name of the metric.
        cases: Number of cases.
        spearman: Its rank correlation with people.
        difference: The judge's correlation minus the metric's, ignoring its sign, since in many metrics less is better.
    """

    name: str
    cases: int
    spearman: Interval
    difference: Interval


class CriterionAgreement(msgspec.Struct, frozen=True):
    """Agreement on one aspect; all numbers are on the people's scale.

    Attributes:
        aspect: What people rated.
        criterion: The judge's column for it.
        kind: Kind of that column.
        cases: Cases with both a score and a rating.
        ratings: Ratings of these cases.
        raters: Raters of these cases.
        judged_on: The judge's scale.
        rated_on: The people's scale.
        coefficients: Judge against people, by name.
        people: People among themselves, by name; empty where the reference is another judge.
        constant: The constant prediction.
        baselines: Other metrics.
        each_rater: A summary of each rater.
        rated_by_several: Cases that two people or more rated: on these a judge is compared with one person.
        judge_answers: How often the judge gives the same score.
        reference_answers: How often what it is compared with is the same.
        p_holm: P-values of no rank correlation (`spearman`), no difference from one rater (`rater_difference`), from a
            constant (`constant`), and no bias (`bias`), corrected over all criteria; without those that are not
            defined.
    """

    aspect: str
    criterion: str
    kind: ColumnKind
    cases: int
    ratings: int
    raters: int
    judged_on: Scale
    rated_on: Scale
    coefficients: Mapping[str, Interval]
    people: Mapping[str, Interval]
    constant: ConstantBaseline
    baselines: tuple[MetricBaseline, ...] = ()
    each_rater: tuple[RaterSummary, ...] = ()
    rated_by_several: int = 0
    judge_answers: AnswerVariety = AnswerVariety(0, 0)
    reference_answers: AnswerVariety = AnswerVariety(0, 0)
    p_holm: Mapping[str, float] = msgspec.field(default_factory=dict)

    @property
    def is_decision(self) -> bool:
        """Whether both sides say yes or no."""
        return "kappa" in self.coefficients


class JudgeAgreement(msgspec.Struct, frozen=True):
    """Agreement of a judge with people, or with another judge as the `reference`.

    Attributes:
        judge: Name of the judge.
        reference: `people`, or the name of the other judge.
        against: Whether mean ratings or single ones were compared.
        cases: Cases that count.
        criteria: Results by criterion.
        overall: Means over the criteria of `mae`, `constant` and `difference`, where all are rated on one scale.
        notes: Sentences on what was inferred and left out.
        intervals: A sentence on how intervals were computed.
    """

    judge: str
    reference: str
    against: ReferenceMode
    cases: int
    criteria: tuple[CriterionAgreement, ...]
    overall: Mapping[str, Interval]
    notes: tuple[str, ...]
    intervals: str

    def to_dict(self) -> dict[str, object]:
        return to_json_values(self)


def agree(
    scores: Scores, ratings: Mapping[str, Ratings], options: AgreementOptions | None = None, other_judge: str = ""
) -> JudgeAgreement:
    """Compare a judge with people, or with another judge.

    Args:
        scores: The judge's scores.
        ratings: Ratings by aspect; another judge's scores as made by `ratings_from_scores`.
        options: How to compare.
        other_judge: Name of the other judge; empty where the reference is people.

    Raises:
        UsageError: Names do not match (`match_aspects`), or no case has both a score and a rating.
    """
    options = options or AgreementOptions()
    columns = match_aspects(ratings, scores, options.pairs)
    aligned = {aspect: ratings[aspect].for_cases(scores.cases) for aspect in columns}
    rows = np.flatnonzero(np.any([_has_both(columns[aspect], aligned[aspect]) for aspect in columns], axis=0))
    if not len(rows):
        raise UsageError(explain_no_shared_cases(scores, ratings, columns))
    names = select_group(scores, options.group)
    grouped = None if names is None else [names[row] for row in rows]
    bootstrap = ClusterBootstrap(grouped, len(rows), count=options.draw_count, seed=options.seed)
    scales = infer_scales_by_aspect(columns, ratings, options.scales, options.rating_scales)
    cases = [scores.cases[row] for row in rows]
    metrics = {aspect: _metric_values(options.baselines, aspect, ratings, cases) for aspect in columns}
    aspects = [
        _align_aspect(aspect, column, aligned[aspect], scales[aspect], rows, metrics[aspect])
        for aspect, column in columns.items()
    ]
    estimates = _estimate_aspects(aspects, bootstrap, options.against, people=not other_judge)
    criteria = [
        _build_criterion(
            aspect, _select_aspect(aspect.aspect, estimates), options.against, other_judge=bool(other_judge)
        )
        for aspect in aspects
    ]
    return JudgeAgreement(
        judge=scores.name,
        reference=other_judge or "people",
        against=options.against,
        cases=len(rows),
        criteria=tuple(_add_p_values(criteria, aspects, bootstrap, options.against)),
        overall=_select_aspect("", estimates),
        notes=(
            *describe_data(scores, ratings, columns, options.pairs, other_judge=bool(other_judge)),
            *describe_scales(columns, ratings, options.scales, options.rating_scales, other_judge=bool(other_judge)),
            *describe_rank_bins([aspect.aspect for aspect in aspects if _uses_rank_bins(aspect, options.against)]),
        ),
        intervals=bootstrap.describe(),
    )


def ratings_from_scores(scores: Scores) -> dict[str, Ratings]:
    """Return another judge's scores in the form of ratings by a single rater."""
    kinds = (ColumnKind.CRITERION, ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.ASSERTION)
    return {
        name: Ratings(name, scores.cases, (scores.name,), column.values[:, None])
        for name, column in scores.columns.items()
        if column.kind in kinds
    }


@dataclass(frozen=True, slots=True, eq=False)
class _AlignedAspect:
    """One aspect ready to compare: the judge's numbers on the people's scale, both sides nan where the other is
    missing.
    """

    aspect: str
    column: Column
    ratings: Ratings
    judged_on: Scale
    rated_on: Scale
    metrics: Mapping[str, Floats]


def _uses_rank_bins(aspect: _AlignedAspect, against: ReferenceMode) -> bool:
    sides = aspect.column.values, reference_ratings(aspect.ratings.values, against)
    return any(len(np.unique(side[~np.isnan(side)])) > MAX_LEVELS for side in sides)


def _has_both(column: Column, ratings: Ratings) -> Bools:
    both: Bools = ~np.isnan(column.values) & ~np.isnan(ratings.values).all(axis=1)
    return both


def _align_aspect(
    aspect: str,
    column: Column,
    ratings: Ratings,
    scales: tuple[Scale, Scale],
    rows: Ints,
    metrics: Mapping[str, Floats],
) -> _AlignedAspect:
    judged_on, rated_on = scales
    both = _has_both(column, ratings)
    judged = replace(column, values=np.where(both, column.values, np.nan)[rows], scale=judged_on)
    if can_rescale(judged_on, rated_on):
        judged = rescale(judged, rated_on)
    values = np.where(both[:, None], ratings.values, np.nan)[rows]
    rated = Ratings(ratings.aspect, tuple(ratings.cases[row] for row in rows), ratings.raters, values)
    return _AlignedAspect(aspect, judged, rated, judged_on, rated_on, metrics)


def _metric_values(
    baselines: Sequence[Scores], aspect: str, ratings: Mapping[str, Ratings], cases: Sequence[str]
) -> dict[str, Floats]:
    metric_values = {}
    for baseline in baselines:
        column = _metric_column(baseline, aspect, ratings)
        if column is not None:
            place = {case: row for row, case in enumerate(baseline.cases)}
            metric_values[baseline.name] = np.append(column.values, np.nan)[[place.get(case, -1) for case in cases]]
    return metric_values


def _metric_column(scores: Scores, aspect: str, every: Mapping[str, Ratings]) -> Column | None:
    """Return the metric's column for an aspect: by name, or its only one where that has no rated aspect's name."""
    if aspect in scores.columns:
        return scores.columns[aspect]
    alone = list(scores.columns.values())
    return alone[0] if len(alone) == 1 and alone[0].name not in every else None


def _aspect_statistics(
    aspect: _AlignedAspect, against: ReferenceMode, group: Ints, *, people: bool
) -> WeightedStatistics:
    x, values = aspect.column.values, aspect.ratings.values
    parts: list[WeightedStatistics] = [
        judge_statistics(x, values, against, aspect.rated_on[0], people=people),
        constant_statistics(x, values, against, group),
    ]
    if is_binary(x) and is_binary(values):
        majority = pair_scores(x, _majority_vote(values, against))
        parts.append(combine_sums([decision_statistics(majority), exact_agreement_statistics(majority, 0.0, 1.0)]))
    if people:
        parts.append(people_statistics(values, against))
    metrics = {name: metric_statistics(x, metric, values, against) for name, metric in aspect.metrics.items()}

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for part in parts:
            found |= part(weights)
        if people:
            found["rater_difference"] = found["judge_as_rater"] - found["rater_spearman"]
        for name, metric in metrics.items():
            found |= {_join_key(name, key): value for key, value in metric(weights).items()}
        return found

    return statistics


def _estimate_aspects(
    aspects: Sequence[_AlignedAspect], bootstrap: ClusterBootstrap, against: ReferenceMode, *, people: bool
) -> dict[str, Interval]:
    """Return the estimates of all aspects, one thread per core: NumPy releases the GIL while it computes."""
    averaged = _averaged_aspects(aspects)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda one: _aspect_statistics(one, against, bootstrap.group_index, people=people), aspects)
        statistics = {aspect.aspect: statistic for aspect, statistic in zip(aspects, made, strict=True)}
        return _bootstrap_estimates(bootstrap, lambda weights: _evaluate_aspects(statistics, averaged, weights, pool))


def _bootstrap_estimates(bootstrap: ClusterBootstrap, statistics: WeightedStatistics) -> dict[str, Interval]:
    """Return estimates over draws of groups, whose weights are fewer than those of cases."""
    if bootstrap.group_count < 2:
        return bootstrap.estimates(statistics)
    groups = ClusterBootstrap(
        None, bootstrap.group_count, count=bootstrap.count, seed=bootstrap.seed, method=bootstrap.method
    )
    return groups.estimates(lambda weights: statistics(BootstrapWeights(weights, bootstrap.group_index)))


def _evaluate_aspects(
    statistics: Mapping[str, WeightedStatistics], averaged: Sequence[str], weights: WeightsLike, pool: Executor
) -> dict[str, Floats]:
    by_aspect = dict(zip(statistics, pool.map(lambda one: one(weights), statistics.values()), strict=True))
    flat = {_join_key(aspect, name): value for aspect, values in by_aspect.items() for name, value in values.items()}
    if averaged:
        flat |= {
            _join_key("", name): np.mean([by_aspect[aspect][name] for aspect in averaged], axis=0)
            for name in AVERAGED_STATISTICS
        }
    return flat


def _averaged_aspects(aspects: Sequence[_AlignedAspect]) -> list[str]:
    """Return the criteria whose errors may be averaged: two or more, on one scale."""
    criteria = [aspect for aspect in aspects if aspect.column.kind is ColumnKind.CRITERION]
    alike = len({criterion.rated_on for criterion in criteria}) == 1
    return [criterion.aspect for criterion in criteria] if alike and len(criteria) > 1 else []


def _build_criterion(
    aspect: _AlignedAspect, estimates: Mapping[str, Interval], against: ReferenceMode, *, other_judge: bool
) -> CriterionAgreement:
    rated = ~np.isnan(aspect.ratings.values)
    constant = dict.fromkeys(_undefined_kappas(aspect, against), undefined_estimate(""))
    known = {
        name: explain_undefined(
            name, constant.get(name, estimate), aspect.column, aspect.ratings, other_judge=other_judge
        )
        for name, estimate in estimates.items()
    }
    whose = "the other judge's scores" if other_judge else "people's ratings"
    no_steps = undefined_estimate(f"{whose} lie on no equal steps")
    median = np.nanmedian(reference_ratings(aspect.ratings.values, against)) if rated.any() else np.nan
    return CriterionAgreement(
        aspect=aspect.aspect,
        criterion=aspect.column.name,
        kind=aspect.column.kind,
        cases=int(rated.any(axis=1).sum()),
        ratings=int(rated.sum()),
        raters=int(rated.any(axis=0).sum()),
        judged_on=aspect.judged_on,
        rated_on=aspect.rated_on,
        coefficients={name: known.get(name, no_steps) for name in JUDGE_COEFFICIENTS}
        | {name: known[name] for name in DECISION_COEFFICIENTS if name in known},
        people={name: known[name] for name in PEOPLE_COEFFICIENTS if name in known},
        constant=ConstantBaseline(float(median), known["constant"], known["difference"]),
        baselines=tuple(
            MetricBaseline(
                name,
                int((~np.isnan(metric) & rated.any(axis=1)).sum()),
                estimates[_join_key(name, "spearman")],
                estimates[_join_key(name, "difference")],
            )
            for name, metric in aspect.metrics.items()
        ),
        each_rater=summarize_raters(aspect.ratings) if any(name in known for name in PEOPLE_COEFFICIENTS) else (),
        rated_by_several=int((rated.sum(axis=1) > 1).sum()),
        judge_answers=count_answers(aspect.column.values),
        reference_answers=count_answers(aspect.ratings.mean()),
    )


def _add_p_values(
    criteria: Sequence[CriterionAgreement],
    aspects: Sequence[_AlignedAspect],
    bootstrap: ClusterBootstrap,
    against: ReferenceMode,
) -> list[CriterionAgreement]:
    """Return the criteria with the p-values of what may be said of them, corrected over all of them."""
    sides = [(aspect.column.values, reference_ratings(aspect.ratings.values, against)) for aspect in aspects]
    ranked = compute_rank_p_values(sides, bootstrap.group_index, bootstrap.seed)
    p_values = []
    for criterion, aspect, p in zip(criteria, aspects, ranked.tolist(), strict=True):
        groups = len(np.unique(bootstrap.group_index[~np.isnan(aspect.column.values)]))
        estimates = {
            "rater_difference": criterion.people.get("rater_difference", undefined_estimate("")),
            "constant": criterion.constant.difference,
            "bias": criterion.coefficients["bias"],
        }
        found = {name: p_of_interval(estimate, groups) for name, estimate in estimates.items()}
        p_values.append({"spearman": p} | found)
    return [
        structs.replace(criterion, p_holm=found)
        for criterion, found in zip(criteria, correct_claims(p_values), strict=True)
    ]


def _undefined_kappas(aspect: _AlignedAspect, against: ReferenceMode) -> list[str]:
    """Return the names of kappas with a constant side."""
    x, values = aspect.column.values, aspect.ratings.values
    sides = {"quadratic_kappa": values, "kappa": _majority_vote(values, against)}
    return [name for name, y in sides.items() if any(len(np.unique(side[~np.isnan(side)])) < 2 for side in (x, y))]


def _majority_vote(values: Floats, against: ReferenceMode) -> Floats:
    """Return 1 where most say yes, 0 where half or more say no; or each rating by itself."""
    known = reference_ratings(values, against)
    return np.where(np.isnan(known), np.nan, (known > 0.5).astype(np.float64))


def _join_key(first: str, second: str) -> str:
    return f"{first}\0{second}"


def _select_aspect(aspect: str, estimates: Mapping[str, Interval]) -> dict[str, Interval]:
    start = _join_key(aspect, "")
    return {name.removeprefix(start): estimate for name, estimate in estimates.items() if name.startswith(start)}
