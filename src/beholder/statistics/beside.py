"""One person beside the judge: over everything rated so far, and on one case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beholder.runs.review_sheet import rubrics_of
from beholder.runs.reviewing import Review
from beholder.statistics.data import Kind
from beholder.statistics.reviews import names_of, told
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from beholder.ledger import Ledger

TENTH = 0.1  # of a scale that takes any number: as near as a step of a whole one


@dataclass(frozen=True, slots=True)
class Beside:
    """What a judge and a person said of one aspect, over the cases that both have a number for.

    `same` and `near` (at most one step of a whole scale, a tenth of any other) are shares; `bias` is judge less person
    on average, `distance` how far apart they are, both on the scale.
    """

    aspect: str
    scale: tuple[float, float]
    cases: int
    same: float
    near: float
    bias: float
    distance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A case, and how far judge and person are apart on it: the widest of its criteria, as a share of the scale."""

    case: str
    aspect: str
    judge: float
    person: float
    share: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A person's verdict, and the judge's unless it is hidden; `rows` by criterion: key, scale, person, judge, share of
    the scale between them; `split` the assertions that the two answered differently."""

    person: Verdict
    judge: Verdict | None
    rows: list[tuple[str, tuple[float, float], float | None, float | None, float | None]]
    split: list[tuple[str, str, str, str, str]]


def beside(ledger: Ledger, review: Review) -> tuple[list[Beside], list[Difference]]:
    """A person beside the judge over everything rated so far, and the cases by how much the two differ, most first."""
    record = ledger.run(review.run)
    names = names_of(ledger, record, assertions=False)
    own = {(one.case, one.rubric): one for one in ledger.verdicts(review.id) if one.scored}
    pairs: dict[str, list[tuple[float, float]]] = {}
    scales: dict[str, tuple[float, float]] = {}
    apart: dict[str, Difference] = {}
    for one in ledger.judged_on(record.id, list({case for case, _ in own})):
        verdict = one.verdict
        person = own.get((verdict.case, verdict.rubric))
        if person is None:
            continue
        said = {each.aspect: each.value for each in told(person, names) if each.kind is not Kind.ASSERTION}
        for each in told(verdict, names):
            if each.kind is Kind.ASSERTION or each.aspect not in said:
                continue
            both = each.value, said[each.aspect]
            scales[each.aspect] = each.scale
            pairs.setdefault(each.aspect, []).append(both)
            if each.kind is Kind.CRITERION:
                share = abs(both[0] - both[1]) / (each.scale[1] - each.scale[0])
                if verdict.case not in apart or share > apart[verdict.case].share:
                    apart[verdict.case] = Difference(verdict.case, each.aspect, *both, share)
    whole = {
        names((Kind.CRITERION, name, criterion.key))
        for name, rubric in rubrics_of(record).items()
        for criterion in rubric.criteria
        if criterion.whole
    }
    listed = sorted(apart.values(), key=lambda one: -one.share)
    return [_beside(name, scales[name], both, whole=name in whole) for name, both in pairs.items()], listed


def pair_of(person: Verdict, judge: Verdict | None) -> Pair:
    """A case by one rubric, as both saw it."""
    rows, split = [], []
    for key, own in person.criteria.items():
        other = judge.criteria.get(key) if judge is not None else None
        theirs = None if other is None else other.score
        apart = None if own.score is None or theirs is None else (theirs - own.score) / (own.scale[1] - own.scale[0])
        rows.append((key, own.scale, own.score, theirs, apart))
        said = {one.id: one for one in other.assertions} if other is not None else {}
        split += [
            (one.id, one.question, one.answer, said[one.id].answer, said[one.id].evidence)
            for one in own.assertions
            if one.id in said and {one.answer, said[one.id].answer} == {"yes", "no"}
        ]
    return Pair(person, judge, rows, split)


def _beside(aspect: str, scale: tuple[float, float], pairs: Sequence[tuple[float, float]], *, whole: bool) -> Beside:
    both = np.array(pairs, np.float64)
    less = both[:, 0] - both[:, 1]
    apart = np.abs(less)
    step = 1.0 if whole else TENTH * (scale[1] - scale[0])
    return Beside(
        aspect,
        scale,
        len(pairs),
        same=float((apart < 1e-9).mean()),
        near=float((apart < step + 1e-9).mean()),
        bias=float(less.mean()),
        distance=float(apart.mean()),
    )
