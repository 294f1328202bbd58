"""What the tools of the MCP server return: verdicts, measurements, rubrics, runs and cases as plain values.

They are short, since a model reads them, and typed, since the SDK makes their schemas from these classes. Texts that
come from cases and judges stay values, and have no hidden characters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beholder.api.checks import Measurements
from beholder.api.run import Run, list_runs
from beholder.cases.case import PAIR_ROLES, list_texts, number_repeats
from beholder.errors import UsageError
from beholder.ledger.types import StoredVerdict, VerdictFilter
from beholder.reports.strip import LabelledPicture, draw_strip
from beholder.reports.text import escape_hidden
from beholder.rubrics.load import load_rubric
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import CriterionResult, Verdict

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from typing import TypedDict
else:  # of the standard one pydantic, which the SDK makes schemas with, cannot tell what it needs before 3.12
    from typing_extensions import TypedDict

MAX_LISTED = 50
MAX_TEXT = 2000  # characters of one text


class CriterionEntry(TypedDict):
    score: float | None
    scale: list[float]
    reason: str
    failed: list[str]


class PreferenceEntry(TypedDict):
    winner: str | None
    strength: float | None
    flipped: bool


class VerdictResult(TypedDict):
    case: str
    rubric: str
    judge: str
    outcome: str
    score: float | None
    missing_score_reason: str
    passed: bool | None
    grade: str | None
    preference: PreferenceEntry | None
    criteria: dict[str, CriterionEntry]
    findings: dict[str, list[str]]
    assessment: str
    flags: list[str]
    cost_usd: float | None
    run: str | None


class MeasuredEntry(TypedDict):
    value: float | None
    unit: str
    better: str | None
    sentence: str


class MeasureResult(TypedDict):
    measurements: dict[str, MeasuredEntry]


class RoleEntry(TypedDict):
    role: str
    about: str
    many: bool


class FieldEntry(TypedDict):
    name: str
    about: str
    required: bool


class RubricEntry(TypedDict):
    name: str
    kind: str
    summary: str
    images: list[RoleEntry]
    image_sets: list[list[str]]
    fields: list[FieldEntry]
    criteria: list[str]


class RubricList(TypedDict):
    rubrics: list[RubricEntry]


class RunEntry(TypedDict):
    run: str
    name: str
    state: str
    created: str
    verdicts: int
    scored: int
    score: float | None
    spent_usd: float | None


class RunList(TypedDict):
    runs: list[RunEntry]
    more: int


class CaseEntry(TypedDict):
    case: str
    rubric: str
    outcome: str
    score: float | None


class ImageEntry(TypedDict):
    role: str
    source: str


class ShowResult(TypedDict):
    run: RunEntry
    outcomes: dict[str, int]
    worst: list[CaseEntry]
    case: str | None
    images: list[ImageEntry]
    fields: dict[str, list[str]]
    verdicts: list[VerdictResult]


def verdict_result(verdict: Verdict, run: str | None) -> VerdictResult:
    """Return a verdict as a model should read it: a missing score is `None`, with the reason, and never a number."""
    return {
        "case": _clean(verdict.case),
        "rubric": verdict.rubric,
        "judge": verdict.judge,
        "outcome": str(verdict.outcome),
        "score": verdict.score,
        "missing_score_reason": _clean(verdict.missing_score_reason),
        "passed": verdict.passed,
        "grade": verdict.grade,
        "preference": _preference_entry(verdict),
        "criteria": {key: _criterion_entry(one) for key, one in verdict.criteria.items()},
        "findings": {key: [_clean(text) for text in texts] for key, texts in verdict.findings.items()},
        "assessment": _clean(verdict.assessment),
        "flags": [_clean(f"{flag.flag}: {flag.why}") for flag in verdict.flags],
        "cost_usd": None if verdict.cost_usd is None else float(verdict.cost_usd),
        "run": run,
    }


def _preference_entry(verdict: Verdict) -> PreferenceEntry | None:
    one = verdict.preference
    return None if one is None else {"winner": one.winner, "strength": one.strength, "flipped": one.flipped}


def _criterion_entry(one: CriterionResult) -> CriterionEntry:
    return {
        "score": _number(one.score),
        "scale": [float(end) for end in one.scale],
        "reason": _clean(one.reason),
        "failed": [_clean(f"{no.question} {no.evidence}".strip()) for no in one.assertions if no.answer == "no"],
    }


def measure_result(measured: Measurements) -> MeasureResult:
    return {
        "measurements": {
            name: {
                "value": _number(one.value),
                "unit": one.unit,
                "better": one.better or None,
                "sentence": _clean(one.sentence),
            }
            for name, one in measured.values.items()
        }
    }


def list_known_rubrics(known: Mapping[str, Rubric | str]) -> RubricList:
    return {"rubrics": [_rubric_entry(one if isinstance(one, Rubric) else load_rubric(one)) for one in known.values()]}


def _rubric_entry(rubric: Rubric) -> RubricEntry:
    return {
        "name": rubric.rubric,
        "kind": "preference" if rubric.is_preference else "scores",
        "summary": rubric.summary,
        "images": [{"role": one.role, "about": one.about, "many": one.many is True} for one in rubric.images],
        "image_sets": [list(one.images) for one in rubric.settings.values()] or [[one.role for one in rubric.images]],
        "fields": [{"name": one.name, "about": one.about, "required": one.required} for one in rubric.fields],
        "criteria": [one.key for one in rubric.criteria],
    }


def list_known_runs(ledger: str, limit: int) -> RunList:
    """Return the newest runs. Raises `LedgerError`."""
    if not 1 <= limit <= MAX_LISTED:
        raise UsageError(f"limit is between 1 and {MAX_LISTED}, and {limit} is not.")
    found = list_runs(ledger)
    return {"runs": [_run_entry(run) for run in found[:limit]], "more": max(0, len(found) - limit)}


def _run_entry(run: Run) -> RunEntry:
    progress = run.progress
    return {
        "run": run.id,
        "name": _clean(run.name),
        "state": run.state,
        "created": run.created.isoformat(),
        "verdicts": progress.done,
        "scored": progress.scored,
        "score": progress.mean_score,
        "spent_usd": None if run.spent_usd is None else float(run.spent_usd),
    }


def show_result(ledger: str, name: str, case: str, limit: int) -> ShowResult:
    """Return a run with its worst cases, or one case of it with its verdicts. Raises `LedgerError`."""
    if not 1 <= limit <= MAX_LISTED:
        raise UsageError(f"limit is between 1 and {MAX_LISTED}, and {limit} is not.")
    run = Run.load(name, ledger)
    shown: ShowResult = {
        "run": _run_entry(run),
        "outcomes": dict(run.summary.outcomes),
        "worst": [],
        "case": None,
        "images": [],
        "fields": {},
        "verdicts": [],
    }
    with run.open() as opened:
        if not case:
            page = opened.browse(run.id, VerdictFilter(sort="worst"), limit=limit)
            shown["worst"] = [_case_entry(one) for one in page.verdicts]
            return shown
        verdicts, judged = opened.verdict(run.id, case), opened.case(run.id, case)
    shown["case"] = _clean(judged.id)
    shown["images"] = [{"role": role, "source": _clean(str(source))} for role, source in judged.list_images()]
    shown["fields"] = {name: [_clean(text) for text in list_texts(value)] for name, value in judged.fields.items()}
    shown["verdicts"] = [verdict_result(verdict, run.id) for verdict in verdicts]
    return shown


def _case_entry(stored: StoredVerdict) -> CaseEntry:
    one = stored.verdict
    return {"case": _clean(one.case), "rubric": one.rubric, "outcome": str(one.outcome), "score": one.score}


def draw_case(ledger: str, name: str, case: str) -> tuple[str, bytes]:
    """Return what the images of a case are called, and a picture strip of them as JPEG; of two, also what changed.

    They are drawn from the small copies in the ledger: no file is read.

    Raises:
        LedgerError: There is no such run or case.
        UsageError: It has no images.
    """
    run = Run.load(name, ledger)
    with run.open() as opened:
        judged, verdicts = opened.case(run.id, case), opened.verdict(run.id, case)
        digests: dict[str, str] = {}
        for verdict in verdicts:
            digests |= {image.role: image.source_digest for image in verdict.shown_images}
        roles = list(number_repeats(role for role, _ in judged.list_images()))
        copies = {role: opened.thumbnail(digest) for role, digest in digests.items()}
    if not roles:
        raise UsageError(f"The case {case!r} has no images.")
    pictures = [LabelledPicture(role, copies.get(role), "no copy in the ledger") for role in roles]
    pair = next((pair for pair in PAIR_ROLES if set(pair) == set(roles)), None)
    if pair is not None and (map_ := _draw_change(*(copies.get(role) for role in pair))) is not None:
        pictures.append(LabelledPicture("change", map_))
    shown = ", ".join(picture.label for picture in pictures)
    return f"{_clean(judged.id)} of run {run.id}, from left to right: {shown}", draw_strip(pictures)


def _draw_change(before: bytes | None, after: bytes | None) -> bytes | None:
    """Return where two images differ in color, as a map on the second one: the brighter, the more. `None` where one is
    missing, or they cannot be compared pixel by pixel."""
    from beholder.images.codec import encode_jpeg
    from beholder.instruments.heatmap import find_legend_top, render_overlay
    from beholder.instruments.pair import ImagePair
    from beholder.instruments.registry import measure_pair

    if before is None or after is None:
        return None
    pair = ImagePair.load(before, after)
    [measured] = measure_pair(pair, ["colour.difference_median"]).values()
    if measured.map is None:
        return None
    return encode_jpeg(render_overlay(pair.aligned, measured.map, find_legend_top(measured)), quality=80)


def _clean(text: str) -> str:
    """Return a text without hidden characters, cut if it is long."""
    return escape_hidden(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} …")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
