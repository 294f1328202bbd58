"""The arena of a run for the HTML report and the web app: boards of judge and people, win rates, the pairs.

`compute_arena` reads the votes and fits the boards; the pages only look things up in what it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from beholder.arena.agreement import ArenaAgreement
from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.leaderboard import Leaderboard, ModelRating
from beholder.arena.run_votes import ArenaStatistics, RunVotes
from beholder.arena.verdict_votes import PairRow, agree_on_run
from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.arena import (
    AGREEMENT_HEADERS,
    agreement_rows,
    agreement_sentences,
    arena_sentences,
    format_rank,
    format_share,
    leaderboard_title,
)
from beholder.reports.charts import ScaleRange, axis_chart, interval_chart
from beholder.reports.text import format_interval, use_minus_sign
from beholder.reviews.review import list_reviews
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.verdicts.verdict import BOTH_BAD, FIRST, SECOND, TIE

ELO_STEP = 50  # the axis of ratings begins and ends at a multiple of this
MAX_MATRIX_MODELS = 24  # more columns cannot be read; the pairs can still be filtered
FLIPPED, FAILED, SPLIT = "flipped", "failed", "split"
PAIR_FILTERS: Mapping[str, str] = {
    "": "all pairs",
    FLIPPED: "flips: the answer followed the order",
    BOTH_BAD: "both bad",
    TIE: "ties",
    FAILED: "without a vote",
    SPLIT: "people and judge differ",
}


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A model on a board: texts, and its rating as a dot with a bar on the axis that all rows share."""

    model: str
    rank: str
    rating: str
    chart: Markup
    votes: int
    win_rate: str
    both_bad: str
    flips: int
    failed: int


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """How the model of a row did against that of a column: `rate` is its share of votes, ties counted as half."""

    model: str
    other: str
    rate: float | None
    votes: int
    text: str
    tone: str


@dataclass(frozen=True, slots=True)
class BoardSection:
    """A board for a page.

    Attributes:
        title: What it was made of.
        rows: The models, the best first.
        axis: The axis of the charts of all rows.
        matrix: A row of cells for each model, in the order of `models`.
        sentences: What the board does not say.
        has_flips: Whether pairs were asked in both orders.
    """

    title: str
    rows: tuple[BoardRow, ...]
    axis: Markup
    models: tuple[str, ...]
    matrix: tuple[tuple[MatrixCell | None, ...], ...]
    sentences: tuple[str, ...]
    has_flips: bool


@dataclass(frozen=True, slots=True)
class PeopleVote:
    """A vote of a person on a pair."""

    rater: str
    winner: str


@dataclass(frozen=True, slots=True)
class ArenaSection:
    """The arena of a run.

    Attributes:
        judge: The board by the judge's votes; None where there is none, and `why` says so.
        people: The board by the votes of people; None without.
        agreement: How far the two agree; None without votes of people on the same pairs.
        raters: How many people voted.
        pairs: What came of each pair, in the order of the run.
        votes: The votes of people by case.
    """

    judge: BoardSection | None
    people: BoardSection | None
    agreement: ArenaAgreement | None
    raters: int
    pairs: tuple[PairRow, ...]
    votes: Mapping[str, tuple[PeopleVote, ...]]
    models: tuple[str, ...]
    why: str = ""

    @property
    def agreement_headers(self) -> Sequence[str]:
        return AGREEMENT_HEADERS

    @property
    def agreement_rows(self) -> list[Sequence[str]]:
        return agreement_rows(self.agreement) if self.agreement else []

    @property
    def agreement_sentences(self) -> list[str]:
        return agreement_sentences(self.agreement) if self.agreement else []

    def count(self, kind: str, model: str = "", other: str = "") -> int:
        """Return how many pairs `select` returns."""
        return len(self.select(kind, model, other))

    def select(self, kind: str = "", model: str = "", other: str = "") -> list[PairRow]:
        """Return the pairs of one kind, a key of `PAIR_FILTERS`, with these models (empty: any), in whichever order.

        A model has no pair with itself.

        Raises:
            UsageError: The kind or a model is unknown.
        """
        if kind not in PAIR_FILTERS:
            raise UsageError(f"Pairs are shown by {', '.join(filter(None, PAIR_FILTERS))}, not by {kind!r}.")
        unknown = [name for name in (model, other) if name and name not in self.models]
        if unknown:
            raise UsageError(f"There is no model {unknown[0]!r} in this arena; there are {', '.join(self.models)}.")
        wanted = {model, other} - {""}
        if model and model == other:
            return []
        return [pair for pair in self.pairs if wanted <= set(pair.models) and self._fits(pair, kind)]

    def _fits(self, pair: PairRow, kind: str) -> bool:
        if kind == FLIPPED:
            return pair.flipped
        if kind == FAILED:
            return pair.winner is None
        if kind == SPLIT:
            return pair.winner is not None and any(vote.winner != pair.winner for vote in self.votes.get(pair.case, ()))
        return not kind or pair.winner == kind


def compute_arena(
    address: str, run: str, *, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED
) -> ArenaSection | None:
    """Return the arena of a run; takes an address and an id, which can be sent to another process.

    Returns:
        None if the run is not one of pairs of models.
    """
    with Ledger.open(address, read_only=True) as ledger:
        return make_arena(ledger, ledger.run(run), draw_count=draw_count, seed=seed)


