"""Read case files row by row: JSONL, CSV, TSV, Parquet.

A record has an `id` (or `case`). A column named like a role is that image, one named like a field is that text, and
every other column is a group. Objects `images`, `fields` and `groups` may hold some or all of them instead. A role that
takes several images has a list of them, or the columns `role_1`, `role_2` …. A row that cannot be used carries its
problems, and reading continues. One line, or one slice of a Parquet file, is in memory at a time.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import UUID

from beholder.cases.case import CANDIDATES, Case, CaseRow, CaseSchema, FieldValue, as_image_list, id_problem
from beholder.errors import CaseError, ImageError
from beholder.images.image import ImageSource
from beholder.images.in_memory import normalize_image

if TYPE_CHECKING:
    from polars import LazyFrame


MAX_LINE = 4 * 1024 * 1024  # bytes
SLICE = 16_384  # rows of a Parquet file; each slice is decoded from the start of its row group
IMAGE_SLICE = 64  # rows of a Parquet file that holds images

_JSON_LINES = {".jsonl", ".ndjson"}
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_ADDRESS = re.compile(r"data:|[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def read_rows(path: Path, schema: CaseSchema) -> Iterator[CaseRow]:
    """Return the rows of a case file.

    Args:
        path: The file; its ending says what it is. Image paths in it are relative to its folder.
        schema: Which columns are images and fields, and which of them every row needs.

    Raises:
        CaseError: When the file as a whole cannot be read; whatever is wrong with a line is a problem of its row.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _read_parquet(path, schema)
    if ending in _JSON_LINES:
        return _read_json_lines(path, schema)
    if ending in _DELIMITERS:
        return _read_table(path, schema, _DELIMITERS[ending])
    hint = " A JSON array is not read: write one object a line and name it .jsonl." if ending == ".json" else ""
    raise CaseError(f"{str(path)!r} is no case file: its name should end in .jsonl, .csv, .tsv or .parquet.{hint}")


def parent_folder(path: Path) -> str:
    """Return the folder that relative paths in a file are joined to."""
    return "" if path.parent == Path() else str(path.parent)


def _read_json_lines(path: Path, schema: CaseSchema) -> Iterator[CaseRow]:
    base = parent_folder(path)
    with _open_file(path) as file:
        for number, line in enumerate(_LineReader(file), start=1):
            location = f"{path}, line {number}"
            if line is None:
                yield CaseRow(location, None, (_TOO_LONG,))
            elif number == 1 and line.startswith(_UTF_16):
                yield CaseRow(location, None, (_NOT_UTF_8.replace("line", "file"),))
                return
            elif line.strip():
                yield _parse_json_line(line, location, schema, base)


def _parse_json_line(line: bytes, location: str, schema: CaseSchema, base: str) -> CaseRow:
    try:
        text = line.decode()
        record = _DECODER.decode(text)
        if "\\u" in text:  # half a surrogate pair can be escaped like this, but not stored
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return CaseRow(location, None, (_NOT_UTF_8,))
    except UnicodeEncodeError:
        return CaseRow(location, None, ("holds half a character (an unpaired surrogate such as \\ud800)",))
    except _RecordError as error:
        return CaseRow(location, None, (str(error),))
    except json.JSONDecodeError as error:
        cut = ", and it has no line break: the file may be cut off here" if not line.endswith(b"\n") else ""
        return CaseRow(location, None, (f"is not JSON ({error.msg}, character {error.pos + 1}){cut}",))
    except (ValueError, RecursionError):
        return CaseRow(location, None, ("is not JSON that can be read: a number or a nesting is too large",))
    if not isinstance(record, dict):
        return CaseRow(location, None, ('should be an object, {"id": …}',))
    return parse_record(record, location, schema, base)


def _read_table(path: Path, schema: CaseSchema, delimiter: str) -> Iterator[CaseRow]:
    base = parent_folder(path)
    with _open_file(path) as file:
        lines = _TextLineReader(_LineReader(file))
        csv.field_size_limit(max(MAX_LINE, csv.field_size_limit()))
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        columns: list[str] = []
        while True:
            location = f"{path}, line {reader.line_num + 1}"
            try:
                cells = next(reader)
                problem = lines.take_problem()
            except StopIteration:
                return
            except csv.Error as error:
                cells, problem = [], lines.take_problem() or _describe_csv_error(str(error))
            if problem:
                yield CaseRow(location, None, (problem,))
                if not columns:
                    return
            elif any(cell.strip() for cell in cells):
                if columns:
                    yield _parse_table_row(columns, cells, location, schema, base)
                    continue
                columns = [cell.strip() for cell in cells]
                problems = _find_header_problems(columns, schema, delimiter)
                if problems:
                    yield CaseRow(location, None, tuple(problems))
                    return


