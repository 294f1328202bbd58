"""Fitting ratings to votes: counting, bootstrap draws, intervals, significance, and sentences on what cannot be told.

Votes are counted by group, pair and outcome once; a bootstrap draw is then a sum of counts, and its fit starts from
that of all votes. Groups (photographs, prompts) are drawn with all their votes, which are not independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from beholder.arena.davidson import (
    BASE_RATING,
    LOSS,
    POINTS,
    PRIOR_POINTS,
    TIE,
    WIN,
    DavidsonFit,
    PairDesign,
    fit_davidson,
    has_circle_of_wins,
    reachable,
)
from beholder.arena.leaderboard import Leaderboard, ModelRating, PairRating
from beholder.arena.votes import VoteOutcome, Votes, with_known_order
from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import (
    CONFIDENCE_LEVEL,
    RELIABLE_GROUPS,
    ClusterBootstrap,
    Interval,
    divide_or_nan,
    estimate_from_draws,
)
from beholder.statistics.coefficients import ClassSums
from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.pairs import join_names
from beholder.statistics.significance import SIGNIFICANCE_LEVEL, min_groups_to_decide, sign_flip_test

OUTCOMES = len(VoteOutcome)
NO_WINNER = "no vote has a winner"
_MAX_POINTS = 4000.0  # beyond it a probability is 0 or 1 to ten digits


@dataclass(frozen=True, slots=True)
class ArenaOptions:
    """How votes are fitted.

    Attributes:
        position: Whether the advantage of the first position is fitted.
        anchors: Ratings of models that stay as they are.
        draw_count: Number of bootstrap draws.
        seed: Random seed.
    """

    position: bool = False
    anchors: Mapping[str, float] = field(default_factory=dict)
    draw_count: int = DEFAULT_DRAWS
    seed: int = DEFAULT_SEED


def fit_votes(votes: Votes, options: ArenaOptions) -> Leaderboard:
    """Fit ratings to votes.

    Raises:
        UsageError: There are fewer than two models, or all are anchored; or the position is fitted, and no vote says
            what was shown first.
    """
    return BoardBuilder(with_known_order(votes) if options.position else votes, options).build()


@dataclass(frozen=True, slots=True, eq=False)
class BoardFits:
    """The fit of all votes, those of the bootstrap draws, and the votes of these (draws × pairs × outcomes)."""

    full: DavidsonFit
    drawn: DavidsonFit
    drawn_counts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """Votes of each model, draws × models."""

    votes: Floats
    wins: Floats
    losses: Floats
    ties: Floats
    both_bad: Floats

    @property
    def win_rates(self) -> Floats:
        return divide_or_nan(self.wins + (self.ties + self.both_bad) / 2, self.votes)

    @property
    def both_bad_rates(self) -> Floats:
        return divide_or_nan(self.both_bad, self.votes)


class BoardBuilder:
    """Counts votes, fits them and their draws, and makes the board of them.

    Args:
        votes: The votes.
        options: How they are fitted.
        strata: Sizes of sets of groups that are each drawn by themselves, of which `votes.group.codes` are the numbers,
            so that boards of several tables have the same draws; else the groups that the votes have are drawn.

    Raises:
        UsageError: There are fewer than two models, or all are anchored.
    """

    def __init__(self, votes: Votes, options: ArenaOptions, strata: Sequence[int] = ()) -> None:
        size = len(votes.models)
        if size < 2:
            raise UsageError(f"All votes are on {votes.models[0] if size else 'no model'!r}; a board needs two models.")
        if options.position and votes.derived:
            raise UsageError("Votes derived from scores have no position: nobody was shown one of two outputs first.")
        self.votes, self.options, self.size = votes, options, size
        self.names = votes.models
        turned = np.zeros(len(votes), np.bool_) if options.position else votes.first > votes.second
        low, high = np.where(turned, (votes.second, votes.first), (votes.first, votes.second))
        outcome = np.where(turned & (votes.outcome < VoteOutcome.TIE), 1 - votes.outcome, votes.outcome)
        keys, pair = np.unique(low.astype(np.int64) * size + high, return_inverse=True)
        # With the position fitted, (a, b) and (b, a) are two pairs.
        self.cells = len(keys) * OUTCOMES
        cell = pair * OUTCOMES + outcome
        group = np.arange(len(votes)) if votes.group is None else votes.group.codes
        found, self.group = np.unique(group, return_inverse=True)
        self.group_count = len(found)
        self.strata = tuple(strata)
        self.drawn_groups = sum(strata) or self.group_count
        if strata:
            self.group = group.astype(np.int64)
        entries, weights = np.unique(self.group.astype(np.int64) * self.cells + cell, return_counts=True)
        self.entry_group, self.entry_cell = np.divmod(entries, self.cells)
        self.entry_count = weights.astype(np.float64)
        self.counts = np.bincount(cell, minlength=self.cells).astype(np.float64).reshape(1, len(keys), OUTCOMES)
        fixed = np.array([options.anchors.get(name, np.nan) for name in self.names])
        if not np.isnan(fixed).any():
            raise UsageError("All models of the votes are anchored, so that there is nothing to fit.")
        anchored = bool((~np.isnan(fixed)).any())
        self.design = PairDesign(
            keys // size,
            keys % size,
            size,
            ties=bool(self.counts[0, :, TIE:].any()),
            position=options.position,
            fixed=(fixed - BASE_RATING) / POINTS if anchored else None,
        )
        merged = _merge_ties(self.counts)
        self.reach = reachable(self.design, merged)[0]
        self.ties_bound = bool(has_circle_of_wins(self.design, merged)[0])
        self.mutual = self.reach & self.reach.T
        self.groups_of = self._count_groups()
        self.needed_groups = min_groups_to_decide()
        self.position_problem = ""

    def _count_groups(self) -> Ints:
        """Return the number of groups in which each model has votes."""
        pair = self.entry_cell // OUTCOMES
        seen = [
            np.unique(self.entry_group * self.size + models[pair]) for models in (self.design.first, self.design.second)
        ]
        return np.bincount(np.unique(np.concatenate(seen)) % self.size, minlength=self.size)

    def build(self) -> Leaderboard:
        return self.make_board(self.fit())

    def fit(self) -> BoardFits:
        """Fit all votes and the draws."""
        prior = self.needs_prior
        full = fit_davidson(self.design, _merge_ties(self.counts), prior=prior)
        drawn_counts = self._draw_counts() if self.drawn_groups > 1 else self.counts[:0]
        drawn = fit_davidson(self.design, _merge_ties(drawn_counts), full, prior=prior)
        return BoardFits(full, drawn, drawn_counts)

    @property
    def needs_prior(self) -> bool:
        """Whether some rating would not be finite without the prior."""
        return not (self.mutual.all() and self.has_winner)

    @property
    def has_winner(self) -> bool:
        """Whether any vote names a winner."""
        return bool(self.counts[0, :, :TIE].any())

    def make_board(self, fits: BoardFits) -> Leaderboard:
        """Return the board of fits, which may be corrected ones."""
        full, drawn, drawn_counts, prior = fits.full, fits.drawn, fits.drawn_counts, self.needs_prior
        self.position_problem = self._find_position_problem(full, drawn, drawn_counts)
        tally, drawn_tally = self.tally(self.counts), self.tally(drawn_counts)
        order = [int(at) for at in np.argsort(-full.strengths[0], kind="stable")]
        pairs = list(self._rate_pairs(order, full, drawn))
        better: dict[str, int] = dict.fromkeys(self.names, 0)
        worse: dict[str, int] = dict.fromkeys(self.names, 0)
        for pair in pairs:
            if pair.better:
                worse[pair.better] += 1
                better[pair.other if pair.better == pair.model else pair.model] += 1
        ratings = []
        for at in order:
            name, groups = self.names[at], int(self.groups_of[at])
            ratings.append(
                ModelRating(
                    name,
                    rank=(1 + better[name], self.size - worse[name]),
                    rating=self._rate_model(at, full, drawn),
                    votes=int(tally.votes[0, at]),
                    wins=int(tally.wins[0, at]),
                    losses=int(tally.losses[0, at]),
                    ties=int(tally.ties[0, at]),
                    both_bad=int(tally.both_bad[0, at]),
                    win_rate=self.estimate(float(tally.win_rates[0, at]), drawn_tally.win_rates[:, at], groups),
                    both_bad_rate=self.estimate(
                        float(tally.both_bad_rates[0, at]), drawn_tally.both_bad_rates[:, at], groups
                    ),
                    groups=groups,
                    anchored=bool(self.design.is_fixed[at]),
                )
            )
        total = float(self.counts.sum())
        tie = float(np.exp(full.tie[0])) if self.design.ties else 0.0
        return Leaderboard(
            ratings=tuple(ratings),
            pairs=tuple(pairs),
            votes=len(self.votes),
            groups=self.group_count,
            group=self.votes.group_name,
            tie_rate=tie / (2 + tie),
            both_bad_rate=float(self.counts[0, :, VoteOutcome.BOTH_BAD].sum()) / total,
            position=self._estimate_position(full, drawn),
            derived=self.votes.derived,
            notes=(*self.votes.notes, *self._describe(tally, prior, drawn), *self._explain_intervals(ratings, pairs)),
            interval_note=self._describe_intervals(has_intervals=_have_intervals(ratings, pairs)),
        )

    def _draw_counts(self) -> Floats:
        """Return the votes of each draw, draws × pairs × outcomes."""
        shape = (-1, *self.counts.shape[1:])
        if self.group_count == len(self.votes) and not self.strata:
            # Drawing single votes with replacement is drawing from their cells, and a thousand times as fast.
            rng = np.random.default_rng(self.options.seed)
            share = self.counts.ravel() / self.counts.sum()
            return rng.multinomial(len(self.votes), share, self.options.draw_count).reshape(shape).astype(np.float64)
        bootstrap = ClusterBootstrap(
            None, self.drawn_groups, count=self.options.draw_count, seed=self.options.seed, strata=self.strata
        )
        sums = ClassSums(self.entry_cell, self.entry_group, self.cells, self.entry_count)
        blocks = [block for rows in bootstrap.group_weights() for block in sums.sums(rows.astype(np.float64))]
        return np.concatenate(blocks).reshape(shape)

    def tally(self, counts: Floats) -> Tallies:
        """Return the votes of each model in counts (draws × pairs × outcomes)."""
        first, second = np.zeros((2, len(self.design.first), self.size))
        rows = np.arange(len(self.design.first))
        first[rows, self.design.first] = 1
        second[rows, self.design.second] = 1
        won, lost, tied, bad = (counts[:, :, outcome] for outcome in VoteOutcome)
        both = first + second
        return Tallies(
            counts.sum(axis=2) @ both, won @ first + lost @ second, lost @ first + won @ second, tied @ both, bad @ both
        )

    def _find_position_problem(self, full: DavidsonFit, drawn: DavidsonFit, drawn_counts: Floats) -> str:
        """Say why votes do not tell models from the position, of all votes or of draws; empty where they do."""
        if not self.options.position:
            return ""
        wins, losses = self.counts[0, :, WIN].sum(), self.counts[0, :, LOSS].sum()
        if _is_one_sided(self.counts)[0]:
            tied = " or tied" if self.design.ties else ""
            return f"the {'first' if wins > losses else 'second'} shown always won{tied}"
        if full.confounded[0]:
            return "the models were shown in one order only"
        if full.position_at_bound[0]:
            return "the advantage of the position has no bound"
        if drawn.confounded.any():
            draws = f"{int(drawn.confounded.sum()):,} of {len(drawn.confounded):,} draws"
            return f"the models were shown in one order only in {draws}"
        lost = int((drawn.position_at_bound | _is_one_sided(drawn_counts)).sum())
        if lost:
            which = "first" if wins > losses else "second"
            return f"the {which} shown always won, or nearly, in {lost:,} of {len(drawn_counts):,} draws"
        return ""

    def _rate_model(self, at: int, full: DavidsonFit, drawn: DavidsonFit) -> Interval:
        rating = BASE_RATING + POINTS * float(full.strengths[0, at])
        if self.design.is_fixed[at]:
            return Interval(rating, why="no interval: it is anchored")
        if self.position_problem:
            return Interval(rating, why=f"no interval: {self.position_problem}")
        if separated := self.explain_separation(at):
            return Interval(rating, why=f"no interval: {separated}")
        return self.estimate(rating, BASE_RATING + POINTS * drawn.strengths[:, at], int(self.groups_of[at]))

    def explain_separation(self, at: int) -> str:
        """Say why the rating of a model is not finite by the votes alone; empty where it is."""
        if not self.has_winner:
            return NO_WINNER
        component = self.mutual.sum(axis=1)
        if component[at] >= max(2, int(component.max())):
            return ""
        if not self.reach[at].sum() > 1:
            return "it never won"
        if not self.reach[:, at].sum() > 1:
            return "it never lost"
        return "votes do not connect it with all others in both directions"

    def estimate(self, value: float, drawn: Floats, groups: int) -> Interval:
        """Return a value with the interval of its draws; without one where votes are of too few groups."""
        if groups < self.needed_groups:
            few = "1 group" if groups == 1 else f"{groups} groups"
            return Interval(value, why=f"no interval: {few} of votes cannot tell; it takes {self.needed_groups}")
        return estimate_from_draws(value, drawn, groups=groups)

    def _rate_pairs(self, order: Sequence[int], full: DavidsonFit, drawn: DavidsonFit) -> Iterator[PairRating]:
        direct = np.zeros((self.size, self.size, OUTCOMES))
        direct[self.design.first, self.design.second] += self.counts[0]
        swapped = self.counts[0][:, [LOSS, WIN, VoteOutcome.TIE, VoteOutcome.BOTH_BAD]]
        direct[self.design.second, self.design.first] += swapped
        connected = self._connect_models()
        for place, one in enumerate(order):
            for other in order[place + 1 :]:
                value = POINTS * float(full.strengths[0, one] - full.strengths[0, other])
                difference, sign = self._compare(one, other, value, drawn, bool(connected[one, other]))
                won, lost, tied, bad = (int(number) for number in direct[one, other])
                yield PairRating(
                    self.names[one],
                    self.names[other],
                    difference,
                    _to_probability(difference),
                    won,
                    lost,
                    tied,
                    bad,
                    self.names[one] if sign > 0 else self.names[other] if sign < 0 else "",
                )

    def _compare(self, one: int, other: int, value: float, drawn: DavidsonFit, connected: bool) -> tuple[Interval, int]:
        """Return the difference between two models, and which is better: 1 the first, −1 the other, 0 unknown."""
        if self.design.is_fixed[[one, other]].all():
            return Interval(value, why="no interval: both are anchored"), int(np.sign(value))
        if not connected:
            return Interval(value, why="no interval: votes do not connect the two"), 0
        if self.position_problem:
            return Interval(value, why=f"no interval: {self.position_problem}"), 0
        if not self.mutual[one, other]:
            why = "no interval: " + (
                "one of them never lost, or won, against the other or those between them"
                if self.has_winner
                else NO_WINNER
            )
            return Interval(value, why=why), self._test_directly(one, other)
        draws = POINTS * (drawn.strengths[:, one] - drawn.strengths[:, other])
        fitted = [int(self.groups_of[at]) for at in (one, other) if not self.design.is_fixed[at]]
        interval = self.estimate(value, draws, min(fitted))
        return interval, (int(np.sign(value)) if interval.excludes_zero else 0)

    def _test_directly(self, one: int, other: int) -> int:
        """Compare two models by their votes on each other alone: a sign-flip test over groups."""
        sums = np.zeros(self.drawn_groups)
        pair, outcome = np.divmod(self.entry_cell, OUTCOMES)
        first, second = self.design.first[pair], self.design.second[pair]
        sign = np.where(outcome == WIN, 1.0, np.where(outcome == LOSS, -1.0, 0.0)) * self.entry_count
        for mine, theirs, by in ((first, second, 1), (second, first, -1)):
            rows = (mine == one) & (theirs == other)
            np.add.at(sums, self.entry_group[rows], by * sign[rows])
        p = float(sign_flip_test(sums[sums != 0][:, None], self.options.seed)[0])
        return int(np.sign(sums.sum())) if p <= SIGNIFICANCE_LEVEL else 0

    def _estimate_position(self, full: DavidsonFit, drawn: DavidsonFit) -> Interval | None:
        if not self.options.position:
            return None
        if self.position_problem:
            return Interval(POINTS * float(full.position[0]), why=f"no interval: {self.position_problem}")
        return self.estimate(POINTS * float(full.position[0]), POINTS * drawn.position, self.group_count)

    def _describe(self, tally: Tallies, prior: bool, drawn: DavidsonFit) -> Iterator[str]:
        """Yield sentences on what the votes cannot tell, and on what was assumed."""
        few = [name for name, count in zip(self.names, tally.votes[0], strict=True) if count == 1]
        if few:
            yield f"{join_names(few)}: 1 vote{' each' if len(few) > 1 else ''}, which tells next to nothing."
        components = _split(self._connect_models(), self.names)
        if len(components) > 1:
            listed = "; ".join(join_names(names) for names in components)
            yield f"The votes do not connect all models ({listed}): ratings of different sets cannot be compared."
        one_way = [self._explain_one_way(self.mutual[at]) for at in range(self.size) if not self.design.is_fixed[at]]
        yield from dict.fromkeys(sentence for sentence in one_way if sentence)
        yield from self._describe_ties_only(tally)
        if not self.has_winner:
            yield "No vote has a winner, so that all models are equal."
        if self.position_problem:
            said = self.position_problem[0].upper() + self.position_problem[1:]
            yield f"{said}: with the position fitted, the votes do not tell which model is better."
        if prior:
            center = BASE_RATING + POINTS * self.design.center
            fitted = (("the frequency of ties", self.design.ties), ("the position", self.design.position))
            also = " and ".join(name for name, is_fitted in fitted if is_fitted)
            yield (
                f"To keep ratings finite a prior was used: normal around {center:.0f} with a standard "
                f"deviation of {PRIOR_POINTS:.0f} points{f', and around 0 for {also}' if also else ''}."
            )
        elif drawn.with_prior.any():
            used = f"{int(drawn.with_prior.sum()):,} of {len(drawn.with_prior):,} draws"
            yield (
                f"In {used} a model has no vote, never lost or never won; a prior with a standard deviation of "
                f"{PRIOR_POINTS:.0f} points keeps its rating finite there."
            )
        if self.design.fixed is not None:
            held = [name for name in self.names if name in self.options.anchors]
            yield f"Anchored, and taken as exact: {join_names(held)}."
        gone = [name for name in self.options.anchors if name not in self.names]
        if gone:
            yield f"Anchors without votes are left out: {join_names(gone)}."

    def _explain_intervals(self, ratings: Sequence[ModelRating], pairs: Sequence[PairRating]) -> Iterator[str]:
        """Yield why models have no interval, where no other sentence says it, and that intervals are too narrow."""
        unsaid: dict[str, list[str]] = {}
        for row in ratings if self.has_winner and not self.position_problem and self.group_count > 1 else ():
            one_way = self._explain_one_way(self.mutual[self.names.index(row.model)])
            if row.rating.why and not row.anchored and not one_way:
                unsaid.setdefault(row.rating.why, []).append(row.model)
        for why, names in unsaid.items():
            has = "has" if len(names) == 1 else "have"
            which = "No model has an" if len(names) == self.size else f"{join_names(names)} {has} no"
            yield f"{which} interval: {why.removeprefix('no interval: ')}."
        if self.group_count < RELIABLE_GROUPS and _have_intervals(ratings, pairs):
            yield f"With {self.group_count} groups intervals are too narrow; {RELIABLE_GROUPS} would do."

    def _describe_ties_only(self, tally: Tallies) -> Iterator[str]:
        """Name the models that never lost, or never won, and have a rating only as the frequency of ties is known."""
        bound = [
            at for at in range(self.size) if not self.design.is_fixed[at] and not self._explain_one_way(self.mutual[at])
        ]
        for counted, word in ((tally.losses, "lost"), (tally.wins, "won")):
            names = [self.names[at] for at in bound if not counted[0, at] and tally.wins[0, at] + tally.losses[0, at]]
            if names:
                bound_by = "only ties, and how frequent they are elsewhere, bound the rating"
                yield f"{join_names(names)} never {word}: {bound_by}."

    def _connect_models(self) -> Bools:
        """Return which models are connected by votes, whoever won them."""
        linked = self.reach.copy()
        linked[self.design.first, self.design.second] |= self.counts[0].any(axis=1)
        return _connect(linked)

    def _explain_one_way(self, members: Bools) -> str:
        """Say that some models never lost to the others, or never won; empty where they did both, or have no votes."""
        inside = np.flatnonzero(members)
        if 2 * len(inside) > self.size:  # the sentence on the few says the same
            return ""
        names = join_names([self.names[at] for at in inside])
        does = "models " if len(inside) > 1 else ""
        reaches, reached = self.reach[inside[0]] & ~members, self.reach[:, inside[0]] & ~members
        others = " against the others" if len(inside) > 1 else ""
        tied = " or tied" if self.ties_bound else ""
        if reaches.any() and not reached.any():
            return f"The {does or 'model '}{names} never lost{tied}{others}: how much better is not known."
        if reached.any() and not reaches.any():
            return f"The {does or 'model '}{names} never won{tied}{others}: how much worse is not known."
        return ""

    def _describe_intervals(self, *, has_intervals: bool) -> str:
        if self.group_count < 2:
            return "There are no intervals: all votes are of one group."
        ranks = "A rank range counts the models that are significantly better or worse."
        if not has_intervals:
            return f"No rating has an interval. {ranks}"
        name = self.votes.group_name
        drawn = f"{self.group_count:,} groups by {name}" if name else "votes, each taken as independent of the others"
        return (
            f"Intervals are {CONFIDENCE_LEVEL:.0%}, percentile bootstrap, {self.options.draw_count:,} draws of {drawn} "
            f"(seed {self.options.seed}). {ranks}"
        )


def _have_intervals(ratings: Sequence[ModelRating], pairs: Sequence[PairRating]) -> bool:
    intervals = [*(row.rating for row in ratings), *(pair.difference for pair in pairs)]
    return any(interval.low is not None for interval in intervals)


def _merge_ties(counts: Floats) -> Floats:
    """Return draws × pairs × (win, loss, tie): both-bad counts as a tie."""
    return np.concatenate([counts[:, :, :TIE], counts[:, :, TIE:].sum(axis=2, keepdims=True)], axis=2)


def _is_one_sided(counts: Floats) -> Bools:
    """Return for each draw whether all votes that name a winner name the first, or all name the second."""
    decided = counts[:, :, :TIE].sum(axis=1) > 0
    one_sided: Bools = decided[:, WIN] != decided[:, LOSS]
    return one_sided


def _connect(reach: Bools) -> Bools:
    """Return which models are connected by votes, whoever won them."""
    connected: Bools = reach | reach.T
    while True:
        more = (connected.astype(np.float32) @ connected.astype(np.float32)) > 0
        if (more == connected).all():
            return connected
        connected = more


def _split(connected: Bools, names: Sequence[str]) -> list[list[str]]:
    """Return the names of each set of models that are connected."""
    left = list(range(len(names)))
    parts = []
    while left:
        inside = [at for at in left if connected[left[0], at]]
        parts.append([names[at] for at in inside])
        left = [at for at in left if at not in inside]
    return parts


def _to_probability(difference: Interval) -> Interval:
    """Return the probability that the first of two models beats the second, from the difference of their ratings."""
    value, low, high = (
        None if end is None else 1 / (1 + 10 ** (-max(-_MAX_POINTS, min(_MAX_POINTS, end)) / 400))
        for end in (difference.value, difference.low, difference.high)
    )
    return Interval(value, low, high, difference.why)
