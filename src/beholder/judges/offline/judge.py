"""The judge `instruments`: it measures, offline and free of charge, and abstains from what cannot be measured.

It answers `edit-preservation`, `edit-preference`, `restyle` and similar rubrics from pixels, and `description` from
texts: what the expected descriptions support, and what they have that the response lacks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypedDict

from beholder.cases.case import FieldValue, list_texts
from beholder.images.image import Sizing
from beholder.judges.base import INSTRUMENTS, MEASURED_NOT_SEEN, Capabilities
from beholder.rubrics.brief import Brief
from beholder.rubrics.rubric import PREFERENCE_SCALE, Criterion, Rubric
from beholder.verdicts.answer import Answer, Turn, Usage
from beholder.verdicts.observe import ABSTAIN

if TYPE_CHECKING:
    from beholder.instruments.instrument import Measurement
    from beholder.instruments.pair import ImagePair
    from beholder.instruments.regions import Box
    from beholder.providers.base import JudgeSettings


AnswerDocument = dict[str, object]


class MeasurementEntry(TypedDict):
    """A measurement as it is in an answer, and in the verdict."""

    value: float | None
    unit: str
    sentence: str


def to_entry(measurement: Measurement) -> MeasurementEntry:
    return MeasurementEntry(value=measurement.value, unit=measurement.unit, sentence=measurement.sentence)


def list_places(pair: ImagePair, boxes: Mapping[str, Sequence[Box]], roles: Sequence[str]) -> list[dict[str, object]]:
    """Return the places of an answer. `boxes` are by what they are about, in the frame of the first image."""
    return [
        {"at": at, "image": role, "boxes": found}
        for at, given in boxes.items()
        for role, found in pair.boxes_by_role(given, roles).items()
    ]


FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
EDIT_CHOICES = ("followed", "preserved", "natural")
DIMENSIONS = ("visual_accuracy", "completeness", "clarity", "relevance")

_NOT_MEASURABLE = (
    "Left open: this asks what the images show, which no measurement of their pixels can tell. A model as judge, such "
    "as openai:gpt-5-mini, would answer it."
)

_NO_INPUT_IMAGE = (
    "Left open: beside a person's own edit, what differs is not the edit, and what was to stay cannot be told from the "
    "pixels. A model as judge, such as openai:gpt-5-mini, would answer it."
)


def find_objection(rubric: Rubric) -> str:
    """Return why a rubric cannot be answered by measuring at all; empty where it can."""
    has_measured = rubric.styles or any(one.measured for one in rubric.assertions())
    scoring = rubric.scoring
    adds_up = scoring.ceiling and scoring.criterion_score == "given" and not any(gate.finding for gate in scoring.gates)
    if _builtin_rubric(rubric.name, rubric.criteria) or (has_measured and adds_up and len(rubric.roles) <= 2):
        return ""
    return (
        f"The judge instruments cannot answer {rubric.name}: it measures, and answers edit-preference, "
        "edit-preservation, restyle, description, and rubrics of one or two images with a `ceiling` whose assertions "
        "say how they are `measured`. Name a model as judge, such as openai:gpt-5-mini."
    )


def answer_brief(brief: Brief) -> AnswerDocument:
    """Return the answer as JSON values; raise `ImageError` for an image that cannot be read."""
    # Imported late: the instruments load NumPy and OpenCV.
    builtin = _builtin_rubric(brief.rubric, brief.criteria)
    if builtin == "edit-preservation":
        if [block.role for block in brief.images] != ["input", "edited"]:
            return abstain_from_all(brief.criteria, _NO_INPUT_IMAGE)
        from beholder.judges.offline.preservation import answer_preservation

        return answer_preservation(brief)
    if builtin == "edit-preference":
        from beholder.judges.offline.preference import answer_edit_preference

        return answer_edit_preference(brief)
    if builtin == "description":
        return answer_description(brief)
    has_measured = any(assertion.measured for criterion in brief.criteria for assertion in criterion.assertions)
    if has_measured and len(brief.images) == len({block.role for block in brief.images}) in (1, 2):
        from beholder.judges.offline.restyle import answer_restyle

        return answer_restyle(brief)
    return abstain_from_all(brief.criteria)


def abstain_from_all(criteria: Sequence[Criterion], why: str = _NOT_MEASURABLE) -> AnswerDocument:
    """Return an answer that abstains from everything, for this reason."""
    return {"criteria": {criterion.key: _abstain_block(criterion, why) for criterion in criteria}, "assessment": why}


def abstain_from_choices(criteria: Sequence[Criterion], why: str = _NOT_MEASURABLE) -> AnswerDocument:
    """Return an answer to a preference that abstains from everything, for this reason."""
    block: AnswerDocument = {"reason": why, "choice": ABSTAIN, "strength": 0}
    return {"criteria": {criterion.key: block for criterion in criteria}, "overall": block}


def _abstain_block(criterion: Criterion, why: str) -> AnswerDocument:
    block: AnswerDocument = {"score": ABSTAIN, "reason": why}
    if criterion.assertions:
        block["assertions"] = {one.id: {"answer": ABSTAIN, "evidence": why} for one in criterion.assertions}
    return block


def _builtin_rubric(name: str, criteria: Sequence[Criterion]) -> str:
    """Return the name of a built-in rubric that is answered as a whole; empty for any other.

    A user's rubric with the same name and other criteria is another one; the order of the criteria does not matter.
    """
    asked = sorted((criterion.key, criterion.scale) for criterion in criteria)
    if name == "edit-preservation" and asked == sorted((key, (1, 7)) for key in FACTORS):
        return name
    if name == "edit-preference" and asked == sorted((key, PREFERENCE_SCALE) for key in EDIT_CHOICES):
        return name
    if name == "description" and asked == sorted((key, (0, 1)) for key in DIMENSIONS):
        return name
    return ""


VERSION = "2"  # of what is measured and how answers follow from it; fitted numbers have a digest of their own

_ORIGINAL_SIZING = Sizing(
    max_side=None, max_bytes=None
)  # encoding an image again would change its sharpness and coding artifacts


class InstrumentsJudge:
    """Answers `edit-preservation`, `edit-preference`, `restyle` and `description` from measurements.

    It abstains where they do not decide. Of the settings, which are those of models, only the parameter `max_side` is
    used. The same brief always gets the same answer.
    """

    capabilities = Capabilities(
        abstains=True, needs_images=lambda rubric: rubric.name != "description", objection=find_objection
    )

    def __init__(self, settings: JudgeSettings | None = None) -> None:
        side = settings.params.get("max_side") if settings else None
        self._sizing = replace(_ORIGINAL_SIZING, max_side=side) if isinstance(side, int) else _ORIGINAL_SIZING
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return "InstrumentsJudge()"

    @property
    def name(self) -> str:
        return INSTRUMENTS

    @property
    def model(self) -> str:
        return f"{INSTRUMENTS} {VERSION} ({_weights_digest()[:8]})"

    @property
    def identity(self) -> str:
        return json.dumps([INSTRUMENTS, VERSION, _weights_digest()])

    @property
    def sizing(self) -> Sizing:
        return self._sizing

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Measure in a thread, so that the event loop does not wait; raise `ImageError` for an unreadable image.

        `sample`, `earlier` and `max_tokens` are for models and are ignored.
        """
        # NumPy and OpenCV release the GIL. As many threads as cores, since each takes some 100 MB.
        self._threads = self._threads or ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=INSTRUMENTS)
        loop = asyncio.get_running_loop()
        try:
            measuring = loop.run_in_executor(self._threads, _timed_answer, brief)
        except RuntimeError:  # the main thread has ended; the loop of a session has threads that still take work
            measuring = loop.run_in_executor(None, _timed_answer, brief)
        document, seconds = await measuring
        return Answer(
            text=json.dumps(document, ensure_ascii=False),
            model=self.model,
            usage=Usage(0, 0, 0),
            cost_usd=Decimal(0),
            latency_s=seconds,
            flags=(MEASURED_NOT_SEEN,),
        )

    async def aclose(self) -> None:
        """Stop the threads; one that is measuring ends when it is done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _timed_answer(brief: Brief) -> tuple[AnswerDocument, float]:
    """Return the answer and the seconds that it took, without the time that it waited for a thread."""
    started = time.perf_counter()
    return answer_brief(brief), time.perf_counter() - started


@cache
def _weights_digest() -> str:
    """Return the digest of all fitted numbers that answers may depend on."""
    folder = files("beholder.instruments") / "weights"
    weights = (file for file in folder.iterdir() if file.name.endswith(".json"))
    digest = hashlib.sha256()
    for file in sorted(weights, key=lambda file: file.name):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def answer_description(brief: Brief) -> AnswerDocument:
    """Answer `description` from its texts; no image is looked at.

    Without an expected description the answer abstains from accuracy and completeness.
    """
    from beholder.instruments.text.comparison import TextInput
    from beholder.instruments.text.description import assess_description

    assessed = assess_description(
        TextInput(
            output=_as_text(brief.fields.get("output", "")),
            references=list_texts(brief.fields.get("expected_output", ())),
            question=_as_text(brief.fields.get("input", "")),
        )
    )
    criteria = {
        key: {"reason": dimension.reason, "score": ABSTAIN if dimension.score is None else round(dimension.score, 3)}
        for key, dimension in assessed.dimensions.items()
    }
    return {
        **{key: list(entries) for key, entries in assessed.findings.items()},
        "criteria": criteria,
        "assessment": assessed.assessment,
        "measurements": {name: to_entry(measurement) for name, measurement in assessed.measurements.items()},
    }


def _as_text(value: FieldValue) -> str:
    return "\n".join(list_texts(value))
