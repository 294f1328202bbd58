"""Cases from files that lie in a pattern: `photos/{name}.jpg` beside `out/{style}/{name}.png`, or two folders.

A name in braces stands for part of one path component. Patterns are joined on the names they share, so that one photo
serves all its styles. The pattern with the most names is walked; the files of the others are held in an index (some
300 bytes each). A folder's names are listed and sorted before the first of them is used.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from beholder.cases.case import Case, CaseRow, CaseSchema, FieldValue, id_problem
from beholder.errors import CaseError
from beholder.images.image import ImageSource

NameValues = Mapping[str, str]

_NAME = re.compile(r"\{([^{}]*)\}")
_STEM = "name"  # what a file of a folder binds
_MAX_READINGS = 64  # of one file name; beyond that it is ambiguous all the same


@dataclass(frozen=True, slots=True)
class _PatternPart:
    """A piece of a component: a literal, or a name in braces."""

    text: str
    is_name: bool


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern; `folder` means that any file of that folder matches by its stem."""

    role: str
    text: str
    components: tuple[tuple[_PatternPart, ...], ...]
    folder: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        found = (part.text for component in self.components for part in component if part.is_name)
        return (_STEM,) if self.folder else tuple(dict.fromkeys(found))


@dataclass(slots=True)
class _MatchedFile:
    """A file, every way to read its name, and whether a case took it."""

    path: str
    readings: Sequence[NameValues]
    used: bool = False


@dataclass(slots=True)
class _FileIndex:
    """The files of one pattern by the names that are bound before it is joined."""

    pattern: _Pattern
    shared: tuple[str, ...]
    files: dict[tuple[str, ...], list[tuple[NameValues, _MatchedFile]]] = field(default_factory=dict)
    rows: list[CaseRow] = field(default_factory=list)


def pair_rows(patterns: Mapping[str, str], shape: CaseSchema, base: Path) -> Iterator[CaseRow]:
    """The cases that the patterns (by role) make, in the order of the files. Paths are relative to `base`.

    A name in braces becomes the field of that name, if there is one, and in any case a group, so that cases of one
    photo can be told. The id is made of all names, in the order in which they first appear. A file without a partner
    is a row with a problem. Raises `CaseError` for patterns that cannot be used at all.
    """
    read = _check_patterns(patterns, shape, base)
    order = tuple(dict.fromkeys(name for pattern in read for name in pattern.names))
    driver = max(read, key=lambda pattern: len(pattern.names))
    indexes: list[_FileIndex] = []
    bound = set(driver.names)
    for pattern in sorted((one for one in read if one is not driver), key=lambda one: -len(bound & set(one.names))):
        indexes.append(_build_index(pattern, bound, base))
        bound |= set(pattern.names)
    seen: set[str] | None = set() if driver.folder else None
    found = 0
    for file in _list_files(driver, base):
        found += 1
        yield from _rows_for_file(file, driver, indexes, order, shape, seen)
    if not found:
        raise CaseError(_explain_no_match(driver, base))
    for index in indexes:
        yield from index.rows
        for _, lone in (one for ones in index.files.values() for one in ones):
            if not lone.used:
                yield CaseRow(lone.path, None, (f"has no partner that matches {driver.text!r} (for {driver.role})",))


def _rows_for_file(
    file: _MatchedFile,
    driver: _Pattern,
    indexes: Sequence[_FileIndex],
    order: Sequence[str],
    shape: CaseSchema,
    seen: set[str] | None,
) -> Iterator[CaseRow]:
    """The rows of one file of the pattern that is walked. A name that can be read in several ways is read in the one
    that has partners."""
    joined = [(reading, list(_join_partners(reading, indexes))) for reading in file.readings]
    fitting = [partners for _, partners in joined if partners]
    if len(fitting) > 1 or (not fitting and len(joined) > 1):
        yield CaseRow(file.path, None, (_explain_ambiguity([reading for reading, _ in joined]),))
        return
    if not fitting:
        yield CaseRow(file.path, None, (_explain_no_partner(joined[0][0], indexes),))
        return
    for bound, partners in fitting[0]:
        if seen is not None:
            if bound[_STEM] in seen:
                yield CaseRow(file.path, None, (f"is the second file named {bound[_STEM]!r} in its folder",))
                continue
            seen.add(bound[_STEM])
        yield _make_row(bound, {driver.role: file.path, **partners}, file.path, order, shape)


