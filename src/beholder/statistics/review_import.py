"""Ratings from a file become reviews in the ledger, through the same checks and scoring as what a person types in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.errors import UsageError
from beholder.ledger.packing import plain_text
from beholder.ledger.spreadsheets import bare
from beholder.rubrics.model import Criterion
from beholder.runs.review_sheet import (
    Sheet,
    assertion_name,
    kept,
    rubrics_of,
    score_name,
    sheet_for,
    verdict_of,
)
from beholder.runs.reviewing import find_or_start, rate, rater_name, rating, reviews_of
from beholder.statistics.data import Kind
from beholder.statistics.mapping import OVERALL, folded
from beholder.statistics.reading import Names, number_rows
from beholder.statistics.reviews import SCORE, exactly, names_of, told

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord

LISTED = 50  # reasons that are told
_LINES = 10  # lines that are named for one of them

Values = dict[str, float]
"""By aspect, what somebody said of a case."""


@dataclass(slots=True)
class Imported:
    """By rater, how many cases are rated anew or otherwise than before; and what a reader should know."""

    raters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class _Problems:
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
        more = [f"… and {len(reasons) - LISTED:,} more reasons"] if len(reasons) > LISTED else []
        said = [f"{_lines(self._lines[why])}: {why}" for why in reasons[:LISTED]]
        raise UsageError("\n".join([f"{str(path)!r} cannot be taken, and nothing of it was:", *said, *more]))


def _lines(lines: Sequence[str]) -> str:
    """`line 3`, or `lines 3, 4 and 20 more`."""
    if len(lines) == 1:
        return lines[0]
    numbers = [line.removeprefix("line ") for line in lines]
    return f"lines {', '.join(numbers[:_LINES])}{f' and {len(lines) - _LINES:,} more' if len(lines) > _LINES else ''}"


@dataclass(slots=True)
class _File:
    """What a file says: by rater (whose name is the same in any case of letters) and case. `names` has each rater as
    they are written first, `rows` the number and place of each rating."""

    names: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, str], Values] = field(default_factory=dict)
    rows: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)


def import_ratings(ledger: Ledger, run: str, path: Path, mapped: Sequence[str] = ()) -> Imported:
    """Writes the ratings of a file as reviews of a run. What is there already and the file does not speak of stays:
    other criteria, answers, comments.

    Everything is checked first; raises `UsageError` with all that is wrong, and then nothing is written.
    """
    record = ledger.run(run)
    problems = _Problems()
    file = _read(path, frozenset(ledger.case_ids(record.id)), _pairs(mapped), record.id, problems)
    aspects = {aspect for values in file.said.values() for aspect in values}
    computed = {aspect for aspect in aspects if _is_overall(aspect, list(rubrics_of(record)))}
    planned = _Plan(ledger, record, file, problems)
    file.names |= {rater: review.rater for rater, review in planned.reviews.items() if rater in file.names}
    for (rater, case), values in file.said.items():
        planned.add(rater, case, {name: value for name, value in values.items() if name not in computed})
    problems.refuse(path)
    if not aspects:
        raise UsageError(f"{str(path)!r} holds no rating; it should have rows of case,rater,aspect,score.")
    if computed == aspects:
        raise UsageError(f"Only {', '.join(sorted(computed))} is rated, which is computed from criteria; rate those.")
    done = Imported(dict.fromkeys(file.names.values(), 0))
    reviews = {name: find_or_start(ledger, record.id, name) for name, _ in planned.answers}
    for (name, case), answers in planned.answers.items():
        rate(ledger, reviews[name], case, answers)
        done.raters[name] += 1
    done.notes += [f"{name}: {count:,} rated so already." for name, count in planned.there.items()]
    if computed:
        done.notes.append(f"Left out, because it is computed from the criteria: {', '.join(sorted(computed))}.")
    return done


def _read(path: Path, cases: frozenset[str], mapped: Mapping[str, str], run: str, problems: _Problems) -> _File:
    found = _File()
    number = 0

    def complain(text: str) -> None:
        place, _, why = text.removeprefix(str(path)).partition(": ")
        problems.add(number, place, why)

    for place, (case, rater, aspect), value in number_rows(path, ("case", "rater", "aspect"), complain):
        number += 1
        id_ = next((one for one in (bare(plain_text(case)), plain_text(case)) if one in cases), None)
        if id_ is None:
            problems.add(number, place, f"the run {run} has no case {case!r}; ratings are of cases that were judged.")
            continue
        try:
            name = rater_name(bare(rater))
        except UsageError as error:
            problems.add(number, place, str(error))
            continue
        aspect = mapped.get(aspect, bare(aspect))
        values = found.said.setdefault((name.casefold(), id_), {})
        first = found.names.setdefault(name.casefold(), name)
        if aspect in values:
            also = f" (also written {name!r})" if name != first else ""
            problems.add(number, place, f"{first!r}{also} rates {aspect!r} of {id_!r} a second time.")
        values[aspect] = value
        found.rows[name.casefold(), id_, aspect] = number, place
    return found


class _Plan:
    """The answers to write by rater and case, and by rater how many cases are rated so already."""

    def __init__(self, ledger: Ledger, record: RunRecord, file: _File, problems: _Problems) -> None:
        self.answers: dict[tuple[str, str], dict[str, str]] = {}
        self.there: dict[str, int] = {}
        self._ledger, self._record, self._file, self._problems = ledger, record, file, problems
        self._names = names_of(ledger, record)
        self.reviews = {review.rater.casefold(): review for review in reviews_of(ledger, record.id)}
        self._sheets: dict[str, Sheet] = {}

    def add(self, rater: str, case: str, values: Values) -> None:
        if not values:
            return
        sheet, name = self._sheet(case), self._file.names[rater]
        review = self.reviews.get(rater)
        there = None if review is None else rating(self._ledger, review, case)
        before = {} if there is None else dict(there.answers)
        verdicts = () if there is None else there.verdicts
        same = {one.aspect: one.value for verdict in verdicts for one in told(verdict, self._names)}
        fresh = {aspect: value for aspect, value in values.items() if same.get(aspect) != value}
        said = self._said(rater, case, fresh)
        answers = {**before, **said}
        if verdicts and answers == before:
            self.there[name] = self.there.get(name, 0) + 1
        elif said:
            self.answers[name, case] = answers
            for verdict in (verdict_of(rubric, case, name, kept(sheet, answers)) for rubric in sheet.rubrics):
                if not verdict.scored:
                    self._wrong(rater, case, next(iter(fresh)), f"{name}, {case}: {verdict.detail}")

    def _said(self, rater: str, case: str, values: Values) -> dict[str, str]:
        """The answers by their questions."""
        found: dict[str, str] = {}
        for aspect, value in values.items():
            answers = _answer(self._sheet(case), self._names, aspect, value)
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

    def _sheet(self, case: str) -> Sheet:
        if case not in self._sheets:
            verdicts = [one.verdict for one in self._ledger.judged(self._record.id, case=case)]
            self._sheets[case] = sheet_for(self._record, self._ledger.case(self._record.id, case), verdicts, "")
        return self._sheets[case]


def _answer(sheet: Sheet, names: Names, aspect: str, value: float) -> dict[str, str] | str:
    """The answer that a rating is, by the name of its question; or what is wrong with it. A criterion goes by the name
    that it is exported under, or by its key, which may be that of several rubrics."""
    criteria = [(rubric, one) for rubric in sheet.rubrics for one in rubric.criteria]
    for scored in (
        [(rubric, one) for rubric, one in criteria if names((Kind.CRITERION, rubric.name, one.key)) == aspect],
        [(rubric, one) for rubric, one in criteria if one.key == aspect],
        [(rubric, one) for rubric, one in criteria if folded(one.key) == folded(aspect)],
    ):
        if scored:
            if wrong := next((why for _, one in scored if (why := _off(one, value))), ""):
                return f"{aspect!r} {wrong}, not {exactly(value)}."
            return {score_name(rubric, criterion): exactly(value) for rubric, criterion in scored}
    asserted = [
        assertion_name(rubric, criterion, one)
        for rubric, criterion in criteria
        for one in criterion.assertions
        if aspect in (one.id, f"{rubric.style.style}/{one.id}" if rubric.style else one.id)
    ]
    if not asserted:
        keys = [names((Kind.CRITERION, rubric.name, one.key)) for rubric, one in criteria]
        return (
            f"the aspect {aspect!r} is no criterion of the rubric; there are {', '.join(keys)}. "
            f"Say which is meant with --map {aspect}=CRITERION, or leave these rows out."
        )
    if value not in (0, 1):
        return f"the assertion {aspect!r} holds (1) or does not (0), and this says {exactly(value)}."
    return dict.fromkeys(asserted, "yes" if value else "no")


def _off(criterion: Criterion, value: float) -> str:
    """What a rating of a criterion is, where this is none."""
    low, high = criterion.scale
    if low <= value <= high and (not criterion.whole or value.is_integer()):
        return ""
    return f"is rated with a {'whole ' if criterion.whole else ''}number from {low:g} to {high:g}"


def _is_overall(aspect: str, rubrics: Sequence[str]) -> bool:
    return aspect == SCORE or folded(aspect) == OVERALL or aspect in {f"{name}.{SCORE}" for name in rubrics}


def _pairs(mapped: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in mapped:
        aspect, sign, criterion = (part.strip() for part in text.partition("="))
        if not (aspect and sign and criterion) or "(" in criterion:
            raise UsageError(f"--map is written ASPECT=CRITERION here, with one criterion, not {text!r}.")
        pairs[aspect] = criterion
    return pairs
