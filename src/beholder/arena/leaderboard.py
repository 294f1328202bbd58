"""The result of `beholder arena fit`: ratings of models, rank ranges, probabilities, and the gate `--fail-unless`."""

from __future__ import annotations

import difflib

import msgspec

from beholder.errors import UsageError
from beholder.statistics.bootstrap import Interval, to_json_values
from beholder.statistics.gate import Gate
from beholder.statistics.pairs import join_names


class ModelRating(msgspec.Struct, frozen=True):
    """A model on the board.

    Attributes:
        model: Its name.
        rank: The best and the worst rank it may have: the models that are significantly better, and worse, are counted.
        rating: 400 points are odds of 10 to 1; the models' mean is 1000, unless some are anchored.
        votes: How many votes it took part in.
        wins: Votes for it.
        losses: Votes for the other.
        ties: Votes for neither, both being good enough or none better.
        both_bad: Votes that both are bad; a tie for the rating.
        win_rate: Share of its votes that it won, ties and both-bad counted as half.
        both_bad_rate: Share of its votes that were both-bad.
        groups: Number of groups (photographs) in which it has votes.
        anchored: Whether its rating was given and not fitted.
    """

    model: str
    rank: tuple[int, int]
    rating: Interval
    votes: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    win_rate: Interval
    both_bad_rate: Interval
    groups: int
    anchored: bool = False


class PairRating(msgspec.Struct, frozen=True):
    """Two models beside each other, the one with the higher rating first.

    Attributes:
        model: The first model.
        other: The second model.
        difference: Rating of the first less that of the second.
        probability: Probability that the first beats the second, where one of them wins.
        wins: Votes for the first, when the two were compared.
        losses: Votes for the second.
        ties: Votes for neither.
        both_bad: Votes that both are bad.
        better: The model that is significantly better; empty where that cannot be told.
    """

    model: str
    other: str
    difference: Interval
    probability: Interval
    wins: int
    losses: int
    ties: int
    both_bad: int
    better: str = ""


class Leaderboard(msgspec.Struct, frozen=True):
    """Models ranked by votes: the result of `fit_arena`.

    Attributes:
        ratings: The models, from the highest rating to the lowest.
        pairs: Every two models.
        votes: Number of votes.
        groups: Number of groups that were drawn for the intervals.
        group: What a group is (`prompt`); empty where each vote is independent.
        tie_rate: Share of ties, both-bad included, between two equal models.
        both_bad_rate: Share of all votes that were both-bad.
        position: Advantage of the first position in rating points; None where it was not fitted.
        derived: Whether the votes were derived from scores.
        notes: What was left out, assumed or cannot be told, in sentences.
        interval_note: A sentence on how intervals were computed.
    """

    ratings: tuple[ModelRating, ...]
    pairs: tuple[PairRating, ...]
    votes: int
    groups: int
    group: str
    tie_rate: float
    both_bad_rate: float
    position: Interval | None
    derived: bool
    notes: tuple[str, ...]
    interval_note: str

    def __repr__(self) -> str:
        best = ", ".join(f"{row.model} {row.rating.value or 0:.0f}" for row in self.ratings[:3])
        more = f" and {len(self.ratings) - 3} more" if len(self.ratings) > 3 else ""
        return f"<Leaderboard of {self.votes:,} votes: {best}{more}>"

    def _repr_html_(self) -> str:
        from beholder.reports.arena import leaderboard_html

        return leaderboard_html(self)

    def __getitem__(self, model: str) -> ModelRating:
        """Return the row of a model; raise `UsageError` for one that is not on the board."""
        self._check_model(model)
        return next(row for row in self.ratings if row.model == model)

    def compare(self, model: str, other: str) -> PairRating:
        """Return two models beside each other, in this order.

        Raises:
            UsageError: There is no such model, or the two are the same.
        """
        for name in (model, other):
            self._check_model(name)
        if model == other:
            raise UsageError(f"Two models are compared, and both of these are {model!r}.")
        pair = next(pair for pair in self.pairs if {pair.model, pair.other} == {model, other})
        return pair if pair.model == model else _reverse(pair)

    def gate(self, *fail_unless: str) -> Gate:
        """Decide whether models are better than others.

        Passed where the interval of the difference is above zero, failed where it is not above, undecided where it
        includes zero or there is none.

        Args:
            fail_unless: Conditions such as `"candidate > baseline"`.

        Raises:
            UsageError: A condition is not of this form, or names a model that is not on the board.
        """
        if not fail_unless:
            raise UsageError('A gate needs a condition, such as "candidate > baseline".')
        failed, undecided = {}, {}
        for condition in fail_unless:
            better, worse = self._parse_condition(condition)
            pair = self.compare(better, worse)
            if self[better].anchored and self[worse].anchored:
                undecided[condition] = f"{better} and {worse} are both anchored: these votes say nothing of them."
                continue
            found = f"its rating is {_format_difference(pair.difference)} that of {worse}"
            if pair.better == worse:
                failed[condition] = f"{better} is not better than {worse}: {found}."
            elif not pair.better:
                why = f" ({pair.difference.why})" if pair.difference.why else ""
                undecided[condition] = f"Whether {better} is better than {worse} cannot be told: {found}{why}."
        return Gate(tuple(fail_unless), tuple(failed), tuple(undecided), failed, undecided=undecided)

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder arena fit --json` prints."""
        return to_json_values(self)

    def _parse_condition(self, condition: str) -> tuple[str, str]:
        names = {row.model for row in self.ratings}
        parts = condition.split(">")
        splits = [(">".join(parts[:at]).strip(), ">".join(parts[at:]).strip()) for at in range(1, len(parts))]
        known = [split for split in splits if set(split) <= names]
        if known:
            return known[0]
        if len(splits) != 1 or not all(splits[0]) or splits[0][1].startswith("="):
            raise UsageError(f'A condition is written "candidate > baseline", not {condition!r}.')
        return splits[0]

    def _check_model(self, model: str) -> None:
        names = [row.model for row in self.ratings]
        if model not in names:
            close = difflib.get_close_matches(model, names, n=1)
            hint = f"did you mean {close[0]!r}? There are" if close else "there are"
            raise UsageError(f"No model {model!r} is on the board; {hint}: {join_names(names)}.")


def _reverse(pair: PairRating) -> PairRating:
    difference, probability = pair.difference, pair.probability
    return msgspec.structs.replace(
        pair,
        model=pair.other,
        other=pair.model,
        difference=Interval(
            _negate(difference.value), _negate(difference.high), _negate(difference.low), difference.why
        ),
        probability=Interval(
            _complement(probability.value),
            _complement(probability.high),
            _complement(probability.low),
            probability.why,
        ),
        wins=pair.losses,
        losses=pair.wins,
    )


def _negate(value: float | None) -> float | None:
    return None if value is None else -value


def _complement(probability: float | None) -> float | None:
    return None if probability is None else 1 - probability


def _format_difference(difference: Interval) -> str:
    value = difference.value or 0.0
    ends = "" if difference.low is None else f" ({difference.low:+.0f} to {difference.high or 0:+.0f})"
    return f"{abs(value):.0f} points {'above' if value >= 0 else 'below'}{ends}"
