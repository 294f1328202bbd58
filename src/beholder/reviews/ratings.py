"""Reviews as ratings: what people said of a run in the ledger, for everything that sets a judge beside people.

An aspect is named as the columns of the run are (`reading.Names`): a criterion by its key, the overall as `score` (0–1,
computed from the answers), an assertion by its id, 1 for yes and 0 for no. What a person left open is missing.

Ratings from a file become reviews in the ledger, through the same checks and scoring as what a person types in.

One person beside the judge: over everything rated so far, and on one case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beholder.errors import UsageError
from beholder.ledger.encoding import storable_text
from beholder.ledger.export import csv_line, escape_formula, unescape_formula
from beholder.reviews.review import Review, find_or_start_review, list_reviews, parse_rater_name
from beholder.reviews.sheet import (
    ReviewSheet,
    assertion_name,
    build_sheet,
    clean_answers,
    load_rating,
    record_rating,
    score_answers,
    score_name,
)
from beholder.rubrics.rubric import Criterion
from beholder.statistics.aspects import OVERALL_ASPECT, normalize_name
from beholder.statistics.data import ColumnKind, ColumnNames, Ratings, read_number_rows
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord


SCORE = "score"
_ASSERTION_VALUES = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class RatedValue:
    """One number that a verdict tells. `scale` is where it can lie."""

    aspect: str
    kind: ColumnKind
    value: float
    scale: tuple[float, float]


def load_column_names(ledger: Ledger, record: RunRecord, *, assertions: bool = True) -> ColumnNames:
    """How the columns of a run are named; without `assertions`, whose names depend on its styles, a little quicker."""
    several_styles = False
    if assertions and any(rubric.get("styles") for rubric in record.rubrics):
        several_styles = ledger.has_several_styles(record.id)
    return ColumnNames(_criterion_keys(record), len(record.rubrics) > 1, several_styles)


def _criterion_keys(record: RunRecord) -> Iterator[tuple[ColumnKind, str, str]]:
    """As the ledger has them, which may be of a version whose rubrics nobody can rate by any more."""
    for rubric in record.rubrics:
        listed = rubric.get("criteria")
        for one in listed if isinstance(listed, list | tuple) else ():
            yield ColumnKind.CRITERION, str(rubric.get("rubric")), str(one.get("key"))


def rated_values(verdict: Verdict, names: ColumnNames) -> Iterator[RatedValue]:
    """Every number of a verdict, in the order of its rubric, the overall last."""
    for key, result in verdict.criteria.items():
        for one in result.assertions:
            if one.answer in _ASSERTION_VALUES:
                name = names((ColumnKind.ASSERTION, verdict.style or "", one.id))
                yield RatedValue(name, ColumnKind.ASSERTION, _ASSERTION_VALUES[one.answer], (0, 1))
        if result.score is not None:
            name = names((ColumnKind.CRITERION, verdict.rubric, key))
            yield RatedValue(
                name, ColumnKind.CRITERION, float(result.score), (float(result.scale[0]), float(result.scale[1]))
            )
    if verdict.score is not None:
        yield RatedValue(names((ColumnKind.OVERALL, verdict.rubric, SCORE)), ColumnKind.OVERALL, verdict.score, (0, 1))


def read_review_ratings(ledger: Ledger, run: str, *, assertions: bool = True) -> dict[str, Ratings]:
    """What people said of a run, by aspect; empty where nobody reviewed it. `run` as in `Ledger.run`."""
    record = ledger.run(run)
    found: dict[str, dict[tuple[str, str], float]] = {}
    for rater, case, one in _stream_ratings(ledger, record, list_reviews(ledger, record.id), assertions=assertions):
        if assertions or one.kind is not ColumnKind.ASSERTION:
            found.setdefault(one.aspect, {})[case, rater] = one.value
    return {aspect: _to_ratings(aspect, values) for aspect, values in found.items()}


def format_ratings_csv(ledger: Ledger, run: str, reviews: Sequence[Review] | None = None) -> Iterator[bytes]:
    """The ratings of a run (of some of its reviews) as `case,rater,aspect,score`, a header first. A text that a
    spreadsheet would take for a formula gets an apostrophe in front, which `beholder ratings import` takes off."""
    record = ledger.run(run)
    wanted = list_reviews(ledger, record.id) if reviews is None else reviews
    yield b"case,rater,aspect,score\n"
    for rater, case, one in _stream_ratings(ledger, record, wanted):
        yield csv_line(
            (escape_formula(case), escape_formula(rater), escape_formula(one.aspect), format_exact(one.value))
        )


def format_exact(value: float) -> str:
    """As many digits as it takes: two scores that are the same stay the same, and a tie stays a tie."""
    return str(int(value)) if value.is_integer() else repr(value)


def _stream_ratings(
    ledger: Ledger, record: RunRecord, reviews: Sequence[Review], *, assertions: bool = True
) -> Iterator[tuple[str, str, RatedValue]]:
    """Rater, case and number, review by review in the order of the cases. Ratings that were begun tell nothing."""
    if not reviews:
        return
    names = load_column_names(ledger, record, assertions=assertions)
    for review in reviews:
        for verdict in ledger.verdicts(review.id):
            for one in rated_values(verdict, names):
                yield review.rater, verdict.case, one


def _to_ratings(aspect: str, values: Mapping[tuple[str, str], float]) -> Ratings:
    cases = list(dict.fromkeys(case for case, _ in values))
    raters = list(dict.fromkeys(rater for _, rater in values))
    row, column = ({name: at for at, name in enumerate(listed)} for listed in (cases, raters))
    table = np.full((len(cases), len(raters)), np.nan)
    for (case, rater), value in values.items():
        table[row[case], column[rater]] = value
    return Ratings(aspect, tuple(cases), tuple(raters), table)


MAX_REASONS = 50  # reasons that are told
_MAX_LINES = 10  # lines that are named for one of them

AspectValues = dict[str, float]
"""By aspect, what somebody said of a case."""


@dataclass(slots=True)
class RatingsImport:
    """By rater, how many cases are rated anew or otherwise than before; and what a reader should know."""

    raters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _ImportProblems:
    """What is wrong with a file: each reason once, with the lines that it holds for, in the order of the file."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._first: dict[str, int] = {}

    def add(self, number: int, place: str, why: str) -> None:
        """`number` counts rows, `place` says to people which one it is."""
        lines = self._lines.setdefault(why, [])
        line = place.rpartition(", ")[2]
        if line not in lines:
            lines.append(line)
        self._first[why] = min(number, self._first.get(why, number))

    def refuse(self, path: Path) -> None:
        """Raises `UsageError` where something is wrong."""
        if not self._lines:
            return
        reasons = sorted(self._lines, key=lambda why: self._first[why])
        more = [f"… and {len(reasons) - MAX_REASONS:,} more reasons"] if len(reasons) > MAX_REASONS else []
        said = [f"{_name_lines(self._lines[why])}: {why}" for why in reasons[:MAX_REASONS]]
        raise UsageError("\n".join([f"{str(path)!r} cannot be taken, and nothing of it was:", *said, *more]))


