"""Ratings from a file become reviews in the ledger, through the same checks and scoring as what a person types in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.errors import UsageError
from beholder.ledger.packing import plain_text
from beholder.rubrics.model import Assertion, Criterion, Rubric
from beholder.runs.review_sheet import (
    Sheet,
    assertion_name,
    kept,
    rubrics_of,
    score_name,
    sheet_for,
    verdict_of,
)
from beholder.runs.reviewing import find_or_start, rate, rater_name
from beholder.statistics.mapping import OVERALL, folded
from beholder.statistics.reading import read_ratings
from beholder.statistics.reviews import SCORE

if TYPE_CHECKING:
    from beholder.ledger import Ledger

LISTED = 10


@dataclass(slots=True)
class Imported:
    """By rater, how many cases; and what a reader should know."""

    raters: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def import_ratings(ledger: Ledger, run: str, path: Path, mapped: Sequence[str] = ()) -> Imported:
    """Writes the ratings of a file as reviews of a run. Everything is checked first; raises `UsageError` with all that
    is wrong, and then nothing is written."""
    record = ledger.run(run)
    there = frozenset(ledger.case_ids(record.id))
    given = _pairs(mapped)
    told: dict[str, dict[str, dict[str, float]]] = {}
    strangers: dict[str, None] = {}
    for aspect, ratings in read_ratings(path).items():
        for row, case in enumerate(ratings.cases):
            id_ = _known(plain_text(case), there)
            if id_ is None:
                strangers[case] = None
                continue
            for column, rater in enumerate(ratings.raters):
                value = float(ratings.values[row, column])
                if not isnan(value):
                    name = rater_name(rater.removeprefix("'"))
                    told.setdefault(name, {}).setdefault(id_, {})[given.get(aspect, aspect.removeprefix("'"))] = value
    _refuse_strangers(strangers, record.id)
    aspects = {aspect for cases in told.values() for values in cases.values() for aspect in values}
    computed = {aspect for aspect in aspects if _is_overall(aspect, list(rubrics_of(record)))}
    if computed == aspects:
        raise UsageError(f"Only {', '.join(sorted(computed))} is rated, which is computed from criteria; rate those.")
    planned = _planned(ledger, record.id, told, computed)
    done = Imported()
    for name, cases in planned.items():
        review = find_or_start(ledger, record.id, name)
        for case, answers in cases.items():
            rate(ledger, review, case, answers)
        done.raters[review.rater] = len(cases)
    if computed:
        done.notes.append(f"Left out, because it is computed from the criteria: {', '.join(sorted(computed))}.")
    return done


def _planned(
    ledger: Ledger, run: str, told: Mapping[str, Mapping[str, Mapping[str, float]]], computed: set[str]
) -> dict[str, dict[str, dict[str, str]]]:
    """The answers by rater and case, once all of them fit."""
    record = ledger.run(run)
    sheets: dict[str, Sheet] = {}
    problems: dict[str, None] = {}
    planned: dict[str, dict[str, dict[str, str]]] = {}
    for name, cases in told.items():
        for case, values in cases.items():
            if case not in sheets:
                verdicts = [one.verdict for one in ledger.judged(run, case=case)]
                sheets[case] = sheet_for(record, ledger.case(run, case), verdicts, "")
            sheet = sheets[case]
            answers: dict[str, str] = {}
            for aspect, value in values.items():
                if aspect not in computed:
                    found = _answer(sheet, aspect, value)
                    if isinstance(found, str):
                        problems[found] = None
                    else:
                        answers |= found
            for rubric in sheet.rubrics if answers else ():
                verdict = verdict_of(rubric, case, name, kept(sheet, answers))
                if not verdict.scored:
                    problems[f"{name}, {case}: {verdict.detail}"] = None
            if answers:
                planned.setdefault(name, {})[case] = answers
    if problems:
        more = [f"… and {len(problems) - LISTED:,} more"] if len(problems) > LISTED else []
        raise UsageError("\n".join(["These ratings cannot be taken:", *list(problems)[:LISTED], *more]))
    return planned


def _answer(sheet: Sheet, aspect: str, value: float) -> dict[str, str] | str:
    """The answer that a rating is, by the name of its question; or what is wrong with it."""
    scored = [(rubric, one) for rubric in sheet.rubrics for one in rubric.criteria if one.key == aspect]
    scored = scored or [
        (rubric, one) for rubric in sheet.rubrics for one in rubric.criteria if folded(one.key) == folded(aspect)
    ]
    if scored:
        return {score_name(rubric, criterion): repr(value) for rubric, criterion in scored}
    asserted = [
        (rubric, criterion, one)
        for rubric in sheet.rubrics
        for criterion in rubric.criteria
        for one in criterion.assertions
        if aspect in (one.id, f"{rubric.style.style}/{one.id}" if rubric.style else one.id)
    ]
    if not asserted:
        keys = [one.key for rubric in sheet.rubrics for one in rubric.criteria]
        return (
            f"The aspect {aspect!r} is no criterion of the rubric; there are {', '.join(keys)}. "
            f"Say which is meant with --map {aspect}=CRITERION, or leave these rows out."
        )
    return _decided(asserted, aspect, value)


def _decided(
    asserted: Sequence[tuple[Rubric, Criterion, Assertion]], aspect: str, value: float
) -> dict[str, str] | str:
    if value not in (0, 1):
        return f"The assertion {aspect!r} holds (1) or does not (0), and a rating says {value:g}."
    return {assertion_name(*one): "yes" if value else "no" for one in asserted}


def _is_overall(aspect: str, rubrics: Sequence[str]) -> bool:
    return aspect == SCORE or folded(aspect) == OVERALL or aspect in {f"{name}.{SCORE}" for name in rubrics}


def _known(case: str, there: Collection[str]) -> str | None:
    """The id as the run has it; the apostrophe that keeps a spreadsheet calm comes off."""
    if case in there:
        return case
    bare = case.removeprefix("'")
    return bare if bare in there else None


def _refuse_strangers(strangers: Mapping[str, None], run: str) -> None:
    if strangers:
        listed = ", ".join(repr(case) for case in list(strangers)[:LISTED])
        more = f" and {len(strangers) - LISTED:,} more" if len(strangers) > LISTED else ""
        raise UsageError(f"The run {run} has no case {listed}{more}; ratings are of cases that were judged.")


def _pairs(mapped: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in mapped:
        aspect, sign, criterion = (part.strip() for part in text.partition("="))
        if not (aspect and sign and criterion) or "(" in criterion:
            raise UsageError(f"--map is written ASPECT=CRITERION here, with one criterion, not {text!r}.")
        pairs[aspect] = criterion
    return pairs
