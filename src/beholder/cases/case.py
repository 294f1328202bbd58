from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from beholder.errors import CaseError
from beholder.images.image import ImageSource

FieldValue = str | tuple[str, ...]

_NO_GROUPS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Case:
    """An id, images by role, text fields, and the groups it belongs to.

    An image is a path, a `data:` URI, an http(s) URL or its bytes. A field is one text, or several (as
    `expected_output` may be). Groups (`source`, `model`, …) are never shown to a judge.
    """

    id: str
    images: Mapping[str, ImageSource] = field(default_factory=dict)
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=lambda: _NO_GROUPS)

    def __post_init__(self) -> None:
        """Raises `CaseError` for a value of another type, which would be found much later or not at all."""
        for role, source in self.images.items():
            if not isinstance(source, str | os.PathLike | bytes):
                raise CaseError(
                    f"The image {role!r} of {self.id!r} should be a path, an address or bytes: {source!r:.60}"
                )
        for name, value in self.fields.items():
            if not isinstance(value, str) and not _is_text_list(value):
                raise CaseError(f"The field {name!r} of {self.id!r} should be a text or a list of texts: {value!r:.60}")


def _is_text_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)


MAX_ID = 200


@dataclass(frozen=True)
class CaseSchema:
    """What a rubric needs, in names only.

    `roles` are alternatives: a case takes the first that it has all images of, and its other images are left out.
    `ignored_roles` are roles that exist but are not asked for here; their columns are no groups.
    """

    roles: tuple[tuple[str, ...], ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    ignored_roles: tuple[str, ...] = ()

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Every role that may be given."""
        return tuple(dict.fromkeys([*(role for roles in self.roles for role in roles), *self.ignored_roles]))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)

    def choose_roles(self, given: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The roles a case with these images is judged by, and those of them that it lacks."""
        have = set(given)
        for roles in self.roles:
            if have.issuperset(roles):
                return roles, ()
        roles = min(self.roles, key=lambda roles: len([role for role in roles if role not in have]))
        return roles, tuple(role for role in roles if role not in have)


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One record. `case` is there exactly when `problems` (sentences) is empty; `id` whenever it could be read."""

    location: str
    case: Case | None
    problems: tuple[str, ...] = ()
    id: str = ""


def id_problem(id_: str) -> str:
    """Why this cannot be an id; empty where it can."""
    if not id_:
        return "its id is empty"
    if len(id_) > MAX_ID:
        return f"its id is {len(id_):,} characters long; at most {MAX_ID} are allowed"
    if not id_.isprintable():
        return f"its id {id_[:60]!r} holds characters that cannot be printed"
    return ""
