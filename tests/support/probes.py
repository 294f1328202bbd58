"""Photographs with a small edit, and judges that answer both questions: about the whole, and about the crop."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from PIL import Image

from beholder import Case, Rubric, ScriptedJudge
from beholder.instruments.instrument import Bytes
from beholder.rubrics.brief import PROBE, Brief
from beholder.rubrics.load import select_probes
from beholder.testing.base import Received

WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
[EDIT] = select_probes([Rubric.load("edit-fidelity")], True)


def photo(seed: int = 0, size: tuple[int, int] = (800, 600)) -> Bytes:
    """Return a picture with something to find everywhere, so that it can be registered."""
    width, height = size
    cells = np.random.default_rng(seed).integers(40, 200, (height // 20, width // 20, 3), dtype=np.uint8)
    return np.asarray(np.kron(cells, np.ones((20, 20, 1), np.uint8)), np.uint8)


def with_patch(pixels: Bytes, box: tuple[int, int, int, int], color: tuple[int, int, int] = (250, 20, 20)) -> Bytes:
    """Return the picture with a plain rectangle (left, top, right, bottom)."""
    left, top, right, bottom = box
    edited = pixels.copy()
    edited[top:bottom, left:right] = color
    return edited


def png(pixels: Bytes) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def edit_case(number: int = 0, *, changed: bool = True) -> Case:
    before = photo(number)
    after = with_patch(before, (500, 100, 700, 250)) if changed else before
    images = {"input": png(before), "edited": png(after)}
    return Case(f"c{number}", images, {"instruction": "paint a red square"}, {"source": f"p{number}"})


def answer_whole(score: int = 6) -> dict[str, Any]:
    return {"criteria": {one.key: {"justification": WORDS, "score": score} for one in EDIT.criteria}, "image_id": ""}


def answer_probe(score: int = 9, **scores: int) -> dict[str, Any]:
    probe = EDIT.make_probe_rubric()
    assert probe is not None
    return {
        "criteria": {
            one.key: {"reason": f"{one.key} it is", "score": scores.get(one.key, score)} for one in probe.criteria
        }
    }


def say_both(brief: Brief) -> Any:
    return answer_probe() if brief.part == PROBE else answer_whole() | {"image_id": brief.label}


def judge_both(say: Any = say_both, name: str = "scripted") -> ScriptedJudge:
    return ScriptedJudge(say=say, name=name)


def is_probe(received: Received) -> bool:
    """Return whether a request asks about the crop."""
    return "closer look" in received.system


def reply_both(received: Received) -> str:
    """Answer a request of a model, whichever question it asks."""
    return json.dumps(answer_probe() if is_probe(received) else answer_whole())
