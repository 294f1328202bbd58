"""Make cases from files that match patterns: `photos/{name}.jpg` and `out/{style}/{name}.png`, or two folders.

A name in braces stands for part of one path component. Patterns are joined on the names they share, so that one photo
is used for all its styles. The pattern with the most names drives the join: its files are iterated, while the files of
the others are kept in an index (some 300 bytes each). The files of a folder are listed and sorted before the first of
them is used.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from beholder.cases.case import CANDIDATES, Case, CaseRow, CaseSchema, FieldValue, id_problem, quote_names
from beholder.errors import CaseError
from beholder.images.image import ImageSource

NameValues = Mapping[str, str]

_NAME = re.compile(r"\{([^{}]*)\}")
_STEM = "name"  # the name whose value is the stem of a file in a folder
_MAX_READINGS = 64  # ways to split one file name into names; it is ambiguous from the second on


@dataclass(frozen=True, slots=True)
class _PatternPart:
    """A piece of a path component: a literal, or a name in braces."""

    text: str
    is_name: bool


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A parsed pattern. Where it is a `folder`, all files of that folder match, by their stem."""

    role: str
    text: str
    components: tuple[tuple[_PatternPart, ...], ...]
    folder: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        names = (part.text for component in self.components for part in component if part.is_name)
        return (_STEM,) if self.folder else tuple(dict.fromkeys(names))


@dataclass(slots=True)
class _MatchedFile:
    """A file that matches a pattern.

    Attributes:
        readings: The values of the names in braces, once for each way to read the path.
        used: Whether a case uses the file.
    """

    path: str
    readings: Sequence[NameValues]
    used: bool = False


@dataclass(slots=True)
class _FileIndex:
    """The files of one pattern by the values of the names that it shares with the patterns joined before it.

    `rows` are files that cannot be used, with their problems.
    """

    pattern: _Pattern
    shared: tuple[str, ...]
    files: dict[tuple[str, ...], list[tuple[NameValues, _MatchedFile]]] = field(default_factory=dict)
    rows: list[CaseRow] = field(default_factory=list)


def pair_rows(patterns: Mapping[str, str], schema: CaseSchema, base: Path) -> Iterator[CaseRow]:
    """Return the cases that files make, in the order of the files.

    A name in braces becomes the field of that name, if there is one, and always a group, so that cases of one photo can
    be recognized. The id is made of the values of all names, in the order in which the names first appear. A file
    without a partner is a row with a problem.

    Args:
        patterns: By image role.
        schema: The images and fields that the rubric needs.
        base: The folder that the patterns are relative to.

    Raises:
        CaseError: When the patterns cannot be used at all.
    """
    parsed = _check_patterns(patterns, schema, base)
    driver = max(parsed, key=lambda pattern: len(pattern.names))
    others = [pattern for pattern in parsed if pattern is not driver]
    bound = set(driver.names)
    indexes: list[_FileIndex] = []
    for pattern in sorted(others, key=lambda pattern: -len(bound & set(pattern.names))):
        indexes.append(_build_index(pattern, bound, base))
        bound |= set(pattern.names)
    names = tuple(dict.fromkeys(name for pattern in parsed for name in pattern.names))
    return _PatternJoin(driver, indexes, names, schema).rows(base)


@dataclass(frozen=True, slots=True)
class _PatternJoin:
    """The join of the files of one pattern, the driver, with the indexed files of the others.

    `names` are the names in braces of all patterns, in the order in which they first appear.
    """

    driver: _Pattern
    indexes: Sequence[_FileIndex]
    names: Sequence[str]
    schema: CaseSchema

    def rows(self, base: Path) -> Iterator[CaseRow]:
        driver = self.driver
        file: _MatchedFile | None = None
        stems: set[str] = set()
        for file in _list_files(driver, base):
            yield from self._rows_for_file(file, stems)
        if file is None:
            raise CaseError(_explain_no_match(driver, base))
        for index in self.indexes:
            yield from index.rows
            for _, other in (match for matches in index.files.values() for match in matches):
                if not other.used:
                    problem = f"has no partner that matches {driver.text!r} (for {driver.role})"
                    yield CaseRow(other.path, None, (problem,))

    def _rows_for_file(self, file: _MatchedFile, stems: set[str]) -> Iterator[CaseRow]:
        """Return the rows of one file of the driver; of several readings of its name, the one with partners counts.

        `stems` are those of the files that had a row before, and grow here.
        """
        joined = [list(self._join_partners(reading, self.indexes)) for reading in file.readings]
        fitting = [partners for partners in joined if partners]
        if len(fitting) > 1 or (not fitting and len(joined) > 1):
            yield CaseRow(file.path, None, (_explain_ambiguity(file.readings),))
            return
        if not fitting:
            yield CaseRow(file.path, None, (self._explain_no_partner(file.readings[0]),))
            return
        for values, partners in fitting[0]:
            if self.driver.folder:
                if values[_STEM] in stems:
                    yield CaseRow(file.path, None, (f"is the second file named {values[_STEM]!r} in its folder",))
                    continue
                stems.add(values[_STEM])
            yield self._make_row(file.path, values, {self.driver.role: file.path, **partners})

    def _join_partners(
        self, values: NameValues, indexes: Sequence[_FileIndex]
    ) -> Iterator[tuple[NameValues, dict[str, str]]]:
        """Return every set of partners, with the values of all names; marks the files in it as used."""
        if not indexes:
            yield values, {}
            return
        index, *rest = indexes
        for own_values, file in index.files.get(tuple(values[name] for name in index.shared), ()):
            for all_values, partners in self._join_partners({**values, **own_values}, rest):
                file.used = True
                yield all_values, {index.pattern.role: file.path, **partners}

    def _make_row(self, location: str, values: NameValues, images: Mapping[str, str]) -> CaseRow:
        id_ = "/".join(values[name] for name in self.names)
        problem = id_problem(id_)
        if problem:
            return CaseRow(location, None, (problem,))
        fields: dict[str, FieldValue] = {name: values[name] for name in self.names if name in self.schema.fields}
        ordered: dict[str, ImageSource] = {role: images[role] for role in self.schema.choose_roles(images)[0]}
        return CaseRow(location, Case(id_, ordered, fields, {name: values[name] for name in self.names}), (), id_)

    def _explain_no_partner(self, values: NameValues) -> str:
        """Return which partner is missing: the first that does not exist, else the combination."""
        for index in self.indexes:
            if all(name in values for name in index.shared):
                key = tuple(values[name] for name in index.shared)
                if key not in index.files:
                    wanted = ", ".join(f"{name}={value!r}" for name, value in zip(index.shared, key, strict=True))
                    pattern = index.pattern
                    return f"has no partner: no file matches {pattern.text!r} (for {pattern.role}) with {wanted}"
        return "has no partners that fit together"


