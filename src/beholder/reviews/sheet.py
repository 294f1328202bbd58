"""The review sheet: what a person is asked about a case, and scoring and saving the answers.

The answers pass the same checks and scoring as a judge's. They are texts by the name of their question, as a form sends
them: `RUBRIC:CRITERION` for a score, `RUBRIC:CRITERION:ASSERTION` for yes or no, `RUBRIC::FINDING` for a list with one
entry per line, and `comment`. A question without an answer, or with `n/a`, counts as not answered.

A new kind of question is needed in five places: its name here (`question_names`, or drafts refuse it), its scoring
(`score_answers`, `answers_from_verdict`), its form (`web/pages/review_form.py`), `web/templates/review_case.html`, and
`web/static/review.js`, which follows a person's answers.

By a rubric of kind preference the answers are votes, `RUBRIC:overall` and, if the person likes, `RUBRIC:CRITERION`:
`left`, `right`, `tie` or `both_bad`; see `reviews/votes.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from math import isfinite

from msgspec import structs

from beholder.cases.case import CANDIDATES, Case, FieldValue
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunRecord
from beholder.reviews.review import Review, case_label
from beholder.reviews.votes import (
    LEFT,
    RIGHT,
    choose_order,
    recorded_order,
    vote_document,
    vote_name,
    vote_names,
    votes_from_verdict,
)
from beholder.rubrics.brief import GIVEN, SWAPPED
from beholder.rubrics.load import find_style
from beholder.rubrics.prompt import NO, NOT_APPLICABLE, YES, offers_not_applicable
from beholder.rubrics.rubric import Assertion, Criterion, Rubric, Style
from beholder.verdicts.observe import ABSTAIN, AnswerContext
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Flag, Outcome, Verdict

FormAnswers = Mapping[str, str]

COMMENT_NAME = "comment"
OPEN_ANSWER = "n/a"
MAX_ANSWER_LENGTH = 20_000  # characters
DEFAULT_CONFIDENCE = "5"  # where a rubric asks for confidence and the person gave none

_DRAFT_DETAIL = "a rating that was begun and not saved"
_CHANGED_FLAG = Flag(
    "rating_changed", why="it was saved before; whoever changed it could have seen the judge's verdict"
)
_REVISION_KEY = "turn"  # stored with the answers of a draft; no question has this name
# A person gives scores and one comment; only a model must give a reason for each score.
_IGNORED_FLAGS = frozenset({"empty_reason", "reason_length", "empty_evidence", "assessment_missing"})
# A vote needs no strength, and votes on single criteria are the person's choice.
_IGNORED_VOTE_FLAGS = _IGNORED_FLAGS | {"strength_missing", "abstained"}
_ANSWER_VALUES = {"yes": YES, "no": NO}


@dataclass(frozen=True, slots=True)
class Rating:
    """A case in a review.

    Attributes:
        sheet: The questions.
        answers: The answers so far.
        verdicts: The person's verdicts, once the rating is saved.
        case: The case. Like `judge_verdicts`, not to be shown before the rating is saved.
        judge_verdicts: What the judge of the run said.
        position: The position of the case in the run.
    """

    sheet: ReviewSheet
    answers: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    case: Case
    judge_verdicts: tuple[Verdict, ...]
    position: int

    @property
    def saved(self) -> bool:
        return bool(self.verdicts)


def load_rating(ledger: Ledger, review: Review, case: str) -> Rating:
    """Return a case of a review with its questions and the answers so far.

    Raises:
        LedgerError: There is no such case.
        UsageError: It has no verdict yet, or its rubric cannot be rated.
    """
    record = ledger.run(review.run)
    stored_case = ledger.case(review.run, case)
    judged = list(ledger.stored_verdicts(review.run, case=case))
    if not judged:
        raise UsageError("This case has no verdict yet; rate it when the run has got there.")
    label = case_label(ledger, review, case)
    judge_verdicts = tuple(stored.verdict for stored in judged)
    rater_verdicts = {
        stored.verdict.rubric: stored.verdict for stored in ledger.stored_verdicts(review.id, case=case, answers=True)
    }
    order = next(filter(None, map(recorded_order, rater_verdicts.values())), None) or choose_order(review.id, case)
    sheet = build_sheet(record, stored_case, judge_verdicts, label, order)
    answers: dict[str, str] = {}
    for rubric in sheet.rubrics:
        if (verdict := rater_verdicts.get(rubric.name)) is not None:
            answers |= (
                answers_from_verdict(rubric, verdict, sheet.order)
                if verdict.answered
                else clean_answers(sheet, _draft_answers(verdict))
            )
    saved = tuple(verdict for verdict in rater_verdicts.values() if verdict.answered)
    return Rating(sheet, answers, saved, stored_case, judge_verdicts, judged[0].position)


def record_rating(
    ledger: Ledger,
    review: Review,
    case: str,
    answers: FormAnswers,
    *,
    order: str | None = None,
    fractions: bool = False,
) -> tuple[Verdict, ...]:
    """Save a rating, a first or a changed one.

    Args:
        ledger: The ledger.
        review: The review.
        case: The id of the case.
        answers: The answers by the names of their questions.
        order: Of votes from elsewhere: in which order the candidates were shown; else the one of this review.
        fractions: Whether a score may lie between the steps of its scale: it was given on another one.

    Returns:
        The verdicts, one for each rubric of the run.

    Raises:
        UsageError: Something is wrong with the answers; then nothing is written.
    """
    rating = load_rating(ledger, review, case)
    if order is not None:
        rating = replace(rating, sheet=replace(rating.sheet, order=order))
    cleaned = clean_answers(rating.sheet, answers)
    if not cleaned:
        raise UsageError("Nothing is answered yet. Answer something, or say N/A where it cannot be said.")
    if any(vote_name(rubric) not in cleaned for rubric in rating.sheet.rubrics if rubric.is_preference):
        raise UsageError("Say first which is better all in all: left, right, a tie, or both bad.")
    verdicts = _score_rating(rating, review, cleaned, fractions=fractions)
    all_cases = ledger.run(review.run).total // len(verdicts)

    def decide(before: Sequence[Verdict]) -> list[Entry]:
        if any(verdict.answered for verdict in before):
            verdicts[:] = [replace(verdict, flags=(*verdict.flags, _CHANGED_FLAG)) for verdict in verdicts]
        return _rating_entries(rating, verdicts)

    ledger.write_rating(review.id, case, decide, total_cases=all_cases)
    return tuple(verdicts)


def record_draft(ledger: Ledger, review: Review, case: str, answers: FormAnswers, revision: str = "") -> bool:
    """Save a draft: answers of a rating that is not finished. A rating that was saved stays as it is.

    Args:
        ledger: The ledger.
        review: The review.
        case: The id of the case.
        answers: The answers so far.
        revision: `PAGE.NUMBER`: a name for the page that sends the draft, and a number that it counts up. A draft that
            arrives after a newer one of the same page is ignored.

    Returns:
        Whether the rating is still a draft.

    Raises:
        UsageError: A name is no question of the case, or an answer is invalid; then nothing is written.
    """
    rating = load_rating(ledger, review, case)
    cleaned = clean_answers(rating.sheet, answers)
    if unknown := sorted(answers.keys() - question_names(rating.sheet)):
        raise UsageError(f"Nothing of this case is called {unknown[0][:60]!r}.")
    _score_rating(rating, review, cleaned)
    headers = [VerdictHeader(rating.case.id, rubric, review.judge) for rubric in rating.sheet.rubrics]
    text = json.dumps({**cleaned, _REVISION_KEY: revision})
    drafts = [replace(header.make_verdict(Outcome.INTERRUPTED, _DRAFT_DETAIL), answer=text) for header in headers]
    already_saved = False

    def decide(before: Sequence[Verdict]) -> list[Entry]:
        nonlocal already_saved
        already_saved = any(verdict.answered for verdict in before)
        outdated = any(_is_newer(_draft_answers(verdict).get(_REVISION_KEY, ""), revision) for verdict in before)
        return [] if already_saved or outdated else _rating_entries(rating, drafts)

    ledger.write_rating(review.id, case, decide)
    return not already_saved


def _score_rating(rating: Rating, review: Review, answers: FormAnswers, *, fractions: bool = False) -> list[Verdict]:
    """Return the verdicts, one for each rubric. Raises `UsageError` with what is wrong with the answers."""
    sheet = rating.sheet
    verdicts = [
        score_answers(rubric, rating.case.id, review.judge, answers, sheet.order, fractions=fractions)
        for rubric in sheet.rubrics
    ]
    problems = [verdict.detail for verdict in verdicts if not verdict.answered]
    if problems:
        raise UsageError(f"The answers cannot be scored: {'; '.join(problems)}.")
    return verdicts


def _rating_entries(rating: Rating, verdicts: Sequence[Verdict]) -> list[Entry]:
    # Of images that were given as bytes the ledger has only the kind; it must stay that, and not become a path.
    images = {
        role: tuple(b"" if source == "bytes:" else source for source in rating.case.sources(role))
        for role in rating.case.images
    }
    case = replace(rating.case, images=images)
    judged = {verdict.rubric: verdict for verdict in rating.judge_verdicts}
    return [
        Entry(
            rating.position,
            case,
            replace(
                verdict,
                images=judged[verdict.rubric].images,
                pictures=judged[verdict.rubric].pictures,
                brief_digest=judged[verdict.rubric].brief_digest,
            ),
            spent_usd=Decimal(0),
        )
        for verdict in verdicts
    ]


def _draft_answers(verdict: Verdict) -> dict[str, str]:
    try:
        answers = json.loads(verdict.answer or "{}")
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in answers.items()} if isinstance(answers, dict) else {}


def _is_newer(stored: str, revision: str) -> bool:
    """Return whether the stored revision is a later one of the same page."""
    (stored_page, _, stored_number), (page, _, number) = stored.rpartition("."), revision.rpartition(".")
    same_page = bool(page) and stored_page == page
    return same_page and stored_number.isdecimal() and number.isdecimal() and int(stored_number) > int(number)


@dataclass(frozen=True, slots=True)
class ReviewSheet:
    """What a rater sees of a case: rubrics, texts and the roles of its images, one for each image in order.

    It is blind: `label` replaces the id of the case, which may name the model under test, and nothing of the judge's
    verdicts is in it. `order` says in which order the candidates of a preference are shown, left to right; their roles
    and texts are in it, the texts as `left` and `right`.
    """

    label: str
    rubrics: tuple[Rubric, ...]
    fields: tuple[tuple[str, FieldValue], ...]
    roles: tuple[str, ...]
    order: str = GIVEN


def build_sheet(
    record: RunRecord, case: Case, verdicts: Sequence[Verdict], label: str, order: str = GIVEN
) -> ReviewSheet:
    """Return the questions that a run asked its judge about a case.

    Args:
        record: The run.
        case: The case.
        verdicts: The judge's verdicts on it, one for each rubric.
        label: The blind label.
        order: In which order the candidates of a preference are shown.

    Raises:
        UsageError: A rubric is not stored with the run.
    """
    rubrics = tuple(_rubric_for(record, case, verdict) for verdict in verdicts)
    names = list(dict.fromkeys(field.name for rubric in rubrics for field in rubric.fields))
    roles = list(dict.fromkeys(role for rubric in rubrics for role in rubric.roles if role in case.images))
    titles: dict[str, str] = {}
    if any(rubric.is_preference for rubric in rubrics):
        names, roles = _arrange(names, order), _arrange(roles, order)
        titles = dict(zip(_arrange(list(CANDIDATES), order), (LEFT, RIGHT), strict=True))
    fields = tuple((titles.get(name, name), case.fields[name]) for name in names if name in case.fields)
    return ReviewSheet(label, rubrics, fields, tuple(role for role in roles for _ in case.sources(role)), order)


def _arrange(names: list[str], order: str) -> list[str]:
    """Return the names with those of the two candidates at the end, in the order in which they are shown."""
    shown = [name for name in (reversed(CANDIDATES) if order == SWAPPED else CANDIDATES) if name in names]
    return [name for name in names if name not in CANDIDATES] + shown


def score_name(rubric: Rubric, criterion: Criterion) -> str:
    return f"{rubric.name}:{criterion.key}"


def assertion_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    return f"{rubric.name}:{criterion.key}:{assertion.id}"


def finding_name(rubric: Rubric, finding: str) -> str:
    return f"{rubric.name}::{finding}"


def confidence_name(rubric: Rubric, criterion: Criterion, assertion: Assertion) -> str:
    """Return the name of the question how sure a person is of an answer, which some rubrics ask."""
    return f"{assertion_name(rubric, criterion, assertion)}:sure"


def clean_answers(sheet: ReviewSheet, answers: FormAnswers) -> dict[str, str]:
    """Return the answers to questions of the sheet that are not empty. Raises `UsageError` if one is too long."""
    # Forms send line ends as two characters, scripts as one.
    known = question_names(sheet)
    cleaned = {name: answers[name].replace("\r\n", "\n").strip() for name in known if answers.get(name, "").strip()}
    for name, text in cleaned.items():
        if len(text) > MAX_ANSWER_LENGTH:
            raise UsageError(
                f"The answer to {name!r} has {len(text):,} characters; at most {MAX_ANSWER_LENGTH:,} are kept."
            )
    return cleaned


def question_names(sheet: ReviewSheet) -> set[str]:
    """Return the names of all questions of a sheet."""
    known = {COMMENT_NAME}
    for rubric in sheet.rubrics:
        if rubric.is_preference:
            known |= vote_names(rubric)
            continue
        known |= {finding_name(rubric, finding.key) for finding in rubric.findings}
        for criterion in rubric.criteria:
            known.add(score_name(rubric, criterion))
            for assertion in criterion.assertions:
                known.add(assertion_name(rubric, criterion, assertion))
                known.add(confidence_name(rubric, criterion, assertion))
    return known


def score_answers(
    rubric: Rubric, case: str, judge: str, answers: FormAnswers, order: str = GIVEN, *, fractions: bool = False
) -> Verdict:
    """Return the verdict by a person's answers; `invalid`, with the reason in `detail`, if they cannot be scored.

    If no assertion of a criterion was answered, the person's score of the criterion counts as it is.

    Args:
        rubric: The rubric.
        case: The id of the case.
        judge: The identity of the rater, `person:NAME`.
        answers: The answers by the names of their questions.
        order: Of a preference: in which order the candidates were shown; `UNKNOWN_ORDER` counts as given.
        fractions: Whether a score may lie between the steps of its scale.
    """
    if rubric.is_preference:
        return _score_votes(rubric, case, judge, answers, order)
    if fractions:
        rubric = _allow_fractions(rubric, answers)
    asked = structs.replace(
        rubric, criteria=tuple(_reduce_criterion(rubric, criterion, answers) for criterion in rubric.criteria)
    )
    document: dict[str, object] = {
        "criteria": {criterion.key: _criterion_document(asked, criterion, answers) for criterion in asked.criteria},
        "assessment": answers.get(COMMENT_NAME, ""),
        **{finding.key: answers.get(finding_name(rubric, finding.key), "").splitlines() for finding in rubric.findings},
    }
    verdict = score_answer(VerdictHeader(case, asked, judge), document, AnswerContext(may_abstain=True))
    return replace(
        verdict,
        answer=json.dumps(document),
        assessment=answers.get(COMMENT_NAME, ""),
        flags=tuple(flag for flag in verdict.flags if flag.flag not in _IGNORED_FLAGS),
    )


def _allow_fractions(rubric: Rubric, answers: FormAnswers) -> Rubric:
    """Return the rubric with whole scores only where one was given."""

    def allow(criterion: Criterion) -> Criterion:
        given = _parse_number(answers.get(score_name(rubric, criterion), ""))
        return structs.replace(criterion, whole=False) if isinstance(given, float) else criterion

    return structs.replace(rubric, criteria=tuple(map(allow, rubric.criteria)))


def _score_votes(rubric: Rubric, case: str, judge: str, answers: FormAnswers, order: str) -> Verdict:
    header = VerdictHeader(case, rubric, judge, order)
    try:
        document = vote_document(rubric, answers, OPEN_ANSWER)
    except UsageError as error:
        return header.make_verdict(Outcome.INVALID, str(error).removesuffix("."))
    verdict = score_answer(header, document, AnswerContext(may_abstain=True))
    preference = verdict.preference
    if preference is not None:  # of a single call; its order is that of the page, and nothing if that is not known
        voted = tuple(replace(answer, order=order, judge=judge) for answer in preference.answers)
        preference = replace(preference, answers=voted)
    return replace(
        verdict,
        preference=preference,
        answer=json.dumps(document),
        assessment=answers.get(COMMENT_NAME, ""),
        flags=tuple(flag for flag in verdict.flags if flag.flag not in _IGNORED_VOTE_FLAGS),
    )


def answers_from_verdict(rubric: Rubric, verdict: Verdict, order: str = GIVEN) -> dict[str, str]:
    """Return the answers behind a person's verdict: the inverse of `score_answers`."""
    answers = {COMMENT_NAME: verdict.assessment} if verdict.assessment else {}
    if rubric.is_preference:
        return answers | votes_from_verdict(rubric, verdict, order)
    texts = {"yes": "yes", "no": "no", "not_applicable": OPEN_ANSWER}
    for criterion in rubric.criteria:
        result = verdict.criteria.get(criterion.key)
        if result is None:
            continue
        given = result.reported
        if given is not None:
            answers[score_name(rubric, criterion)] = str(given)
        elif not result.assertions:
            answers[score_name(rubric, criterion)] = OPEN_ANSWER
        asked = {assertion.id: assertion for assertion in criterion.assertions}
        for answered in result.assertions:
            if answered.id in asked and answered.answer in texts:
                assertion = asked[answered.id]
                answers[assertion_name(rubric, criterion, assertion)] = texts[answered.answer]
                if answered.confidence is not None:
                    answers[confidence_name(rubric, criterion, assertion)] = str(answered.confidence)
    for key, entries in verdict.findings.items():
        if entries:
            answers[finding_name(rubric, key)] = "\n".join(entries)
    return answers


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
    return structs.replace(
        rubric, criteria=tuple(_criterion_as_asked(criterion, verdict) for criterion in rubric.criteria)
    )


