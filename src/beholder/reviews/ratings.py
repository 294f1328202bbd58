"""Ratings of people: reviews as columns of numbers, export as CSV, import from a file, agreement with the judge.

An aspect has the name of the run's column (`statistics.data.ColumnNames`): a criterion its key, the overall `score`
(0–1, computed from the answers), an assertion its id, with 1 for yes and 0 for no. What was not answered is missing.
Imported ratings become reviews, through the same checks and scoring as what a person types in.
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
from beholder.statistics.aspects import OVERALL_ASPECT, Scale, normalize_name
from beholder.statistics.data import ColumnKind, ColumnNames, Ratings, read_number_rows
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord


SCORE = "score"
_ASSERTION_VALUES = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class RatedValue:
    """One number of a verdict, and its scale."""

    aspect: str
    kind: ColumnKind
    value: float
    scale: tuple[float, float]


def load_column_names(ledger: Ledger, record: RunRecord, *, assertions: bool = True) -> ColumnNames:
    """Return the names of the columns of a run; quicker without `assertions`, whose names depend on styles."""
    several_styles = False
    if assertions and any(rubric.get("styles") for rubric in record.rubrics):
        several_styles = ledger.has_several_styles(record.id)
    return ColumnNames(_criterion_keys(record), len(record.rubrics) > 1, several_styles)


def _criterion_keys(record: RunRecord) -> Iterator[tuple[ColumnKind, str, str]]:
    # From the stored JSON: a rubric of an older version may not load any more.
    for rubric in record.rubrics:
        criteria = rubric.get("criteria")
        for criterion in criteria if isinstance(criteria, list | tuple) else ():
            yield ColumnKind.CRITERION, str(rubric.get("rubric")), str(criterion.get("key"))


def rated_values(verdict: Verdict, names: ColumnNames) -> Iterator[RatedValue]:
    """Yield every number of a verdict, in the order of its rubric, the overall score last."""
    for key, result in verdict.criteria.items():
        for assertion in result.assertions:
            if assertion.answer in _ASSERTION_VALUES:
                name = names((ColumnKind.ASSERTION, verdict.style or "", assertion.id))
                yield RatedValue(name, ColumnKind.ASSERTION, _ASSERTION_VALUES[assertion.answer], (0, 1))
        if result.score is not None:
            name = names((ColumnKind.CRITERION, verdict.rubric, key))
            yield RatedValue(
                name, ColumnKind.CRITERION, float(result.score), (float(result.scale[0]), float(result.scale[1]))
            )
    if verdict.score is not None:
        yield RatedValue(names((ColumnKind.OVERALL, verdict.rubric, SCORE)), ColumnKind.OVERALL, verdict.score, (0, 1))


def read_review_ratings(ledger: Ledger, run: str, *, assertions: bool = True) -> dict[str, Ratings]:
    """Return the ratings of all raters of a run, by aspect; empty if nobody reviewed it.

    Args:
        ledger: The ledger.
        run: The run, as in `Ledger.run`.
        assertions: Whether to include assertions.
    """
    record = ledger.run(run)
    values: dict[str, dict[tuple[str, str], float]] = {}
    reviews = list_reviews(ledger, record.id)
    for rater, case, rated in _stream_ratings(ledger, record, reviews, assertions=assertions):
        if assertions or rated.kind is not ColumnKind.ASSERTION:
            values.setdefault(rated.aspect, {})[case, rater] = rated.value
    return {aspect: _to_ratings(aspect, by_case) for aspect, by_case in values.items()}


def format_ratings_csv(ledger: Ledger, run: str, reviews: Sequence[Review] | None = None) -> Iterator[bytes]:
    """Yield the lines of a CSV file `case,rater,aspect,score` with a header.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, which `beholder ratings import`
    removes.

    Args:
        ledger: The ledger.
        run: The run.
        reviews: Some of its reviews; by default all.
    """
    record = ledger.run(run)
    chosen = list_reviews(ledger, record.id) if reviews is None else reviews
    yield b"case,rater,aspect,score\n"
    for rater, case, rated in _stream_ratings(ledger, record, chosen):
        yield csv_line((*map(escape_formula, (case, rater, rated.aspect)), format_exact(rated.value)))


def format_exact(value: float) -> str:
    """Return a number with all its digits, so that ties stay ties."""
    return str(int(value)) if value.is_integer() else repr(value)


def _stream_ratings(
    ledger: Ledger, record: RunRecord, reviews: Sequence[Review], *, assertions: bool = True
) -> Iterator[tuple[str, str, RatedValue]]:
    """Yield rater, case and number, review by review in the order of the cases. Drafts have no numbers."""
    if not reviews:
        return
    names = load_column_names(ledger, record, assertions=assertions)
    for review in reviews:
        for verdict in ledger.verdicts(review.id):
            for rated in rated_values(verdict, names):
                yield review.rater, verdict.case, rated


def _to_ratings(aspect: str, values: Mapping[tuple[str, str], float]) -> Ratings:
    cases = list(dict.fromkeys(case for case, _ in values))
    raters = list(dict.fromkeys(rater for _, rater in values))
    row, column = ({name: at for at, name in enumerate(listed)} for listed in (cases, raters))
    table = np.full((len(cases), len(raters)), np.nan)
    for (case, rater), value in values.items():
        table[row[case], column[rater]] = value
    return Ratings(aspect, tuple(cases), tuple(raters), table)


MAX_REASONS = 50  # problems that are listed
_MAX_LINES = 10  # lines that are named for each

AspectValues = dict[str, float]  # one rater's values of a case, by aspect


@dataclass(slots=True)
class RatingsImport:
    """The result of an import: new and changed cases by rater, and notes for the user."""

    raters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        return {"raters": dict(self.raters), "notes": list(self.notes)}


class ImportProblems:
    """The problems of a file: each reason once, with its lines, in the order of the file."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._first: dict[str, int] = {}

    def add(self, number: int, place: str, why: str) -> None:
        """Add a problem of row `number`, which `place` names for the user (`FILE, line 3`)."""
        lines = self._lines.setdefault(why, [])
        line = place.rpartition(", ")[2]
        if line not in lines:
            lines.append(line)
        self._first[why] = min(number, self._first.get(why, number))

    def raise_if_any(self, path: Path) -> None:
        """Raise `UsageError` if there are problems."""
        if not self._lines:
            return
        reasons = sorted(self._lines, key=lambda why: self._first[why])
        more = [f"… and {len(reasons) - MAX_REASONS:,} more reasons"] if len(reasons) > MAX_REASONS else []
        listed = [f"{_name_lines(self._lines[why])}: {why}" for why in reasons[:MAX_REASONS]]
        raise UsageError("\n".join([f"{str(path)!r} cannot be taken, and nothing of it was:", *listed, *more]))