def _join_partners(reading: NameValues, indexes: Sequence[_FileIndex]) -> Iterator[tuple[NameValues, dict[str, str]]]:
    """Every set of partners; a file counts as used when it stands in one."""
    if not indexes:
        yield reading, {}
        return
    index, *rest = indexes
    for bound, file in index.files.get(tuple(reading[name] for name in index.shared), ()):
        for whole, partners in _join_partners({**reading, **bound}, rest):
            file.used = True
            yield whole, {index.pattern.role: file.path, **partners}


def _make_row(
    bound: NameValues, images: dict[str, str], place: str, order: Sequence[str], shape: CaseSchema
) -> CaseRow:
    id_ = "/".join(bound[name] for name in order)
    problem = id_problem(id_)
    if problem:
        return CaseRow(place, None, (problem,))
    fields: dict[str, FieldValue] = {name: bound[name] for name in order if name in shape.fields}
    ordered: dict[str, ImageSource] = {role: images[role] for role in shape.choose_roles(images)[0]}
    return CaseRow(place, Case(id_, ordered, fields, {name: bound[name] for name in order}), (), id_)


def _build_index(pattern: _Pattern, bound: set[str], base: Path) -> _FileIndex:
    shared = tuple(name for name in pattern.names if name in bound)
    if pattern.names and not shared:
        raise CaseError(
            f"The pattern {pattern.text!r} shares no name in braces with the others, so nothing says what belongs "
            "together."
        )
    index = _FileIndex(pattern, shared)
    found = 0
    for file in _list_files(pattern, base):
        found += 1
        if len(file.readings) > 1:
            index.rows.append(CaseRow(file.path, None, (_explain_ambiguity(file.readings),)))
            continue
        reading = file.readings[0]
        key = tuple(reading[name] for name in shared)
        if pattern.folder and key in index.files:
            index.rows.append(CaseRow(file.path, None, (f"is the second file named {reading[_STEM]!r} in its folder",)))
            continue
        index.files.setdefault(key, []).append((reading, file))
    if not found:
        raise CaseError(_explain_no_match(pattern, base))
    return index


def _check_patterns(patterns: Mapping[str, str], shape: CaseSchema, base: Path) -> list[_Pattern]:
    unknown = [role for role in patterns if role not in shape.images]
    if unknown:
        raise CaseError(f"There is no image {unknown[0]!r} here; the images are {_quote_names(shape.images)}.")
    roles, missing = shape.choose_roles(patterns)
    if missing:
        raise CaseError(f"A pattern for {_quote_names(missing)} is missing; the images are {_quote_names(roles)}.")
    read = [_parse_pattern(role, text, base) for role, text in patterns.items() if role in roles]
    folders = [pattern for pattern in read if pattern.folder]
    if folders and len(folders) < len(read):
        other = next(pattern for pattern in read if not pattern.folder)
        raise CaseError(
            f"{folders[0].text!r} is a folder and {other.text!r} is not: give folders only, or write a name in braces, "
            f"such as {folders[0].text.rstrip('/') + '/{name}.jpg'!r}."
        )
    if not any(pattern.names for pattern in read):
        raise CaseError(f"{read[0].text!r} has no name in braces; write one, such as photos/{{name}}.jpg.")
    for name in shape.required:
        if not any(name in pattern.names for pattern in read):
            raise CaseError(
                f"No pattern says the field {name!r}, which every case needs: write {{{name}}} in one, give it for all "
                "cases, or list the cases in a file."
            )
    return read


def _parse_pattern(role: str, text: str, base: Path) -> _Pattern:
    if not text.strip() or "\0" in text:
        raise CaseError(f"The pattern for {role!r} is empty.")
    if "**" in text:
        raise CaseError(f"{text!r}: '**' is not supported; write one {{name}} for each level of folders.")
    if "{" not in text and "}" not in text and (base / text).is_dir():
        return _Pattern(role, text, (), folder=True)
    parts = Path(unicodedata.normalize("NFC", text)).parts
    return _Pattern(role, text, tuple(_parse_component(part, text) for part in parts))