def _parse_table_row(
    columns: Sequence[str], cells: Sequence[str], location: str, schema: CaseSchema, base: str
) -> CaseRow:
    if len(cells) != len(columns):
        return CaseRow(location, None, (f"has {len(cells)} cells, and the header names {len(columns)} columns",))
    record: dict[str, object] = {}
    for name, cell in zip(columns, cells, strict=True):
        if cell.strip() and not name:
            return CaseRow(location, None, (f"has the cell {cell[:40]!r} in a column without a name",))
        if cell.strip():
            record[name] = _parse_list_cell(cell) if name in schema.fields or name in schema.many else cell
    return parse_record(record, location, schema, base)


def _parse_list_cell(cell: str) -> object:
    """Return the texts of a cell that is a JSON list of texts; any other cell unchanged."""
    if cell.lstrip().startswith("["):
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError):
            return cell
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return value
    return cell


def _find_header_problems(columns: Sequence[str], schema: CaseSchema, delimiter: str) -> list[str]:
    """Return what is wrong with a header: a missing column is reported once, not for every row."""
    names = [name for name in columns if name]
    problems = [f"names the column {name!r} twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if not {"id", "case"} & set(names):
        problems.append("has no column 'id' (or 'case')")
    given = [*names, *(numbered[0] for name in names if (numbered := _split_number(name, schema)))]
    problems += [f"has no column {role!r}, the image" for role in schema.choose_roles(given)[1]]
    problems += [
        f"has no column {name!r}, a field that every case needs" for name in schema.required if name not in names
    ]
    others = [mark for mark in _SEPARATORS if mark != delimiter and mark in "".join(columns)]
    if problems and len(names) == 1 and others:
        return [
            f"seems to be separated by {_SEPARATORS[others[0]]}, and a file of this name by {_SEPARATORS[delimiter]}"
        ]
    return [f"the header {problem}" for problem in problems]


def _describe_csv_error(message: str) -> str:
    if "unexpected end of data" in message or "field larger" in message:
        return "opens a quote that is never closed; write a quote inside a cell twice"
    if "new-line character" in message:
        return "holds a bare carriage return; save the file with LF or CRLF line breaks"
    return f"is not CSV ({message})"


def _read_parquet(path: Path, schema: CaseSchema) -> Iterator[CaseRow]:
    try:
        import polars
    except ImportError:
        raise CaseError(f"To read {str(path)!r}, Polars is needed: pip install 'beholder[tables]'") from None
    base = parent_folder(path)
    _open_file(path).close()
    try:
        # Not a glob: brackets in a file name are just brackets.
        frame = polars.scan_parquet(path, glob=False)
        columns = frame.collect_schema().names()
        for start, records in iter_frame(frame):
            for number, record in enumerate(records, start=start + 1):
                yield parse_record(record, f"{path}, row {number}", schema, base)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException, OSError, ValueError) as error:
        # A damaged file makes Polars panic, which is no Exception.
        reason = str(error).partition("\n")[0][:200]
        raise CaseError(f"{str(path)!r} is not a Parquet file that can be read ({reason}).") from None
    if not columns:
        raise CaseError(f"{str(path)!r} has no columns.")


def iter_frame(frame: LazyFrame) -> Iterator[tuple[int, list[dict[str, object]]]]:
    """Return the records of a Polars frame in slices, each with the number of records before it."""
    rows = IMAGE_SLICE if "Binary" in str(frame.collect_schema()) else SLICE
    start = 0
    while records := frame.slice(start, rows).collect().to_dicts():
        yield start, records
        start += len(records)


