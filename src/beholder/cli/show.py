"""The commands that print results: `show`, `export` and `ratings`.

- `beholder show`: results of a run or of a case
- `beholder export`: verdicts as CSV, JSONL or Parquet
- `beholder ratings`: export and import human ratings
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibrate import CalibrationApplier, load_calibration_applier
from beholder.cli.options import (
    AnywayOption,
    CalibrationFile,
    FeaturesFile,
    JsonOption,
    LedgerOption,
    MapOption,
    RunArgument,
    atomic_write,
    refuse_ledger_path,
)
from beholder.cli.runs import format_money, run_to_dict
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from beholder.cases.case import Case
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.query import Tally
    from beholder.ledger.types import RunRecord, StoredVerdict
    from beholder.verdicts.verdict import Verdict


def export(
    run: RunArgument = "latest",
    to: Annotated[str, typer.Option(help="csv, jsonl or parquet.")] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    calibration: CalibrationFile = None,
    features: FeaturesFile = None,
    anyway: AnywayOption = False,
    address: LedgerOption = None,
) -> None:
    """Write the verdicts of a run for other programs, in the order of its cases.

    jsonl has whole verdicts, one a line, with `groups` beside them. csv and parquet have flat columns: `case`, the
    case's groups as `group.NAME`, `rubric`, `judge`, `model`, `outcome`, `score`, each criterion as `NAME.score`,
    `grade`, `passed`, `usage.input_tokens`, `cost_usd` and so on; without a value, a cell is empty. What people would
    say, where there is a calibration, is `ASPECT.calibrated`, between `ASPECT.calibrated_low` and `_high`. In csv a
    text that a spreadsheet would take for a formula (=, +, -, @ in front) gets an apostrophe in front.
    """
    from beholder.ledger.export import FORMATS, to_frame
    from beholder.ledger.ledger import Ledger

    if to not in FORMATS:
        raise UsageError(f"--to is one of {', '.join(FORMATS)}, not {to!r}.")
    if to == "parquet" and output is None:
        raise UsageError("Parquet is not for a terminal; name a file with -o FILE.")
    with Ledger.open(address, read_only=True) as ledger:
        record = ledger.run(run)
        apply = load_calibration_applier(ledger, record, calibration, features, anyway=anyway)

        def verdicts() -> Iterable[StoredVerdict]:
            return ledger.stored_verdicts(record.id) if apply is None else apply(ledger.stored_verdicts(record.id))

        if output is None:
            _print_lines(_export_lines(to, verdicts))
            return
        refuse_ledger_path(ledger, output)
        with atomic_write(output) as file:
            if to == "parquet":
                to_frame(verdicts()).write_parquet(file)
            else:
                file.writelines(_export_lines(to, verdicts))


def _export_lines(to: str, verdicts: Callable[[], Iterable[StoredVerdict]]) -> Iterator[bytes]:
    from beholder.ledger.export import csv_lines, json_lines

    return csv_lines(verdicts) if to == "csv" else json_lines(verdicts())


def _print_lines(lines: Iterable[bytes]) -> None:
    out = typer.get_binary_stream("stdout")
    out.writelines(lines)
    out.flush()


ratings_app = typer.Typer(help="Export and import human ratings of a run.", no_args_is_help=True)


@ratings_app.command("export")
def export_ratings(
    run: RunArgument = "latest",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    rater: Annotated[
        list[str] | None, typer.Option(help="Only this rater; more than once: these.", show_default=False)
    ] = None,
    address: LedgerOption = None,
) -> None:
    """Write the ratings of a run as CSV: case, rater, aspect, score.

    An aspect is a criterion by its key, `score` for the overall (0 to 1, computed), or an assertion by its id (1 yes,
    0 no), as the columns of the run are named. What was not answered has no row. A text that a spreadsheet would take
    for a formula gets an apostrophe in front.
    """
    from beholder.ledger.ledger import Ledger
    from beholder.reviews.ratings import format_ratings_csv
    from beholder.reviews.review import list_reviews, load_review

    with Ledger.open(address, read_only=True) as ledger:
        record = ledger.run(run)
        reviews = list_reviews(ledger, record.id)
        if record.is_review:  # one person's ratings, named by their own run
            reviews = [load_review(ledger, record.id)]
            record = ledger.run(reviews[0].run)
        if rater:
            wanted = {name.casefold() for name in rater}
            raters = ", ".join(review.rater for review in reviews) or "nobody"
            reviews = [review for review in reviews if review.rater.casefold() in wanted]
            if len(reviews) < len(wanted):
                raise UsageError(f"Not all of these rated the run {record.id}; who did: {raters}.")
        if not reviews:
            raise UsageError(
                f"Nobody reviewed the run {record.id} ({record.name}); `beholder view` lets people rate it, and "
                "`beholder ratings import` takes ratings from a file."
            )
        lines = format_ratings_csv(ledger, record.id, reviews)
        if output is None:
            _print_lines(lines)
            return
        refuse_ledger_path(ledger, output)
        with atomic_write(output) as file:
            file.writelines(lines)


@ratings_app.command("import")
def import_ratings_command(
    file: Annotated[Path, typer.Argument(help="CSV or JSONL with case, rater, aspect, score.")],
    run: Annotated[str, typer.Option(help="The run that was rated: its id, the start of it, its name, or `latest`.")],
    map_: MapOption = None,
    address: LedgerOption = None,
) -> None:
    """Take ratings from a file as reviews of a run, one for each rater.

    An aspect is a criterion of the run's rubric or one of its assertions (1 yes, 0 no); others are named with --map
    ASPECT=CRITERION. `score` is computed and not taken. What a rater did not rate is unanswered. Where a rating
    is there already, what the file says takes its place and the rest stays.
    """
    from beholder.ledger.ledger import Ledger
    from beholder.reviews.ratings import import_ratings

    with Ledger.open(address, create=False) as ledger:
        done = import_ratings(ledger, run, file, map_ or ())
    for name, cases in done.raters.items():
        print_text(printable(f"{name}: {cases} {'case' if cases == 1 else 'cases'} rated."))
    for note in done.notes:
        print_text(printable(note))


UNSCORED_SHOWN = 5


def show(
    run: RunArgument = "latest",
    case: Annotated[str | None, typer.Argument(help="A case's id: its verdicts in full.", show_default=False)] = None,
    by: Annotated[str | None, typer.Option(help="Split the means by a group, such as model.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the judges' answers to the case as they came.")] = False,
    calibration: CalibrationFile = None,
    features: FeaturesFile = None,
    anyway: AnywayOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Show what a run came to; or a case of it, and whether its images have changed since."""
    from beholder.ledger.ledger import Ledger

    with Ledger.open(address, read_only=True) as ledger:
        record = ledger.run(run)
        if case is not None and raw:
            _print_raw(ledger.raw_answers(record.id, case), as_json=json_)
            return
        apply = load_calibration_applier(ledger, record, calibration, features, anyway=anyway, case=case)
        if case is None:
            _print_run(ledger, record, by, apply, as_json=json_)
        else:
            _print_case(ledger, record, case, apply, full=full, as_json=json_)