def _name_lines(lines: Sequence[str]) -> str:
    """`line 3`, or `lines 3, 4 and 20 more`."""
    if len(lines) == 1:
        return lines[0]
    numbers = [line.removeprefix("line ") for line in lines]
    more = f" and {len(lines) - _MAX_LINES:,} more" if len(lines) > _MAX_LINES else ""
    return f"lines {', '.join(numbers[:_MAX_LINES])}{more}"


@dataclass(slots=True)
class _RatingsFile:
    """The ratings in a file.

    Attributes:
        names: The raters by their casefolded names, each as it is written first.
        values: By casefolded rater and case id, the values by aspect.
        rows: By rater, case and aspect, the number of the row and its place for messages.
        scales: By rater, case and aspect, the scale that was declared for the rating.
        aspects: The aspects as they are written.
    """

    names: dict[str, str] = field(default_factory=dict)
    values: dict[tuple[str, str], AspectValues] = field(default_factory=dict)
    rows: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)
    scales: dict[tuple[str, str, str], Scale] = field(default_factory=dict)
    aspects: set[str] = field(default_factory=set)


def import_ratings(
    ledger: Ledger, run: str, path: Path, mapped: Sequence[str] = (), scales: Mapping[str, Scale] | None = None
) -> RatingsImport:
    """Store the ratings of a file as reviews of a run. Other answers and comments of the same raters stay.

    Args:
        ledger: The ledger.
        run: The run.
        path: A file with the columns case, rater, aspect and score.
        mapped: `ASPECT=CRITERION`, for aspects that have other names in the file.
        scales: The scale of the ratings by aspect, `""` for all; else they are on those of the criteria. Ratings on
            another scale are mapped linearly, its low end to the low end of the criterion.

    Raises:
        UsageError: Something is wrong with the file. Everything is checked first, so that then nothing is written.
    """
    record = ledger.run(run)
    problems = ImportProblems()
    file = _read_file(
        path, frozenset(ledger.case_ids(record.id)), _parse_mapping(mapped), scales or {}, record.id, problems
    )
    aspects = {aspect for values in file.values.values() for aspect in values}
    computed = {aspect for aspect in aspects if _is_overall(aspect, list(record.load_rubrics()))}
    if unknown := sorted((scales or {}).keys() - file.aspects - aspects - {""}):
        named = ", ".join(sorted(file.aspects))
        raise UsageError(f"A scale is given for the aspect {unknown[0]!r}; there are {named or 'none'}.")
    plan = _ImportPlan(ledger, record, file, problems)
    file.names |= {rater: review.rater for rater, review in plan.reviews.items() if rater in file.names}
    for (rater, case), values in file.values.items():
        plan.add(rater, case, {name: value for name, value in values.items() if name not in computed})
    problems.raise_if_any(path)
    if not aspects:
        raise UsageError(f"{str(path)!r} holds no rating; it should have rows of case,rater,aspect,score.")
    if computed == aspects:
        raise UsageError(f"Only {', '.join(sorted(computed))} is rated, which is computed from criteria; rate those.")
    result = RatingsImport(dict.fromkeys(file.names.values(), 0))
    reviews = {name: find_or_start_review(ledger, record.id, name) for name, _ in plan.answers}
    for (name, case), answers in plan.answers.items():
        record_rating(ledger, reviews[name], case, answers, fractions=True)
        result.raters[name] += 1
    result.notes += [f"{name}: {count:,} rated so already." for name, count in plan.unchanged.items()]
    if computed:
        result.notes.append(f"Left out, because it is computed from the criteria: {', '.join(sorted(computed))}.")
    return result