def parse_record(record: Mapping[str, object], location: str, schema: CaseSchema, base: str) -> CaseRow:
    """Return the row for a record of any kind of file.

    Args:
        record: The values by column.
        location: Where the record is, for messages.
        schema: Which columns are images and fields, and which of them every row needs.
        base: The folder that image paths are relative to.
    """
    problems: list[str] = []
    id_ = _parse_id(record, problems)
    record = _flatten_record(record, schema, problems)
    images: dict[str, ImageSource | tuple[ImageSource, ...]] = {}
    fields: dict[str, FieldValue] = {}
    groups: dict[str, str] = {}
    key = "id" if "id" in record else "case"
    roles, field_names = schema.images, schema.fields
    for name, value in record.items():
        try:
            if name in roles:
                if not _is_missing_image(value):
                    images[name] = _parse_images(value, base, many=name in schema.many)
            elif name in field_names:
                if (text := _parse_field(value)) is not None and (text or name in schema.required):
                    fields[name] = text
            elif name == "groups" and isinstance(value, Mapping):
                groups |= {key_: text for key_, inner in value.items() if (text := _parse_group(inner))}
            elif name != key and (text := _parse_group(value)):
                groups[str(name)] = text
        except _RecordError as error:
            problems.append(f"the column {name!r} {error}")
    # An image that is given but wrong has a problem already; it is not missing as well.
    given = {role for role in roles if not _is_missing_image(record.get(role))} if problems else images.keys()
    chosen, missing = schema.choose_roles(given)
    problems += [f"lacks the image {role!r}{_suggest_column(role, groups)}" for role in missing]
    problems += [
        f"lacks the field {name!r}{_suggest_column(name, groups)}"
        for name in schema.required
        if name not in fields and (record.get(name) is None or _to_plain(record[name]) == [])
    ]
    if problems:
        return CaseRow(location, None, tuple(problems), id_)
    return CaseRow(location, Case(id_, {role: images[role] for role in chosen}, fields, groups), (), id_)


def _flatten_record(record: Mapping[str, object], schema: CaseSchema, problems: list[str]) -> Mapping[str, object]:
    """Return the record with the entries of its objects `images` and `fields` as columns, and with a list in place of
    the columns `role_1`, `role_2` …; the record itself where there are none."""
    nested = [
        (kind, word, names, inner)
        for kind, word, names in (("images", "image", schema.images), ("fields", "field", schema.fields))
        if isinstance(inner := record.get(kind), Mapping) and kind not in schema.images + schema.fields
    ]
    if nested:
        flat = {name: value for name, value in record.items() if name not in {kind for kind, *_ in nested}}
        for kind, word, names, inner in nested:
            for name, value in inner.items():
                known = name in names or (kind == "images" and _split_number(name, schema) is not None)
                if known and name in flat:
                    problems.append(f"gives the {word} {name!r} twice: in {kind!r} and beside it")
                elif known:
                    flat[name] = value
                elif names:  # without any name of that kind, the reader wants other columns
                    problems.append(f"has the unknown {word} {name!r} in {kind!r}; {_suggest(str(name), names)}")
        record = flat
    return _join_numbered_columns(record, schema, problems) if schema.many else record


def _suggest_column(name: str, others: Collection[str]) -> str:
    """Return a hint for what is missing, if an unknown column has nearly its name; else nothing."""
    if name == CANDIDATES[0] and "model" in others:
        return "; single outputs of several models are compared by `beholder arena run`"
    close = get_close_matches(name, others, n=1, cutoff=0.8)
    return f"; is it the column {close[0]!r}?" if close else ""


