"""Votes of judges from the verdicts of a run of pairs, in the columns of `votes.read_votes`.

The verdict on a pair is one vote of its judge. Where a pair was asked in several orders or by several jurors, each
answer is also a vote by itself, of another voter (`JUDGE, each answer`): of these one can tell whether the judge leans
to what it was shown first, which verdicts over both orders no longer show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beholder.arena.agreement import ArenaAgreement, agree_with_people
from beholder.arena.pairs import MODEL_FIRST, MODEL_SECOND
from beholder.arena.votes import read_votes
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import StoredVerdict
from beholder.rubrics.brief import SWAPPED
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.verdicts.verdict import FIRST, SECOND, PreferenceAnswer

EACH_ANSWER = "each answer"

_WINNERS = {FIRST: "model_a", SECOND: "model_b"}


def list_verdict_votes(verdicts: Iterable[StoredVerdict]) -> Iterator[dict[str, str]]:
    """Yield the votes in the verdicts of a run; one without a winner has an empty `winner`, which counts as no vote.

    Raises:
        UsageError: A verdict is not by a rubric of kind `preference`.
    """
    for stored in verdicts:
        verdict = stored.verdict
        if verdict.preference is None and verdict.answered:
            raise UsageError(
                f"The verdict on {verdict.case!r} has scores: {verdict.rubric} does not ask which of two is better; "
                "`beholder agree` compares scores with people's."
            )
        groups = {name: text for name, text in stored.groups.items() if name not in (MODEL_FIRST, MODEL_SECOND)}
        row = {
            **groups,
            "case": verdict.case,
            "model_a": stored.groups.get(MODEL_FIRST, ""),
            "model_b": stored.groups.get(MODEL_SECOND, ""),
            "order": "ab",
        }
        preference = verdict.preference
        winner = preference.winner if preference is not None else None
        answers = preference.answers if preference is not None else ()
        if len(answers) == 1 and answers[0].order == SWAPPED:  # asked once: this is how it was shown
            row["order"] = "ba"
        yield row | {"judge": verdict.judge, "winner": _WINNERS.get(winner or "", winner or "")}
        if len(answers) > 1:
            yield from (row | _answer_vote(answer) for answer in answers)


def list_people_votes(ledger: Ledger, reviews: Iterable[str]) -> list[dict[str, str]]:
    """Return the votes that people gave on the pairs of a run.

    Args:
        ledger: The ledger.
        reviews: The ids of the reviews of the run; a vote that was begun and not saved does not count.
    """
    given = (stored for review in reviews for stored in ledger.stored_verdicts(review) if stored.verdict.answered)
    return list(list_verdict_votes(given))


def agree_on_run(
    ledger: Ledger, run: str, reviews: Iterable[str], *, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED
) -> ArenaAgreement:
    """Compare the votes of a run's judge with those of the people who reviewed it; see `agree_with_people`.

    Raises:
        UsageError: No pair has votes of both.
    """
    judged, people = list_verdict_votes(ledger.stored_verdicts(run)), list_people_votes(ledger, reviews)
    votes = [read_votes(list(rows), same_model=True) for rows in (judged, people)]
    return agree_with_people(*votes, draw_count=draw_count, seed=seed)


def _answer_vote(answer: PreferenceAnswer) -> dict[str, str]:
    sample = f" #{answer.sample + 1}" if answer.sample else ""
    return {
        "judge": f"{answer.judge}{sample}, {EACH_ANSWER}",
        "winner": _WINNERS.get(answer.choice or "", answer.choice or ""),
        "order": "ba" if answer.order == SWAPPED else "ab",
    }
