"""A case, the names of images and fields that a rubric needs of it, and a row of a case file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from beholder.errors import CaseError
from beholder.images.image import ImageSource

FieldValue = str | tuple[str, ...]

_NO_GROUPS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged.

    Attributes:
        id: The name of the case, unique in its run.
        images: By role; each a path, a `data:` URI, an http(s) URL or the bytes.
        fields: The texts by name; a value is one text, or several (as `expected_output` may be).
        groups: What the case belongs to (`source`, `model`, …), for statistics; never shown to a judge.
    """

    id: str
    images: Mapping[str, ImageSource] = field(default_factory=dict)
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=lambda: _NO_GROUPS)

    def __post_init__(self) -> None:
        """Raise `CaseError` for a value of a wrong type, which would otherwise be found much later or not at all."""
        for role, source in self.images.items():
            if not isinstance(source, str | os.PathLike | bytes):
                raise CaseError(
                    f"The image {role!r} of {self.id!r} should be a path, an address or bytes: {source!r:.60}"
                )
        for name, value in self.fields.items():
            if not isinstance(value, str) and not _is_text_list(value):
                raise CaseError(f"The field {name!r} of {self.id!r} should be a text or a list of texts: {value!r:.60}")


def _is_text_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(text, str) for text in value)


def list_texts(value: FieldValue) -> tuple[str, ...]:
    """Return the texts of a field, of which most fields have one."""
    return (value,) if isinstance(value, str) else tuple(value)


def quote_names(names: Iterable[str]) -> str:
    """Return names of images, fields or patterns for a message: `'a', 'b'`."""
    return ", ".join(map(repr, names))


def format_case_count(count: int) -> str:
    """Return a number of cases for a sentence: `1 case`, `2,000 cases`."""
    return "1 case" if count == 1 else f"{count:,} cases"


MAX_ID = 200


@dataclass(frozen=True)
class CaseSchema:
    """The names of the images and fields that a rubric needs.

    Attributes:
        roles: Alternative sets of image roles. A case uses the first of which it has all images; its other images are
            ignored.
        required: Fields that every case needs; `optional`: fields that it may have.
        ignored_roles: Roles that exist but are not used here; columns of these names are not groups.
    """

    roles: tuple[tuple[str, ...], ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    ignored_roles: tuple[str, ...] = ()

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Every role that a case may have."""
        return tuple(dict.fromkeys([*(role for roles in self.roles for role in roles), *self.ignored_roles]))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)

    def choose_roles(self, given: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the roles that a case with the given images is judged by, and those of them that it lacks."""
        available = set(given)
        missing = {roles: tuple(role for role in roles if role not in available) for roles in self.roles}
        roles = min(self.roles, key=lambda roles: len(missing[roles]))
        return roles, missing[roles]


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One record of a case file, or one match of a pattern.

    Attributes:
        location: Where it is, for messages: "cases.jsonl, line 3", or the path of a file.
        case: The case; `None` exactly when there are `problems`.
        problems: What is wrong with the record, as predicates ("lacks the image 'input'").
        id: The id, also of a record with problems where it could be read.
    """

    location: str
    case: Case | None
    problems: tuple[str, ...] = ()
    id: str = ""


def id_problem(id_: str) -> str:
    """Return why a text cannot be the id of a case; empty where it can."""
    if not id_:
        return "its id is empty"
    if len(id_) > MAX_ID:
        return f"its id is {len(id_):,} characters long; at most {MAX_ID} are allowed"
    if not id_.isprintable():
        return f"its id {id_[:60]!r} holds characters that cannot be printed"
    return ""


# Roles of which the second image was made from the first, in the order in which they are looked for.
PAIR_ROLES = (("input", "edited"), ("original", "restyled"))


def choose_pair_roles(roles: Collection[str]) -> tuple[str, str] | None:
    """Return the roles of the two images of a case that instruments compare.

    Args:
        roles: The roles of the case's images, in their order.

    Returns:
        The first entry of `PAIR_ROLES` that the case has, else its first two roles; None if it has fewer than two.
    """
    known = next((pair for pair in PAIR_ROLES if set(pair) <= set(roles)), None)
    if known is not None:
        return known
    first = list(roles)[:2]
    return (first[0], first[1]) if len(first) == 2 else None
