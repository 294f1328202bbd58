"""What a person is asked about a case, and what becomes of the answers: the same checks and scores as any judge's.

Answers are texts by the name of their question, as a form sends them: `RUBRIC:CRITERION` for a score,
`RUBRIC:CRITERION:ASSERTION` for yes or no, `RUBRIC::FINDING` for a list with an entry a line, `comment`. What has no
answer is left open, and so is what is answered with `n/a`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from msgspec import structs

from beholder.cases.case import Case, FieldValue
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunRecord
from beholder.reviews.queue import case_label
from beholder.reviews.review import Review
from beholder.rubrics.load import find_style
from beholder.rubrics.prompt import NO, NOT_APPLICABLE, YES, offers_not_applicable
from beholder.rubrics.rubric import Assertion, Criterion, Rubric, Style
from beholder.verdicts.observe import ABSTAIN, AnswerContext
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Flag, Outcome, Verdict

_DRAFT_DETAIL = "a rating that was begun and not saved"
_CHANGED_FLAG = Flag(
    "rating_changed", why="it was saved before; whoever changed it could have seen the judge's verdict"
)
_TURN_KEY = "turn"  # beside the answers of a draft; no question is called so


@dataclass(frozen=True, slots=True)
class Rating:
    """A case in a review: the questions, the answers so far, and the person's verdicts once it is saved.

    `case` and `judged` (what the run's judge said) are for after the rating, not for whoever has yet to rate.
    """

    sheet: ReviewSheet
    answers: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    case: Case
    judged: tuple[Verdict, ...]
    position: int

    @property
    def saved(self) -> bool:
        return bool(self.verdicts)


def load_rating(ledger: Ledger, review: Review, case: str) -> Rating:
    """A case of the run as its rater finds it. Raises `LedgerError` for no such case."""
    record = ledger.run(review.run)
    found = ledger.case(review.run, case)
    judged = list(ledger.stored_verdicts(review.run, case=case))
    if not judged:
        raise UsageError("This case has no verdict yet; rate it when the run has got there.")
    label = case_label(ledger, review, case)
    sheet = build_sheet(record, found, [one.verdict for one in judged], label)
    own = {one.verdict.rubric: one.verdict for one in ledger.stored_verdicts(review.id, case=case, answers=True)}
    answers: dict[str, str] = {}
    for rubric in sheet.rubrics:
        if (verdict := own.get(rubric.name)) is not None:
            answers |= (
                answers_from_verdict(rubric, verdict)
                if verdict.scored
                else clean_answers(sheet, _draft_answers(verdict))
            )
    saved = tuple(one for one in own.values() if one.scored)
    return Rating(sheet, answers, saved, found, tuple(one.verdict for one in judged), judged[0].position)


def record_rating(ledger: Ledger, review: Review, case: str, answers: FormAnswers) -> tuple[Verdict, ...]:
    """Saves a rating, the first or a changed one: a verdict for each rubric of the run. Raises `UsageError` with what
    is wrong in the answers; then nothing is written."""
    there = load_rating(ledger, review, case)
    said = clean_answers(there.sheet, answers)
    if not said:
        raise UsageError("Nothing is answered yet. Answer something, or say N/A where it cannot be said.")
    verdicts = _score_rating(there, review, said)
    all_cases = ledger.run(review.run).total // len(verdicts)

    def decide(before: Sequence[Verdict]) -> list[Entry]:
        if any(verdict.scored for verdict in before):
            verdicts[:] = [replace(verdict, flags=(*verdict.flags, _CHANGED_FLAG)) for verdict in verdicts]
        return _rating_entries(there, verdicts)

    ledger.write_rating(review.id, case, decide, total_cases=all_cases)
    return tuple(verdicts)


def record_draft(ledger: Ledger, review: Review, case: str, answers: FormAnswers, turn: str = "") -> bool:
    """Keeps answers that are not saved yet, as far as they go. A rating that was saved stays as it is: `False`. Raises
    `UsageError` for what is no question of the case, or no answer to one; then nothing is written.

    `turn` is a name for the page that sends them, a full stop, and a number that it counts up: what comes after
    something newer of the same page is passed over.
    """
    there = load_rating(ledger, review, case)
    said = clean_answers(there.sheet, answers)
    if strangers := sorted(answers.keys() - question_names(there.sheet)):
        raise UsageError(f"Nothing of this case is called {strangers[0][:60]!r}.")
    _score_rating(there, review, said)
    heads = [VerdictHeader(there.case.id, rubric, review.judge) for rubric in there.sheet.rubrics]
    text = json.dumps({**said, _TURN_KEY: turn})
    drafts = [replace(head.make_verdict(Outcome.INTERRUPTED, _DRAFT_DETAIL), answer=text) for head in heads]
    already_saved = False

    def decide(before: Sequence[Verdict]) -> list[Entry]:
        nonlocal already_saved
        already_saved = any(verdict.scored for verdict in before)
        outdated = any(_is_newer(_draft_answers(verdict).get(_TURN_KEY, ""), turn) for verdict in before)
        return [] if already_saved or outdated else _rating_entries(there, drafts)

    ledger.write_rating(review.id, case, decide)
    return not already_saved


def _score_rating(there: Rating, review: Review, said: FormAnswers) -> list[Verdict]:
    """What the answers come to, by rubric. Raises `UsageError` with what is wrong in them."""
    verdicts = [score_answers(rubric, there.case.id, review.judge, said) for rubric in there.sheet.rubrics]
    wrong = [verdict.detail for verdict in verdicts if not verdict.scored]
    if wrong:
        raise UsageError(f"The answers cannot be scored: {'; '.join(wrong)}.")
    return verdicts


def _rating_entries(there: Rating, verdicts: Sequence[Verdict]) -> list[Entry]:
    # Bytes that were handed in are not kept; the ledger writes that down by their kind.
    images = {role: b"" if source == "bytes:" else source for role, source in there.case.images.items()}
    case = replace(there.case, images=images)
    judged = {one.rubric: one for one in there.judged}
    return [
        Entry(
            there.position,
            case,
            replace(one, images=judged[one.rubric].images, brief_digest=judged[one.rubric].brief_digest),
            spent_usd=Decimal(0),
        )
        for one in verdicts
    ]


def _draft_answers(verdict: Verdict) -> dict[str, str]:
    try:
        found = json.loads(verdict.answer or "{}")
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def _is_newer(there: str, turn: str) -> bool:
    """Whether the turn that is there is a later one of the same page."""
    (page, _, last), (own, _, now) = there.rpartition("."), turn.rpartition(".")
    return bool(page) and page == own and last.isdecimal() and now.isdecimal() and int(last) > int(now)


FormAnswers = Mapping[str, str]

COMMENT_NAME = "comment"
OPEN_ANSWER = "n/a"
MAX_ANSWER_LENGTH = 20_000  # characters of one answer: a comment, not a book
DEFAULT_CONFIDENCE = "5"  # how sure a person counts as, where a rubric asks and nothing was said

# A person is asked for scores and one comment; a reason beside each is a model's duty.
_IGNORED_FLAGS = frozenset({"empty_reason", "reason_length", "empty_evidence", "assessment_missing"})
_ANSWER_VALUES = {"yes": YES, "no": NO}


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """A case as a person meets it: its rubrics, texts, and the roles of its images. `label` stands for the case, whose
    id may name the model under test; neither that nor anything a judge said is in here."""

    label: str
    rubrics: tuple[Rubric, ...]
    fields: tuple[tuple[str, FieldValue], ...]
    roles: tuple[str, ...]


def build_sheet(record: RunRecord, case: Case, verdicts: Sequence[Verdict], label: str) -> ReviewSheet:
    """The questions that a run put to its judge about a case. Raises `UsageError` where the rubric is not kept."""
    rubrics = tuple(_rubric_for(record, case, verdict) for verdict in verdicts)
    names = dict.fromkeys(field.name for rubric in rubrics for field in rubric.fields)
    fields = tuple((name, case.fields[name]) for name in names if name in case.fields)
    roles = dict.fromkeys(role for rubric in rubrics for role in rubric.roles if role in case.images)
    return ReviewSheet(label, rubrics, fields, tuple(roles))


def score_name(rubric: Rubric, criterion: Criterion) -> str:
    return f"{rubric.name}:{criterion.key}"


def assertion_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    return f"{rubric.name}:{criterion.key}:{assertion.id}"


def finding_name(rubric: Rubric, finding: str) -> str:
    return f"{rubric.name}::{finding}"


def confidence_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    """How sure a person is of an answer, where the rubric asks that."""
    return f"{assertion_name(rubric, criterion, assertion)}:sure"


def clean_answers(sheet: ReviewSheet, answers: FormAnswers) -> dict[str, str]:
    """The answers that belong to a question of the sheet and say something. Raises `UsageError` for one too long."""
    # A form sends a line's end as two characters, and a script as one.
    known = question_names(sheet)
    found = {name: answers[name].replace("\r\n", "\n").strip() for name in known if answers.get(name, "").strip()}
    for name, text in found.items():
        if len(text) > MAX_ANSWER_LENGTH:
            raise UsageError(
                f"The answer to {name!r} has {len(text):,} characters; at most {MAX_ANSWER_LENGTH:,} are kept."
            )
    return found


def question_names(sheet: ReviewSheet) -> set[str]:
    """The names of everything that a sheet asks."""
    known = {COMMENT_NAME}
    for rubric in sheet.rubrics:
        known |= {finding_name(rubric, finding.key) for finding in rubric.findings}
        for criterion in rubric.criteria:
            known.add(score_name(rubric, criterion))
            for one in criterion.assertions:
                known |= {assertion_name(rubric, criterion, one), confidence_name(rubric, criterion, one)}
    return known


def score_answers(rubric: Rubric, case: str, judge: str, answers: FormAnswers) -> Verdict:
    """What a person's answers come to; `invalid` with what is wrong in `detail`.

    Of a criterion whose assertions were all left open, only the score was asked: it stands as it is.
    """
    asked = structs.replace(
        rubric, criteria=tuple(_reduce_criterion(rubric, criterion, answers) for criterion in rubric.criteria)
    )
    document: dict[str, object] = {
        "criteria": {one.key: _criterion_document(asked, one, answers) for one in asked.criteria},
        "assessment": answers.get(COMMENT_NAME, ""),
        **{one.key: answers.get(finding_name(rubric, one.key), "").splitlines() for one in rubric.findings},
    }
    verdict = score_answer(VerdictHeader(case, asked, judge), document, AnswerContext(may_abstain=True))
    return replace(
        verdict,
        answer=json.dumps(document),
        assessment=answers.get(COMMENT_NAME, ""),
        flags=tuple(flag for flag in verdict.flags if flag.flag not in _IGNORED_FLAGS),
    )


def answers_from_verdict(rubric: Rubric, verdict: Verdict) -> dict[str, str]:
    """The answers behind a person's verdict, to be changed; the inverse of `verdict_of` as far as answers go."""
    found = {COMMENT_NAME: verdict.assessment} if verdict.assessment else {}
    said = {"yes": "yes", "no": "no", "not_applicable": OPEN_ANSWER}
    for criterion in rubric.criteria:
        result = verdict.criteria.get(criterion.key)
        if result is None:
            continue
        given = result.reported
        if given is not None:
            found[score_name(rubric, criterion)] = str(given)
        elif not result.assertions:
            found[score_name(rubric, criterion)] = OPEN_ANSWER
        asked = {one.id: one for one in criterion.assertions}
        for one in result.assertions:
            if one.id in asked and one.answer in said:
                found[assertion_name(rubric, criterion, asked[one.id])] = said[one.answer]
                if one.confidence is not None:
                    found[confidence_name(rubric, criterion, asked[one.id])] = str(one.confidence)
    for key, entries in verdict.findings.items():
        if entries:
            found[finding_name(rubric, key)] = "\n".join(entries)
    return found


def _rubric_for(record: RunRecord, case: Case, verdict: Verdict) -> Rubric:
    rubrics = record.load_rubrics()
    if verdict.rubric not in rubrics:
        raise UsageError(f"The run {record.id} does not keep its rubric {verdict.rubric!r}, so nobody can rate by it.")
    rubric = rubrics[verdict.rubric].with_setting(verdict.setting or "")
    if not rubric.styles:
        return rubric
    style = _load_style(verdict.style or str(case.fields.get("style", "")))
    described = bool(str(case.fields.get("style_description", "")).strip())  # by the case itself, in its own words
    rubric = rubric.with_style(structs.replace(style, description="") if described else style)
    return structs.replace(rubric, criteria=tuple(_criterion_as_asked(one, verdict) for one in rubric.criteria))


def _criterion_as_asked(criterion: Criterion, verdict: Verdict) -> Criterion:
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
        same = one is not None and (
            each.id in reworded or _normalize_wording(one.text) == _normalize_wording(each.question)
        )
        asked.append(one if one is not None and same else Assertion(each.question, each.id))
    return structs.replace(criterion, assertions=tuple(asked))


def _normalize_wording(text: str) -> str:
    """As far as one wording is told from another: a judge may write the same with other marks."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


@lru_cache(64)  # finding one reads all of them, 11 ms
def _load_style(name: str) -> Style:
    return find_style(name)


def _reduce_criterion(rubric: Rubric, criterion: Criterion, answers: FormAnswers) -> Criterion:
    if rubric.scoring.criterion_score == "confidence":
        return criterion
    for one in criterion.assertions:
        said = answers.get(assertion_name(rubric, criterion, one), "")
        if said and (said != OPEN_ANSWER or offers_not_applicable(rubric, one)):
            return criterion
    return structs.replace(criterion, assertions=())


def _criterion_document(rubric: Rubric, criterion: Criterion, answers: FormAnswers) -> dict[str, object]:
    given = answers.get(score_name(rubric, criterion), OPEN_ANSWER)
    block: dict[str, object] = {
        rubric.reason.key: "",
        "score": ABSTAIN if given == OPEN_ANSWER else _parse_number(given),
    }
    if criterion.assertions:
        block["assertions"] = {
            one.id: _assertion_document(rubric, criterion, one, answers) for one in criterion.assertions
        }
    return block


def _assertion_document(
    rubric: Rubric, criterion: Criterion, assertion: Assertion, answers: FormAnswers
) -> dict[str, object]:
    """N/A is the rubric's own where it offers that, and leaves the denominator; elsewhere it leaves the answer open."""
    said = answers.get(assertion_name(rubric, criterion, assertion), "")
    if said == OPEN_ANSWER and offers_not_applicable(rubric, assertion):
        answer = NOT_APPLICABLE
    else:
        answer = _ANSWER_VALUES.get(said, ABSTAIN if said in ("", OPEN_ANSWER) else said)
    block: dict[str, object] = {"answer": answer, "evidence": ""}
    if rubric.scoring.criterion_score == "confidence":
        block["confidence"] = _parse_number(
            answers.get(confidence_name(rubric, criterion, assertion), DEFAULT_CONFIDENCE)
        )
    return block


def _parse_number(text: str) -> object:
    """A number as JSON has it; any other text stays, and the checks say what is wrong with it."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not isfinite(number):
        return text
    return int(number) if number.is_integer() else number
