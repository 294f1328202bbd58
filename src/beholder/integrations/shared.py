"""What adapters share: ids of cases, verdicts as Markdown and in short, the options of a suite, where inputs are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beholder.api.options import OptionsLike
    from beholder.runs.suite import Suite
    from beholder.verdicts.verdict import CriterionResult, Verdict

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|!#~])")
_MAX_QUOTED = 600  # characters of what a judge said


def fit_id(text: str) -> str:
    """Return the name that a host has for a case as an id: printable, and not too long. The end is kept, which differs
    more often than the beginning."""
    from beholder.cases.case import MAX_ID

    id_ = "".join(sign if sign.isprintable() else "?" for sign in text) or "case"
    if len(id_) <= MAX_ID:
        return id_
    digest = hashlib.sha256(id_.encode()).hexdigest()[:8]
    return f"…{id_[len(id_) - MAX_ID + 11 :]} {digest}"


def criterion_share(result: CriterionResult) -> float | None:
    """Return where the score of a criterion lies on its scale, 0–1; `None` where it has none."""
    low, high = result.scale
    return None if result.score is None else float((result.score - low) / (high - low))


def describe_criterion(result: CriterionResult) -> str:
    """Return why a criterion has its score: its reason, or the evidence of what was answered No."""
    return result.reason or "; ".join(
        f"{one.question} {one.evidence}".strip() for one in result.assertions if one.answer == "no"
    )


def show_score(result: CriterionResult) -> str:
    """Return the score of a criterion for people: `6 of 7`, `no score`."""
    return "no score" if result.score is None else f"{result.score:.4g} of {result.scale[1]:g}"


def explain_criterion(key: str, result: CriterionResult) -> str:
    """Return a line on a criterion: its name, its score and why it has it."""
    return f"{key} {show_score(result)}: {describe_criterion(result)}".rstrip(": ")


def verdict_summary(verdict: Verdict, run_id: str | None) -> dict[str, object]:
    """Return what a host keeps beside the score as metadata: where the verdict is found, who gave it, on what.

    Images are there by their digests only: hosts store metadata as it is, and show it.
    """
    summary: dict[str, object] = {
        "run": run_id,
        "case": verdict.case,
        "rubric": verdict.rubric,
        "rubric_version": verdict.rubric_version,
        "judge": verdict.judge,
        "model": verdict.model,
        "outcome": str(verdict.outcome),
        "score": verdict.score,
        "passed": verdict.passed,
        "grade": verdict.grade,
        "cost_usd": None if verdict.cost_usd is None else float(verdict.cost_usd),
        "brief_digest": verdict.brief_digest,
        "images": [{"role": one.role, "digest": one.source_digest} for one in verdict.images],
        "flags": [flag.flag for flag in verdict.flags],
    }
    return {name: value for name, value in summary.items() if value not in (None, "", [])}


def verdict_markdown(verdict: Verdict) -> str:
    """Return a verdict as Markdown: its score, a table of its criteria, and what failed or is flagged.

    What a judge said is quoted as plain text: nothing in it becomes a link, an image or HTML.
    """
    return "\n".join(_list_markdown(verdict))


def _list_markdown(verdict: Verdict) -> Iterator[str]:
    who = f"{_quote(verdict.judge)}, {verdict.rubric} {verdict.rubric_version}"
    if verdict.score is None:
        yield f"**No score**: {_quote(verdict.missing_score_reason)} ({who})"
    else:
        grades = [f"grade {verdict.grade}"] if verdict.grade else []
        grades += [] if verdict.passed is None else ["passed" if verdict.passed else "did not pass"]
        winner = verdict.preference.winner if verdict.preference is not None else None
        score = f"{verdict.score:.4g}" if winner is None else winner.replace("_", " ")
        yield f"**{', '.join([score, *grades])}** ({who})"
    if verdict.criteria:
        yield from ("", "| criterion | score | why |", "|---|---|---|")
    for key, one in verdict.criteria.items():
        score = (one.choice or "no answer").replace("_", " ") if verdict.preference is not None else show_score(one)
        yield f"| {_quote(key.replace('_', ' '))} | {score} | {_quote(describe_criterion(one))} |"
    notes = [f"{key.replace('_', ' ')}: {item}" for key, items in verdict.findings.items() for item in items]
    notes += [verdict.assessment] if verdict.assessment else []
    marks = [(one.at, one.why) for one in verdict.corrections] + [(one.at, one.why) for one in verdict.flags]
    notes += [f"{at}: {why}" if at else why for at, why in marks if why]
    if notes:
        yield ""
    yield from (f"- {_quote(note)}" for note in dict.fromkeys(notes))


def _quote(text: str) -> str:
    short = " ".join(text.split())
    short = short if len(short) <= _MAX_QUOTED else f"{short[: _MAX_QUOTED - 1]}…"
    return _MARKDOWN.sub(r"\\\1", short)


def suite_options(suite: Suite, *, own_judges: bool = True) -> dict[str, object]:
    """Return what a suite sets of the options of a session. The scoring of its rubrics is made from the suite itself,
    and its own judges are, with their limits, unless others judge (`own_judges`)."""
    from beholder.api.options import Options
    from beholder.runs.suite_file import JUDGE_LIMITS

    left = ("prompt_text", "threshold", "gates", "not_applicable", *(JUDGE_LIMITS if own_judges else ()))
    # Paths in a suite are relative to its file.
    files = {"prompt": None, "calibration": suite.calibration_path(), "styles": list(map(str, suite.style_folders()))}
    options: dict[str, object] = {"prompt_text": suite.prompt_text()}
    for one in fields(Options):
        if one.name in files:
            options[one.name] = files[one.name]
        elif one.name not in left:
            place = suite.limits if hasattr(suite.limits, one.name) else suite
            if hasattr(place, one.name):
                options[one.name] = getattr(place, one.name)
    return list_options(options)


def list_options(given: OptionsLike) -> dict[str, object]:
    """Return the options that are set, of a mapping or of `Options`. Raises `UsageError`."""
    from beholder.api.options import Options

    made, usual = Options.of(given), Options()
    return {
        one.name: getattr(made, one.name) for one in fields(made) if getattr(made, one.name) != getattr(usual, one.name)
    }


def pick_image(images: Sequence[str], number: int, role: str, place: str, among: str) -> str:
    """Return one of the images of a place.

    Raises:
        UsageError: There are not so many; the message names the `role`, the `place` and what it is `among`.
    """
    from beholder.errors import UsageError

    try:
        return images[number]
    except IndexError:
        there = f"there is {len(images)}" if len(images) == 1 else f"there are {len(images)}"
        raise UsageError(f"The image {role!r} should be {place}, and {there} in {among}.") from None


def parse_places(given: object, what: str) -> Mapping[str, str]:
    """Return pairs that a mapping, or texts such as `input=user[0]`, say.

    Raises:
        UsageError: They say something else; `what` names them.
    """
    from beholder.errors import UsageError

    if given is None:
        return {}
    if isinstance(given, str):
        given = given.split(",")
    if isinstance(given, list | tuple) and all(isinstance(one, str) and "=" in one for one in given):
        given = dict(one.split("=", 1) for one in given)
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for pair in given.items() for one in pair):
        raise UsageError(f"{what} says which is which, as {{name: place}} or name=place, and {given!r:.80} does not.")
    return {name.strip(): place.strip() for name, place in given.items()}
