"""Reviews as ratings: what people said of a run in the ledger, for everything that sets a judge beside people.

An aspect is named as the columns of the run are (`reading.Names`): a criterion by its key, the overall as `score` (0–1,
computed from the answers), an assertion by its id, 1 for yes and 0 for no. What a person left open is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beholder.ledger import reviews as stored
from beholder.ledger.spreadsheets import csv_line, harmless
from beholder.runs.reviewing import Review, reviews_of
from beholder.statistics.data import Kind, Ratings
from beholder.statistics.reading import Names
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord

SCORE = "score"
_ANSWERS = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class Told:
    """One number that a verdict tells. `scale` is where it can lie."""

    aspect: str
    kind: Kind
    value: float
    scale: tuple[float, float]


def names_of(ledger: Ledger, record: RunRecord, *, assertions: bool = True) -> Names:
    """How the columns of a run are named; without `assertions`, whose names depend on its styles, a little quicker."""
    several_styles = False
    if assertions and any(rubric.get("styles") for rubric in record.rubrics):
        with ledger.reading() as connection:
            several_styles = stored.several_styles(connection, ledger.number(connection, record.id))
    return Names(_criteria(record), len(record.rubrics) > 1, several_styles)


def _criteria(record: RunRecord) -> Iterator[tuple[Kind, str, str]]:
    """As the ledger has them, which may be of a version whose rubrics nobody can rate by any more."""
    for rubric in record.rubrics:
        listed = rubric.get("criteria")
        for one in listed if isinstance(listed, list | tuple) else ():
            yield Kind.CRITERION, str(rubric.get("rubric")), str(one.get("key"))


def told(verdict: Verdict, names: Names) -> Iterator[Told]:
    """Every number of a verdict, in the order of its rubric, the overall last."""
    for key, result in verdict.criteria.items():
        for one in result.assertions:
            if one.answer in _ANSWERS:
                name = names((Kind.ASSERTION, verdict.style or "", one.id))
                yield Told(name, Kind.ASSERTION, _ANSWERS[one.answer], (0, 1))
        if result.score is not None:
            name = names((Kind.CRITERION, verdict.rubric, key))
            yield Told(name, Kind.CRITERION, float(result.score), (float(result.scale[0]), float(result.scale[1])))
    if verdict.score is not None:
        yield Told(names((Kind.OVERALL, verdict.rubric, SCORE)), Kind.OVERALL, verdict.score, (0, 1))


def ratings_of_reviews(ledger: Ledger, run: str, *, assertions: bool = True) -> dict[str, Ratings]:
    """What people said of a run, by aspect; empty where nobody reviewed it. `run` as in `Ledger.run`."""
    record = ledger.run(run)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for rater, case, one in _all(ledger, record, reviews_of(ledger, record.id), assertions=assertions):
        if assertions or one.kind is not Kind.ASSERTION:
            found.setdefault(one.aspect, {})[case, rater] = one.value
    return {aspect: _ratings(aspect, values) for aspect, values in found.items()}


def ratings_csv(ledger: Ledger, run: str, reviews: Sequence[Review] | None = None) -> Iterator[bytes]:
    """The ratings of a run (of some of its reviews) as `case,rater,aspect,score`, a header first. A text that a
    spreadsheet would take for a formula gets an apostrophe in front, which `beholder ratings import` takes off."""
    record = ledger.run(run)
    wanted = reviews_of(ledger, record.id) if reviews is None else reviews
    yield b"case,rater,aspect,score\n"
    for rater, case, one in _all(ledger, record, wanted):
        yield csv_line((harmless(case), harmless(rater), harmless(one.aspect), exactly(one.value)))


def exactly(value: float) -> str:
    """As many digits as it takes: two scores that are the same stay the same, and a tie stays a tie."""
    return str(int(value)) if value.is_integer() else repr(value)


def _all(
    ledger: Ledger, record: RunRecord, reviews: Sequence[Review], *, assertions: bool = True
) -> Iterator[tuple[str, str, Told]]:
    """Rater, case and number, review by review in the order of the cases. Ratings that were begun tell nothing."""
    if not reviews:
        return
    names = names_of(ledger, record, assertions=assertions)
    for review in reviews:
        for verdict in ledger.verdicts(review.id):
            for one in told(verdict, names):
                yield review.rater, verdict.case, one


def _ratings(aspect: str, values: Mapping[tuple[str, str], float]) -> Ratings:
    cases = list(dict.fromkeys(case for case, _ in values))
    raters = list(dict.fromkeys(rater for _, rater in values))
    row, column = ({name: at for at, name in enumerate(listed)} for listed in (cases, raters))
    table = np.full((len(cases), len(raters)), np.nan)
    for (case, rater), value in values.items():
        table[row[case], column[rater]] = value
    return Ratings(aspect, tuple(cases), tuple(raters), table)
