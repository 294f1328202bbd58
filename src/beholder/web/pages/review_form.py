"""The form in which people rate a case: the questions of the rubrics, with the answers so far.

It is made from the review sheet only, so that nothing a judge said can reach the page. The field of the comment is not
in it: the template has that itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beholder.cases.case import CANDIDATES, number_repeats
from beholder.reviews.sheet import (
    DEFAULT_CONFIDENCE,
    OPEN_ANSWER,
    ReviewSheet,
    assertion_name,
    confidence_name,
    finding_name,
    score_name,
)
from beholder.reviews.votes import LEFT, RIGHT, side_of, vote_name
from beholder.rubrics.rubric import Criterion, Rubric
from beholder.verdicts.verdict import BOTH_BAD, TIE

TENTHS = 10  # choices on a scale that takes any number
VOTE_CHOICES = ((LEFT, "Left", "1"), (RIGHT, "Right", "2"), (TIE, "Tie", "0"), (BOTH_BAD, "Both bad", "9"))


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """One answer to choose; `key` selects it on a keyboard, if any."""

    value: str
    title: str
    key: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class FormQuestion:
    """A question with answers to choose. `confidence_name` is the name of the field for the confidence, where that is
    asked; an `optional` question is not asked for again when it is left open."""

    name: str
    kind: str
    id: str
    title: str
    choices: tuple[AnswerChoice, ...]
    about: str = ""
    confidence_name: str = ""
    confidence: str = DEFAULT_CONFIDENCE
    optional: bool = False


@dataclass(frozen=True, slots=True)
class FindingField:
    """A finding: a text field with one entry per line."""

    name: str
    title: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class CriterionForm:
    """A criterion with its questions. `guides` are titled lists of hints; `ceiling` the highest score for each number
    of failed assertions."""

    key: str
    title: str
    question: str
    guides: tuple[tuple[str, tuple[str, ...]], ...]
    questions: tuple[FormQuestion, ...]
    ceiling: str


@dataclass(frozen=True, slots=True)
class RubricForm:
    """A rubric with its criteria and findings."""

    name: str
    title: str
    summary: str
    style: str
    parts: tuple[CriterionForm, ...]
    findings: tuple[FindingField, ...]


def make_form(sheet: ReviewSheet, answers: Mapping[str, str]) -> list[RubricForm]:
    """Return the form of each rubric, with the answers so far by field name."""
    return [_rubric_form(rubric, answers) for rubric in sheet.rubrics]


def score_keys(asked: Sequence[RubricForm]) -> list[str]:
    """Return the keys that give a score, the lowest first; empty if no score is asked for."""
    questions = (one for section in asked for part in section.parts for one in part.questions if one.kind == "score")
    return next(
        ([choice.key for choice in one.choices if choice.key and choice.value != OPEN_ANSWER] for one in questions), []
    )


def is_vote(sheet: ReviewSheet) -> bool:
    """Return whether a person says which of two candidates is better."""
    return any(rubric.is_preference for rubric in sheet.rubrics)


def side_title(winner: str, order: str) -> str:
    """Return what a vote says, by the sides on which the candidates were shown: `left`, `right`, `tie`, `both bad`."""
    return side_of(winner, order).replace("_", " ")


def image_labels(sheet: ReviewSheet) -> list[str]:
    """Return the labels of the images in order, numbered where a role has several."""
    labels = {image.role: image.label for rubric in sheet.rubrics for image in rubric.images}
    if is_vote(sheet):
        candidates = [role for role in sheet.roles if role in CANDIDATES]  # in the order in which they are shown
        labels |= dict(zip(candidates, ("Left", "Right"), strict=False))
    return number_repeats(labels.get(role, role) for role in sheet.roles)


def _rubric_form(rubric: Rubric, answers: Mapping[str, str]) -> RubricForm:
    if rubric.is_preference:
        return _preference_form(rubric, answers)
    style = rubric.style
    return RubricForm(
        rubric.name,
        rubric.title or rubric.name,
        rubric.summary,
        f"{style.style}: {style.description}" if style and style.description else "",
        tuple(_criterion_form(rubric, criterion, answers) for criterion in rubric.criteria),
        tuple(
            FindingField(
                finding_name(rubric, finding.key),
                finding.key.replace("_", " ").capitalize(),
                finding.about,
                answers.get(finding_name(rubric, finding.key), ""),
            )
            for finding in rubric.findings
        ),
    )


def _preference_form(rubric: Rubric, answers: Mapping[str, str]) -> RubricForm:
    """Return the form of a vote: the whole first, which alone is needed, then the criteria."""
    overall = _vote_question(vote_name(rubric), "All in all", answers)
    parts = [CriterionForm("overall", "Which is better?", rubric.summary, (), (overall,), "")]
    for criterion in rubric.criteria:
        guides = (("Look at", criterion.examine), ("Leave out", criterion.leave_out))
        question = _vote_question(vote_name(rubric, criterion.key), criterion.name, answers, optional=True)
        shown = tuple((title, lines) for title, lines in guides if lines)
        asked = criterion.question or criterion.definition
        parts.append(CriterionForm(criterion.key, criterion.name, asked, shown, (question,), ""))
    return RubricForm(rubric.name, rubric.title or rubric.name, rubric.summary, "", tuple(parts), ())


def _vote_question(name: str, title: str, answers: Mapping[str, str], *, optional: bool = False) -> FormQuestion:
    picked = answers.get(name)
    choices = [AnswerChoice(value, text, key, picked == value) for value, text, key in VOTE_CHOICES]
    if optional:
        choices.append(AnswerChoice(OPEN_ANSWER, "N/A", "x", picked == OPEN_ANSWER))
    return FormQuestion(name, "vote", "", title, tuple(choices), optional=optional)


def _criterion_form(rubric: Rubric, criterion: Criterion, answers: Mapping[str, str]) -> CriterionForm:
    low, high = criterion.scale
    anchors = tuple(f"{value}: {text}" for value, text in criterion.anchors.items())
    guides = (
        ("Look at", criterion.examine),
        (f"Towards {high:g}", criterion.high),
        (f"Towards {low:g}", criterion.low),
        ("What the numbers mean", anchors),
        ("Leave out", criterion.leave_out),
    )
    questions = [_assertion_question(rubric, criterion, at, answers) for at in range(len(criterion.assertions))]
    given = rubric.scoring.criterion_score == "given"
    if given:
        questions.append(_score_question(rubric, criterion, answers))
    return CriterionForm(
        criterion.key,
        criterion.name,
        criterion.question or criterion.definition,
        tuple((title, lines) for title, lines in guides if lines),
        tuple(questions),
        ",".join(f"{most:g}" for most in rubric.scoring.ceiling) if given and criterion.assertions else "",
    )


def _assertion_question(rubric: Rubric, criterion: Criterion, at: int, answers: Mapping[str, str]) -> FormQuestion:
    assertion = criterion.assertions[at]
    name = assertion_name(rubric, criterion, assertion)
    picked = answers.get(name)
    offered = (("yes", "Yes", "y"), ("no", "No", "n"), (OPEN_ANSWER, "N/A", "x"))
    confident = rubric.scoring.criterion_score == "confidence"
    return FormQuestion(
        name,
        "assertion",
        assertion.id,
        assertion.text,
        tuple(AnswerChoice(value, title, key, picked == value) for value, title, key in offered),
        f"Applies where the original shows {assertion.applies}." if assertion.applies else "",
        confidence_name(rubric, criterion, assertion) if confident else "",
        answers.get(confidence_name(rubric, criterion, assertion), DEFAULT_CONFIDENCE),
    )


def _score_question(rubric: Rubric, criterion: Criterion, answers: Mapping[str, str]) -> FormQuestion:
    name = score_name(rubric, criterion)
    picked = answers.get(name)
    offered = _score_choices(criterion)
    if picked not in (None, "", OPEN_ANSWER, *offered) and _is_number(str(picked)):
        offered = {**offered, str(picked): ""}  # a finer number, imported from a file
        offered = dict(sorted(offered.items(), key=lambda item: float(item[0])))
    choices = [AnswerChoice(value, value, key, picked == value) for value, key in offered.items()]
    choices.append(AnswerChoice(OPEN_ANSWER, "N/A", "x", picked == OPEN_ANSWER))
    title = "Score" if criterion.assertions else criterion.name
    return FormQuestion(name, "score", "", title, tuple(choices))


def _score_choices(criterion: Criterion) -> dict[str, str]:
    """Return the scores to choose from, each with its key.

    The key of a whole number is its digit. On a scale of tenths, 1 to 9 are 0.1 to 0.9 and, as on a keyboard, 0 after 9
    is the highest.
    """
    low, high = criterion.scale
    if criterion.whole:
        values = range(int(low), int(high) + 1)
        return {
            str(value): str(value) if value < TENTHS else "0" if value == TENTHS and low > 0 else "" for value in values
        }
    step = (high - low) / TENTHS
    keys = ("-", *map(str, range(1, TENTHS)), "0")
    return {f"{low + step * at:.6g}": keys[at] for at in range(TENTHS + 1)}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
