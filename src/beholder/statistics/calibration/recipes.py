"""How maps are fitted: from what a judge said and what was measured to the mean human rating, simplest first.

constant   the median rating, of all constants the one with the least error: what a judge must beat
offset     the judge's number on the human scale, moved by its mean difference from people
isotonic   the judge's number by steps that never fall (pool adjacent violators); cases that it ties stay tied
linear     ridge on standardised features
steady     the same with one strong penalty, for few cases
curved     ridge on normal scores of the features and a bend for each: numbers far out of the ordinary do no harm
forest     extremely random trees on all features
boosted    boosted trees on all features
blend      the mean of curved and forest, which says the lowest (or highest) rating that there is where most such cases
           got just that from everybody: so it keeps the ties that people have at the ends of their scale

Other ridge penalties are chosen within the cases that a map is fitted on, by grouped cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from beholder.statistics.calibration.folding import folds_of
from beholder.statistics.calibration.lesson import Lesson, Recipe
from beholder.statistics.calibration.trees import boosted, forest
from beholder.statistics.data import Bools, Floats
from beholder.verdicts.maps import Blend, Constant, Curved, Ends, Isotonic, Linear, Map, Offset

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
STEADY = 100.0  # with few cases a penalty is chosen by luck: a strong one, always the same
INNER = 5  # folds, for a penalty, and for where ends begin
SURE = 0.75  # of the cases with such a prediction, how many must have got the end of the scale for it to be said

# Where the knots of a feature lie among the cases: closer at the ends, where the scores move fastest.
SHARES = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
_SCORES = np.array([NormalDist().inv_cdf(share) for share in SHARES])


def constant(lesson: Lesson) -> Constant:
    return Constant(float(np.median(lesson.ratings)))


def offset(lesson: Lesson) -> Offset:
    judge = lesson.judge()
    difference = float((lesson.ratings - judge.predict(lesson.values)).mean())
    return Offset(judge.column, judge.slope, judge.shift + difference)


def isotonic(lesson: Lesson) -> Isotonic:
    at, where = np.unique(lesson.values[:, lesson.raw], return_inverse=True)
    counts = np.bincount(where).astype(np.float64)
    ratings = pooled(np.bincount(where, lesson.ratings) / counts, counts)
    # Within a level only its ends say something.
    inner = np.zeros(len(at), np.bool_)
    inner[1:-1] = (ratings[1:-1] == ratings[:-2]) & (ratings[1:-1] == ratings[2:])
    return Isotonic(lesson.raw, tuple(at[~inner].tolist()), tuple(ratings[~inner].tolist()))


def pooled(values: Floats, weights: Floats) -> Floats:
    """The nearest sequence that never falls, by weighted squares: neighbours that fall are pooled at their mean."""
    levels: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, count = value, weight, 1
        while levels and levels[-1][0] >= mean:
            before, more, many = levels.pop()
            mean = (before * more + mean * total) / (more + total)
            total, count = more + total, count + many
        levels.append((mean, total, count))
    return np.repeat([mean for mean, _, _ in levels], [count for _, _, count in levels])


def linear(lesson: Lesson, penalties: Sequence[float] = PENALTIES) -> Linear:
    means, scales = lesson.values.mean(axis=0), lesson.values.std(axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    weights = _ridge((lesson.values - means) / scales, lesson, penalties)
    return Linear(float(lesson.ratings.mean()), *(tuple(one.tolist()) for one in (means, scales, weights)))


def curved(lesson: Lesson, penalties: Sequence[float] = PENALTIES) -> Curved:
    knots = [_knots(column) for column in lesson.values.T]
    scores = np.column_stack(
        [np.interp(column, at[:, 0], at[:, 1]) for column, at in zip(lesson.values.T, knots, strict=True)]
    )
    design = np.hstack([scores, (scores * scores - 1) / 2])
    middle = design.mean(axis=0)
    weights = _ridge(design - middle, lesson, penalties)
    count = len(knots)
    return Curved(
        float(lesson.ratings.mean() - middle @ weights),
        tuple(tuple((value, score) for value, score in at.tolist()) for at in knots),
        tuple(weights[:count].tolist()),
        tuple(weights[count:].tolist()),
    )


def blend(*fits: Callable[[Lesson], Map]) -> Callable[[Lesson], Blend]:
    """The plain mean of what several maps say, each fitted by itself."""

    def fit(lesson: Lesson) -> Blend:
        maps = tuple(one for each in fits if not isinstance(one := each(lesson), Blend | Ends))
        return Blend(maps, (1.0,) * len(maps))

    return fit


def ends(fit: Callable[[Lesson], Map], sure: float = SURE) -> Callable[[Lesson], Ends]:
    """A map that says the end of the human scale where at least the share `sure` of such cases got that very rating
    from everybody: it keeps the ties that people have there. Where that is, is found on cases that were held back."""

    def fitted(lesson: Lesson) -> Ends:
        fold = folds_of(lesson.groups, INNER, lesson.seed)
        said = np.full(len(fold), np.nan)
        for one in np.unique(fold):
            out = fold == one
            if not out.all():
                said[out] = fit(lesson.part(~out)).predict(lesson.values[out])
        known = ~np.isnan(said)
        low, high = lesson.scale
        under = _edge(said[known], lesson.ratings[known] == low, sure)
        over = _edge(-said[known], lesson.ratings[known] == high, sure)
        whole = fit(lesson)
        assert not isinstance(whole, Ends)
        return Ends(whole, under, None if over is None else -over, low, high)

    return fitted


def _edge(said: Floats, at_end: Bools, sure: float) -> float | None:
    """The greatest prediction at which the share of cases at the low end, which falls as predictions rise, is still
    `sure`."""
    if not len(said):
        return None
    order = np.argsort(-said, kind="stable")
    share = pooled(at_end[order].astype(np.float64), np.ones(len(said)))
    there = said[order][share >= sure]
    return float(there.max()) if len(there) else None


RECIPES: dict[str, Recipe] = {
    "constant": Recipe(constant, raw_only=True),
    "offset": Recipe(offset, raw_only=True, keeps_order=True),
    "isotonic": Recipe(isotonic, raw_only=True),
    "linear": Recipe(linear),
    "steady": Recipe(lambda lesson: linear(lesson, (STEADY,))),
    "curved": Recipe(curved),
    "forest": Recipe(forest),
    "boosted": Recipe(boosted),
    "blend": Recipe(ends(blend(curved, forest))),
}

TREES = frozenset({"forest", "boosted", "blend"})  # what needs scikit-learn to be fitted


def ridge(design: Floats, ratings: Floats, penalties: Sequence[float]) -> Floats:
    """Weights (a row for each penalty) that make Σ (rating − mean − design · weights)² + penalty · Σ weights² least;
    `design` is centred here."""
    centred, away = design - design.mean(axis=0), ratings - ratings.mean()
    tall = len(design) >= design.shape[1]
    # The smaller of the two squares: four times as quick as the singular values of `centred`, and as good, since the
    # penalty is far above what rounding leaves.
    squares, turned = np.linalg.eigh(centred.T @ centred if tall else centred @ centred.T)
    along = turned.T @ (centred.T @ away if tall else away)
    shrunk = along / (np.maximum(squares, 0.0) + np.array(penalties)[:, None])
    weights: Floats = shrunk @ turned.T if tall else shrunk @ turned.T @ centred
    return weights


def _ridge(design: Floats, lesson: Lesson, penalties: Sequence[float]) -> Floats:
    """Weights by the penalty that foretells best within these cases, groups kept whole."""
    best = penalties[0] if len(penalties) == 1 else _penalty(design, lesson, penalties)
    weights: Floats = ridge(design, lesson.ratings, (best,))[0]
    return weights


def _penalty(design: Floats, lesson: Lesson, penalties: Sequence[float]) -> float:
    """The one with the least squared error on cases that were held back."""
    fold = folds_of(lesson.groups, INNER, lesson.seed)
    squares = np.zeros(len(penalties))
    for one in np.unique(fold):
        out = fold == one
        if out.all():
            return penalties[-1]
        weights = ridge(design[~out], lesson.ratings[~out], penalties)
        said = lesson.ratings[~out].mean() + (design[out] - design[~out].mean(axis=0)) @ weights.T
        squares += ((lesson.ratings[out][:, None] - said) ** 2).sum(axis=0)
    return penalties[int(squares.argmin())]


def _knots(column: Floats) -> Floats:
    """Rows of (value, normal score). Shares that fall on one value (many cases have none of something) are one knot,
    with their mean score."""
    values, place = np.unique(np.quantile(column, SHARES), return_inverse=True)
    return np.column_stack([values, np.bincount(place, _SCORES) / np.bincount(place)])