def _parse_component(component: str, whole: str) -> tuple[_PatternPart, ...]:
    """The component in pieces: `_NAME.split` gives literals and names in turn."""
    parts: list[_PatternPart] = []
    for position, piece in enumerate(_NAME.split(component)):
        is_name = position % 2 == 1
        if is_name and not piece.isidentifier():
            raise CaseError(f"{whole!r}: {{{piece}}} should hold a name of letters, digits and underscores.")
        if not is_name and ("{" in piece or "}" in piece):
            raise CaseError(f"{whole!r} has a brace without its partner; a name stands between two: {{name}}.")
        if is_name and parts and parts[-1].is_name:
            raise CaseError(f"{whole!r}: something must stand between {{{parts[-1].text}}} and {{{piece}}}.")
        if piece:
            parts.append(_PatternPart(piece, is_name))
    return tuple(parts)


def _list_files(pattern: _Pattern, base: Path) -> Iterator[_MatchedFile]:
    if not pattern.folder:
        yield from _walk_components(pattern.components, "", [{}], base)
        return
    for entry in _list_folder(base / pattern.text):
        if not entry.is_dir():
            stem = unicodedata.normalize("NFC", os.path.splitext(entry.name)[0])
            yield _MatchedFile(_join_base(base, os.path.join(pattern.text, entry.name)), [{_STEM: stem}])


def _walk_components(
    components: Sequence[tuple[_PatternPart, ...]], at: str, readings: Sequence[NameValues], base: Path
) -> Iterator[_MatchedFile]:
    if not components:
        path = _join_base(base, at)
        if os.path.lexists(path) and not os.path.isdir(path):
            yield _MatchedFile(path, readings)
        return
    parts, *rest = components
    if not any(part.is_name for part in parts):
        yield from _walk_components(rest, os.path.join(at, "".join(part.text for part in parts)), readings, base)
        return
    for entry in _list_folder(base / at):
        if bool(rest) is not entry.is_dir():
            continue
        text = unicodedata.normalize("NFC", entry.name)
        found = [one for bound in readings for one in islice(_match_names(parts, text, bound), _MAX_READINGS)]
        if found:
            yield from _walk_components(rest, os.path.join(at, entry.name), found[:_MAX_READINGS], base)


def _join_base(base: Path, path: str) -> str:
    return path if base == Path() else os.path.join(base, path)


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((one for one in entries if not one.name.startswith(".")), key=lambda one: one.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CaseError(f"The folder {str(folder)!r} cannot be listed: {error.strerror or error}.") from None


def _match_names(parts: Sequence[_PatternPart], text: str, bound: NameValues) -> Iterator[NameValues]:
    """Every way in which the pieces, in this order, make up the text; a name that is bound stands for its value."""
    if not parts:
        if not text:
            yield bound
        return
    part, *rest = parts
    if not part.is_name or part.text in bound:
        literal = bound[part.text] if part.is_name else part.text
        if text.startswith(literal):
            yield from _match_names(rest, text[len(literal) :], bound)
        return
    if not rest:
        if text:
            yield {**bound, part.text: text}
        return
    after = rest[0].text  # a literal: two names never touch
    at = text.find(after, 1)
    while at != -1:
        yield from _match_names(rest, text[at:], {**bound, part.text: text[:at]})
        at = text.find(after, at + 1)


def _explain_no_match(pattern: _Pattern, base: Path) -> str:
    if pattern.folder:
        return f"The folder {pattern.text!r} (for {pattern.role}) holds no file."
    star = " A '*' stands for itself here; write a name in braces." if "*" in pattern.text else ""
    fixed = []
    for parts in pattern.components:
        if any(part.is_name for part in parts):
            break
        fixed.append("".join(part.text for part in parts))
    folder = os.path.join("", *fixed)
    missing = f" There is no folder {folder!r}." if fixed and pattern.names and not (base / folder).is_dir() else ""
    return f"No file matches {pattern.text!r} (for {pattern.role}).{missing}{star}"


def _explain_no_partner(reading: NameValues, indexes: Sequence[_FileIndex]) -> str:
    """Which partner is missing: the first that is not there by itself, else the combination."""
    for index in indexes:
        if all(name in reading for name in index.shared):
            key = tuple(reading[name] for name in index.shared)
            if key not in index.files:
                wanted = ", ".join(f"{name}={value!r}" for name, value in zip(index.shared, key, strict=True))
                return (
                    f"has no partner: no file matches {index.pattern.text!r} (for {index.pattern.role}) with {wanted}"
                )
    return "has no partners that fit together"


def _explain_ambiguity(readings: Sequence[NameValues]) -> str:
    ways = [", ".join(f"{name}={value!r}" for name, value in one.items()) for one in readings[:2]]
    return f"can be read in more than one way ({' or '.join(ways)}); put the parts into folders, or list the cases"


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