def _criterion_as_asked(criterion: Criterion, verdict: Verdict) -> Criterion:
    """Return a criterion with the assertions that the judge was asked, which the verdict has: the style may be a user's
    own, or may have changed since. Of an assertion whose wording is still the same, or that the judge only reworded,
    the style's own one is taken, which has the condition under which it applies."""
    if criterion.key not in verdict.criteria:
        return criterion
    current = {assertion.id: assertion for assertion in criterion.assertions}
    reworded = {id_ for flag in verdict.flags if flag.flag == "question_differs" for id_ in flag.at.split(", ")}
    asked = []
    for answered in verdict.criteria[criterion.key].assertions:
        assertion = current.get(answered.id)
        same = assertion is not None and (
            answered.id in reworded or _normalize_wording(assertion.text) == _normalize_wording(answered.question)
        )
        asked.append(assertion if assertion is not None and same else Assertion(answered.question, answered.id))
    return structs.replace(criterion, assertions=tuple(asked))


def _normalize_wording(text: str) -> str:
    """Return only letters and digits: a judge may repeat a question with other punctuation."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


@lru_cache(64)  # finding a style reads all of them, which takes 11 ms
def _load_style(name: str) -> Style:
    return find_style(name)


def _reduce_criterion(rubric: Rubric, criterion: Criterion, answers: FormAnswers) -> Criterion:
    """Return the criterion without assertions if none of them was answered."""
    if rubric.scoring.criterion_score == "confidence":
        return criterion
    for assertion in criterion.assertions:
        given = answers.get(assertion_name(rubric, criterion, assertion), "")
        if given and (given != OPEN_ANSWER or offers_not_applicable(rubric, assertion)):
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
            assertion.id: _assertion_document(rubric, criterion, assertion, answers)
            for assertion in criterion.assertions
        }
    return block


def _assertion_document(
    rubric: Rubric, criterion: Criterion, assertion: Assertion, answers: FormAnswers
) -> dict[str, object]:
    """Return an answer as a judge would write it. `n/a` is "not applicable" where the rubric offers that, and an
    abstention elsewhere."""
    given = answers.get(assertion_name(rubric, criterion, assertion), "")
    if given == OPEN_ANSWER and offers_not_applicable(rubric, assertion):
        answer = NOT_APPLICABLE
    else:
        answer = _ANSWER_VALUES.get(given, ABSTAIN if given in ("", OPEN_ANSWER) else given)
    block: dict[str, object] = {"answer": answer, "evidence": ""}
    if rubric.scoring.criterion_score == "confidence":
        block["confidence"] = _parse_number(
            answers.get(confidence_name(rubric, criterion, assertion), DEFAULT_CONFIDENCE)
        )
    return block


def _parse_number(text: str) -> object:
    """Return a number as JSON has it; any other text stays, and scoring reports what is wrong with it."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not isfinite(number):
        return text
    return int(number) if number.is_integer() else number
