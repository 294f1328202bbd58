"""A brief: what a judge is asked, as pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from beholder.cases import FieldValue
from beholder.images.model import PreparedImage
from beholder.rubrics.model import Criterion


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the user message."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of the user message. A wire sends `label` as text right before the image."""

    role: str
    label: str
    image: PreparedImage


@dataclass(frozen=True, slots=True)
class Brief:
    """A rubric applied to a case.

    `system` is the rubric, the same for every case of a style, so that providers can cache it; `content` the user
    message in order. `schema` is the answer's JSON Schema in neutral form (wires turn it into the provider's), or
    `None` where the prompt is a user's own and says itself what it wants. `label` is the opaque name under which
    the judge knows the case; it follows from the digest and is no part of it.

    `fields` and `criteria` are the case's texts and the rubric's criteria as values, for a judge that is no language
    model. The digest covers them already: they stand in `content` and `system` (but for how assertions are measured).
    """

    rubric: str
    rubric_version: str
    setting: str | None
    system: str
    content: tuple[Text | Picture, ...]
    schema: Mapping[str, object] | None
    digest: str
    label: str
    answer_tokens: int = 2048
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    criteria: tuple[Criterion, ...] = ()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        return tuple(part for part in self.content if isinstance(part, Picture))
