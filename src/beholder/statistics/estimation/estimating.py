"""What people would have said of a whole run: from a judge on all its cases and people on a few of them.

The judge enters only as something that goes along with people's scores: whatever its scale, and however wrong it is on
the average, the estimate is right on the average; a judge that goes along well makes the interval narrower. That holds
where the rated cases were drawn at random from the run, and only there. The interval is for the mean over cases like
those of the run: it does not shrink to nothing when every case is rated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.estimation.passing import Corrected, corrected, rate_interval
from beholder.statistics.estimation.planning import Needed, Plan, Width
from beholder.statistics.estimation.regression import LEAST_GROUPS, TINY, Fit, fitted
from beholder.statistics.intervals import LEVEL, Draws, Estimate, undefined
from beholder.statistics.student import below
from beholder.verdicts.model import counted

FEW = 30  # rated cases under which a skewed distribution makes intervals too narrow (simulated: 90 instead of 95 %)
ALARM = 0.01  # how improbable a difference between rated and other cases must be by chance to be told


@dataclass(frozen=True, slots=True)
class Unlike:
    """The judge's mean of the rated cases and of the others, which differ by more than chance explains."""

    rated: float
    others: float
    probability: float


@dataclass(frozen=True, slots=True)
class Estimated:
    """The mean human score (or pass rate) of all `cases`.

    `people` is by the `rated` cases alone, `judge` by the judge alone on the human scale, `bias` the judge less people,
    `together` the answer. `weight` is how many human points the estimate moves for a point of the judge; None where
    the judge tells nothing and `together` is `people`. `cut` is the scale at whose ends intervals were cut, where one
    reached beyond it. `widths` and `needed` are for cases drawn at random, and not told where these do not look so
    (`unlike`). `judged` cases have a number from the judge; the others enter as
    cases of which it knows nothing. `groups` is how many groups the rated cases are from.
    """

    cases: int
    judged: int
    rated: int
    groups: int
    people: Estimate
    judge: Estimate
    bias: Estimate
    together: Estimate
    weight: float | None
    correlation: float | None
    widths: tuple[Width, ...] = ()
    needed: Needed | None = None
    unlike: Unlike | None = None
    correction: Corrected | None = None
    cut: tuple[float, float] | None = None


def estimated_mean(
    human: Floats,
    judge: Floats,
    groups: Sequence[str] | None,
    *,
    moved: Floats | None = None,
    within: tuple[float, float] | None = None,
    either_way: bool = False,
    width: float | None = None,
) -> Estimated:
    """The mean human score of all cases; `human` is nan where nobody rated, `judge` where it has no score.

    `moved` is the judge on the human scale, for `Estimated.judge` and `bias` only, which without it are not defined.
    `within` is the human scale where it is known: no mean lies beyond its ends.
    `either_way` is for a column that may as well run against people, such as a distance.
    """
    found = _estimated(human, judge, moved, groups, either_way=either_way, width=width, rate=False)
    if within is None:
        return found
    people, alone, together = (_cut(one, within) for one in (found.people, found.judge, found.together))
    same = (people, alone, together) == (found.people, found.judge, found.together)
    return replace(found, people=people, judge=alone, together=together, cut=None if same else within)


def estimated_rate(
    human: Floats, judge: Floats, groups: Sequence[str] | None, *, width: float | None = None
) -> Estimated:
    """The share of all cases that people would pass; 1 is pass, 0 fail, nan not rated or not judged."""
    return _estimated(human, judge, judge, groups, either_way=False, width=width, rate=True)


def _estimated(
    human: Floats,
    judge: Floats,
    moved: Floats | None,
    groups: Sequence[str] | None,
    *,
    either_way: bool,
    width: float | None,
    rate: bool,
) -> Estimated:
    group = Draws(groups, len(human)).group
    rated = ~np.isnan(human)
    judged = ~np.isnan(judge)
    # A case without a score counts as an average one for the weight: it must not leave the run, or the estimate would
    # be of the cases that judges like to judge.
    known = np.where(judged, judge, judge[judged].mean() if judged.any() else 0.0)
    alone = fitted(human, group)
    count, many = int(rated.sum()), len(np.unique(group[rated]))
    both = fitted(human, group, known, either_way=either_way) if many >= LEAST_GROUPS else None
    if both is not None and alone is not None and not rate and both.by_ratings <= TINY * alone.by_ratings:
        both = None  # errors of nil among a few cases say that they are few, not how large errors are
    # Taking whichever interval comes out narrower would cost a point of coverage or more at 20 ratings; a judge that
    # tells nothing makes it wider by about one part in twice the number of ratings.
    people = _with_interval(alone, human, rate)
    together = people if both is None else _with_interval(both, human, rate)
    plan = None
    unlike = _unlike(rated, judge, group)
    if alone is not None and np.ptp(human[rated]) > 0 and unlike is None:
        plan = Plan(group, count, (alone, people), None if both is None else (both, together))
    return Estimated(
        cases=len(human),
        judged=int(judged.sum()),
        rated=count,
        groups=many,
        people=people,
        judge=undefined("its scale or that of people is not known") if moved is None else _judge(moved, group, rate),
        bias=undefined("its scale or that of people is not known") if moved is None else _bias(human, moved, group),
        together=together,
        weight=None if both is None else both.weight,
        correlation=_correlation(human, judge),
        widths=() if plan is None else plan.widths(),
        needed=None if width is None or unlike else plan.needed(width) if plan else Needed(width, None, None),
        unlike=unlike,
        correction=corrected(human, judge, group) if rate else None,
    )


