"""Files that the caller named for output: written as a whole or not at all; and the report of a run as such a file."""

from __future__ import annotations

import errno
import io
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING

from beholder.api.arguments import check_number
from beholder.errors import UsageError
from beholder.ledger.export import COLUMN_TYPES
from beholder.verdicts.calibration import CALIBRATION_KIND
from beholder.verdicts.verdict import format_count

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord
    from beholder.reports.run_data import ProgressCallback


def refuse_ledger_path(ledger: Ledger, output: Path) -> None:
    """Raise `UsageError` if the output file is the ledger itself."""
    with suppress(OSError):
        if ledger.path is not None and os.path.samefile(ledger.path, output):
            raise UsageError(f"{str(output)!r} is the ledger itself; name another file.")


def write_text(output: Path, text: str) -> None:
    """Write a text file as `atomic_write` does; lone surrogates become escapes."""
    with atomic_write(output) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


_COLUMNS = list(COLUMN_TYPES)
# Of the header of an export: it also has groups and criteria, in front of and between these.
_FIRST_COLUMNS, _LAST_COLUMNS = (
    ",".join(part).encode() for part in (_COLUMNS[1 : _COLUMNS.index("grade")], _COLUMNS[_COLUMNS.index("grade") :])
)


class OutputKind(Enum):
    """What is written to a file, and how such a file begins and what it has near its beginning or its end.

    Ratings and votes are known by nothing: people make such files by hand, and Beholder reads them.
    """

    REPORT = (
        "report",
        (b"<!doctype html>", b'<meta name="generator" content="Beholder '),
        (b"### <code>", b" on "),
        (b"### <code>", b"</code> against <code>"),
        (b"<?xml ", b'<testsuites name="beholder"'),
    )
    EXPORT = (
        "export",
        (b"case,", b"," + _FIRST_COLUMNS + b",", b"," + _LAST_COLUMNS + b"\n"),
        (b'{"case": ', b'"rubric_version": ', b'"outcome": "', b'"groups": {', b'"reused": '),
        (b"PAR1", *(name.encode() for name in _COLUMNS)),
    )
    RATINGS = ("file of ratings",)
    VOTES = ("file of votes",)
    CALIBRATION = "calibration", (b"{", f'"{CALIBRATION_KIND}"'.encode())

    def __init__(self, title: str, *marks: tuple[bytes, ...]) -> None:
        self.title, self.marks = title, marks

    def fits(self, head: bytes, tail: bytes) -> bool:
        """Return whether a file that begins and ends so is of this kind."""
        return any(
            head.startswith(start) and all(mark in head or mark in tail for mark in needed)
            for start, *needed in self.marks
        )


def check_output(output: Path, kind: OutputKind, *, force: bool = False) -> None:
    """Raise `UsageError` if a file cannot be written, before the work whose result is to be in it.

    A file that exists is replaced if it is empty or of the same kind, by how it begins; one of ratings or votes only if
    it is empty.

    Args:
        output: The file; a pipe, the null device or a terminal is written to directly.
        kind: What it is going to hold.
        force: Replace also what is something else.
    """
    with _explain_errors(output):
        if output.is_dir():
            raise UsageError(f"{str(output)!r} is a folder; name a file in it.")
        if output.is_file() or not output.exists():
            with tempfile.TemporaryFile(dir=output.resolve().parent):
                pass
        else:
            _check_device(output)
        if force or not output.is_file():
            return
        with output.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    if head and not kind.fits(head, tail):
        whose = (
            f"is no {kind.title} of Beholder's" if kind.marks else f"is no empty file: a {kind.title} may be by people"
        )
        raise UsageError(
            f"{str(output)!r} exists and {whose}; name another file, or overwrite it (--force or force=True)."
        )


_HEAD_BYTES, _TAIL_BYTES = 65_536, 65_536  # a header has a column for each criterion
PIPE_PATIENCE_S, _PIPE_PAUSE_S = 2.0, 0.02  # how long who reads from a pipe may take to open it


def _check_device(output: Path) -> None:
    """Raise `UsageError` for what is no file, pipe, null device, terminal or output of this process: a disk, say."""
    mode = output.stat()
    if stat.S_ISFIFO(mode.st_mode):
        return
    if stat.S_ISCHR(mode.st_mode):
        with suppress(OSError):
            if os.path.samestat(mode, os.stat(os.devnull)):
                return
        for handle in (1, 2):
            with suppress(OSError):
                if os.path.samestat(mode, os.fstat(handle)):
                    return
        with suppress(OSError), output.open("wb") as opened:
            if opened.isatty():
                return
    raise UsageError(f"{str(output)!r} is a device or a socket; name a file.")


def _open_pipe(output: Path) -> int:
    """Return a descriptor to write to a pipe. Raises `UsageError` if nobody reads from it: that would wait for ever."""
    deadline = time.monotonic() + PIPE_PATIENCE_S
    while True:
        try:
            handle = os.open(output, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{str(output)!r} is a pipe, and nobody reads from it; start the reader, or name a file."
                ) from None
            time.sleep(_PIPE_PAUSE_S)
        else:
            os.set_blocking(handle, True)
            return handle


