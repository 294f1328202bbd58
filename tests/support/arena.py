"""An arena in a folder: photographs, outputs of models whose strength is their redness, and a judge that sees it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from beholder.judges.recorded import ScriptedJudge
from beholder.rubrics.brief import Brief, ImageBlock

PATTERNS = {"input": "photos/{name}.png", "output": "out/{model}/{name}.png"}
Answer = dict[str, object]


def write_arena(folder: Path, strengths: Mapping[str, int], photos: int, seed: int = 0) -> None:
    """Write `photos/NAME.png` and `out/MODEL/NAME.png`: a strength is the red of a model's outputs, give or take 40."""
    rng = np.random.default_rng(seed)
    (folder / "photos").mkdir(parents=True)
    for model in strengths:
        (folder / "out" / model).mkdir(parents=True)
    for photo in range(photos):
        Image.new("RGB", (48, 48), (10, photo % 256, 90)).save(folder / "photos" / f"p{photo:03}.png")
        for number, (model, strength) in enumerate(strengths.items()):
            red = int(np.clip(strength + rng.normal(0, 40), 0, 255))
            image = Image.new("RGB", (48, 48), (red, photo % 256, 40 + number))
            image.save(folder / "out" / model / f"p{photo:03}.png")


def choose(choice: str, strength: int = 2) -> Answer:
    """An answer by `edit-preference` that chooses the same in everything."""
    one = {"reason": "it is redder than the other one", "choice": choice, "strength": strength if choice in "AB" else 0}
    return {"criteria": dict.fromkeys(("followed", "preserved", "natural"), one), "overall": one}


def reds(brief: Brief) -> tuple[float, float]:
    """How red Candidate A and Candidate B are."""
    found = {
        part.label: float(np.asarray(Image.open(io.BytesIO(part.image.data)).convert("RGB"))[..., 0].mean())
        for part in brief.content
        if isinstance(part, ImageBlock)
    }
    return found["Candidate A"], found["Candidate B"]


def prefer_red(brief: Brief) -> Answer:
    """Choose the redder one, whatever the order; both bad where both are dark."""
    one, other = reds(brief)
    if max(one, other) < 20:
        return choose("both_bad")
    return choose("tie") if one == other else choose("A" if one > other else "B")


def red_judge(say: Callable[[Brief], object] = prefer_red) -> ScriptedJudge:
    return ScriptedJudge(say=say)  # type: ignore[arg-type]  # answers as JSON


def lot(brief: Brief) -> float:
    """A number from 0 to 1 that belongs to a brief, for judges that fail now and then."""
    return hashlib.sha256(brief.digest.encode()).digest()[0] / 255
