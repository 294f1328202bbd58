"""Pairs of plain pictures, answers to a preference, and judges that see a color."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image

from beholder import Case, Rubric, ScriptedJudge
from beholder.rubrics.brief import Brief

EDIT = Rubric.load("edit-preference")
MIRRORED = {"first": "second", "second": "first", "tie": "tie", "both_bad": "both_bad"}


def paint(red: int, green: int = 0, blue: int = 0) -> bytes:
    """Return a plain PNG."""
    out = io.BytesIO()
    Image.new("RGB", (24, 16), (red, green, blue)).save(out, "PNG")
    return out.getvalue()


def redness(data: bytes) -> int:
    """Return how red a plain picture is."""
    pixel = Image.open(io.BytesIO(data)).convert("RGB").getpixel((1, 1))
    assert isinstance(pixel, tuple)
    return int(pixel[0])


def pair(first: int, second: int, id_: str = "", **groups: str) -> Case:
    """Return a pair of edits that are this red."""
    images = {"input": paint(0, 128), "first": paint(first), "second": paint(second)}
    return Case(id_ or f"{first}-{second}", images, {"instruction": "make it red"}, groups)


def choose(choice: str, strength: int = 2, rubric: Rubric = EDIT, **criteria: str) -> dict[str, Any]:
    """Return an answer that chooses this overall and in each criterion, but for those that are named."""

    def block(said: str) -> dict[str, Any]:
        return {"reason": f"it is {said}", "choice": said, "strength": strength if said in ("A", "B") else 0}

    each = {criterion.key: block(criteria.get(criterion.key, choice)) for criterion in rubric.criteria}
    return {"criteria": each, "overall": block(choice)}


def candidates(brief: Brief) -> tuple[int, int]:
    """Return how red the candidates are as the judge sees them: A and B."""
    images = {block.role: block.image.data for block in brief.images}
    return redness(images["first"]), redness(images["second"])


def prefer_red(brief: Brief) -> dict[str, Any]:
    """Choose the redder candidate, whatever its position; near ones are a tie, and dark ones both bad."""
    a, b = candidates(brief)
    if max(a, b) < 40:
        return choose("both_bad")
    if abs(a - b) < 20:
        return choose("tie")
    return choose("A" if a > b else "B", 3 if abs(a - b) > 100 else 1)


def judge_by(say: Callable[[Brief], Any] = prefer_red, name: str = "scripted") -> ScriptedJudge:
    return ScriptedJudge(say=say, name=name)


def without_texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer without its reasons."""
    return {
        key: without_texts(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if key != "reason"
    }
