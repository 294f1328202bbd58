"""A case, the names of images and fields that a rubric needs of it, and a row of a case file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

from beholder.errors import CaseError, ImageError
from beholder.images.image import ImageInput, ImageSource, printable_name
from beholder.images.in_memory import normalize_image
from beholder.images.source import is_remote, read_image

FieldValue = str | tuple[str, ...]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Case:
    """What is judged.

    Images become paths, addresses or bytes when the case is made, so that a case can be pickled and keeps no array: PIL
    images and arrays are encoded as PNG, and file objects are read (see `images.in_memory`). A list of images is held
    as a tuple, a list of one as that image.

    Attributes:
        id: The name of the case, unique in its run.
        images: By role; each a path, a `data:` URI, an http(s) URL or the bytes, or several of them in order.
        fields: The texts by name; a value is one text, or several (as `expected_output` may be).
        groups: What the case belongs to (`source`, `model`, …), for statistics; never shown to a judge.
    """

    id: str
    images: Mapping[str, ImageSource | tuple[ImageSource, ...]]
    fields: Mapping[str, FieldValue]
    groups: Mapping[str, str]

    def __init__(
        self,
        id: str,
        images: Mapping[str, ImageInput | Sequence[ImageInput]] = _NOTHING,
        fields: Mapping[str, FieldValue] = _NOTHING,
        groups: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Make a case.

        Args:
            id: The name of the case, unique in its run. It is judged only if it is printable and at most 200 characters
                long.
            images: By role; each a path, a `data:` URI, a URL, bytes, a binary file object, a `PIL.Image`, a NumPy
                array or torch tensor, the dict of Hugging Face (`{"bytes", "path"}`), or a list of those where the
                rubric takes several in that role.
            fields: The texts by name, each one text or a list of texts.
            groups: What the case belongs to, for statistics.

        Raises:
            CaseError: An id that cannot be one, a value of a wrong type or an array that is no image, which would
                otherwise be found much later.
        """
        if not isinstance(id, str):
            raise CaseError(f"The id of a case should be a text, not {id!r:.60}.")
        for kind, given in (("images", images), ("fields", fields), ("groups", groups)):
            if not isinstance(given, Mapping):
                raise CaseError(f"The {kind} of {id!r} should be a mapping by name: {given!r:.60}")
        set_ = object.__setattr__  # the values are frozen
        set_(self, "id", id)
        set_(self, "images", _normalize_images(id, images))
        set_(self, "fields", fields)
        set_(self, "groups", groups)
        for name, value in fields.items():
            if not isinstance(value, str) and not _is_text_list(value):
                raise CaseError(f"The field {name!r} of {id!r} should be a text or a list of texts: {value!r:.60}")

    def __repr__(self) -> str:
        """Return the case without the bytes of its images."""
        images = ", ".join(f"{role!r}: {_show_source(source)}" for role, source in self.images.items())
        rest = "".join(f", {name}={dict(value)!r}" for name in ("fields", "groups") if (value := getattr(self, name)))
        return f"Case({self.id!r}, images={{{images}}}{rest})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle plain dicts, whatever mappings were given: read-only ones cannot be pickled."""
        return Case, (self.id, dict(self.images), dict(self.fields), dict(self.groups))

    def sources(self, role: str) -> tuple[ImageSource, ...]:
        """Return the images of a role in their order; none where the case has no such role."""
        return _as_tuple(self.images.get(role, ()))

    def list_images(self) -> Iterator[tuple[str, ImageSource]]:
        """Return every image with its role, in order; a role with several images occurs several times."""
        return ((role, source) for role in self.images for source in self.sources(role))


def _show_source(source: ImageSource | tuple[ImageSource, ...]) -> str:
    if isinstance(source, tuple):
        return f"[{', '.join(map(_show_source, source))}]"
    if isinstance(source, bytes):
        return f"<{len(source):,} bytes>"
    return repr(printable_name(os.fspath(source)))


def _normalize_images(
    id_: str, images: Mapping[str, ImageInput | Sequence[ImageInput]]
) -> Mapping[str, ImageSource | tuple[ImageSource, ...]]:
    if all(isinstance(image, str | os.PathLike | bytes) for image in images.values()):
        return cast("Mapping[str, ImageSource]", images)
    normalized: dict[str, ImageSource | tuple[ImageSource, ...]] = {}
    for role, image in images.items():
        try:
            normalized[role] = normalize_images(image)
        except ImageError as error:
            raise CaseError(f"The image {role!r} of {id_!r} {error}") from None
    return normalized


def normalize_images(image: object) -> ImageSource | tuple[ImageSource, ...]:
    """Return an image, or a list of images, as a case holds it.

    Raises:
        ImageError: An image cannot be used, or the list is empty; the message is a predicate.
    """
    images = as_image_list(image)
    if images is None:
        return normalize_image(image)
    if not images:
        raise ImageError("is an empty list")
    sources = []
    for number, one in enumerate(images, start=1):
        try:
            sources.append(normalize_image(one))
        except ImageError as error:
            raise ImageError(f"(number {number} of {len(images)}) {error}") from None
    return sources[0] if len(sources) == 1 else tuple(sources)


def as_image_list(image: object) -> list[object] | None:
    """Return the images of a list; `None` for a single image.

    An array of objects, as pandas reads a list in a Parquet file, is a list too.
    """
    if getattr(getattr(image, "dtype", None), "kind", "") == "O" and len(getattr(image, "shape", ())) == 1:
        return list(cast("Iterable[object]", image))
    return list(image) if isinstance(image, list | tuple) else None


