"""Which rubrics measurements can answer, and the answer to a brief in our compact form.

The judge `instruments`: it measures, offline and for nothing, and leaves open what cannot be measured.

`description`, from the expected descriptions: what they support, and what they have that the response leaves out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypedDict

from beholder.cases.case import FieldValue
from beholder.images.image import Sizing
from beholder.judges.base import INSTRUMENTS, MEASURED_NOT_SEEN, Capabilities
from beholder.rubrics.brief import Brief
from beholder.rubrics.rubric import Criterion, Rubric
from beholder.verdicts.answer import Answer, Turn, Usage
from beholder.verdicts.observe import ABSTAIN

if TYPE_CHECKING:
    from beholder.providers.base import JudgeSettings


AnswerDocument = dict[str, object]


class MeasurementEntry(TypedDict):
    """A measurement as an answer carries it, and as it is kept in the verdict."""

    value: float | None
    unit: str
    sentence: str


FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
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
    """Why a rubric cannot be answered by measuring at all; empty where it can."""
    tagged = rubric.styles or any(one.measured for one in rubric.assertions())
    scoring = rubric.scoring
    adds_up = scoring.ceiling and scoring.criterion_score == "given" and not any(gate.finding for gate in scoring.gates)
    if _builtin_rubric(rubric.name, rubric.criteria) or (tagged and adds_up and len(rubric.roles) == 2):
        return ""
    return (
        f"The judge instruments cannot answer {rubric.name}: it measures, and answers edit-preservation, restyle, "
        "description, and rubrics of two images with a `ceiling` whose assertions say how they are `measured`. "
        "Name a model as judge, such as openai:gpt-5-mini."
    )


def answer_brief(brief: Brief) -> AnswerDocument:
    """The answer, as JSON values. Raises `ImageError` for a picture that cannot be read."""
    return _answer_function(brief)(brief)


def abstain_from_all(criteria: Sequence[Criterion], why: str = _NOT_MEASURABLE) -> AnswerDocument:
    """An answer that leaves everything open."""
    return {"criteria": {one.key: _abstain_block(one, why) for one in criteria}, "assessment": why}


def _abstain_block(criterion: Criterion, why: str) -> AnswerDocument:
    block: AnswerDocument = {"score": ABSTAIN, "reason": why}
    if criterion.assertions:
        block["assertions"] = {one.id: {"answer": ABSTAIN, "evidence": why} for one in criterion.assertions}
    return block


def _answer_function(brief: Brief) -> Callable[[Brief], AnswerDocument]:
    """Imported late: the instruments load NumPy and OpenCV."""
    own = _builtin_rubric(brief.rubric, brief.criteria)
    if own == "edit-preservation" and [one.role for one in brief.images] != ["input", "edited"]:
        return lambda brief: abstain_from_all(brief.criteria, _NO_INPUT_IMAGE)
    if own == "edit-preservation":
        from beholder.judges.offline.preservation import answer_preservation

        return answer_preservation
    if own == "description":
        return answer_description
    if len(brief.images) == 2 and any(one.measured for each in brief.criteria for one in each.assertions):
        from beholder.judges.offline.restyle import answer_restyle

        return answer_restyle
    return lambda brief: abstain_from_all(brief.criteria)


def _builtin_rubric(name: str, criteria: Sequence[Criterion]) -> str:
    """The built-in rubric that is answered as a whole; empty for any other, also for one of a user that has its name
    but asks something else. In which order it asks is all the same."""
    asked = sorted((one.key, one.scale) for one in criteria)
    if name == "edit-preservation" and asked == sorted((key, (1, 7)) for key in FACTORS):
        return name
    if name == "description" and asked == sorted((key, (0, 1)) for key in DIMENSIONS):
        return name
    return ""


VERSION = "2"  # of what is measured and how answers follow from it; the fitted numbers have a digest of their own

_ORIGINAL_SIZING = Sizing(max_side=None, max_bytes=None)  # sharpness and coding marks would not survive a new encoding


class InstrumentsJudge:
    """Answers `edit-preservation`, `restyle` and `description` from measurements, and abstains where they cannot tell.

    The settings are those of models; here only `max_side` has a meaning. The same brief has the same answer.
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
        """Measures in a thread, so that the loop never waits: NumPy and OpenCV let go of the interpreter while they
        work. As many at once as there are cores, since each takes some 100 MB. Raises `ImageError`. Samples, earlier
        turns and limits of tokens are for models."""
        self._threads = self._threads or ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=INSTRUMENTS)
        loop = asyncio.get_running_loop()
        document, seconds = await loop.run_in_executor(self._threads, _timed_answer, brief)
        return Answer(
            text=json.dumps(document, ensure_ascii=False),
            model=self.model,
            usage=Usage(0, 0, 0),
            cost_usd=Decimal(0),
            latency_s=seconds,
            flags=(MEASURED_NOT_SEEN,),
        )

    async def aclose(self) -> None:
        """Lets go of its threads; one that still measures ends when it is done."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _timed_answer(brief: Brief) -> tuple[AnswerDocument, float]:
    """The answer, and the seconds that it took, without the time that it waited for a thread."""
    started = time.perf_counter()
    return answer_brief(brief), time.perf_counter() - started


@cache
def _weights_digest() -> str:
    """The digest of all fitted numbers that answers may depend on."""
    folder = files("beholder.instruments") / "weights"
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".json")), key=lambda one: one.name)
    together = hashlib.sha256()
    for entry in found:
        together.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
    return together.hexdigest()


def answer_description(brief: Brief) -> AnswerDocument:
    """The four dimensions and the findings; no image is looked at. A dimension that the texts cannot tell (without an
    expected description, what is accurate and complete) is left open."""
    from beholder.instruments.text.comparison import TextInput
    from beholder.instruments.text.description import assess_description

    found = assess_description(
        TextInput(
            output=_as_text(brief.fields.get("output", "")),
            references=_as_texts(brief.fields.get("expected_output", ())),
            question=_as_text(brief.fields.get("input", "")),
        )
    )
    criteria = {
        key: {"reason": one.reason, "score": ABSTAIN if one.score is None else round(one.score, 3)}
        for key, one in found.dimensions.items()
    }
    return {
        **{key: list(entries) for key, entries in found.findings.items()},
        "criteria": criteria,
        "assessment": found.assessment,
        "measurements": {
            name: MeasurementEntry(value=one.value, unit=one.unit, sentence=one.sentence)
            for name, one in found.measurements.items()
        },
    }


def _as_texts(value: FieldValue) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _as_text(value: FieldValue) -> str:
    return "\n".join(_as_texts(value))
