"""`beholder export`: a run for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibration_options import Anyway, CalibrationAt, FeaturesAt, applying
from beholder.cli.files import replacing, spare
from beholder.cli.runs import LedgerAt, Which
from beholder.errors import UsageError

if TYPE_CHECKING:
    from beholder.ledger.reading import Judged


def export(
    run: Which = "latest",
    to: Annotated[str, typer.Option(help="csv, jsonl or parquet.")] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    calibration: CalibrationAt = None,
    features: FeaturesAt = None,
    anyway: Anyway = False,
    ledger: LedgerAt = None,
) -> None:
    """Write the verdicts of a run for other programs, in the order of its cases.

    jsonl has whole verdicts, one a line, with `groups` beside them. csv and parquet have flat columns: `case`, the
    case's groups as `group.NAME`, `rubric`, `judge`, `model`, `outcome`, `score`, each criterion as `NAME.score`,
    `grade`, `passed`, `usage.input_tokens`, `cost_usd` and so on; without a value, a cell is empty. What people would
    say, where there is a calibration, is `ASPECT.calibrated`, between `ASPECT.calibrated_low` and `_high`. In csv a
    text that a spreadsheet would take for a formula (=, +, -, @ in front) gets an apostrophe in front.
    """
    from beholder.ledger import Ledger
    from beholder.ledger.exporting import FORMATS, write_parquet

    if to not in FORMATS:
        raise UsageError(f"--to is one of {', '.join(FORMATS)}, not {to!r}.")
    if to == "parquet" and output is None:
        raise UsageError("Parquet is not for a terminal; name a file with -o FILE.")
    with Ledger.open(ledger, read_only=True) as book:
        record = book.run(run)
        apply = applying(book, record, calibration, features, anyway=anyway)

        def verdicts() -> Iterable[Judged]:
            return book.judged(record.id) if apply is None else apply(book.judged(record.id))

        if output is None:
            _print(_lines(to, verdicts))
            return
        spare(book, output)
        with replacing(output) as file:
            if to == "parquet":
                write_parquet(verdicts(), file)
            else:
                file.writelines(_lines(to, verdicts))


def _lines(to: str, verdicts: Callable[[], Iterable[Judged]]) -> Iterator[bytes]:
    from beholder.ledger.exporting import csv_lines, json_lines

    return csv_lines(verdicts) if to == "csv" else json_lines(verdicts())


def _print(lines: Iterable[bytes]) -> None:
    out = typer.get_binary_stream("stdout")
    for line in lines:
        out.write(line)
    out.flush()