def _is_text_list(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(text, str) for text in value)


def list_texts(value: FieldValue) -> tuple[str, ...]:
    """Return the texts of a field, of which most fields have one."""
    return (value,) if isinstance(value, str) else tuple(value)


def number_repeats(names: Iterable[str]) -> list[str]:
    """Return names with a number after those that occur several times: `reference 1`, `reference 2`, `output`.

    Roles of images are told apart like this where people read them; in the prompt by their labels.
    """
    listed = list(names)
    return [
        name if listed.count(name) == 1 else f"{name} {listed[: place + 1].count(name)}"
        for place, name in enumerate(listed)
    ]


def quote_names(names: Iterable[str]) -> str:
    """Return names of images, fields or patterns for a message: `'a', 'b'`."""
    return ", ".join(map(repr, names))


def format_case_count(count: int) -> str:
    """Return a number of cases for a sentence: `1 case`, `2,000 cases`."""
    return "1 case" if count == 1 else f"{count:,} cases"


MAX_ID = 200
_MAX_STEM = 180


@dataclass(frozen=True)
class CaseSchema:
    """The names of the images and fields that a rubric needs.

    Attributes:
        roles: Alternative sets of image roles. A case uses the first of which it has all images; its other images are
            ignored.
        required: Fields that every case needs; `optional`: fields that it may have.
        ignored_roles: Roles that exist but are not used here; columns of these names are not groups.
        many: Roles that may have several images.
    """

    roles: tuple[tuple[str, ...], ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    ignored_roles: tuple[str, ...] = ()
    many: tuple[str, ...] = ()

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


def make_case_id(images: Mapping[str, ImageSource | tuple[ImageSource, ...]], fields: Mapping[str, FieldValue]) -> str:
    """Return an id for a case that was given without one, the same for the same content.

    Returns:
        The stem of the last image's file (or "case") and 8 hex digits of a digest of the images and the fields.
    """
    flat = [(role, image) for role in sorted(images) for image in _as_tuple(images[role])]
    parts = [(role, _digest_image(image)) for role, image in flat]
    parts += [(name, repr(list_texts(fields[name])).encode("utf-8", "replace")) for name in sorted(fields)]
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(b"%d %s %d " % (len(name), name.encode(), len(content)) + content)
    last = _as_tuple(list(images.values())[-1])[-1] if images else ""
    return f"{image_stem(last)[:_MAX_STEM]}-{digest.hexdigest()[:8]}"


def _as_tuple(images: ImageSource | tuple[ImageSource, ...]) -> tuple[ImageSource, ...]:
    return images if isinstance(images, tuple) else (images,)


def _digest_image(source: ImageSource) -> bytes:
    """Return a digest of an image's file; of a remote or unreadable one, that of its address."""
    try:
        if not (isinstance(source, str) and is_remote(source)):
            return hashlib.sha256(read_image(source)).digest()
    except ImageError:  # which checking or judging it says
        pass
    return os.fsencode(source)


def are_same_images(first: ImageSource, second: ImageSource) -> bool:
    """Return whether two images are the same address or bytes, or files with the same bytes. Nothing is fetched."""
    if first == second or (isinstance(first, bytes) and isinstance(second, bytes)):
        return first == second
    if any(isinstance(one, bytes) or os.fspath(one)[:5].lower() == "data:" for one in (first, second)):
        return not any(isinstance(one, str) and is_remote(one) for one in (first, second)) and (
            _digest_image(first) == _digest_image(second)
        )
    try:
        sizes = [os.stat(one).st_size for one in (first, second)]
        return sizes[0] == sizes[1] and _digest_image(first) == _digest_image(second)
    except (OSError, ValueError):  # remote, or not there, which checking or judging it says
        return False


def image_stem(source: ImageSource) -> str:
    """Return the name of an image's file, without its ending and the query of a URL; `case` where it has none."""
    if isinstance(source, bytes) or os.fspath(source)[:5].lower() == "data:":
        return "case"
    stem = os.path.splitext(os.path.basename(re.split("[?#]", os.fspath(source))[0]))[0]
    return "".join(character for character in stem if character.isprintable()).strip() or "case"


# Roles of an output that `beholder arena run` compares with those of other models, in the order in which they are
# looked for.
OUTPUT_ROLES = ("output", "edited", "restyled", "generated", "image")
CANDIDATES = ("first", "second")
"""The roles of the two images (or the names of the two texts) that a preference is about, in the given order."""


def compares_images(schema: CaseSchema) -> bool:
    """Return whether cases have two images of which one is better."""
    return all(set(CANDIDATES) <= set(roles) for roles in schema.roles if roles) and any(schema.roles)


# Roles of which the second image was made from the first, in the order in which they are looked for.
PAIR_ROLES = (("input", "edited"), ("original", "restyled"))


def find_pair(case: Case) -> tuple[ImageSource, ImageSource] | None:
    """Return the two images of a case that instruments compare.

    Returns:
        The images of the first entry of `PAIR_ROLES` that the case has, else of its first two roles; None if it has
        fewer than two, or several images in one of these roles.
    """
    roles = next((pair for pair in PAIR_ROLES if set(pair) <= case.images.keys()), tuple(case.images)[:2])
    images = [image for role in roles for image in case.sources(role)]
    return (images[0], images[1]) if len(roles) == len(images) == 2 else None
