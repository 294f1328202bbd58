"""Reviews as ratings: what people said of a run in the ledger, for everything that sets a judge beside people.

An aspect is named as the columns of the run are: a criterion by its key, the overall as `score` (0–1, computed from the
answers), an assertion by its id, 1 for yes and 0 for no. What a person left open is missing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from beholder.runs.reviewing import Review, reviews_of
from beholder.statistics.data import Kind, Ratings
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord

SCORE = "score"
_ANSWERS = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class Names:
    """How aspects are called: with the rubric or the style in front where the run has several."""

    rubrics: bool
    styles: bool

    def overall(self, rubric: str) -> str:
        return f"{rubric}.{SCORE}" if self.rubrics else SCORE

    def assertion(self, style: str | None, id_: str) -> str:
        return f"{style}/{id_}" if self.styles and style else id_


@dataclass(frozen=True, slots=True)
class Told:
    """One number that a verdict tells. `scale` is where it can lie."""

    aspect: str
    kind: Kind
    value: float
    scale: tuple[float, float]


def names_of(ledger: Ledger, record: RunRecord) -> Names:
    """How the columns of a run are named; of a rubric with styles its verdicts are gone through."""
    styled = any(rubric.get("styles") for rubric in record.rubrics)
    styles = {verdict.style or "" for verdict in ledger.verdicts(record.id)} if styled else set()
    return Names(len(record.rubrics) > 1, len(styles) > 1)


def told(verdict: Verdict, names: Names) -> Iterator[Told]:
    """Every number of a verdict, in the order of its rubric, the overall last."""
    for key, result in verdict.criteria.items():
        for one in result.assertions:
            if one.answer in _ANSWERS:
                yield Told(names.assertion(verdict.style, one.id), Kind.ASSERTION, _ANSWERS[one.answer], (0, 1))
        if result.score is not None:
            yield Told(key, Kind.CRITERION, float(result.score), (float(result.scale[0]), float(result.scale[1])))
    if verdict.score is not None:
        yield Told(names.overall(verdict.rubric), Kind.OVERALL, verdict.score, (0, 1))


def ratings_of_reviews(ledger: Ledger, run: str, *, assertions: bool = True) -> dict[str, Ratings]:
    """What people said of a run, by aspect; empty where nobody reviewed it. `run` as in `Ledger.run`."""
    record = ledger.run(run)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for rater, case, one in _all(ledger, record):
        if assertions or one.kind is not Kind.ASSERTION:
            found.setdefault(one.aspect, {})[case, rater] = one.value
    return {aspect: _ratings(aspect, values) for aspect, values in found.items()}


def ratings_csv(ledger: Ledger, run: str, reviews: Sequence[Review] | None = None) -> Iterator[bytes]:
    """The ratings of a run (of some of its reviews) as `case,rater,aspect,score`, a header first. A text that a
    spreadsheet would take for a formula gets an apostrophe in front, which `beholder ratings import` takes off."""
    record = ledger.run(run)
    yield b"case,rater,aspect,score\n"
    for rater, case, one in _all(ledger, record, reviews):
        yield _line((_harmless(case), _harmless(rater), _harmless(one.aspect), _exactly(one.value)))


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


def beside(ledger: Ledger, review: Review) -> tuple[list[Beside], list[Difference]]:
    """A person beside the judge over everything rated so far, and the cases by how much the two differ, most first."""
    own = {(one.case, one.rubric): one for one in ledger.verdicts(review.id) if one.scored}
    judged = ledger.judged_on(review.run, list({case for case, _ in own}))
    names = Names(len(ledger.run(review.run).rubrics) > 1, False)
    pairs: dict[str, list[tuple[float, float]]] = {}
    scales: dict[str, tuple[float, float]] = {}
    apart: dict[str, Difference] = {}
    for one in judged:
        verdict = one.verdict
        person = own.get((verdict.case, verdict.rubric))
        if person is None:
            continue
        said = {each.aspect: each for each in told(person, names) if each.kind is not Kind.ASSERTION}
        for each in told(verdict, names):
            if each.kind is Kind.ASSERTION or each.aspect not in said:
                continue
            both = each.value, said[each.aspect].value
            scales[each.aspect] = each.scale
            pairs.setdefault(each.aspect, []).append(both)
            if each.kind is Kind.CRITERION:
                share = abs(both[0] - both[1]) / (each.scale[1] - each.scale[0])
                if verdict.case not in apart or share > apart[verdict.case].share:
                    apart[verdict.case] = Difference(verdict.case, each.aspect, *both, share)
    listed = sorted(apart.values(), key=lambda one: -one.share)
    return [_beside(aspect, scales[aspect], both) for aspect, both in pairs.items()], listed


def _beside(aspect: str, scale: tuple[float, float], pairs: Sequence[tuple[float, float]]) -> Beside:
    both = np.array(pairs, np.float64)
    less = both[:, 0] - both[:, 1]
    apart = np.abs(less)
    step = 1.0 if scale[1] - scale[0] > 1 else 0.1
    return Beside(
        aspect,
        scale,
        len(pairs),
        same=float((apart < 1e-9).mean()),
        near=float((apart < step + 1e-9).mean()),
        bias=float(less.mean()),
        distance=float(apart.mean()),
    )


def _all(ledger: Ledger, record: RunRecord, reviews: Sequence[Review] | None = None) -> Iterator[tuple[str, str, Told]]:
    """Rater, case and number, review by review in the order of the cases. Ratings that were begun tell nothing."""
    wanted = reviews_of(ledger, record.id) if reviews is None else reviews
    if not wanted:
        return
    names = names_of(ledger, record)
    for review in wanted:
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


def _line(cells: Iterable[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().removesuffix("\r\n").encode("utf-8", "backslashreplace") + b"\n"


def _exactly(value: float) -> str:
    """As many digits as it takes: two scores that are the same stay the same, and a tie stays a tie."""
    return str(int(value)) if value.is_integer() else repr(value)


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell[:1] in tuple("=+-@\t\r") else cell
