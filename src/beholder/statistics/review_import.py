"""Ratings from a file become reviews in the ledger, through the same checks and scoring as what a person types in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.errors import UsageError
from beholder.ledger.packing import plain_text
from beholder.ledger.spreadsheets import bare
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
from beholder.statistics.reading import Names, read_ratings
from beholder.statistics.reviews import SCORE, exactly, names_of, told

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord

LISTED = 10

Values = dict[str, float]
"""By aspect, what somebody said of a case."""


@dataclass(slots=True)
class Imported:
    """By rater, how many cases are rated anew or otherwise than before; and what a reader should know."""

    raters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _File:
    """What a file says: by rater (whose name is the same in any case of letters) and case. `names` has each rater as
    they are written first."""

    names: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, str], Values] = field(default_factory=dict)


def import_ratings(ledger: Ledger, run: str, path: Path, mapped: Sequence[str] = ()) -> Imported:
    """Writes the ratings of a file as reviews of a run. What is there already and the file does not speak of stays:
    other criteria, answers, comments.

    Everything is checked first; raises `UsageError` with all that is wrong, and then nothing is written.
    """
    record = ledger.run(run)
    problems: dict[str, None] = {}
    file = _read(path, frozenset(ledger.case_ids(record.id)), _pairs(mapped), record.id, problems)
    aspects = {aspect for values in file.said.values() for aspect in values}
    computed = {aspect for aspect in aspects if _is_overall(aspect, list(rubrics_of(record)))}
    if computed == aspects and not problems:
        raise UsageError(f"Only {', '.join(sorted(computed))} is rated, which is computed from criteria; rate those.")
    planned = _Plan(ledger, record, problems)
    file.names |= {rater: review.rater for rater, review in planned.reviews.items() if rater in file.names}
    for (rater, case), values in file.said.items():
        planned.add(file.names[rater], case, {name: value for name, value in values.items() if name not in computed})
    _refuse(problems)
    done = Imported(dict.fromkeys(file.names.values(), 0))
    reviews = {name: find_or_start(ledger, record.id, name) for name, _ in planned.answers}
    for (name, case), answers in planned.answers.items():
        rate(ledger, reviews[name], case, answers)
        done.raters[name] += 1
    done.notes += [f"{name}: {count:,} rated so already." for name, count in planned.there.items()]
    if computed:
        done.notes.append(f"Left out, because it is computed from the criteria: {', '.join(sorted(computed))}.")
    return done


def _read(path: Path, cases: frozenset[str], mapped: Mapping[str, str], run: str, problems: dict[str, None]) -> _File:
    found = _File()
    strangers: dict[str, None] = {}
    for case, rater, aspect, value in _rows(path):
        id_ = next((one for one in (bare(plain_text(case)), plain_text(case)) if one in cases), None)
        if id_ is None:
            strangers[case] = None
            continue
        name = rater_name(bare(rater))
        aspect = mapped.get(aspect, bare(aspect))
        values = found.said.setdefault((name.casefold(), id_), {})
        first = found.names.setdefault(name.casefold(), name)
        if aspect in values:
            also = f" (also written {name!r})" if name != first else ""
            problems[f"{first!r}{also} rates {aspect!r} of {id_!r} a second time."] = None
        values[aspect] = value
    if strangers:
        listed = ", ".join(repr(case) for case in list(strangers)[:LISTED])
        more = f" and {len(strangers) - LISTED:,} more" if len(strangers) > LISTED else ""
        raise UsageError(f"The run {run} has no case {listed}{more}; ratings are of cases that were judged.")
    return found


def _rows(path: Path) -> Iterator[tuple[str, str, str, float]]:
    for aspect, ratings in read_ratings(path).items():
        for row, case in enumerate(ratings.cases):
            for column, rater in enumerate(ratings.raters):
                value = float(ratings.values[row, column])
                if not isnan(value):
                    yield case, rater, aspect, value


class _Plan:
    """The answers to write by rater and case, and by rater how many cases are rated so already."""

    def __init__(self, ledger: Ledger, record: RunRecord, problems: dict[str, None]) -> None:
        self.answers: dict[tuple[str, str], dict[str, str]] = {}
        self.there: dict[str, int] = {}
        self._ledger, self._record, self._problems = ledger, record, problems
        self._names = names_of(ledger, record)
        self.reviews = {review.rater.casefold(): review for review in reviews_of(ledger, record.id)}
        self._sheets: dict[str, Sheet] = {}

    def add(self, name: str, case: str, values: Values) -> None:
        if not values:
            return
        sheet = self._sheet(case)
        review = self.reviews.get(name.casefold())
        there = None if review is None else rating(self._ledger, review, case)
        before = {} if there is None else dict(there.answers)
        verdicts = () if there is None else there.verdicts
        same = {one.aspect: one.value for verdict in verdicts for one in told(verdict, self._names)}
        said = self._said(name, case, {aspect: value for aspect, value in values.items() if same.get(aspect) != value})
        answers = {**before, **said}
        if verdicts and answers == before:
            self.there[name] = self.there.get(name, 0) + 1
        elif said:
            self.answers[name, case] = answers
            for verdict in (verdict_of(rubric, case, name, kept(sheet, answers)) for rubric in sheet.rubrics):
                if not verdict.scored:
                    self._problems[f"{name}, {case}: {verdict.detail}"] = None

    def _said(self, name: str, case: str, values: Values) -> dict[str, str]:
        """The answers by their questions."""
        found: dict[str, str] = {}
        for aspect, value in values.items():
            answers = _answer(self._sheet(case), self._names, aspect, value)
            if isinstance(answers, str):
                self._problems[answers] = None
                continue
            if twice := found.keys() & answers.keys():
                self._problems[f"{name!r} answers {min(twice)} of {case!r} a second time, as {aspect!r}."] = None
            found |= answers
        return found

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
            f"The aspect {aspect!r} is no criterion of the rubric; there are {', '.join(keys)}. "
            f"Say which is meant with --map {aspect}=CRITERION, or leave these rows out."
        )
    if value not in (0, 1):
        return f"The assertion {aspect!r} holds (1) or does not (0), and a rating says {value:g}."
    return dict.fromkeys(asserted, "yes" if value else "no")


def _refuse(problems: Mapping[str, None]) -> None:
    if problems:
        more = [f"… and {len(problems) - LISTED:,} more"] if len(problems) > LISTED else []
        raise UsageError("\n".join(["These ratings cannot be taken:", *list(problems)[:LISTED], *more]))


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