def _with_interval(fit: Fit | None, human: Floats, rate: bool) -> Estimate:
    known = human[~np.isnan(human)]
    if not len(known):
        return undefined("no case of these is rated")
    if fit is None:
        why = "no interval: one case is rated" if len(known) == 1 else "no interval: all rated cases are of one group"
        return Estimate(float(known.mean()), why=why)
    if rate:
        return rate_interval(fit, len(known))
    if np.ptp(known) == 0:
        return Estimate(fit.value, why="no interval: all rated cases have the same score")
    return Estimate(fit.value, fit.value - fit.reach, fit.value + fit.reach)


def _cut(estimate: Estimate, within: tuple[float, float]) -> Estimate:
    value, low, high = (
        None if one is None else float(np.clip(one, *within)) for one in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high)


def _judge(moved: Floats, group: Ints, rate: bool) -> Estimate:
    if np.isnan(moved).all():
        return undefined("the judge has no score for any case")
    return _with_interval(fitted(moved, group), moved, rate)


def _bias(human: Floats, moved: Floats, group: Ints) -> Estimate:
    """The judge less people, with all that the judge's own numbers tell of it."""
    there = ~np.isnan(moved)
    if not there.any():
        return undefined("the judge has no score for any case")
    own = np.unique(group[there], return_inverse=True)[1]
    apart, judge = (moved - human)[there], moved[there]
    many = len(np.unique(own[~np.isnan(apart)]))
    fit = fitted(apart, own, judge, either_way=True) if many >= LEAST_GROUPS else None
    return _with_interval(fit or fitted(apart, own), apart, rate=False)


def _correlation(human: Floats, judge: Floats) -> float | None:
    both = ~np.isnan(human) & ~np.isnan(judge)
    if both.sum() < 3 or np.ptp(human[both]) == 0 or np.ptp(judge[both]) == 0:
        return None
    return float(np.corrcoef(human[both], judge[both])[0, 1])


def _unlike(rated: Bools, judge: Floats, group: Ints) -> Unlike | None:
    """Whether the judge's scores of rated and other cases differ by more than `ALARM` allows, robust to groups."""
    judged = ~np.isnan(judge)
    here, there = rated & judged, ~rated & judged
    if here.sum() < 2 or there.sum() < 2:
        return None
    one, other = float(judge[here].mean()), float(judge[there].mean())
    parts = np.zeros(len(judge))
    parts[here] = (judge[here] - one) / here.sum()
    parts[there] = -(judge[there] - other) / there.sum()
    sums = np.bincount(group, parts)
    freedom = min(len(np.unique(group[here])), len(np.unique(group[there]))) - 1
    if freedom < 1:
        return None
    error = float(np.sqrt(sums @ sums * (freedom + 1) / freedom))
    if error <= 0:
        return None
    probability = 2 * (1 - below(abs(one - other) / error, freedom))
    return Unlike(one, other, probability) if probability < ALARM else None


def told(found: Estimated) -> list[str]:
    """What a reader must know of an estimate, in sentences."""
    percent = f"{LEVEL:.0%}"
    by = f" of {found.groups:,} groups" if found.groups < found.rated else ""
    sentences = [
        f"People rated {found.rated:,} {'case' if found.rated == 1 else 'cases'}{by} of {found.cases:,}. Right only "
        "where these were drawn at random from all: if people chose what to rate, the estimate is of what they chose. "
        f"Intervals are {percent}."
    ]
    if (unlike := found.unlike) is not None:
        seldom = f"{unlike.probability:.2%}" if unlike.probability >= 0.0001 else "less than 0.01%"
        sentences.append(
            f"Warning: these do not look drawn at random. The judge gives {unlike.rated:.3g} to the rated cases and "
            f"{unlike.others:.3g} to the others; chance makes such a difference in {seldom} of draws. "
            "What more ratings would give is therefore not told: that can be known of random draws only."
        )
    if found.cut is not None:
        sentences.append(
            f"An interval reached beyond the scale, {found.cut[0]:g} to {found.cut[1]:g}, and was cut there; widths "
            "for other numbers of ratings are before the cut."
        )
    if found.judged < found.cases:
        missing = counted(found.cases - found.judged, "case has no score", "cases have no score")
        sentences.append(f"{missing} from the judge, and so it tells nothing of what people would say there.")
    if found.rated < 2:
        sentences.append("An interval needs at least two rated cases.")
    elif found.weight is None and found.groups < LEAST_GROUPS:
        sentences.append(f"The judge is not used: that takes rated cases of at least {LEAST_GROUPS} groups.")
    elif found.weight is None:
        sentences.append("The judge is not used: among the rated cases it does not go along with people.")
    if 2 <= found.rated < FEW:
        sentences.append(
            f"With fewer than {FEW} rated cases the interval is too narrow where scores pile up at an end of the scale."
        )
    return sentences