def _read_file(
    path: Path,
    cases: frozenset[str],
    mapped: Mapping[str, str],
    scales: Mapping[str, Scale],
    run: str,
    problems: ImportProblems,
) -> _RatingsFile:
    file = _RatingsFile()
    number = 0

    def complain(text: str) -> None:
        place, _, why = text.removeprefix(str(path)).partition(": ")
        problems.add(number, place, why)

    for place, (case, rater, aspect), value in read_number_rows(path, ("case", "rater", "aspect"), complain):
        number += 1
        spellings = (unescape_formula(storable_text(case)), storable_text(case))
        id_ = next((spelling for spelling in spellings if spelling in cases), None)
        if id_ is None:
            problems.add(number, place, f"the run {run} has no case {case!r}; ratings are of cases that were judged.")
            continue
        try:
            name = parse_rater_name(unescape_formula(rater))
        except UsageError as error:
            problems.add(number, place, str(error))
            continue
        file.aspects.add(aspect)
        declared = scales.get(aspect)
        aspect = mapped.get(aspect, unescape_formula(aspect))
        declared = declared or scales.get(aspect) or scales.get("")
        values = file.values.setdefault((name.casefold(), id_), {})
        first = file.names.setdefault(name.casefold(), name)
        if aspect in values:
            also = f" (also written {name!r})" if name != first else ""
            problems.add(number, place, f"{first!r}{also} rates {aspect!r} of {id_!r} a second time.")
        values[aspect] = value
        file.rows[name.casefold(), id_, aspect] = number, place
        if declared is not None:
            file.scales[name.casefold(), id_, aspect] = declared
    return file


