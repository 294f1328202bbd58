"""Votes of people on pairs: which candidate is shown on which side, and what a choice of a side means.

A person sees the candidates of a preference as left and right. Which of them is left is decided by a hash of review and
case, so that it differs between raters and cases, and is the same when the page is loaded again. Like a judge that is
asked in swapped order, the person then answers about A (left) and B (right), and the verdict has the answer mapped back
to the candidates beside the order in which they were shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from beholder.errors import UsageError
from beholder.ledger.encoding import storable_text
from beholder.ledger.ledger import Ledger
from beholder.reviews.review import PERSON_PREFIX, Review, list_reviews
from beholder.rubrics.brief import GIVEN, ORDERS, SWAPPED
from beholder.rubrics.rubric import Criterion, Rubric
from beholder.verdicts.observe import ABSTAIN
from beholder.verdicts.verdict import BOTH_BAD, FIRST, SECOND, TIE, Verdict

PEOPLE = "people"
"""In place of the name of a judge: everybody who voted on the pairs of a run."""
UNKNOWN_ORDER = ""
"""Of votes that come from a file which does not say how the candidates were shown."""
OVERALL = "overall"  # the vote on all in all; no criterion of a preference may have this key
LEFT, RIGHT = "left", "right"
SIDES = (LEFT, RIGHT, TIE, BOTH_BAD)

_LETTERS = {LEFT: "A", RIGHT: "B", TIE: TIE, BOTH_BAD: BOTH_BAD}


def select_reviews(ledger: Ledger, run: str, judge: str = PEOPLE) -> list[Review]:
    """Return the reviews of a run by everybody (`people`) or by one person (`person:NAME`).

    Args:
        ledger: The ledger.
        run: The id of the run.
        judge: Whose votes are meant.

    Raises:
        UsageError: It names nobody who reviewed the run.
    """
    reviews = list_reviews(ledger, run)
    if judge == PEOPLE:
        return reviews
    chosen = [review for review in reviews if review.judge.casefold() == judge.casefold()]
    if not chosen:
        names = ", ".join(repr(review.judge) for review in reviews) or "nobody so far"
        raise UsageError(
            f"Votes of others than the run's own judge are those of {PEOPLE!r}, or of one person "
            f"({PERSON_PREFIX}NAME), not of {judge!r}; this run was reviewed by: {names}."
        )
    return chosen


def choose_order(review: str, case: str) -> str:
    """Return in which order a review shows the candidates of a case: `given`, or `swapped` with the second on the left.

    Args:
        review: The id of the review.
        case: The id of the case.
    """
    digest = hashlib.blake2b("\0".join(("sides", review, storable_text(case))).encode(), digest_size=1).digest()
    return ORDERS[digest[0] % 2]


def recorded_order(verdict: Verdict | None) -> str:
    """Return the order in which a person saw the candidates when they voted; `UNKNOWN_ORDER` where that is not kept."""
    answers = verdict.preference.answers if verdict is not None and verdict.preference is not None else ()
    return answers[0].order if answers else UNKNOWN_ORDER


def side_of(winner: str, order: str) -> str:
    """Return the side on which a winner was shown; a tie and two bad ones have no side and stay what they are."""
    return {FIRST: RIGHT, SECOND: LEFT}.get(winner, winner) if order == SWAPPED else _unswapped_side(winner)


def _unswapped_side(winner: str) -> str:
    return {FIRST: LEFT, SECOND: RIGHT}.get(winner, winner)


def winner_on(side: str, order: str) -> str:
    """Return the candidate that was shown on a side: the inverse of `side_of`."""
    shown = (SECOND, FIRST) if order == SWAPPED else (FIRST, SECOND)
    return dict(zip((LEFT, RIGHT), shown, strict=True)).get(side, side)


def vote_name(rubric: Rubric, key: str = OVERALL) -> str:
    """Return the name of the question for a criterion, or for the whole."""
    return f"{rubric.name}:{key}"


def vote_names(rubric: Rubric) -> set[str]:
    """Return the names of all questions of a preference."""
    return {vote_name(rubric), *(vote_name(rubric, criterion.key) for criterion in rubric.criteria)}


def vote_document(rubric: Rubric, answers: Mapping[str, str], open_answer: str) -> dict[str, object]:
    """Return the votes as a judge would write them, with left as A and right as B; what is open is an abstention.

    Args:
        rubric: The rubric, of kind preference.
        answers: The sides by the names of their questions.
        open_answer: The answer that leaves a question open.

    Raises:
        UsageError: An answer is no side.
    """
    return {
        "criteria": {criterion.key: _choice(rubric, criterion, answers, open_answer) for criterion in rubric.criteria},
        OVERALL: _choice(rubric, None, answers, open_answer),
    }


def _choice(
    rubric: Rubric, criterion: Criterion | None, answers: Mapping[str, str], open_answer: str
) -> dict[str, object]:
    name = vote_name(rubric, criterion.key if criterion else OVERALL)
    given = answers.get(name, open_answer)
    if given not in (*SIDES, open_answer):
        raise UsageError(f"{name!r} is answered with left, right, tie or both_bad, not {given[:40]!r}.")
    return {"choice": _LETTERS.get(given, ABSTAIN)}


def votes_from_verdict(rubric: Rubric, verdict: Verdict, order: str) -> dict[str, str]:
    """Return the answers behind a person's verdict, as sides in this order; what was left open is not in them."""
    winners = list_winners(verdict)
    return {vote_name(rubric, key): side_of(winner, order) for key, winner in winners.items()}


