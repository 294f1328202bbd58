"""Bradley–Terry with ties (Davidson 1970) by maximum likelihood, for many bootstrap draws at once.

With strengths θ, the votes on a pair whose first output is of model i and whose second is of model j are in proportion

    first wins : second wins : tie  =  exp(d/2) : exp(−d/2) : exp(τ)      with d = θi − θj + γ

so that the odds of i against j are exp(θi − θj) where one of them wins, as in Bradley–Terry; τ says how frequent ties
are, and γ, where it is fitted, is the advantage of being shown first. The log-likelihood is concave in all of these:
Newton's method finds its maximum in a few steps. Each row of an array below is one bootstrap draw.

The maximum is finite if every model reaches every other over pairs in which it did not always lose, unless γ is fitted
and grows without end, as where the first always wins: it stops at a bound. A tie counts both ways, but only where some
models beat each other in a circle (of two, say): otherwise strengths and τ may grow together without end, and no vote
speaks against it (20 wins, 10 ties, no loss). Where strengths are not finite, a normal prior keeps them so: on θ around
the mean of the anchors, else 0, and, with the same standard deviation, on τ and γ around 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beholder.statistics.data import Bools, Floats, Ints

POINTS = 400 / math.log(10)  # rating points for one unit of strength: odds of 10 to 1 are 400 points apart
BASE_RATING = 1000.0
PRIOR_POINTS = 400.0  # standard deviation of the prior
WIN, LOSS, TIE = 0, 1, 2

_MAX_STEPS = 200
_STEP_LIMIT = 2.0  # Newton's method may overshoot far from the maximum
_TOLERANCE = 1e-10
_RIDGE = 1e-9
_UNEXPLAINED = 1e-6  # squares that strengths do not explain are 0, or about one over the number of pairs
_BOUND = 15.0  # of τ and γ, which go to infinity where a draw has no ties, or the first always wins
_CELLS_PER_BLOCK = 1 << 19  # of draws × pairs fitted at a time: 4 MB in each of some twenty arrays


@dataclass(frozen=True, slots=True, eq=False)
class PairDesign:
    """Which models were compared, and what is fitted.

    Attributes:
        first: The first model of each pair.
        second: The second model of each pair.
        size: Number of models.
        ties: Whether the frequency of ties is fitted; without it there must be none.
        position: Whether the advantage of the first position is fitted; pairs are then ordered.
        fixed: Strengths of models that are not fitted, nan for the others; None where all are fitted.
    """

    first: Ints
    second: Ints
    size: int
    ties: bool = True
    position: bool = False
    fixed: Floats | None = None

    @property
    def is_fixed(self) -> Bools:
        return np.zeros(self.size, np.bool_) if self.fixed is None else ~np.isnan(self.fixed)

    @property
    def center(self) -> float:
        """The mean of the prior: 0, or the mean of the fixed strengths."""
        return 0.0 if self.fixed is None else float(np.nanmean(self.fixed))


@dataclass(frozen=True, slots=True, eq=False)
class DavidsonFit:
    """Strengths (draws × models), and the parameters of ties and position (one per draw).

    The strengths of a draw have the mean 0 where none is fixed. `with_prior` says for which draws the prior was used,
    and `confounded` for which the position cannot be told from the strengths (see `is_position_confounded`).
    """

    strengths: Floats
    tie: Floats
    position: Floats
    with_prior: Bools
    confounded: Bools

    @property
    def position_at_bound(self) -> Bools:
        """Whether γ of a draw has no finite maximum: strengths are then what the last step left."""
        return np.abs(self.position) >= _BOUND


def fit_davidson(
    design: PairDesign, counts: Floats, start: DavidsonFit | None = None, *, prior: bool = False
) -> DavidsonFit:
    """Fit strengths to counts of votes.

    Args:
        design: Which models were compared, and what is fitted.
        counts: Draws × pairs × (first wins, second wins, tie).
        start: A fit of one draw to start from.
        prior: Use the prior for all draws; otherwise for those only that need it.
    """
    step = max(1, _CELLS_PER_BLOCK // max(1, len(design.first)))
    starts = range(0, max(1, len(counts)), step)  # no draws are one empty block
    parts = [_fit_block(design, counts[at : at + step], start, prior=prior) for at in starts]
    return DavidsonFit(
        np.concatenate([part.strengths for part in parts]),
        np.concatenate([part.tie for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.with_prior for part in parts]),
        np.concatenate([part.confounded for part in parts]),
    )


def reachable(design: PairDesign, counts: Floats) -> Bools:
    """Return, draws × models × models, whether a model reaches another over models that it did not always lose to.

    A model reaches one that it won against, one that it tied with (in a draw with a circle of wins), and whatever that
    one reaches. Fixed models reach each other.
    """
    ties = counts[:, :, TIE] * has_circle_of_wins(design, counts)[:, None]
    everyone = np.arange(design.size)
    reach = _join_pairs(everyone, design, counts[:, :, WIN] + ties, counts[:, :, LOSS] + ties)
    fixed = np.flatnonzero(design.is_fixed)
    reach[:, fixed[:, None], fixed[None, :]] = 1
    reach[:, everyone, everyone] = 1
    return _follow(reach)


def has_circle_of_wins(design: PairDesign, counts: Floats) -> Bools:
    """Return for each draw whether some model reaches itself over models that it won against.

    Fixed models count as one: a vote between two of them bounds the frequency of ties by itself.
    """
    place = np.arange(design.size)
    place[design.is_fixed] = np.flatnonzero(design.is_fixed)[:1].sum()
    reach = _follow(_join_pairs(place, design, counts[:, :, WIN], counts[:, :, LOSS]))
    return np.asarray(reach[:, place, place].any(axis=1), np.bool_)


def _join_pairs(place: Ints, design: PairDesign, there: Floats, back: Floats) -> NDArray[np.float32]:
    """Return, draws × models × models, 1 where `there` (from first to second) or `back` has a vote."""
    reach = np.zeros((len(there), design.size, design.size), np.float32)
    for at, (one, other) in enumerate(zip(place[design.first], place[design.second], strict=True)):
        reach[:, one, other] += there[:, at] > 0  # several pairs may have the same places
        reach[:, other, one] += back[:, at] > 0
    return np.minimum(reach, np.float32(1))


def _follow(reach: NDArray[np.float32]) -> Bools:
    """Return what can be reached in any number of steps."""
    for _ in range(max(1, math.ceil(math.log2(max(2, reach.shape[1]))))):
        reach = np.maximum(reach, (reach @ reach) > 0).astype(np.float32)
    return reach > 0


def _fit_block(design: PairDesign, counts: Floats, start: DavidsonFit | None, *, prior: bool) -> DavidsonFit:
    draws = len(counts)
    decided = counts[:, :, :TIE].sum(axis=(1, 2)) > 0
    with_prior = np.full(draws, True) if prior else ~(reachable(design, counts).all(axis=(1, 2)) & decided)
    strengths = (
        np.full((draws, design.size), design.center) if start is None else np.repeat(start.strengths, draws, axis=0)
    )
    tie = np.zeros(draws) if start is None or not design.ties else np.repeat(start.tie, draws)
    position = np.zeros(draws) if start is None else np.repeat(start.position, draws)
    if design.fixed is not None:
        strengths = np.where(design.is_fixed, design.fixed, strengths)
    precision = with_prior / (PRIOR_POINTS / POINTS) ** 2
    active = np.arange(draws)
    for _ in range(_MAX_STEPS):
        steps = _newton_steps(
            design, counts[active], strengths[active], tie[active], position[active], precision[active]
        )
        largest = np.abs(steps).max(axis=1)
        steps *= np.minimum(1.0, _STEP_LIMIT / np.maximum(largest, _TOLERANCE))[:, None]
        strengths[active] += steps[:, : design.size]
        before = np.stack([tie[active], position[active]])
        tie[active] = np.clip(tie[active] + steps[:, design.size], -_BOUND, _BOUND)
        position[active] = np.clip(position[active] + steps[:, design.size + 1], -_BOUND, _BOUND)
        moved = np.abs(np.stack([tie[active], position[active]]) - before).max(axis=0)
        moved = np.maximum(moved, np.abs(steps[:, : design.size]).max(axis=1))
        active = active[moved > _TOLERANCE]
        if not len(active):
            break
    confounded = is_position_confounded(design, counts) if design.position else np.zeros(draws, np.bool_)
    return DavidsonFit(strengths, tie if design.ties else np.full(draws, -np.inf), position, with_prior, confounded)


def is_position_confounded(design: PairDesign, counts: Floats) -> Bools:
    """Return for each draw whether strengths and γ can be moved against each other with no vote being the wiser.

    So it is where strengths exist that differ by 1, the first from the second, on every pair with a vote: where each
    two models were shown in one order only, and no three of them are compared in a way that contradicts it.
    """
    shown: Floats = np.asarray(counts.any(axis=2), np.float64)
    free = np.flatnonzero(~design.is_fixed)
    toward = (shown @ _incidence(design))[:, free]
    squares = _laplacian(design, shown)[:, free[:, None], free[None, :]] + _RIDGE * np.eye(len(free))
    explained = (toward * np.linalg.solve(squares, toward[:, :, None])[:, :, 0]).sum(axis=1)
    confounded: Bools = shown.sum(axis=1) - explained < _UNEXPLAINED
    return confounded


def _incidence(design: PairDesign) -> Floats:
    """Return, pairs × models, 1 for the first model of a pair, −1 for the second."""
    incidence = np.zeros((len(design.first), design.size))
    rows = np.arange(len(design.first))
    incidence[rows, design.first] = 1
    incidence[rows, design.second] = -1
    return incidence


def _laplacian(design: PairDesign, weight: Floats) -> Floats:
    """Return, draws × models × models, the products of the columns of the incidence, pairs weighted."""
    between = np.zeros((len(weight), design.size, design.size))
    between[:, design.first, design.second] = weight
    between += between.transpose(0, 2, 1)
    models = np.arange(design.size)
    found: Floats = -between
    found[:, models, models] += between.sum(axis=2)
    return found


def _newton_steps(
    design: PairDesign, counts: Floats, strengths: Floats, tie: Floats, position: Floats, precision: Floats
) -> Floats:
    """Return the steps of strengths, tie and position, draws × (models + 2), towards the maximum."""
    size, first, second = design.size, design.first, design.second
    total = counts.sum(axis=2)
    half = (strengths[:, first] - strengths[:, second] + position[:, None]) / 2
    log_tie = tie[:, None] if design.ties else np.full((1, 1), -np.inf)
    largest = np.maximum(np.abs(half), log_tie)
    win, loss, tied = np.exp(half - largest), np.exp(-half - largest), np.exp(log_tie - largest)
    under = win + loss + tied
    tied = tied / under
    mean = (win - loss) / under / 2  # of ½ for a win, −½ for a loss, 0 for a tie
    weight = total * ((win + loss) / under / 4 - mean**2)
    together: Floats = -total * tied * mean  # covariance with being a tie
    residual = (counts[:, :, WIN] - counts[:, :, LOSS]) / 2 - total * mean

    incidence = _incidence(design)
    gradient = np.zeros((len(counts), size + 2))
    hessian = np.zeros((len(counts), size + 2, size + 2))  # of the negative log-likelihood
    gradient[:, :size] = residual @ incidence
    hessian[:, :size, :size] = _laplacian(design, np.asarray(weight, np.float64))
    if design.ties:
        gradient[:, size] = (counts[:, :, TIE] - total * tied).sum(axis=1)
        hessian[:, size, size] = (total * tied * (1 - tied)).sum(axis=1)
        hessian[:, :size, size] = hessian[:, size, :size] = together @ incidence
    if design.position:
        gradient[:, size + 1] = residual.sum(axis=1)
        hessian[:, size + 1, size + 1] = weight.sum(axis=1)
        hessian[:, :size, size + 1] = hessian[:, size + 1, :size] = weight @ incidence
        hessian[:, size, size + 1] = hessian[:, size + 1, size] = together.sum(axis=1) if design.ties else 0.0

    gradient[:, :size] -= precision[:, None] * (strengths - design.center)
    gradient[:, size] -= precision * tie
    gradient[:, size + 1] -= precision * position
    every = np.arange(size + 2)
    hessian[:, every, every] += precision[:, None]
    if design.fixed is None:
        # Strengths are determined up to a constant; this holds their mean where it is, at 0.
        hessian[:, :size, :size] += (precision == 0)[:, None, None] / size
    held = np.flatnonzero([*design.is_fixed, not design.ties, not design.position])
    hessian[:, held, :] = 0
    hessian[:, :, held] = 0
    hessian[:, held, held] = 1
    gradient[:, held] = 0
    # At a bound of τ or γ, or far from fixed strengths, rows are nearly 0: a small ridge changes the step, and not
    # where the steps end.
    weak = every[size:] if design.fixed is None else every
    hessian[:, weak, weak] += _RIDGE
    return np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], np.float64)