def _suggest(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"


def _join_numbered_columns(
    record: Mapping[str, object], schema: CaseSchema, problems: list[str]
) -> Mapping[str, object]:
    numbered = sorted((*split, name) for name in record if (split := _split_number(name, schema)))
    joined = {name: value for name, value in record.items() if not _split_number(name, schema)}
    for role in dict.fromkeys(role for role, _, _ in numbered):
        if role in joined:
            problems.append(f"gives the image {role!r} twice: as one column and as numbered ones")
        images = [record[name] for one, _, name in numbered if one == role]
        joined.setdefault(role, [image for image in images if not _is_missing_image(image)])
    return joined


def _split_number(name: object, schema: CaseSchema) -> tuple[str, int] | None:
    """Return role and number of a column such as `reference_2`, where the role takes several images."""
    role, _, number = str(name).rpartition("_")
    known = name in schema.images or name in schema.fields
    return (role, int(number)) if role in schema.many and number.isdecimal() and not known else None


def _is_missing_image(value: object) -> bool:
    if value is None or (isinstance(value, str | bytes | list | tuple) and not value):
        return True
    return isinstance(value, Mapping) and value.keys() <= {"bytes", "path"} and not any(map(bool, value.values()))


def _parse_id(record: Mapping[str, object], problems: list[str]) -> str:
    value = record.get("id", record.get("case"))
    if value is None:
        problems.append("has no 'id' (or 'case')")
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        problems.append("its id should be a text or a number")
        return ""
    id_ = str(value).strip()
    problem = id_problem(id_)
    if problem:
        problems.append(problem)
        return ""
    return id_


def _parse_images(value: object, base: str, *, many: bool) -> ImageSource | tuple[ImageSource, ...]:
    images = as_image_list(value)
    if images is None:
        return _parse_image(value, base)
    if len(images) > 1 and not many:
        raise _RecordError(f"is a list of {len(images)} images, and the rubric takes one in this role")
    if any(map(_is_missing_image, images)):
        raise _RecordError("has an empty entry in its list")
    sources = tuple(_parse_image(image, base) for image in images)
    return sources[0] if len(sources) == 1 else sources


def _parse_image(value: object, base: str) -> ImageSource:
    if isinstance(value, bool | int | float):
        raise _RecordError("should be the path of an image (or a data: URI, or a web address); it is no text")
    try:
        source = normalize_image(value)
    except ImageError as error:
        raise _RecordError(str(error)) from None
    if isinstance(source, bytes):
        return source
    path = os.fspath(source)
    if ":" in path and isinstance(source, str) and _ADDRESS.match(path):
        return path
    if "\0" in path:
        raise _RecordError("holds a NUL character")
    return os.path.join(base, path)  # pathlib would intern every name, which takes more and more memory


def _parse_field(value: object) -> FieldValue | None:
    value = _to_plain(value)
    if isinstance(value, list | tuple):
        texts = [_parse_scalar(entry) for entry in value]
        if None in texts:
            raise _RecordError("has an empty entry in its list")
        return tuple(text for text in texts if text is not None) or None
    return _parse_scalar(value)


def _parse_group(value: object) -> str | None:
    try:
        return _parse_scalar(value)
    except _RecordError:
        raise _RecordError(
            "holds a nested value or raw bytes; a column that the rubric does not know is a group, one plain value"
        ) from None


def _parse_scalar(value: object) -> str | None:
    """Return a plain value as text; numbers and booleans are written as in JSON."""
    value = _to_plain(value)
    if value is None:
        return None
    if isinstance(value, str):
        if "\0" in value:
            raise _RecordError("holds a NUL character")
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, date | time | timedelta | Decimal | UUID):
        return str(value)
    raise _RecordError("should be a text or a list of texts")


def _to_plain(value: object) -> object:
    """Return a value of NumPy, as frames have them, as one of Python."""
    return value if isinstance(value, str | int | float | list) or not hasattr(value, "tolist") else value.tolist()


class _RecordError(Exception):
    """What is wrong with a value or a record, as a predicate."""


_TOO_LONG = (
    f"is longer than {MAX_LINE // 2**20} MB and was passed over; keep images in files and name their paths instead"
)
_NOT_UTF_8 = "this line is not UTF-8 text; save the file as UTF-8"


class _LineReader:
    """Iterate over the lines of a file without a byte order mark; `None` stands for a line longer than `MAX_LINE`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._first = True

    def __iter__(self) -> _LineReader:
        return self

    def __next__(self) -> bytes | None:
        line = self._file.readline(MAX_LINE + 1)
        if not line:
            raise StopIteration
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) <= MAX_LINE:
            return line
        while line and not line.endswith(b"\n"):
            line = self._file.readline(MAX_LINE)
        return None


class _TextLineReader:
    """Iterate over lines as text for the csv module.

    That module stops at an exception of its source, so problems are kept here and asked for after each record.
    """

    def __init__(self, lines: _LineReader) -> None:
        self._lines = lines
        self._problem = ""

    def __iter__(self) -> _TextLineReader:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if line is None:
            self._problem = _TOO_LONG
            return "\n"
        try:
            return line.decode()
        except UnicodeDecodeError:
            self._problem = _NOT_UTF_8
            return line.decode("utf-8", "replace")

    def take_problem(self) -> str:
        """Return what was wrong with the lines since the last call, and forget it."""
        problem, self._problem = self._problem, ""
        return problem


def _open_file(path: Path) -> IO[bytes]:
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise CaseError(f"{str(path)!r} is not a file.")
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CaseError(f"The file {str(path)!r} cannot be read: {reason}.") from None


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RecordError(f"names {twice!r} twice")
    return record


def _reject_constant(name: str) -> object:
    raise _RecordError(f"holds {name}, which is no JSON number")


# Not msgspec, which accepts duplicate keys.
_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)
