"""What a person is asked about a case, and what becomes of the answers: the same checks and scores as any judge's.

Answers are texts by the name of their question, as a form sends them: `RUBRIC:CRITERION` for a score,
`RUBRIC:CRITERION:ASSERTION` for yes or no, `RUBRIC::FINDING` for a list with an entry a line, `comment`. What has no
answer is left open, and so is what is answered with `n/a`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite

import msgspec
from msgspec import structs

from beholder.cases import Case, FieldValue
from beholder.errors import UsageError
from beholder.ledger import RunRecord
from beholder.rubrics.library import find_style
from beholder.rubrics.model import Assertion, Criterion, Rubric, Style
from beholder.rubrics.schema import NO, NOT_APPLICABLE, YES, offers_not_applicable
from beholder.verdicts.judging import Head, judge_answer
from beholder.verdicts.model import Verdict
from beholder.verdicts.observing import ABSTAIN

Answers = Mapping[str, str]

COMMENT = "comment"
OPEN = "n/a"
LONGEST = 20_000  # characters of one answer: a comment, not a book
SUREST = "5"  # how sure a person counts as, where a rubric asks and nothing was said

# A person is asked for scores and one comment; a reason beside each is a model's duty.
_NOT_ASKED = frozenset({"empty_reason", "reason_length", "empty_evidence", "assessment_missing"})
_YES_NO = {"yes": YES, "no": NO}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A case as a person meets it: its rubrics, texts, and the roles of its images. `label` stands for the case, whose
    id may name the model under test; neither that nor anything a judge said is in here."""

    label: str
    rubrics: tuple[Rubric, ...]
    fields: tuple[tuple[str, FieldValue], ...]
    roles: tuple[str, ...]


def sheet_for(record: RunRecord, case: Case, verdicts: Sequence[Verdict], label: str) -> Sheet:
    """The questions that a run put to its judge about a case. Raises `UsageError` where the rubric is not kept."""
    rubrics = tuple(_rubric(record, case, verdict) for verdict in verdicts)
    names = dict.fromkeys(field.name for rubric in rubrics for field in rubric.fields)
    fields = tuple((name, case.fields[name]) for name in names if name in case.fields)
    roles = dict.fromkeys(role for rubric in rubrics for role in rubric.roles if role in case.images)
    return Sheet(label, rubrics, fields, tuple(roles))


def score_name(rubric: Rubric, criterion: Criterion) -> str:
    return f"{rubric.name}:{criterion.key}"


def assertion_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    return f"{rubric.name}:{criterion.key}:{assertion.id}"


def finding_name(rubric: Rubric, finding: str) -> str:
    return f"{rubric.name}::{finding}"


def sure_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    """How sure a person is of an answer, where the rubric asks that."""
    return f"{assertion_name(rubric, criterion, assertion)}:sure"


def kept(sheet: Sheet, answers: Answers) -> dict[str, str]:
    """The answers that belong to a question of the sheet and say something. Raises `UsageError` for one too long."""
    # A form sends a line's end as two characters, and a script as one.
    known = questions(sheet)
    found = {name: answers[name].replace("\r\n", "\n").strip() for name in known if answers.get(name, "").strip()}
    for name, text in found.items():
        if len(text) > LONGEST:
            raise UsageError(f"The answer to {name!r} has {len(text):,} characters; at most {LONGEST:,} are kept.")
    return found


def questions(sheet: Sheet) -> set[str]:
    """The names of everything that a sheet asks."""
    known = {COMMENT}
    for rubric in sheet.rubrics:
        known |= {finding_name(rubric, finding.key) for finding in rubric.findings}
        for criterion in rubric.criteria:
            known.add(score_name(rubric, criterion))
            for one in criterion.assertions:
                known |= {assertion_name(rubric, criterion, one), sure_name(rubric, criterion, one)}
    return known


def verdict_of(rubric: Rubric, case: str, judge: str, answers: Answers) -> Verdict:
    """What a person's answers come to; `invalid` with what is wrong in `detail`.

    Of a criterion whose assertions were all left open, only the score was asked: it stands as it is.
    """
    asked = structs.replace(rubric, criteria=tuple(_asked(rubric, criterion, answers) for criterion in rubric.criteria))
    document: dict[str, object] = {
        "criteria": {one.key: _criterion(asked, one, answers) for one in asked.criteria},
        "assessment": answers.get(COMMENT, ""),
        **{one.key: answers.get(finding_name(rubric, one.key), "").splitlines() for one in rubric.findings},
    }
    verdict = judge_answer(Head(case, asked, judge), document, may_abstain=True)
    return replace(
        verdict,
        answer=json.dumps(document),
        assessment=answers.get(COMMENT, ""),
        flags=tuple(flag for flag in verdict.flags if flag.flag not in _NOT_ASKED),
    )


