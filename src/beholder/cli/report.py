"""`beholder report`: a run as one file that people can look at, or that other programs show."""

from __future__ import annotations

import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from beholder.cli.files import replacing, spare
from beholder.cli.runs import LedgerAt, Which
from beholder.cli.statistics_options import GroupBy
from beholder.errors import UsageError
from beholder.reports.html import MAX_MB
from beholder.reports.terminal import say

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord
    from beholder.reports.html.gathering import Watch

LONG = 500  # verdicts: with fewer it is done before anybody wonders
ENDINGS = {"html": "html", "md": "md", "junit": "xml"}


def report(
    run: Which = "latest",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file, - to print it; else named after the run.", show_default=False),
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="html, md or junit.")] = "html",
    max_mb: Annotated[float, typer.Option("--max-mb", min=0.1, help="How large an HTML file may be, in MB.")] = MAX_MB,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="An older run: say what changed since.", show_default=False)
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="JUnit: a case fails below 80 (score × 100), or accuracy=4.", show_default=False),
    ] = None,
    group: GroupBy = None,
    ledger: LedgerAt = None,
) -> None:
    """Write a run as one HTML file with its images, which opens from disk and asks for nothing from elsewhere.

    Pictures are the small copies that the ledger keeps; they lose detail until the file is within --max-mb, and no case
    is left out. `--format md` is for a pull request, `--format junit` for programs that show test results.
    """
    from beholder.ledger import Ledger

    if format_ not in ENDINGS:
        raise UsageError(f"--format is one of {', '.join(ENDINGS)}, not {format_!r}.")
    if not math.isfinite(max_mb):
        raise UsageError(f"--max-mb is how large the file may be, a number of MB from 0.1 on, not {max_mb}.")
    least = _least(fail_under or (), format_)
    with Ledger.open(ledger, read_only=True) as book, tempfile.TemporaryFile() as draft:
        record, other = book.run(run), None if against is None else book.run(against)
        if other is not None and other.id == record.id:
            raise UsageError(f"--against names an older run, and {against!r} is the run {record.id} itself.")
        place = output or Path(f"{_file_name(record)}.{ENDINGS[format_]}")
        printed = str(place) == "-"
        if not printed:
            spare(book, place)
        with _watching(record.total) as watch:
            told = _made(book, record, other, format_, draft, max_mb, group, least, watch)
        draft.seek(0)
        if printed:
            out = typer.get_binary_stream("stdout")
            shutil.copyfileobj(draft, out)
            out.flush()
        else:
            with replacing(place) as file:
                shutil.copyfileobj(draft, file)
    say(f"{place}: {told}" if not printed else told, error=printed)


def _least(given: Sequence[str], format_: str) -> dict[str, float]:
    """What a case has to reach. Raises `UsageError`."""
    from beholder.runs.suite_file import thresholds

    if given and format_ != "junit":
        raise UsageError(
            "--fail-under says which tests of --format junit fail; of a run, `beholder run` decides by it."
        )
    least = thresholds(given)
    for name, value in least.items():
        if not math.isfinite(value):
            raise UsageError(f"--fail-under takes a number or CRITERION=NUMBER, and {value} is no number.")
        if name == "score" and 0 < value <= 1:
            raise UsageError(f"--fail-under is on a scale to 100; for a score of {value:g} say {value * 100:g}.")
    return least


def _made(
    book: Ledger,
    record: RunRecord,
    other: RunRecord | None,
    format_: str,
    draft: IO[bytes],
    max_mb: float,
    group: str | None,
    fail_under: Mapping[str, float],
    watch: Watch,
) -> str:
    """Writes the report into `draft`; what there is to say of it."""
    from beholder.verdicts.model import counted

    if format_ == "html":
        from beholder.reports.html.page import write_report

        made = write_report(book, record, draft, max_mb=max_mb, group=group, other=other, watch=watch)
        lines = [f"{counted(made.verdicts, 'verdict')} on {counted(made.cases, 'case')}, {made.size / 1e6:.1f} MB."]
        if made.pictures:
            lines.append(f"Pictures are {made.pictures}.")
        return "\n".join([" ".join(lines), *made.notes])
    if format_ == "md":
        from beholder.reports.run_markdown import run_markdown

        text = run_markdown(book, record, group, other, watch=watch)
    elif other is None:
        from beholder.reports.run_junit import run_junit

        text = run_junit(book, record, fail_under)
    else:
        raise UsageError("Of two runs `beholder compare OLD NEW --junit FILE` writes JUnit; leave out --against.")
    draft.write(text.encode("utf-8", "backslashreplace"))
    return f"{draft.tell():,} bytes."


@contextmanager
def _watching(verdicts: int) -> Iterator[Watch]:
    """A bar on a terminal while much is worked on, which goes when it is done; else nothing is shown."""
    from beholder.reports.html.gathering import unwatched

    if verdicts < LONG or not sys.stderr.isatty():
        yield unwatched
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("", total=verdicts)
        yield lambda what, done, of: bar.update(task, description=what, completed=done, total=of)


def _file_name(record: RunRecord) -> str:
    """The run's name as far as it is harmless in a file system, else its id."""
    return re.sub(r"[^\w.-]+", "-", record.name).strip("-.")[:80] or record.id
