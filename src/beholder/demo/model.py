"""What the demo is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""RGB, height × width × 3."""

GOOD, BAD = "good", "bad"


@dataclass(frozen=True, slots=True)
class Sample:
    """A case with the answer known. `name` is unique for its photo; `picture` is the restyle or the edit, as JPEG.

    `flaw` says in plain words what is wrong with it, and is empty where nothing is.
    """

    photo: str
    name: str
    fields: Mapping[str, str | list[str]] = field(default_factory=dict)
    flaw: str = ""
    picture: bytes = b""

    @property
    def id(self) -> str:
        return f"{self.photo}/{self.name}"

    @property
    def expected(self) -> str:
        return BAD if self.flaw else GOOD


@dataclass(frozen=True, slots=True)
class Chapter:
    """Samples that one rubric judges. `roles` are its names for the photo and, where there is one, the picture;
    `settings` are further lines of its suite."""

    name: str
    rubric: str
    roles: tuple[str, ...]
    samples: tuple[Sample, ...]
    settings: str = ""
