"""Votes of people on pairs as files: export as CSV, and import as reviews of a run.

Ours have the rows `case,rater,aspect,winner,order`: the aspect is `overall` or a criterion, the winner `first`,
`second`, `tie` or `both_bad`, the order `given` or `swapped` (the second candidate was on the left), and empty where it
is not known. The rows of public boards are taken too: `case`, `judge`, `model_a`, `model_b`, a winner `model_a`,
`model_b`, `tie` or `both_bad`, and `order` (`ab`, `ba`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beholder.errors import UsageError
from beholder.ledger.encoding import storable_text
from beholder.ledger.export import csv_line, escape_formula, unescape_formula
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reviews.ratings import ImportProblems, RatingsImport
from beholder.reviews.review import Review, find_or_start_review, list_reviews, parse_rater_name
from beholder.reviews.sheet import COMMENT_NAME, load_rating, record_rating
from beholder.reviews.votes import OVERALL, UNKNOWN_ORDER, list_winners, recorded_order, side_of, vote_name
from beholder.rubrics.brief import GIVEN, SWAPPED
from beholder.rubrics.rubric import Rubric
from beholder.statistics.data import read_plain_rows
from beholder.verdicts.verdict import BOTH_BAD, FIRST, SECOND, WINNERS

HEADER = ("case", "rater", "aspect", "winner", "order")

_MODELS = {"model_a": FIRST, "model_b": SECOND}
_MIRRORED = {FIRST: SECOND, SECOND: FIRST}
_ALIASES = {"tie (bothbad)": BOTH_BAD, "bothbad": BOTH_BAD, "both bad": BOTH_BAD}
_ORDERS = {"ab": GIVEN, "ba": SWAPPED, GIVEN: GIVEN, SWAPPED: SWAPPED, "": UNKNOWN_ORDER}
_MIRRORED_ORDER = {GIVEN: SWAPPED, SWAPPED: GIVEN}
_CHOICES = "first, second, tie or both_bad (or model_a, model_b)"


def format_votes_csv(ledger: Ledger, run: str, reviews: Sequence[Review] | None = None) -> Iterator[bytes]:
    """Yield the lines of a CSV file `case,rater,aspect,winner,order` with a header; see `format_ratings_csv`.

    Args:
        ledger: The ledger.
        run: The run.
        reviews: Some of its reviews; by default all.
    """
    yield (",".join(HEADER) + "\n").encode()
    for review in list_reviews(ledger, ledger.run(run).id) if reviews is None else reviews:
        for verdict in ledger.verdicts(review.id):
            order = recorded_order(verdict)
            for aspect, winner in list_winners(verdict).items() if verdict.answered else ():
                yield csv_line((*map(escape_formula, (verdict.case, review.rater, aspect)), winner, order))


@dataclass(slots=True)
class _CaseVotes:
    """What a rater says of a case in a file: winners by aspect, the order, and the first row for messages."""

    rater: str
    case: str
    row: tuple[int, str]
    winners: dict[str, str] = field(default_factory=dict)
    order: str | None = None


def import_votes(ledger: Ledger, run: str, path: Path) -> RatingsImport:
    """Store the votes of a file as reviews of a run of pairs. Other votes and comments of the same raters stay.

    Args:
        ledger: The ledger.
        run: The run.
        path: A CSV, TSV or JSONL file; see this module.

    Raises:
        UsageError: Something is wrong with the file. Everything is checked first, so that then nothing is written.
    """
    record = ledger.run(run)
    reader = _VoteFileReader(ledger, record, path)
    votes = reader.read()
    reader.problems.raise_if_any(path)
    if not votes:
        raise UsageError(f"{str(path)!r} holds no vote; it should have rows of {','.join(HEADER)}.")
    result = RatingsImport(dict.fromkeys((one.rater for one in votes), 0))
    unchanged: dict[str, int] = {}
    for one in votes:
        review = find_or_start_review(ledger, record.id, one.rater)
        if _store(ledger, review, one, reader.rubric):
            result.raters[one.rater] += 1
        else:
            unchanged[one.rater] = unchanged.get(one.rater, 0) + 1
    result.notes += [f"{name}: {count:,} voted so already." for name, count in unchanged.items()]
    return result


def _store(ledger: Ledger, review: Review, votes: _CaseVotes, rubric: Rubric) -> bool:
    """Store what a rater says of a case beside what they said before; return whether that is something new."""
    rating = load_rating(ledger, review, votes.case)
    before = list_winners(rating.verdicts[0]) if rating.saved else {}
    order = recorded_order(rating.verdicts[0]) if rating.saved else UNKNOWN_ORDER
    winners = {**before, **votes.winners}
    shown = order if votes.order is None else votes.order
    if winners == before and shown == order:
        return False
    sides = {vote_name(rubric, aspect): side_of(winner, shown) for aspect, winner in winners.items()}
    comment = {COMMENT_NAME: rating.answers[COMMENT_NAME]} if COMMENT_NAME in rating.answers else {}
    record_rating(ledger, review, votes.case, {**sides, **comment}, order=shown)
    return True


class _VoteFileReader:
    """Reads a file of votes, and collects what is wrong with it in `problems`."""

    def __init__(self, ledger: Ledger, record: RunRecord, path: Path) -> None:
        self.problems = ImportProblems()
        [self.rubric] = record.load_rubrics().values()
        self._ledger, self._record, self._path = ledger, record, path
        self._cases = frozenset(ledger.case_ids(record.id))
        self._aspects = (OVERALL, *(criterion.key for criterion in self.rubric.criteria))
        self._models: dict[str, tuple[str, str]] = {}
        self._saved = {review.rater.casefold(): review for review in list_reviews(ledger, record.id)}

    def read(self) -> list[_CaseVotes]:
        found: dict[tuple[str, str], _CaseVotes] = {}
        for number, (place, id_, values) in enumerate(read_plain_rows(self._path, self._complain), 1):
            try:
                self._take(found, (number, place), id_, values)
            except UsageError as error:
                self.problems.add(number, place, str(error))
        for votes in found.values():
            if OVERALL not in votes.winners and not self._has_vote(votes):
                self.problems.add(*votes.row, f"{votes.rater!r} has no vote on {votes.case!r} as a whole ({OVERALL}).")
        return list(found.values())

    def _complain(self, text: str) -> None:
        place, _, why = text.removeprefix(str(self._path)).partition(": ")
        self.problems.add(0, place, why)

    def _take(
        self,
        found: dict[tuple[str, str], _CaseVotes],
        row: tuple[int, str],
        id_: str,
        values: Mapping[str, str],
    ) -> None:
        said = (values.get("winner") or values.get("score") or "").strip()
        if not said:
            return  # the question was not answered
        spellings = (unescape_formula(storable_text(id_)), storable_text(id_))
        case = next((spelling for spelling in spellings if spelling in self._cases), None)
        if case is None:
            raise UsageError(f"the run {self._record.id} has no case {id_!r}; votes are on pairs that were judged.")
        name = parse_rater_name(unescape_formula(values.get("rater") or values.get("judge") or ""))
        name = self._saved[name.casefold()].rater if name.casefold() in self._saved else name
        aspect = unescape_formula((values.get("aspect") or OVERALL).strip())
        if aspect not in self._aspects:
            raise UsageError(f"the aspect {aspect!r} is none of {', '.join(self._aspects)}.")
        winner, order = self._read_vote(case, said, values)
        votes = found.setdefault((name.casefold(), case), _CaseVotes(name, case, row))
        if aspect in votes.winners:
            raise UsageError(f"{votes.rater!r} votes on {aspect!r} of {case!r} a second time.")
        if votes.order is not None and order is not None and votes.order != order:
            raise UsageError(f"{votes.rater!r} saw {case!r} in one order, and here are two.")
        votes.winners[aspect] = winner
        votes.order = order if votes.order is None else votes.order

    def _read_vote(self, case: str, said: str, values: Mapping[str, str]) -> tuple[str, str | None]:
        """Return the winner and the order, by the candidates of the case; the order is None where no column has it."""
        word = said.casefold()
        winner = _MODELS.get(word) or _ALIASES.get(word, word)
        if winner not in WINNERS:
            raise UsageError(f"the winner {said[:40]!r} is none of {_CHOICES}: a vote says which of two is better.")
        shown = values.get("order", "").strip().casefold()
        if shown not in _ORDERS:
            raise UsageError(f"the order {shown[:40]!r} is none of {GIVEN}, {SWAPPED}, ab and ba.")
        order = _ORDERS[shown] if "order" in values else None
        named = tuple(unescape_formula(values.get(name, "").strip()) for name in _MODELS)
        if not any(named):
            if word in _MODELS:
                raise UsageError(f"the winner is {said!r}, and there are no columns model_a and model_b.")
            return winner, order
        models = self._models_of(case)
        if set(named) != set(models):
            raise UsageError(f"{case!r} compares {' and '.join(models)}, not {' and '.join(named)}.")
        if word in _MODELS and named != models:
            winner = _MIRRORED[winner]
        if shown in ("ab", "ba") and named != models:
            order = _MIRRORED_ORDER[_ORDERS[shown]]
        return winner, order

    def _models_of(self, case: str) -> tuple[str, str]:
        if case not in self._models:
            groups = self._ledger.case(self._record.id, case).groups
            self._models[case] = groups.get("model_first", ""), groups.get("model_second", "")
        return self._models[case]

    def _has_vote(self, votes: _CaseVotes) -> bool:
        review = self._saved.get(votes.rater.casefold())
        return review is not None and load_rating(self._ledger, review, votes.case).saved
