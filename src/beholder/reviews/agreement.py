"""Agreement of one rater with the judge of the run that they review."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beholder.reviews.ratings import RatedValue, load_column_names, rated_values
from beholder.reviews.review import Review
from beholder.statistics.data import ColumnKind, ColumnNames
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger

NEAR_SHARE = 0.1  # of a scale with fractions; on a scale of whole numbers, "near" is one step


@dataclass(frozen=True, slots=True)
class ReviewAgreement:
    """Agreement of a judge and a person on one aspect, over the cases that both have a value for.

    Attributes:
        aspect: The name of the aspect.
        scale: Its lowest and highest value.
        cases: How many cases there are.
        same: The share of cases with the same value.
        near: The share with values at most one step apart (a tenth of a scale with fractions).
        bias: The mean of judge minus person, on the scale.
        distance: The mean absolute difference, on the scale.
    """

    aspect: str
    scale: tuple[float, float]
    cases: int
    same: float
    near: float
    bias: float
    distance: float


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """The criterion of a case on which judge and person differ most; `share` is of its scale."""

    case: str
    aspect: str
    judge: float
    person: float
    share: float


@dataclass(frozen=True, slots=True)
class ReviewedCase:
    """A person's verdict on a case, beside the judge's.

    Attributes:
        person: The person's verdict.
        judge: The judge's, or `None` while it is hidden.
        rows: For each criterion: key, scale, person, judge, difference as a share of the scale.
        split: Assertions that the two answered differently: id, question, person, judge, the judge's evidence.
    """

    person: Verdict
    judge: Verdict | None
    rows: list[tuple[str, tuple[float, float], float | None, float | None, float | None]]
    split: list[tuple[str, str, str, str, str]]


def compare_with_judge(ledger: Ledger, review: Review) -> tuple[list[ReviewAgreement], list[CaseDifference]]:
    """Return the agreement of a rater with the judge by aspect, and the cases, those where they differ most first."""
    record = ledger.run(review.run)
    names = load_column_names(ledger, record, assertions=False)
    rater_verdicts = {
        (verdict.case, verdict.rubric): verdict for verdict in ledger.verdicts(review.id) if verdict.scored
    }
    pairs: dict[str, list[tuple[float, float]]] = {}
    scales: dict[str, tuple[float, float]] = {}
    widest: dict[str, CaseDifference] = {}
    for stored in ledger.stored_verdicts_on(record.id, list({case for case, _ in rater_verdicts})):
        judge = stored.verdict
        person = rater_verdicts.get((judge.case, judge.rubric))
        if person is None:
            continue
        person_values = {rated.aspect: rated.value for rated in _scored_values(person, names)}
        for rated in _scored_values(judge, names):
            if rated.aspect not in person_values:
                continue
            both = rated.value, person_values[rated.aspect]
            scales[rated.aspect] = rated.scale
            pairs.setdefault(rated.aspect, []).append(both)
            if rated.kind is ColumnKind.CRITERION:
                share = abs(both[0] - both[1]) / (rated.scale[1] - rated.scale[0])
                if judge.case not in widest or share > widest[judge.case].share:
                    widest[judge.case] = CaseDifference(judge.case, rated.aspect, *both, share)
    whole = {
        names((ColumnKind.CRITERION, name, criterion.key))
        for name, rubric in record.load_rubrics().items()
        for criterion in rubric.criteria
        if criterion.whole
    }
    agreements = [_summarize_aspect(name, scales[name], both, whole=name in whole) for name, both in pairs.items()]
    return agreements, sorted(widest.values(), key=lambda difference: -difference.share)


def _scored_values(verdict: Verdict, names: ColumnNames) -> list[RatedValue]:
    return [rated for rated in rated_values(verdict, names) if rated.kind is not ColumnKind.ASSERTION]


def pair_verdicts(person: Verdict, judge: Verdict | None) -> ReviewedCase:
    """Compare a person's verdict on a case with the judge's."""
    rows, split = [], []
    for key, result in person.criteria.items():
        other = judge.criteria.get(key) if judge is not None else None
        theirs = None if other is None else other.score
        share = (
            None
            if result.score is None or theirs is None
            else (theirs - result.score) / (result.scale[1] - result.scale[0])
        )
        rows.append((key, result.scale, result.score, theirs, share))
        judge_assertions = {assertion.id: assertion for assertion in other.assertions} if other is not None else {}
        split += [
            (
                assertion.id,
                assertion.question,
                assertion.answer,
                judge_assertions[assertion.id].answer,
                judge_assertions[assertion.id].evidence,
            )
            for assertion in result.assertions
            if assertion.id in judge_assertions
            and {assertion.answer, judge_assertions[assertion.id].answer} == {"yes", "no"}
        ]
    return ReviewedCase(person, judge, rows, split)


def _summarize_aspect(
    aspect: str, scale: tuple[float, float], pairs: Sequence[tuple[float, float]], *, whole: bool
) -> ReviewAgreement:
    both = np.array(pairs, np.float64)
    differences = both[:, 0] - both[:, 1]
    distances = np.abs(differences)
    step = 1.0 if whole else NEAR_SHARE * (scale[1] - scale[0])
    return ReviewAgreement(
        aspect,
        scale,
        len(pairs),
        same=float((distances < 1e-9).mean()),
        near=float((distances < step + 1e-9).mean()),
        bias=float(differences.mean()),
        distance=float(distances.mean()),
    )