def _name_lines(lines: Sequence[str]) -> str:
    """`line 3`, or `lines 3, 4 and 20 more`."""
    if len(lines) == 1:
        return lines[0]
    numbers = [line.removeprefix("line ") for line in lines]
    more = f" and {len(lines) - _MAX_LINES:,} more" if len(lines) > _MAX_LINES else ""
    return f"lines {', '.join(numbers[:_MAX_LINES])}{more}"


@dataclass(slots=True)
class _RatingsFile:
    """What a file says: by rater (whose name is the same in any case of letters) and case. `names` has each rater as
    they are written first, `rows` the number and place of each rating."""

    names: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, str], AspectValues] = field(default_factory=dict)
    rows: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)


def import_ratings(ledger: Ledger, run: str, path: Path, mapped: Sequence[str] = ()) -> RatingsImport:
    """Writes the ratings of a file as reviews of a run. What is there already and the file does not speak of stays:
    other criteria, answers, comments.

    Everything is checked first; raises `UsageError` with all that is wrong, and then nothing is written.
    """
    record = ledger.run(run)
    problems = _ImportProblems()
    file = _read_file(path, frozenset(ledger.case_ids(record.id)), _parse_mapping(mapped), record.id, problems)
    aspects = {aspect for values in file.said.values() for aspect in values}
    computed = {aspect for aspect in aspects if _is_overall(aspect, list(record.load_rubrics()))}
    planned = _ImportPlan(ledger, record, file, problems)
    file.names |= {rater: review.rater for rater, review in planned.reviews.items() if rater in file.names}
    for (rater, case), values in file.said.items():
        planned.add(rater, case, {name: value for name, value in values.items() if name not in computed})
    problems.refuse(path)
    if not aspects:
        raise UsageError(f"{str(path)!r} holds no rating; it should have rows of case,rater,aspect,score.")
    if computed == aspects:
        raise UsageError(f"Only {', '.join(sorted(computed))} is rated, which is computed from criteria; rate those.")
    done = RatingsImport(dict.fromkeys(file.names.values(), 0))
    reviews = {name: find_or_start_review(ledger, record.id, name) for name, _ in planned.answers}
    for (name, case), answers in planned.answers.items():
        record_rating(ledger, reviews[name], case, answers)
        done.raters[name] += 1
    done.notes += [f"{name}: {count:,} rated so already." for name, count in planned.there.items()]
    if computed:
        done.notes.append(f"Left out, because it is computed from the criteria: {', '.join(sorted(computed))}.")
    return done


