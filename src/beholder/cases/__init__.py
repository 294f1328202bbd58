"""Cases: what is judged (`Case`), and where many of them come from.

    reading     case files: JSONL, CSV, TSV, Parquet, streamed row by row
    patterns    `photos/{name}.jpg`, or two folders, paired by name
    choosing    --limit, --only, --shuffle
    checking    everything that is wrong, found before the first call

This room knows names of roles and fields (`reading.Shape`), never a rubric.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from beholder.errors import CaseError
from beholder.images.model import ImageSource

__all__ = ["Case", "FieldValue", "ImageSource"]

FieldValue = str | tuple[str, ...]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Case:
    """An id, images by role, text fields, and the groups it belongs to.

    An image is a path, a `data:` URI, an http(s) URL or its bytes. A field is one text, or several (as
    `expected_output` may be). Groups (`source`, `model`, …) are never shown to a judge.
    """

    id: str
    images: Mapping[str, ImageSource] = field(default_factory=dict)
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        """Raises `CaseError` for a value of another type, which would be found much later or not at all."""
        for role, source in self.images.items():
            if not isinstance(source, str | os.PathLike | bytes):
                raise CaseError(
                    f"The image {role!r} of {self.id!r} should be a path, an address or bytes: {source!r:.60}"
                )
        for name, value in self.fields.items():
            if not isinstance(value, str) and not _all_texts(value):
                raise CaseError(f"The field {name!r} of {self.id!r} should be a text or a list of texts: {value!r:.60}")


def _all_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)
