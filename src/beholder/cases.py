"""A case: what is judged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

ImageSource = str | os.PathLike[str] | bytes
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