@contextmanager
def atomic_write(output: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `output` when everything is written, so that there is never half a file.

    A pipe or device is written to directly.

    Raises:
        UsageError: The file cannot be written.
    """
    with _explain_errors(output), _open_draft(output) as file:
        yield file


@contextmanager
def _explain_errors(output: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{str(output)!r} cannot be written: {reason}.") from None


@contextmanager
def _open_draft(output: Path) -> Iterator[IO[bytes]]:
    if output.is_dir():
        raise UsageError(f"{str(output)!r} is a folder; name a file in it.")
    if output.exists() and not output.is_file():
        _check_device(output)
        with os.fdopen(_open_pipe(output), "wb") if output.is_fifo() else output.open("wb") as file:
            yield file
        return
    output = output.resolve()  # a symbolic link stays one
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)


OutputFile = str | os.PathLike[str] | IO[bytes]
"""Where something is written: a path, or an open binary file."""


@contextmanager
def open_output(ledger: Ledger, output: OutputFile, kind: OutputKind, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for what is read from a ledger, as `atomic_write` does; an open file is written to as it is.

    Raises:
        UsageError: The file cannot be written, or exists and is of another kind: see `check_output`.
    """
    if isinstance(output, str | os.PathLike):
        refuse_ledger_path(ledger, Path(output))
        check_output(Path(output), kind, force=force)
        with atomic_write(Path(output)) as file:
            yield file
    elif isinstance(output, io.TextIOBase) or not hasattr(output, "write"):
        raise UsageError("Name a file to write, or give one that is open for bytes ('wb').")
    else:
        yield output
        output.flush()


REPORT_ENDINGS = {"html": "html", "md": "md", "junit": "xml"}


def choose_report_format(format: str | None, path: object, *, strict: bool = True) -> str:
    """Return the format of a report: the given one, else what the file's name ends in, else HTML.

    Raises:
        UsageError: The name ends in something else, and this is `strict`.
    """
    ending = Path(path).suffix.lower() if isinstance(path, str | os.PathLike) else ""
    known = {".html": "html", ".htm": "html", ".md": "md", ".xml": "junit", "": "html"}
    if strict and format is None and ending not in known:
        raise UsageError(
            f"A report is HTML, Markdown or JUnit XML, and {str(path)!r} ends in none of .html, .md and .xml; "
            "name another file, or say the format (--format or format=)."
        )
    return format or known.get(ending, "html")


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """How a report is written; see `Run.report`. Raises `UsageError` where that cannot be."""

    format: str
    max_mb: float
    group: str | None
    fail_under: Mapping[str, float]
    progress: ProgressCallback | None = None
    force: bool = False
    worst: int | None = None

    def __post_init__(self) -> None:
        if self.format not in REPORT_ENDINGS:
            raise UsageError(f"The format is one of {', '.join(REPORT_ENDINGS)}, not {self.format!r}.")
        check_number("max_mb", self.max_mb, least=0.1)
        if self.worst is not None:
            check_number("worst", self.worst, least=1)
            if self.format != "html":
                raise UsageError("worst says which cases an HTML file has; leave it out for other formats.")
        if self.fail_under and self.format != "junit":
            raise UsageError(
                "fail_under says which tests of the format junit fail; leave it out: a run has thresholds of its own."
            )
        for name, value in self.fail_under.items():
            if not math.isfinite(value):
                raise UsageError(f"fail_under: {value} is no number from which a case passes.")
            if name == "score" and 0 < value <= 1:
                raise UsageError(f"fail_under is on a scale to 100; for a score of {value:g} say {value * 100:g}.")

    @property
    def ending(self) -> str:
        """What the name of such a file ends in."""
        return REPORT_ENDINGS[self.format]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A report that was written. `path` is `None` for an open file, `size` is in bytes, `description` is for people."""

    path: str | os.PathLike[str] | None
    size: int
    description: str

    def __str__(self) -> str:
        return self.description if self.path is None else f"{self.path}: {self.description}"

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        path = None if self.path is None else os.fspath(self.path)
        return {"path": path, "size": self.size, "description": self.description}


def write_run_report(
    ledger: Ledger, record: RunRecord, other: RunRecord | None, request: ReportRequest, output: OutputFile
) -> RunReport:
    """Write the report of a run; with an `other`, older run also what changed since. Raises `UsageError`."""
    if isinstance(output, str | os.PathLike):
        refuse_ledger_path(ledger, Path(output))
        check_output(Path(output), OutputKind.REPORT, force=request.force)
    with tempfile.TemporaryFile() as draft:
        description = _draft_report(ledger, record, other, request, draft)
        size = draft.tell()
        draft.seek(0)
        with open_output(ledger, output, OutputKind.REPORT, force=request.force) as file:
            shutil.copyfileobj(draft, file)
    return RunReport(output if isinstance(output, str | os.PathLike) else None, size, description)


def _draft_report(
    ledger: Ledger, record: RunRecord, other: RunRecord | None, request: ReportRequest, draft: IO[bytes]
) -> str:
    """Write the report to `draft`; return its description for the user."""
    from beholder.reports.ci import run_junit, run_markdown
    from beholder.reports.run_data import no_progress

    group, watch = request.group, request.progress or no_progress
    if request.format == "html":
        from beholder.reports.html_report import write_report

        made = write_report(
            ledger, record, draft, max_mb=request.max_mb, worst=request.worst, group=group, other=other, watch=watch
        )
        lines = [
            f"{format_count(made.verdicts, 'verdict')} on {format_count(made.cases, 'case')}, {made.size / 1e6:.1f} MB."
        ]
        if made.pictures:
            lines.append(f"Pictures are {made.pictures}.")
        return "\n".join([" ".join(lines), *made.notes])
    if request.format == "md":
        text = run_markdown(ledger, record, group, other, watch=watch)
    elif other is None:
        text = run_junit(ledger, record, request.fail_under)
    else:
        raise UsageError(
            "`compare` writes JUnit on two runs (`beholder compare OLD NEW --junit FILE`); leave out the older run."
        )
    draft.write(text.encode("utf-8", "backslashreplace"))
    return f"{draft.tell():,} bytes."