def answers_of(rubric: Rubric, verdict: Verdict) -> dict[str, str]:
    """The answers behind a person's verdict, to be changed; the inverse of `verdict_of` as far as answers go."""
    found = {COMMENT: verdict.assessment} if verdict.assessment else {}
    said = {"yes": "yes", "no": "no", "not_applicable": OPEN}
    for criterion in rubric.criteria:
        result = verdict.criteria.get(criterion.key)
        if result is None:
            continue
        given = result.reported
        if given is not None:
            found[score_name(rubric, criterion)] = str(given)
        elif not result.assertions:
            found[score_name(rubric, criterion)] = OPEN
        asked = {one.id: one for one in criterion.assertions}
        for one in result.assertions:
            if one.id in asked and one.answer in said:
                found[assertion_name(rubric, criterion, asked[one.id])] = said[one.answer]
                if one.confidence is not None:
                    found[sure_name(rubric, criterion, asked[one.id])] = str(one.confidence)
    for key, entries in verdict.findings.items():
        if entries:
            found[finding_name(rubric, key)] = "\n".join(entries)
    return found


def rubrics_of(record: RunRecord) -> dict[str, Rubric]:
    """The rubrics of a run by name, as they were then; without style and setting. Raises `UsageError`."""
    try:
        found = [msgspec.convert(rubric, Rubric) for rubric in record.rubrics]
    except msgspec.ValidationError as error:
        raise UsageError(f"The rubric of the run {record.id} cannot be read from the ledger: {error}.") from None
    return {rubric.name: rubric for rubric in found}


def _rubric(record: RunRecord, case: Case, verdict: Verdict) -> Rubric:
    rubrics = rubrics_of(record)
    if verdict.rubric not in rubrics:
        raise UsageError(f"The run {record.id} does not keep its rubric {verdict.rubric!r}, so nobody can rate by it.")
    rubric = rubrics[verdict.rubric].with_setting(verdict.setting or "")
    if not rubric.styles:
        return rubric
    style = _style(verdict.style or str(case.fields.get("style", "")))
    described = bool(str(case.fields.get("style_description", "")).strip())  # by the case itself, in its own words
    rubric = rubric.with_style(structs.replace(style, description="") if described else style)
    return structs.replace(rubric, criteria=tuple(_as_asked(one, verdict) for one in rubric.criteria))


def _as_asked(criterion: Criterion, verdict: Verdict) -> Criterion:
    """What was asked stands in the verdict: the style may be a user's own, or another one of ours by now. An assertion
    that is still the same comes with the condition under which it applies; so does one that the judge put into words
    of its own, which are not for a person to read."""
    if criterion.key not in verdict.criteria:
        return criterion
    today = {one.id: one for one in criterion.assertions}
    reworded = {id_ for flag in verdict.flags if flag.flag == "question_differs" for id_ in flag.at.split(", ")}
    asked = []
    for each in verdict.criteria[criterion.key].assertions:
        one = today.get(each.id)
        same = one is not None and (each.id in reworded or _letters(one.text) == _letters(each.question))
        asked.append(one if one is not None and same else Assertion(each.question, each.id))
    return structs.replace(criterion, assertions=tuple(asked))


def _letters(text: str) -> str:
    """As far as one wording is told from another: a judge may write the same with other marks."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


@lru_cache(64)  # finding one reads all of them, 11 ms
def _style(name: str) -> Style:
    return find_style(name)


def _asked(rubric: Rubric, criterion: Criterion, answers: Answers) -> Criterion:
    if rubric.scoring.criterion_score == "confidence":
        return criterion
    for one in criterion.assertions:
        said = answers.get(assertion_name(rubric, criterion, one), "")
        if said and (said != OPEN or offers_not_applicable(rubric, one)):
            return criterion
    return structs.replace(criterion, assertions=())


def _criterion(rubric: Rubric, criterion: Criterion, answers: Answers) -> dict[str, object]:
    given = answers.get(score_name(rubric, criterion), OPEN)
    block: dict[str, object] = {rubric.reason.key: "", "score": ABSTAIN if given == OPEN else _number(given)}
    if criterion.assertions:
        block["assertions"] = {one.id: _assertion(rubric, criterion, one, answers) for one in criterion.assertions}
    return block


def _assertion(rubric: Rubric, criterion: Criterion, assertion: Assertion, answers: Answers) -> dict[str, object]:
    """N/A is the rubric's own where it offers that, and leaves the denominator; elsewhere it leaves the answer open."""
    said = answers.get(assertion_name(rubric, criterion, assertion), "")
    if said == OPEN and offers_not_applicable(rubric, assertion):
        answer = NOT_APPLICABLE
    else:
        answer = _YES_NO.get(said, ABSTAIN if said in ("", OPEN) else said)
    block: dict[str, object] = {"answer": answer, "evidence": ""}
    if rubric.scoring.criterion_score == "confidence":
        block["confidence"] = _number(answers.get(sure_name(rubric, criterion, assertion), SUREST))
    return block


def _number(text: str) -> object:
    """A number as JSON has it; any other text stays, and the checks say what is wrong with it."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not isfinite(number):
        return text
    return int(number) if number.is_integer() else number
