"""Shapes and pictures for the tests of cases."""

from __future__ import annotations

import io

from PIL import Image

from beholder.cases.case import CaseSchema

RESTYLE = CaseSchema((("original", "restyled"),), ("style",), ("style_description",))
EDIT = CaseSchema((("input", "edited"), ("target", "edited")), ("instruction",))


def picture(file_format: str = "PNG", size: tuple[int, int] = (24, 16)) -> bytes:
    out = io.BytesIO()
    Image.effect_noise(size, 60).convert("RGB").save(out, file_format)
    return out.getvalue()