def make_arena(
    ledger: Ledger, record: RunRecord, *, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED
) -> ArenaSection | None:
    """Return the arena of a run, None if it is not one of pairs of models; see `compute_arena`."""
    if not record.is_preference or record.is_review:
        return None
    try:
        judge = RunVotes(ledger, record.id)
    except LedgerError:
        raise
    except UsageError:  # its cases do not say which models are compared
        return None
    if not judge.pairs:
        return None
    reviews = [review.id for review in list_reviews(ledger, record.id)]
    people = _read_people(ledger, record, reviews)
    options = ArenaOptions(draw_count=draw_count, seed=seed)
    judged, why = _fit(judge, options)
    voted, _ = _fit(people, options) if people else (None, "")
    scale = _rating_scale([board for board in (judged, voted) if board is not None])
    statistics = partial(RunVotes.statistics, draw_count=draw_count, seed=seed)
    agreement = None
    if judged is not None and people is not None:
        try:
            agreement = agree_on_run(ledger, record.id, reviews, draw_count=draw_count, seed=seed)
        except UsageError:  # people voted on other pairs than the judge
            agreement = None
    votes: dict[str, list[PeopleVote]] = {}
    for row in people.pairs if people else ():
        if row.winner is not None:
            votes.setdefault(row.case, []).append(PeopleVote(row.judge.partition(":")[2], row.winner))
    return ArenaSection(
        judge=_make_board(judged, statistics(judge), scale) if judged else None,
        people=_make_board(voted, statistics(people), scale) if voted and people else None,
        agreement=agreement,
        raters=len({row.judge for row in people.pairs}) if people else 0,
        pairs=tuple(judge.pairs),
        votes={case: tuple(given) for case, given in votes.items()},
        models=tuple(dict.fromkeys(model for pair in judge.pairs for model in sorted(pair.models))),
        why=why,
    )


def _read_people(ledger: Ledger, record: RunRecord, reviews: Sequence[str]) -> RunVotes | None:
    try:
        return RunVotes(ledger, record.id, reviews) if reviews else None
    except LedgerError:
        raise
    except UsageError:  # nobody has saved a vote
        return None


def _fit(votes: RunVotes, options: ArenaOptions) -> tuple[Leaderboard | None, str]:
    """Return the board, or why there is none."""
    try:
        return fit_votes(votes.votes(), options), ""
    except UsageError as error:
        return None, str(error)


def _rating_scale(boards: Sequence[Leaderboard]) -> ScaleRange:
    ends = [
        end
        for board in boards
        for row in board.ratings
        for end in (row.rating.value, row.rating.low, row.rating.high)
        if end is not None
    ]
    low, high = min([*ends, 950.0]), max([*ends, 1050.0])
    return low // ELO_STEP * ELO_STEP, -(-high // ELO_STEP) * ELO_STEP


def _make_board(board: Leaderboard, statistics: ArenaStatistics, scale: ScaleRange) -> BoardSection:
    models = tuple(row.model for row in board.ratings)
    few = models if len(models) <= MAX_MATRIX_MODELS else ()
    return BoardSection(
        title=leaderboard_title(board),
        rows=tuple(_make_row(row, statistics, scale) for row in board.ratings),
        axis=axis_chart(scale, 1000),
        models=few,
        matrix=tuple(
            tuple(None if model == other else _make_cell(board, model, other) for other in few) for model in few
        ),
        sentences=tuple(arena_sentences(board, statistics)),
        has_flips=bool(statistics.both_orders),
    )


def _make_row(row: ModelRating, statistics: ArenaStatistics, scale: ScaleRange) -> BoardRow:
    counts = statistics.models[row.model]
    return BoardRow(
        model=row.model,
        rank=format_rank(row),
        rating=use_minus_sign(format_interval(row.rating, 0)),
        chart=interval_chart(row.rating, scale, 1000),
        votes=row.votes,
        win_rate=format_share(row.win_rate.value),
        both_bad=format_share(row.both_bad_rate.value),
        flips=counts.flips,
        failed=counts.failed,
    )


def _make_cell(board: Leaderboard, model: str, other: str) -> MatrixCell:
    pair = board.compare(model, other)
    votes = pair.wins + pair.losses + pair.ties + pair.both_bad
    rate = (pair.wins + (pair.ties + pair.both_bad) / 2) / votes if votes else None
    counted = Counter(won=pair.wins, lost=pair.losses, tie=pair.ties, both_bad=pair.both_bad)
    told = ", ".join(f"{count:,} {_name_count(name, count)}" for name, count in counted.items() if count)
    better = pair.better == model
    return MatrixCell(
        model,
        other,
        rate,
        votes,
        text=f"{model} against {other}: {told or 'never compared'}",
        tone="good" if better else "bad" if pair.better else "",
    )


def _name_count(name: str, count: int) -> str:
    return "ties" if name == "tie" and count > 1 else name.replace("_", " ")


def describe_winner(pair: PairRow) -> str:
    """Return the winner of a pair by the name of its model; a tie and two bad ones in words, else the outcome."""
    if pair.winner is None:
        return str(pair.outcome)
    return {FIRST: pair.models[0], SECOND: pair.models[1], TIE: "tie", BOTH_BAD: "both bad"}[pair.winner]
