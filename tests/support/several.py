"""A rubric that takes several images in one role, and images for it."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

RUBRIC = """\
rubric: likeness
images:
  - {role: reference, label: "Reference Image", about: a photo of the person, many: true}
  - {role: portrait, label: "Portrait", about: what was drawn}
fields:
  - {name: wish, required: false}
criteria:
  - {key: likeness, question: Is it the same person?}
"""
ANSWER = {"criteria": {"likeness": {"reason": "the same nose and chin in all of them", "score": 4}}}


def write_rubric(folder: Path, text: str = RUBRIC) -> Path:
    path = folder / "likeness.yaml"
    path.write_text(text)
    return path


def plain_png(level: int, size: tuple[int, int] = (32, 24)) -> bytes:
    """Return an image of one gray, which tells it from others."""
    out = io.BytesIO()
    Image.new("RGB", size, (level, level, level)).save(out, "PNG")
    return out.getvalue()