def _print_run(
    ledger: Ledger, record: RunRecord, by: str | None, apply: CalibrationApplier | None, *, as_json: bool
) -> None:
    from beholder.ledger.query import tally_groups
    from beholder.ledger.query import tally_verdicts as tallied

    tally = ledger.tally(record.id) if apply is None else tallied(apply(ledger.stored_verdicts(record.id)))
    stored = ledger.stored_verdicts(record.id)
    split = tally_groups(stored if apply is None else apply(stored), by) if by else {}
    if by and split.keys() == {""}:
        groups = sorted({name for stored in ledger.stored_verdicts(record.id) for name in stored.groups})
        raise UsageError(f"No case of this run is in a group {by!r}; there are {', '.join(groups) or 'none'}.")
    if as_json:
        document: dict[str, object] = {**run_to_dict(record), "versions": dict(record.versions), **tally.to_dict()}
        if by:
            document["groups"] = {by: {value: tally.to_dict() for value, tally in split.items()}}
        print_text(json.dumps(document))
        return
    _print_run_summary(record, tally)
    for unscored in islice(
        (verdict for verdict in ledger.verdicts(record.id) if verdict.missing_score_reason), UNSCORED_SHOWN
    ):
        print_text(f"  {unscored.case}: {printable(unscored.missing_score_reason)[:200]}")
    if by:
        _print_group_means({value or "(none)": tally for value, tally in split.items()}, by)