class _ImportPlan:
    """The answers to write by rater and case, and by rater how many cases are rated the same already."""

    def __init__(
        self,
        ledger: Ledger,
        record: RunRecord,
        file: _RatingsFile,
        problems: ImportProblems,
    ) -> None:
        self.answers: dict[tuple[str, str], dict[str, str]] = {}
        self.unchanged: dict[str, int] = {}
        self._ledger, self._record, self._file, self._problems = ledger, record, file, problems
        self._names = load_column_names(ledger, record)
        self.reviews = {review.rater.casefold(): review for review in list_reviews(ledger, record.id)}
        self._sheets: dict[str, ReviewSheet] = {}

    def add(self, rater: str, case: str, values: AspectValues) -> None:
        if not values:
            return
        sheet, name = self._sheet(case), self._file.names[rater]
        review = self.reviews.get(rater)
        rating = None if review is None else load_rating(self._ledger, review, case)
        before = {} if rating is None else dict(rating.answers)
        verdicts = () if rating is None else rating.verdicts
        saved = {rated.aspect: rated.value for verdict in verdicts for rated in rated_values(verdict, self._names)}
        changed = {
            aspect: value
            for aspect, value in values.items()
            if saved.get(aspect) != value or (rater, case, aspect) in self._file.scales
        }
        new = self._to_answers(rater, case, changed)
        answers = {**before, **new}
        if verdicts and answers == before:
            self.unchanged[name] = self.unchanged.get(name, 0) + 1
        elif new:
            self.answers[name, case] = answers
            for verdict in (
                score_answers(rubric, case, name, clean_answers(sheet, answers), fractions=True)
                for rubric in sheet.rubrics
            ):
                if not verdict.answered:
                    self._add_problem(rater, case, next(iter(changed)), f"{name}, {case}: {verdict.detail}")

    def _to_answers(self, rater: str, case: str, values: AspectValues) -> dict[str, str]:
        """Return the answers by the names of their questions."""
        all_answers: dict[str, str] = {}
        for aspect, value in values.items():
            scale = self._file.scales.get((rater, case, aspect))
            answers = _to_answers(self._sheet(case), self._names, aspect, value, scale)
            if isinstance(answers, str):
                self._add_problem(rater, case, aspect, answers)
                continue
            if twice := all_answers.keys() & answers.keys():
                again = f"{self._file.names[rater]!r} answers {min(twice)} of {case!r} a second time, as {aspect!r}."
                self._add_problem(rater, case, aspect, again)
            all_answers |= answers
        return all_answers

    def _add_problem(self, rater: str, case: str, aspect: str, why: str) -> None:
        self._problems.add(*self._file.rows[rater, case, aspect], why)

    def _sheet(self, case: str) -> ReviewSheet:
        if case not in self._sheets:
            verdicts = [stored.verdict for stored in self._ledger.stored_verdicts(self._record.id, case=case)]
            self._sheets[case] = build_sheet(self._record, self._ledger.case(self._record.id, case), verdicts, "")
        return self._sheets[case]


def _to_answers(
    sheet: ReviewSheet, names: ColumnNames, aspect: str, value: float, scale: Scale | None
) -> dict[str, str] | str:
    """Return the answers that a rating means, by the names of their questions; or, as a text, what is wrong with it. A
    criterion is found by the name of its column, or by its key, which several rubrics may have. A rating on a `scale`
    is mapped onto that of its criterion."""
    criteria = [(rubric, criterion) for rubric in sheet.rubrics for criterion in rubric.criteria]
    for scored in (
        [
            (rubric, criterion)
            for rubric, criterion in criteria
            if names((ColumnKind.CRITERION, rubric.name, criterion.key)) == aspect
        ],
        [(rubric, criterion) for rubric, criterion in criteria if criterion.key == aspect],
        [
            (rubric, criterion)
            for rubric, criterion in criteria
            if normalize_name(criterion.key) == normalize_name(aspect)
        ],
    ):
        if scored and scale is not None:
            if not scale[0] <= value <= scale[1]:
                return f"{aspect!r} is rated from {scale[0]:g} to {scale[1]:g} here, not {format_exact(value)}."
            return {
                score_name(rubric, criterion): format_exact(_map_onto(criterion.scale, value, scale))
                for rubric, criterion in scored
            }
        if scored:
            if problem := next((why for _, criterion in scored if (why := _scale_problem(criterion, value))), ""):
                return f"{aspect!r} {problem}, not {format_exact(value)}."
            return {score_name(rubric, criterion): format_exact(value) for rubric, criterion in scored}
    asserted = [
        assertion_name(rubric, criterion, assertion)
        for rubric, criterion in criteria
        for assertion in criterion.assertions
        if aspect in (assertion.id, f"{rubric.style.style}/{assertion.id}" if rubric.style else assertion.id)
    ]
    if not asserted:
        keys = [names((ColumnKind.CRITERION, rubric.name, criterion.key)) for rubric, criterion in criteria]
        return (
            f"the aspect {aspect!r} is no criterion of the rubric; there are {', '.join(keys)}. "
            f"Say which is meant, {aspect}=CRITERION (--map or map_=), or leave these rows out."
        )
    if value not in (0, 1):
        return f"the assertion {aspect!r} holds (1) or does not (0), and this says {format_exact(value)}."
    return dict.fromkeys(asserted, "yes" if value else "no")


def _map_onto(target: tuple[float, float], value: float, scale: Scale) -> float:
    share = (value - scale[0]) / (scale[1] - scale[0])
    return round(target[0] + share * (target[1] - target[0]), 9)


def _scale_problem(criterion: Criterion, value: float) -> str:
    """Return how a criterion is rated, if this value is not allowed; else an empty text."""
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
            raise UsageError(f"A pair (--map or map_=) is ASPECT=CRITERION here, with one criterion, not {text!r}.")
        pairs[aspect] = criterion
    return pairs


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
        (verdict.case, verdict.rubric): verdict for verdict in ledger.verdicts(review.id) if verdict.answered
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