def _read_file(
    path: Path, cases: frozenset[str], mapped: Mapping[str, str], run: str, problems: _ImportProblems
) -> _RatingsFile:
    found = _RatingsFile()
    number = 0

    def complain(text: str) -> None:
        place, _, why = text.removeprefix(str(path)).partition(": ")
        problems.add(number, place, why)

    for place, (case, rater, aspect), value in read_number_rows(path, ("case", "rater", "aspect"), complain):
        number += 1
        id_ = next((one for one in (unescape_formula(storable_text(case)), storable_text(case)) if one in cases), None)
        if id_ is None:
            problems.add(number, place, f"the run {run} has no case {case!r}; ratings are of cases that were judged.")
            continue
        try:
            name = parse_rater_name(unescape_formula(rater))
        except UsageError as error:
            problems.add(number, place, str(error))
            continue
        aspect = mapped.get(aspect, unescape_formula(aspect))
        values = found.said.setdefault((name.casefold(), id_), {})
        first = found.names.setdefault(name.casefold(), name)
        if aspect in values:
            also = f" (also written {name!r})" if name != first else ""
            problems.add(number, place, f"{first!r}{also} rates {aspect!r} of {id_!r} a second time.")
        values[aspect] = value
        found.rows[name.casefold(), id_, aspect] = number, place
    return found