def list_winners(verdict: Verdict) -> dict[str, str]:
    """Return the winners of a verdict by criterion, and `overall` at the end; those that are open are left out."""
    winners = {key: result.choice for key, result in verdict.criteria.items()}
    winners[OVERALL] = verdict.preference.winner if verdict.preference is not None else None
    return {key: winner for key, winner in winners.items() if winner is not None}


@dataclass(frozen=True, slots=True)
class SameVotes:
    """How often a person and the judge vote alike, on one criterion or `overall`.

    Attributes:
        key: The criterion, or `overall`.
        pairs: On how many pairs both voted.
        same: On how many they said the same of first, second, tie and both bad.
        decided: On how many both named a candidate.
        same_decided: On how many of these it was the same one.
    """

    key: str
    pairs: int = 0
    same: int = 0
    decided: int = 0
    same_decided: int = 0


@dataclass(frozen=True, slots=True)
class SplitVote:
    """A pair on which a person and the judge do not vote alike, and the order in which the person saw it."""

    case: str
    person: str
    judge: str
    order: str

    @property
    def is_opposite(self) -> bool:
        return {self.person, self.judge} == {FIRST, SECOND}


def compare_votes(ledger: Ledger, review: Review) -> tuple[list[SameVotes], list[SplitVote]]:
    """Return how often a rater and the judge vote alike, and the pairs where they do not, opposite votes first."""
    votes = {(verdict.case, verdict.rubric): verdict for verdict in ledger.verdicts(review.id) if verdict.answered}
    counts: dict[str, list[int]] = {}
    split: list[SplitVote] = []
    for stored in ledger.stored_verdicts_on(review.run, list({case for case, _ in votes})):
        person = votes.get((stored.verdict.case, stored.verdict.rubric))
        if person is None:
            continue
        judged, own = list_winners(stored.verdict), list_winners(person)
        for key, winner in own.items():
            if key not in judged:
                continue
            both_decide = {winner, judged[key]} <= {FIRST, SECOND}
            same = winner == judged[key]
            added = (1, same, both_decide, same and both_decide)
            counts[key] = [old + new for old, new in zip(counts.get(key, [0] * 4), added, strict=True)]
            if key == OVERALL and not same:
                split.append(SplitVote(person.case, winner, judged[key], recorded_order(person) or GIVEN))
    keys = sorted(counts, key=lambda key: key != OVERALL)
    return [SameVotes(key, *counts[key]) for key in keys], sorted(split, key=lambda one: not one.is_opposite)