def _build_index(pattern: _Pattern, bound: set[str], base: Path) -> _FileIndex:
    """Return the index of a pattern's files. `bound` are the names of the patterns that are joined before it."""
    shared = tuple(name for name in pattern.names if name in bound)
    if pattern.names and not shared:
        raise CaseError(
            f"The pattern {pattern.text!r} shares no name in braces with the others, so nothing says what belongs "
            "together."
        )
    index = _FileIndex(pattern, shared)
    file: _MatchedFile | None = None
    for file in _list_files(pattern, base):
        if len(file.readings) > 1:
            index.rows.append(CaseRow(file.path, None, (_explain_ambiguity(file.readings),)))
            continue
        reading = file.readings[0]
        key = tuple(reading[name] for name in shared)
        if pattern.folder and key in index.files:
            index.rows.append(CaseRow(file.path, None, (f"is the second file named {reading[_STEM]!r} in its folder",)))
            continue
        index.files.setdefault(key, []).append((reading, file))
    if file is None:
        raise CaseError(_explain_no_match(pattern, base))
    return index


def _check_patterns(patterns: Mapping[str, str], schema: CaseSchema, base: Path) -> list[_Pattern]:
    """Return the patterns of the chosen roles. Raises `CaseError` where they cannot be used together."""
    unknown = [role for role in patterns if role not in schema.images]
    if unknown:
        of_models = set(CANDIDATES) <= set(schema.images) and any("{model}" in text for text in patterns.values())
        hint = " Single outputs of several models are compared by `beholder arena run`." if of_models else ""
        raise CaseError(f"There is no image {unknown[0]!r} here; the images are {quote_names(schema.images)}.{hint}")
    roles, missing = schema.choose_roles(patterns)
    if missing:
        raise CaseError(f"A pattern for {quote_names(missing)} is missing; the images are {quote_names(roles)}.")
    parsed = [_parse_pattern(role, text, base) for role, text in patterns.items() if role in roles]
    folders = [pattern for pattern in parsed if pattern.folder]
    if folders and len(folders) < len(parsed):
        other = next(pattern for pattern in parsed if not pattern.folder)
        raise CaseError(
            f"{folders[0].text!r} is a folder and {other.text!r} is not: give folders only, or write a name in braces, "
            f"such as {folders[0].text.rstrip('/') + '/{name}.jpg'!r}."
        )
    if not any(pattern.names for pattern in parsed):
        raise CaseError(f"{parsed[0].text!r} has no name in braces; write one, such as photos/{{name}}.jpg.")
    for name in schema.required:
        if not any(name in pattern.names for pattern in parsed):
            raise CaseError(
                f"No pattern says the field {name!r}, which every case needs: write {{{name}}} in one, give it for all "
                "cases, or list the cases in a file."
            )
    return parsed


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
    """Return the pieces of a path component: `_NAME.split` gives literals and names in turn."""
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
    """Return the files below the path `at` that match the components, given the readings of `at` so far."""
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
        matches = [match for bound in readings for match in islice(_match_names(parts, text, bound), _MAX_READINGS)]
        if matches:
            yield from _walk_components(rest, os.path.join(at, entry.name), matches[:_MAX_READINGS], base)


def _join_base(base: Path, path: str) -> str:
    return path if base == Path() else os.path.join(base, path)


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CaseError(f"The folder {str(folder)!r} cannot be listed: {error.strerror or error}.") from None


def _match_names(parts: Sequence[_PatternPart], text: str, bound: NameValues) -> Iterator[NameValues]:
    """Return every way in which the pieces, in this order, make up the text; a bound name stands for its value."""
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


def _explain_ambiguity(readings: Sequence[NameValues]) -> str:
    ways = [", ".join(f"{name}={value!r}" for name, value in reading.items()) for reading in readings[:2]]
    return f"can be read in more than one way ({' or '.join(ways)}); put the parts into folders, or list the cases"