class _ImportPlan:
    """The answers to write by rater and case, and by rater how many cases are rated so already."""

    def __init__(self, ledger: Ledger, record: RunRecord, file: _RatingsFile, problems: _ImportProblems) -> None:
        self.answers: dict[tuple[str, str], dict[str, str]] = {}
        self.there: dict[str, int] = {}
        self._ledger, self._record, self._file, self._problems = ledger, record, file, problems
        self._names = load_column_names(ledger, record)
        self.reviews = {review.rater.casefold(): review for review in list_reviews(ledger, record.id)}
        self._sheets: dict[str, ReviewSheet] = {}

    def add(self, rater: str, case: str, values: AspectValues) -> None:
        if not values:
            return
        sheet, name = self._sheet(case), self._file.names[rater]
        review = self.reviews.get(rater)
        there = None if review is None else load_rating(self._ledger, review, case)
        before = {} if there is None else dict(there.answers)
        verdicts = () if there is None else there.verdicts
        same = {one.aspect: one.value for verdict in verdicts for one in rated_values(verdict, self._names)}
        fresh = {aspect: value for aspect, value in values.items() if same.get(aspect) != value}
        said = self._said(rater, case, fresh)
        answers = {**before, **said}
        if verdicts and answers == before:
            self.there[name] = self.there.get(name, 0) + 1
        elif said:
            self.answers[name, case] = answers
            for verdict in (
                score_answers(rubric, case, name, clean_answers(sheet, answers)) for rubric in sheet.rubrics
            ):
                if not verdict.scored:
                    self._wrong(rater, case, next(iter(fresh)), f"{name}, {case}: {verdict.detail}")

    def _said(self, rater: str, case: str, values: AspectValues) -> dict[str, str]:
        """The answers by their questions."""
        found: dict[str, str] = {}
        for aspect, value in values.items():
            answers = _to_answers(self._sheet(case), self._names, aspect, value)
            if isinstance(answers, str):
                self._wrong(rater, case, aspect, answers)
                continue
            if twice := found.keys() & answers.keys():
                again = f"{self._file.names[rater]!r} answers {min(twice)} of {case!r} a second time, as {aspect!r}."
                self._wrong(rater, case, aspect, again)
            found |= answers
        return found

    def _wrong(self, rater: str, case: str, aspect: str, why: str) -> None:
        self._problems.add(*self._file.rows[rater, case, aspect], why)

    def _sheet(self, case: str) -> ReviewSheet:
        if case not in self._sheets:
            verdicts = [one.verdict for one in self._ledger.stored_verdicts(self._record.id, case=case)]
            self._sheets[case] = build_sheet(self._record, self._ledger.case(self._record.id, case), verdicts, "")
        return self._sheets[case]


def _to_answers(sheet: ReviewSheet, names: ColumnNames, aspect: str, value: float) -> dict[str, str] | str:
    """The answer that a rating is, by the name of its question; or what is wrong with it. A criterion goes by the name
    that it is exported under, or by its key, which may be that of several rubrics."""
    criteria = [(rubric, one) for rubric in sheet.rubrics for one in rubric.criteria]
    for scored in (
        [(rubric, one) for rubric, one in criteria if names((ColumnKind.CRITERION, rubric.name, one.key)) == aspect],
        [(rubric, one) for rubric, one in criteria if one.key == aspect],
        [(rubric, one) for rubric, one in criteria if normalize_name(one.key) == normalize_name(aspect)],
    ):
        if scored:
            if wrong := next((why for _, one in scored if (why := _scale_problem(one, value))), ""):
                return f"{aspect!r} {wrong}, not {format_exact(value)}."
            return {score_name(rubric, criterion): format_exact(value) for rubric, criterion in scored}
    asserted = [
        assertion_name(rubric, criterion, one)
        for rubric, criterion in criteria
        for one in criterion.assertions
        if aspect in (one.id, f"{rubric.style.style}/{one.id}" if rubric.style else one.id)
    ]
    if not asserted:
        keys = [names((ColumnKind.CRITERION, rubric.name, one.key)) for rubric, one in criteria]
        return (
            f"the aspect {aspect!r} is no criterion of the rubric; there are {', '.join(keys)}. "
            f"Say which is meant with --map {aspect}=CRITERION, or leave these rows out."
        )
    if value not in (0, 1):
        return f"the assertion {aspect!r} holds (1) or does not (0), and this says {format_exact(value)}."
    return dict.fromkeys(asserted, "yes" if value else "no")


def _scale_problem(criterion: Criterion, value: float) -> str:
    """What a rating of a criterion is, where this is none."""
    low, high = criterion.scale
    if low <= value <= high and (not criterion.whole or value.is_integer()):
        return ""
    return f"is rated with a {'whole ' if criterion.whole else ''}number from {low:g} to {high:g}"


