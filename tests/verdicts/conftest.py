"""Answers made by hand, and the verdicts on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from beholder.rubrics.load import find_style
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.observe import AnswerContext
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Verdict

Json = dict[str, Any]
DIMENSIONS = {"accuracy": ("A", 5), "completeness": ("C", 5), "relevance": ("R", 4), "usefulness": ("U", 4),
              "exceptional": ("E", 5)}  # fmt: skip
FINDINGS = ("hallucinations", "missing_elements", "strengths", "improvements")
WORDS = "fifteen words that say what is seen in the picture and where it is seen"  # exactly fifteen


@pytest.fixture(scope="session")
def rubrics() -> dict[str, Rubric]:
    """The built-in rubrics as a case meets them: the generic set as if it were the style Mosaic, each setting."""
    mosaic = structs.replace(find_style("Mosaic"), generic=False)
    found = {name: Rubric.load(name).with_style(mosaic) for name in ("restyle", "restyle-confidence")}
    found["description"] = Rubric.load("description")
    for name in ("edit-preservation", "edit-quality", "edit-fidelity"):
        found |= {f"{name} {one}": Rubric.load(name).with_setting(one) for one in ("online", "offline")}
    return found


@pytest.fixture(scope="session")
def verdict(rubrics: dict[str, Rubric]) -> Callable[..., Verdict]:
    """`verdict("description", answer)`; scoring can be changed by keyword, such as `threshold=0.8`."""

    def make(rubric: str | Rubric, answer: object, *, label: str = "", **scoring: object) -> Verdict:
        asked = rubrics[rubric] if isinstance(rubric, str) else rubric
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return score_answer(
            VerdictHeader("p12/anime", asked.with_scoring(**scoring), "j"), text, AnswerContext(label=label)
        )

    return make


@pytest.fixture(scope="session")
def restyle() -> Callable[..., Json]:
    """A compact answer: `answers` and `scores` by dimension (`{"accuracy": "YYNY/"}`, / for N/A); else Yes and 4."""

    def make(
        answers: Mapping[str, str] | None = None,
        scores: Mapping[str, object] | None = None,
        *,
        score: object = 4,
        confidence: Mapping[str, Sequence[int]] | None = None,
    ) -> Json:
        criteria: Json = {}
        for key, (letter, count) in DIMENSIONS.items():
            said = (answers or {}).get(key, "Y" * count)
            entries: dict[str, Json] = {
                f"{letter}{n}": {"answer": {"Y": "Yes", "N": "No", "/": "N/A"}[one], "evidence": "top left"}
                for n, one in enumerate(said, 1)
            }
            if confidence is not None:
                for entry, sure in zip(entries.values(), confidence.get(key, [5] * count), strict=True):
                    entry["confidence"] = sure
            criteria[key] = {"assertions": entries, "score": (scores or {}).get(key, score), "reason": "because"}
            if confidence is not None:
                del criteria[key]["score"]
        return {"criteria": criteria, "assessment": "A fine piece."}

    return make


@pytest.fixture(scope="session")
def description() -> Callable[..., Json]:
    """A compact answer with the four scores in order, and findings by keyword."""

    def make(scores: Sequence[object] = (0.5, 0.5, 0.5, 0.5), **rest: object) -> Json:
        keys = ("visual_accuracy", "completeness", "clarity", "relevance")
        blocks = {key: {"reason": "because", "score": one} for key, one in zip(keys, scores, strict=True)}
        return {key: [] for key in FINDINGS} | {"criteria": blocks, "assessment": "Fine."} | rest

    return make


@pytest.fixture(scope="session")
def factors() -> Callable[..., Json]:
    """A compact answer to `edit-preservation`."""

    def make(scores: Sequence[object] = (4, 4, 4), reason: object = WORDS) -> Json:
        keys = ("unchanged_regions", "global_consistency", "identity_preservation")
        blocks = {key: {"justification": reason, "score": one} for key, one in zip(keys, scores, strict=True)}
        return {"image_id": "case-1", "criteria": blocks}

    return make


@pytest.fixture(scope="session")
def flags() -> Callable[[Verdict], list[str]]:
    return lambda verdict: [flag.flag for flag in verdict.flags]