def _print_run_summary(record: RunRecord, tally: Tally) -> None:
    from rich.console import Console

    from beholder.cli.progress import means_table
    from beholder.reports.formatting import run_state

    print_text(
        printable(f"run {record.id} ({record.name}), {run_state(record)}, started {record.created:%Y-%m-%d %H:%M} UTC")
    )
    Console(highlight=False).print(means_table(tally))
    for name, rubric in tally.rubrics.items():
        if rubric.grades:
            print_text(printable(_format_counts(f"grades of {name}", dict(sorted(rubric.grades.items())))))
        if rubric.passed:
            print_text(printable(f"{name}: {rubric.passed[True]} passed, {rubric.passed[False]} failed"))
    cost = format_money(None if tally.unpriced and not tally.cost_usd else tally.cost_usd, tally.unpriced)
    paid = format_money(record.spent_usd, record.unpriced)
    lines = {
        "outcomes": _format_counts("", tally.outcomes),
        "verdicts": f"{tally.verdicts} of {record.total}, {tally.reused} from answers that the ledger had",
        "skipped cases": str(record.skipped) if record.skipped else "",
        "cost": f"{paid} spent by this run, answers worth {cost}",
        "tokens": ", ".join(f"{count:,} {name.removesuffix('_tokens')}" for name, count in tally.usage.items()),
        "judge": _format_counts("", tally.judges),
        "model": _format_counts("", tally.models),
        "flags": _format_counts("", tally.flags),
        "tags": ", ".join(record.tags),
    }
    for title, line in lines.items():
        if line:
            print_text(printable(f"{title}: {line}"))


def _format_counts(title: str, counts: Mapping[str, int]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed}" if title else listed


def _print_group_means(split: Mapping[str, Tally], by: str) -> None:
    """Print a table for each rubric: a row for each value of the group, a column for each criterion."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    rubrics = {name for tally in split.values() for name in tally.rubrics}
    for name in sorted(rubrics):
        tallies = {value: tally.rubrics[name] for value, tally in split.items() if name in tally.rubrics}
        criteria = list(dict.fromkeys(key for tally in tallies.values() for key in tally.criteria))
        people = list(dict.fromkeys(key for tally in tallies.values() for key in tally.calibrated))
        titles = [by, "verdicts", "scored", "score", *criteria, *(f"{key}, calibrated" for key in people)]
        table = Table(*(escape(printable(title)) for title in titles), box=None, pad_edge=False, title=name)
        for value, tally in sorted(tallies.items()):
            means = [tally.score, *(tally.criteria.get(key) for key in criteria)]
            means += [tally.calibrated.get(key) for key in people]
            shown = ["–" if mean is None or mean.value is None else f"{mean.value:.3f}" for mean in means]
            counts = [str(sum(tally.outcomes.values())), str(tally.score.count)]
            table.add_row(*(Text(printable(cell)) for cell in (value, *counts, *shown)))
        Console(highlight=False).print(table)


def _print_case(
    ledger: Ledger, record: RunRecord, case_id: str, apply: CalibrationApplier | None, *, full: bool, as_json: bool
) -> None:
    verdicts, case = ledger.verdict(record.id, case_id), ledger.case(record.id, case_id)
    if apply is not None:
        verdicts = apply.to_case(verdicts)
    images = list(_image_rows(case, verdicts))
    if as_json:
        document = {
            "run": record.id,
            "case": case.id,
            "fields": dict(case.fields),
            "groups": dict(case.groups),
            "images": [{"role": role, "source": source, "since": since} for role, source, since in images],
            "verdicts": [verdict.to_dict() for verdict in verdicts],
        }
        print_text(json.dumps(document))
        return
    from beholder.cli.output import print_card

    for verdict in verdicts:
        print_card(verdict, full=full)
    for name, group in case.groups.items():
        print_text(printable(f"{name}: {group}"))
    for role, source, since in images:
        print_text(printable(f"{role}: {source} ({since})"))


def _print_raw(answers: Mapping[str, Sequence[str]], *, as_json: bool) -> None:
    if as_json:
        print_text(json.dumps(answers))
        return
    for rubric, texts in answers.items():
        for text in texts:
            print_text(f"── {rubric}")
            print_text(text)


def _image_rows(case: Case, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str, str]]:
    """Yield role, source, and whether the file changed since it was judged."""
    digests: dict[str, set[str]] = {}
    for verdict in verdicts:
        for image in verdict.images:
            digests.setdefault(image.role, set()).add(image.source_digest)
    for role, source in case.images.items():
        yield role, str(source), _file_change(str(source), digests.get(role, set()))


def _file_change(source: str, digests: set[str]) -> str:
    from beholder.errors import ImageError
    from beholder.images.prepare import digest
    from beholder.images.source import is_remote, read_image

    if source.startswith(("data:", "bytes:")):
        return "was handed over, not a file"
    if is_remote(source):
        return "on the web, not looked at again"
    if not digests:
        return "was not judged"
    try:
        return "unchanged" if digest(read_image(source)) in digests else "has changed since"
    except ImageError as error:
        return f"cannot be compared: {error}"
