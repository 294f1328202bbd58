"""Votes from the verdicts of a run of pairs: as rows, as arrays for a board, and in the columns of `votes.read_votes`.

The verdict on a pair is one vote of its judge, whatever number of calls it took. Where a pair was asked in several
orders or by several jurors, each answer is also a vote by itself, of another voter (`JUDGE, each answer`): of these one
can tell whether the judge leans to what it was shown first, which verdicts over both orders no longer show. A vote has
an order where all answers behind it were given in that one; else it has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from beholder.arena.agreement import ArenaAgreement, agree_with_people
from beholder.arena.pairs import MODEL_FIRST, MODEL_SECOND
from beholder.arena.votes import Codes, Labels, VoteOutcome, Votes, read_votes
from beholder.cases.case import CANDIDATES
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import StoredVerdict
from beholder.rubrics.brief import GIVEN, SWAPPED
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.verdicts.verdict import WINNERS, Outcome, Preference, PreferenceAnswer, Verdict

OUTCOMES = dict(zip(WINNERS, VoteOutcome, strict=True))  # of winners, for candidates in given order

_COLUMNS = ("model_a", "model_b")


class PairRow(msgspec.Struct, frozen=True):
    """The verdict on a pair, as a vote.

    Attributes:
        winner: `first`, `second`, `tie`, `both_bad`; None where there is no vote.
        models: Who made the candidates; empty texts where the case does not say.
        flipped: Whether the answer of a judge followed the order.
        both_orders: Whether a judge answered in both orders.
        calls: The answers of which it is known what was shown first.
        shown_first: Those for what was shown first; a tie counts half.
        order: In which order the candidates were shown, `given` or `swapped`; empty where in both, or not known.
        answers: Each answer: who gave it, the choice (None where the call failed), and the order.
    """

    case: str
    judge: str
    outcome: Outcome
    winner: str | None
    models: tuple[str, str]
    groups: Mapping[str, str]
    flipped: bool
    both_orders: bool
    calls: int
    shown_first: float
    order: str = ""
    answers: tuple[tuple[str, str | None, str], ...] = ()

    @classmethod
    def of(cls, stored: StoredVerdict) -> PairRow:
        verdict = stored.verdict
        preference = verdict.preference or Preference(None)
        first = [
            _shown_first(answer.order, answer.choice)
            for answer in preference.answers
            if answer.choice and answer.order in (GIVEN, SWAPPED)
        ]
        answered = {
            (answer.judge, answer.sample, answer.order) for answer in preference.answers if answer.choice is not None
        }
        both = any((judge, sample, SWAPPED) in answered for judge, sample, order in answered if order == GIVEN)
        orders = {order for _, _, order in answered}
        return cls(
            case=verdict.case,
            judge=verdict.judge,
            outcome=verdict.outcome,
            winner=find_winner(verdict),
            models=(stored.groups.get(MODEL_FIRST, ""), stored.groups.get(MODEL_SECOND, "")),
            groups=stored.groups,
            flipped=preference.flipped and both,
            both_orders=both,
            calls=len(first),
            shown_first=sum(first),
            order=next(iter(orders & {GIVEN, SWAPPED})) if len(orders) == 1 and orders <= {GIVEN, SWAPPED} else "",
            answers=tuple((_name_voter(answer), answer.choice, answer.order) for answer in preference.answers),
        )

    @property
    def leaned(self) -> bool:
        """Whether an answer changed with the order, and none flipped."""
        said = {(judge, order): choice for judge, choice, order in self.answers if choice is not None}
        return not self.flipped and any(
            said.get((judge, SWAPPED), choice) != choice for (judge, order), choice in said.items() if order == GIVEN
        )

    def split(self) -> list[PairRow]:
        """Return each answer behind the verdict as a vote by itself."""
        return [
            msgspec.structs.replace(self, judge=judge, winner=choice, order=order)
            for judge, choice, order in self.answers
        ]


def make_votes(rows: Sequence[PairRow], group: str) -> Votes:
    """Return the rows with a winner as votes, by the order in which the candidates were shown; the others are counted.

    Args:
        rows: The pairs, all with the names of their models.
        group: The group of cases that belong together; a case without one is a group of its own. Empty: there is none,
            and only votes on the same case belong together.
    """
    voted = [row for row in rows if row.winner is not None]
    if not group and len({row.case for row in voted}) < len(voted):
        group = "case"
    models = tuple(dict.fromkeys(model for row in voted for model in row.models))
    number = {model: at for at, model in enumerate(models)}
    return Votes(
        models,
        np.array([number[row.models[row.order == SWAPPED]] for row in voted], np.int32),
        np.array([number[row.models[row.order != SWAPPED]] for row in voted], np.int32),
        np.array([_vote_outcome(row) for row in voted], np.int8),
        case=_label(row.case for row in voted),
        group=_label(row.groups.get(group) or row.case for row in voted) if group else None,
        judge=_label(row.judge for row in voted),
        order=_label("ab" if row.order else "" for row in voted),
        group_name=group,
        unanswered=dict(Counter(row.judge for row in rows if row.winner is None)),
    )


def _name_voter(answer: PreferenceAnswer) -> str:
    return answer.judge + (f" #{answer.sample + 1}" if answer.sample else "")


def _vote_outcome(row: PairRow) -> VoteOutcome:
    """Return the winner by the order in which the candidates were shown."""
    outcome = OUTCOMES[row.winner or ""]
    mirrored = {VoteOutcome.FIRST: VoteOutcome.SECOND, VoteOutcome.SECOND: VoteOutcome.FIRST}
    return mirrored.get(outcome, outcome) if row.order == SWAPPED else outcome


def find_winner(verdict: Verdict) -> str | None:
    """Return the winner of a pair; None where the verdict has none, whatever the reason."""
    return verdict.preference.winner if verdict.scored and verdict.preference is not None else None


def _shown_first(order: str, choice: str) -> float:
    if choice not in WINNERS[:2]:
        return 0.5
    return float((choice == WINNERS[0]) == (order != SWAPPED))


def _label(texts: Iterable[str]) -> Labels:
    numbers: dict[str, int] = {}
    codes: Codes = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int32)
    return Labels(codes, tuple(numbers))


class VerdictVotes(NamedTuple):
    """The votes in the verdicts of a run, in the columns of `votes.read_votes`; an empty `winner` is no vote.

    Attributes:
        verdicts: A row for each verdict.
        answers: A row for each answer behind those that are made of several, by other voters (`JUDGE, each answer`).
    """

    verdicts: list[dict[str, str]]
    answers: list[dict[str, str]]


def list_verdict_votes(verdicts: Iterable[StoredVerdict], run: str = "") -> VerdictVotes:
    """Return the votes in the verdicts of a run.

    Args:
        verdicts: The verdicts.
        run: Follows the name of the judge, to tell apart the votes of one judge in several runs.

    Raises:
        UsageError: A verdict is not by a rubric of kind `preference`.
    """
    ending = f" ({run})" if run else ""
    found = VerdictVotes([], [])
    for stored in verdicts:
        verdict = stored.verdict
        if verdict.preference is None and verdict.answered:
            raise UsageError(
                f"The verdict on {verdict.case!r} has scores: {verdict.rubric} does not ask which of two is better; "
                "`beholder agree` compares scores with people's."
            )
        pair = PairRow.of(stored)
        found.verdicts.append(_to_columns(pair, ending))
        if len(pair.answers) > 1:
            found.answers.extend(_to_columns(answer, f"{ending}, each answer") for answer in pair.split())
    return found


def _to_columns(row: PairRow, ending: str) -> dict[str, str]:
    winner = row.winner or ""
    return {
        **{name: text for name, text in row.groups.items() if name not in (MODEL_FIRST, MODEL_SECOND)},
        "case": row.case,
        **dict(zip(_COLUMNS, row.models, strict=True)),
        "judge": row.judge + ending,
        "winner": dict(zip(CANDIDATES, _COLUMNS, strict=True)).get(winner, winner),
        "order": {GIVEN: "ab", SWAPPED: "ba"}.get(row.order, ""),
    }


def list_people_votes(ledger: Ledger, reviews: Iterable[str]) -> list[dict[str, str]]:
    """Return the votes that people gave on the pairs of a run.

    Args:
        ledger: The ledger.
        reviews: The ids of the reviews of the run; a vote that was begun and not saved does not count.
    """
    given = (stored for review in reviews for stored in ledger.stored_verdicts(review) if stored.verdict.answered)
    return list_verdict_votes(given).verdicts


def agree_on_run(
    ledger: Ledger, run: str, reviews: Iterable[str], *, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED
) -> ArenaAgreement:
    """Compare the votes of a run's judge with those of the people who reviewed it; see `agree_with_people`.

    Raises:
        UsageError: No pair has votes of both.
    """
    judged = list_verdict_votes(ledger.stored_verdicts(run))
    rows = [*judged.verdicts, *judged.answers], list_people_votes(ledger, reviews)
    votes, people = (read_votes(each, same_model=True) for each in rows)
    return agree_with_people(votes, people, draw_count=draw_count, seed=seed)