def _is_overall(aspect: str, rubrics: Sequence[str]) -> bool:
    return (
        aspect == SCORE or normalize_name(aspect) == OVERALL_ASPECT or aspect in {f"{name}.{SCORE}" for name in rubrics}
    )


def _parse_mapping(mapped: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in mapped:
        aspect, sign, criterion = (part.strip() for part in text.partition("="))
        if not (aspect and sign and criterion) or "(" in criterion:
            raise UsageError(f"--map is written ASPECT=CRITERION here, with one criterion, not {text!r}.")
        pairs[aspect] = criterion
    return pairs


NEAR_SHARE = 0.1  # of a scale that takes any number: as near as a step of a whole one


@dataclass(frozen=True, slots=True)
class ReviewAgreement:
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
class CaseDifference:
    """A case, and how far judge and person are apart on it: the widest of its criteria, as a share of the scale."""

    case: str
    aspect: str
    judge: float
    person: float
    share: float


@dataclass(frozen=True, slots=True)
class ReviewedCase:
    """A person's verdict, and the judge's unless it is hidden; `rows` by criterion: key, scale, person, judge, share of
    the scale between them; `split` the assertions that the two answered differently."""

    person: Verdict
    judge: Verdict | None
    rows: list[tuple[str, tuple[float, float], float | None, float | None, float | None]]
    split: list[tuple[str, str, str, str, str]]


def compare_with_judge(ledger: Ledger, review: Review) -> tuple[list[ReviewAgreement], list[CaseDifference]]:
    """A person beside the judge over everything rated so far, and the cases by how much the two differ, most first."""
    record = ledger.run(review.run)
    names = load_column_names(ledger, record, assertions=False)
    own = {(one.case, one.rubric): one for one in ledger.verdicts(review.id) if one.scored}
    pairs: dict[str, list[tuple[float, float]]] = {}
    scales: dict[str, tuple[float, float]] = {}
    apart: dict[str, CaseDifference] = {}
    for one in ledger.stored_verdicts_on(record.id, list({case for case, _ in own})):
        verdict = one.verdict
        person = own.get((verdict.case, verdict.rubric))
        if person is None:
            continue
        said = {
            each.aspect: each.value for each in rated_values(person, names) if each.kind is not ColumnKind.ASSERTION
        }
        for each in rated_values(verdict, names):
            if each.kind is ColumnKind.ASSERTION or each.aspect not in said:
                continue
            both = each.value, said[each.aspect]
            scales[each.aspect] = each.scale
            pairs.setdefault(each.aspect, []).append(both)
            if each.kind is ColumnKind.CRITERION:
                share = abs(both[0] - both[1]) / (each.scale[1] - each.scale[0])
                if verdict.case not in apart or share > apart[verdict.case].share:
                    apart[verdict.case] = CaseDifference(verdict.case, each.aspect, *both, share)
    whole = {
        names((ColumnKind.CRITERION, name, criterion.key))
        for name, rubric in record.load_rubrics().items()
        for criterion in rubric.criteria
        if criterion.whole
    }
    listed = sorted(apart.values(), key=lambda one: -one.share)
    return [_summarize_aspect(name, scales[name], both, whole=name in whole) for name, both in pairs.items()], listed


def pair_verdicts(person: Verdict, judge: Verdict | None) -> ReviewedCase:
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
    return ReviewedCase(person, judge, rows, split)


def _summarize_aspect(
    aspect: str, scale: tuple[float, float], pairs: Sequence[tuple[float, float]], *, whole: bool
) -> ReviewAgreement:
    both = np.array(pairs, np.float64)
    less = both[:, 0] - both[:, 1]
    apart = np.abs(less)
    step = 1.0 if whole else NEAR_SHARE * (scale[1] - scale[0])
    return ReviewAgreement(
        aspect,
        scale,
        len(pairs),
        same=float((apart < 1e-9).mean()),
        near=float((apart < step + 1e-9).mean()),
        bias=float(less.mean()),
        distance=float(apart.mean()),
    )
