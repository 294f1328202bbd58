"""`beholder report` (a run as one HTML, Markdown or JUnit file) and `beholder view` (the web app for a ledger)."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from beholder.cli.options import GroupOption, LedgerOption, RunArgument, atomic_write, refuse_ledger_path
from beholder.errors import SetupError, UsageError
from beholder.reports.text import MAX_REPORT_MB, print_text

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord
    from beholder.reports.run_data import ProgressCallback


PROGRESS_FROM_VERDICTS = 500  # with fewer the report is done before a bar would help
FILE_ENDINGS = {"html": "html", "md": "md", "junit": "xml"}


def report(
    run: RunArgument = "latest",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file, - to print it; else named after the run.", show_default=False),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="html, md or junit.")] = "html",
    max_mb: Annotated[
        float, typer.Option("--max-mb", min=0.1, help="How large an HTML file may be, in MB.")
    ] = MAX_REPORT_MB,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="An older run: say what changed since.", show_default=False)
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="JUnit: a case fails below 80 (score × 100), or accuracy=4.", show_default=False),
    ] = None,
    group: GroupOption = None,
    address: LedgerOption = None,
) -> None:
    """Write a run as one HTML file with its images, which opens from disk and asks for nothing from elsewhere.

    Pictures are the small copies that the ledger keeps; they lose detail until the file is within --max-mb, and no case
    is left out. `--format md` is for a pull request, `--format junit` for programs that show test results.
    """
    from beholder.ledger.ledger import Ledger

    if format_ not in FILE_ENDINGS:
        raise UsageError(f"--format is one of {', '.join(FILE_ENDINGS)}, not {format_!r}.")
    if not math.isfinite(max_mb):
        raise UsageError(f"--max-mb is how large the file may be, a number of MB from 0.1 on, not {max_mb}.")
    thresholds = _parse_thresholds(fail_under or (), format_)
    with Ledger.open(address, read_only=True) as ledger, tempfile.TemporaryFile() as draft:
        record, other = ledger.run(run), None if against is None else ledger.run(against)
        if other is not None and other.id == record.id:
            raise UsageError(f"--against names an older run, and {against!r} is the run {record.id} itself.")
        place = output or Path(f"{_file_name(record)}.{FILE_ENDINGS[format_]}")
        printed = str(place) == "-"
        if not printed:
            refuse_ledger_path(ledger, place)
        request = _ReportRequest(record, other, format_, max_mb, group, thresholds)
        with _report_progress(record.total) as watch:
            description = _write_report(ledger, request, draft, watch)
        draft.seek(0)
        if printed:
            out = typer.get_binary_stream("stdout")
            shutil.copyfileobj(draft, out)
            out.flush()
        else:
            with atomic_write(place) as file:
                shutil.copyfileobj(draft, file)
    print_text(f"{place}: {description}" if not printed else description, error=printed)


@dataclass(frozen=True, slots=True)
class _ReportRequest:
    """What to write: a run, an older run to compare with, and options of the formats."""

    record: RunRecord
    other: RunRecord | None
    format: str
    max_mb: float
    group: str | None
    fail_under: Mapping[str, float]


def _parse_thresholds(given: Sequence[str], format_: str) -> dict[str, float]:
    """Return the thresholds of --fail-under by name. Raises `UsageError`."""
    from beholder.runs.suite_file import parse_thresholds

    if given and format_ != "junit":
        raise UsageError(
            "--fail-under says which tests of --format junit fail; of a run, `beholder run` decides by it."
        )
    thresholds = parse_thresholds(given)
    for name, value in thresholds.items():
        if not math.isfinite(value):
            raise UsageError(f"--fail-under takes a number or CRITERION=NUMBER, and {value} is no number.")
        if name == "score" and 0 < value <= 1:
            raise UsageError(f"--fail-under is on a scale to 100; for a score of {value:g} say {value * 100:g}.")
    return thresholds


def _write_report(ledger: Ledger, request: _ReportRequest, draft: IO[bytes], watch: ProgressCallback) -> str:
    """Write the report to `draft`; return its description for the user."""
    from beholder.verdicts.verdict import format_count

    record, other, group = request.record, request.other, request.group
    if request.format == "html":
        from beholder.reports.html_report import write_report

        made = write_report(ledger, record, draft, max_mb=request.max_mb, group=group, other=other, watch=watch)
        lines = [
            f"{format_count(made.verdicts, 'verdict')} on {format_count(made.cases, 'case')}, {made.size / 1e6:.1f} MB."
        ]
        if made.pictures:
            lines.append(f"Pictures are {made.pictures}.")
        return "\n".join([" ".join(lines), *made.notes])
    if request.format == "md":
        from beholder.reports.ci import run_markdown

        text = run_markdown(ledger, record, group, other, watch=watch)
    elif other is None:
        from beholder.reports.ci import run_junit

        text = run_junit(ledger, record, request.fail_under)
    else:
        raise UsageError("Of two runs `beholder compare OLD NEW --junit FILE` writes JUnit; leave out --against.")
    draft.write(text.encode("utf-8", "backslashreplace"))
    return f"{draft.tell():,} bytes."


@contextmanager
def _report_progress(verdicts: int) -> Iterator[ProgressCallback]:
    """Show a bar for a large run."""
    from beholder.cli.progress import progress_bar

    with progress_bar("", verdicts, shown=verdicts >= PROGRESS_FROM_VERDICTS) as update:
        yield lambda what, done, of: update(description=what, completed=done, total=of)


def _file_name(record: RunRecord) -> str:
    """Return the run's name with characters that are safe in a file name, else its id."""
    return re.sub(r"[^\w.-]+", "-", record.name).strip("-.")[:80] or record.id


def view(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any that is free.")] = 0,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Others than loopback need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="What a visitor must know, at least 16 characters.", envvar="BEHOLDER_TOKEN", show_default=False
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    address: LedgerOption = None,
) -> None:
    """Look at runs, compare them and rate cases, in the browser. Only this machine is served, unless by --host."""
    try:
        from beholder.web.app import create_app
        from beholder.web.server import allowed_hosts, open_browser, open_socket, serve, socket_url
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise SetupError("The web app needs FastAPI and uvicorn: pip install 'beholder[web]'") from None

    hosts = allowed_hosts(host, token)
    app = create_app(address, hosts=hosts, token=token)
    with open_socket(host, port) as listening:
        url = socket_url(listening, host) + (f"?token={quote(token, safe='')}" if token else "")

        def ready() -> None:
            print_text(f"Beholder is at {url} (stop it with Ctrl+C).")
            if browser:
                open_browser(url)

        serve(app, listening, ready)
