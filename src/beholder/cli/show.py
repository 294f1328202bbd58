"""The commands that show results: `show`, `export`, `ratings`, `report` and `view`.

- `beholder show`: results of a run or of a case
- `beholder export`: verdicts as CSV, JSONL or Parquet
- `beholder ratings`: export and import human ratings
- `beholder report`: a run as one HTML, Markdown or JUnit file; `beholder view`: the web app for a ledger
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    RUN_HELP,
    AnywayOption,
    CalibrationFile,
    FeaturesFile,
    ForceOption,
    GroupOption,
    JsonOption,
    LedgerOption,
    MapOption,
    PeopleScaleOption,
    RunArgument,
    complete_cases,
    complete_runs,
    complete_words,
)
from beholder.cli.runs import format_money, format_spent
from beholder.errors import UsageError
from beholder.reports.text import (
    MAX_REASON_CHARACTERS,
    MAX_REPORT_MB,
    describe_calibration,
    describe_preferences,
    format_done,
    humanize_state,
    print_text,
    printable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.api.judged_case import JudgedCase
    from beholder.api.run import Run
    from beholder.ledger.query import Tally
    from beholder.reports.run_data import ProgressCallback


def export(
    run: RunArgument = "latest",
    to: Annotated[
        str, typer.Option(help="csv, jsonl or parquet.", autocompletion=complete_words("csv", "jsonl", "parquet"))
    ] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    calibration: CalibrationFile = None,
    features: FeaturesFile = None,
    anyway: AnywayOption = False,
    force: ForceOption = False,
    address: LedgerOption = None,
) -> None:
    """Write the verdicts of a run for other programs, in the order of its cases.

    jsonl has whole verdicts, one a line, with `groups` beside them. csv and parquet have flat columns: `case`, the
    case's groups as `group.NAME`, `rubric`, `judge`, `model`, `outcome`, `score`, each criterion as `NAME.score`,
    `grade`, `passed`, `usage.input_tokens`, `cost_usd` and so on; without a value, a cell is empty. What people would
    say, where there is a calibration, is `ASPECT.calibrated`, between `ASPECT.calibrated_low` and `_high`. In csv a
    text that a spreadsheet would take for a formula (=, +, -, @ in front) gets an apostrophe in front. An earlier
    export is replaced; any other file only with --force.
    """
    from beholder.ledger.export import FORMATS

    if to not in FORMATS:
        raise UsageError(f"--to is one of {', '.join(FORMATS)}, not {to!r}.")
    if to == "parquet" and (output is None or str(output) == "-"):
        raise UsageError("Parquet is not for a terminal; name a file with -o FILE.")
    loaded = load_run(run, address, calibration, features, anyway=anyway)
    loaded.export(_choose_output(output), to, force=force)
    _exit_if_nothing_was_calibrated(loaded)


def _choose_output(output: Path | None) -> Path | IO[bytes]:
    """Return the file that was named, or standard output."""
    return typer.get_binary_stream("stdout") if output is None or str(output) == "-" else output


ratings_app = typer.Typer(help="Export and import human ratings of a run.", no_args_is_help=True)


@ratings_app.command("export")
def export_ratings_command(
    run: RunArgument = "latest",
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="With --to label-studio: a new folder.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    rater: Annotated[
        list[str] | None, typer.Option(help="Only this rater; more than once: these.", show_default=False)
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            help="csv, or label-studio: a project in which people rate the run.",
            autocompletion=complete_words("csv", "label-studio"),
        ),
    ] = "csv",
    force: ForceOption = False,
    address: LedgerOption = None,
) -> None:
    """Write the ratings of a run as CSV: case, rater, aspect, score.

    An aspect is a criterion by its key, `score` for the overall (0 to 1, computed), or an assertion by its id (1 yes,
    0 no), as the columns of the run are named. What was not answered has no row. A text that a spreadsheet would take
    for a formula gets an apostrophe in front.
    """
    if to == "label-studio":
        from beholder.integrations.label_studio import export_project

        if folder is None or output is not None:
            raise UsageError("A project for Label Studio is a folder: name it after the run, without --output.")
        for path in export_project(run, folder, raters=rater or (), ledger=address):
            print_text(printable(f"Wrote {path}; the interface is {folder / 'config.xml'}."))
        return
    if to != "csv" or folder is not None:
        raise UsageError(f"Ratings are written --to csv with --output FILE, or --to label-studio DIR; not {to!r}.")
    from beholder.api.score import export_ratings

    export_ratings(run, _choose_output(output), raters=rater or (), force=force, ledger=address)


@ratings_app.command("import")
def import_ratings_command(
    file: Annotated[Path, typer.Argument(help="CSV or JSONL with case, rater, aspect, score.")],
    run: Annotated[str, typer.Option(help=f"The run that was rated: {RUN_HELP}", autocompletion=complete_runs)],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="csv, or label-studio: its JSON export of a project.",
            autocompletion=complete_words("csv", "label-studio"),
        ),
    ] = "csv",
    map_: MapOption = None,
    rating_scale: PeopleScaleOption = None,
    address: LedgerOption = None,
) -> None:
    """Take ratings from a file as reviews of a run, one for each rater.

    An aspect is a criterion of the run's rubric or one of its assertions (1 yes, 0 no); others are named with --map
    ASPECT=CRITERION, and another scale than the rubric's with --rating-scale 0..1. `score` is computed and not taken.
    What a rater did not rate is unanswered. Where a rating is there already, what the file says takes its place and
    the rest stays.
    """
    if source == "label-studio":
        from beholder.integrations.label_studio import import_project

        if map_:
            raise UsageError("A project of Label Studio has the aspects of its run, and nothing is mapped (--map).")
        if rating_scale:
            raise UsageError("A project of Label Studio has the scales of its run (--rating-scale).")
        done = import_project(run, file, ledger=address)
    elif source == "csv":
        from beholder.api.score import import_ratings

        done = import_ratings(run, file, map_=map_ or (), rating_scale=rating_scale or (), ledger=address)
    else:
        raise UsageError(f"Ratings come --from csv (also JSONL) or --from label-studio, not {source!r}.")
    for name, cases in done.raters.items():
        print_text(printable(f"{name}: {cases} {'case' if cases == 1 else 'cases'} rated."))
    for note in done.notes:
        print_text(printable(note))


UNSCORED_SHOWN = 5


def show(
    run: RunArgument = "latest",
    case: Annotated[
        str | None,
        typer.Argument(help="A case's id: its verdicts in full.", show_default=False, autocompletion=complete_cases),
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="List the cases with this text.", show_default=False)
    ] = None,
    by: Annotated[str | None, typer.Option(help="Split the means by a group, such as model.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the card too.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Print the judges' answers to the case as they came.")] = False,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="Print every turn of the conversations with the judges about the case.")
    ] = False,
    calibration: CalibrationFile = None,
    features: FeaturesFile = None,
    anyway: AnywayOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Show what a run came to; or a case of it, and whether its images have changed since."""
    from beholder.api.run import Run

    if transcript:
        if case is None:
            raise UsageError("--transcript is about one case: name it after the run.")
        _print_transcripts(Run.load(run, address).case(case), as_json=json_)
        return
    if case is not None and raw:
        _print_raw(Run.load(run, address).raw_answers(case), as_json=json_)
        return
    if search is not None:
        found = Run.load(run, address).search(search)
        print_text(json.dumps(found) if json_ else "\n".join(found) or "No case has this text.")
        return
    loaded = load_run(run, address, calibration, features, anyway=anyway, case=case)
    if case is not None:
        _print_case(loaded.case(case), full=full, as_json=json_)
    elif json_:
        print_text(json.dumps(loaded.to_dict(by=by)))
    else:
        split = loaded.by_group(by) if by else {}
        _print_run_summary(loaded)
        unscored = (verdict for verdict in loaded.verdicts() if verdict.missing_score_reason)
        for verdict in islice(unscored, UNSCORED_SHOWN):
            print_text(f"  {verdict.case}: {printable(verdict.missing_score_reason)[:MAX_REASON_CHARACTERS]}")
        if by:
            _print_group_means({value or "(none)": tally for value, tally in split.items()}, by)
    if case is None:
        _exit_if_nothing_was_calibrated(loaded)


def _exit_if_nothing_was_calibrated(run: Run) -> None:
    """End with the exit code for missing scores where a calibration that was named gave no verdict a rating."""
    from beholder.cli import EXIT_UNSCORED

    if run.calibration is not None and run.why_uncalibrated:
        print_text(printable(f"beholder: the calibration gave no verdict a rating: {run.why_uncalibrated}"), error=True)
        raise typer.Exit(EXIT_UNSCORED)


def load_run(
    run: str,
    address: str | None,
    calibration: Path | None,
    features: Path | None,
    *,
    anyway: bool,
    case: str | None = None,
) -> Run:
    """Load a run, with its verdicts calibrated if there is a calibration; what could not be measured is printed."""
    from beholder.api.run import Run
    from beholder.cli.calibrate import print_unmeasured, show_progress

    loaded = Run.load(run, address)
    if calibration is None:
        if features is not None:
            raise UsageError("--features is for a calibration, and none is named: --calibration FILE.")
        return loaded
    with show_progress() as progress:
        loaded = loaded.calibrated(calibration, features, anyway=anyway, case=case, progress=progress)
    if loaded.calibration is not None:
        print_unmeasured(loaded.calibration.unmeasured, loaded.calibration.measured)
    return loaded


def _print_run_summary(run: Run) -> None:
    from rich.console import Console

    from beholder.cli.output import means_table

    record, tally = run.record, run.summary
    state = humanize_state(run.state)
    print_text(printable(f"run {run.id} ({run.name}), {state}, started {run.created:%Y-%m-%d %H:%M} UTC"))
    Console(highlight=False).print(means_table(tally, run.fail_under))
    for name, rubric in tally.rubrics.items():
        if preferences := describe_preferences(rubric.count_preferences()):
            print_text(printable(f"{name}: {preferences}"))
        for line in describe_calibration(rubric.filled, rubric.uncalibrated):
            print_text(printable(f"{name}: {line}"))
        if rubric.grades:
            print_text(printable(_format_counts(f"grades of {name}", dict(sorted(rubric.grades.items())))))
        if rubric.passed:
            print_text(printable(f"{name}: {rubric.passed[True]} passed, {rubric.passed[False]} failed"))
    cost = format_money(None if tally.unpriced and not tally.cost_usd else tally.cost_usd, tally.unpriced)
    done = format_done(tally.verdicts, record.total, tally.not_asked)
    lines = {
        "outcomes": _format_counts("", tally.outcomes),
        "verdicts": f"{done}, {tally.reused} from answers that the ledger had",
        "skipped cases": str(record.skipped) if record.skipped else "",
        "cost": f"{format_spent(run)} spent by this run, answers worth {cost}",
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


def _print_case(judged: JudgedCase, *, full: bool, as_json: bool) -> None:
    if as_json:
        print_text(json.dumps(judged.to_dict()))
        return
    from beholder.cli.output import print_card

    for verdict in judged.verdicts:
        print_card(verdict, full=full)
    for name, group in judged.case.groups.items():
        print_text(printable(f"{name}: {group}"))
    for image in judged.images:
        print_text(printable(f"{image.role}: {image.source} ({image.since})"))


def _print_raw(answers: Mapping[str, Sequence[str]], *, as_json: bool) -> None:
    if as_json:
        print_text(json.dumps(answers))
        return
    for rubric, texts in answers.items():
        for text in texts:
            print_text(f"── {rubric}")
            print_text(text)


_FLAGS_OF_SEVERAL_TURNS = {"repair_asked", "cut_off", "empty_answer"}


def _print_transcripts(judged: JudgedCase, *, as_json: bool) -> None:
    if as_json:
        document = {rubric: [asdict(one) for one in each] for rubric, each in judged.transcripts.items()}
        print_text(json.dumps(document))
        return
    from beholder.rubrics.brief import ORDERS

    for verdict in judged.verdicts:
        conversations = judged.transcripts[verdict.rubric]
        for one in conversations:
            part = f", {one.part}{' order' if one.part in ORDERS else ''}" if one.part else ""
            print_text(f"── {verdict.rubric}, {one.judge or 'one of the jurors'}, sample {one.sample + 1}{part}")
            for number, turn in enumerate(one.turns, 1):
                ended = f" (ended: {turn.finish})" if turn.finish != "complete" else ""
                print_text(f"[{number}] asked: {turn.question or 'the prompt with the images of the case'}")
                print_text(f"[{number}] answered{ended}: {turn.answer}" if turn.finish else f"[{number}] no answer")
        if not conversations:
            print_text(f"── {verdict.rubric}: no judge answered")
        several = _FLAGS_OF_SEVERAL_TURNS & {flag.flag for flag in verdict.flags}
        if several and all(len(one.turns) == 1 for one in conversations):
            print_text(
                "Earlier turns are not stored here: the answer is of an earlier run, or of a Beholder that kept only "
                "the last."
            )
    print_text("The prompt itself is not stored; `beholder view` composes it again while the images are there.")


PROGRESS_FROM_VERDICTS = 500  # with fewer the report is done before a bar would help


def report(
    run: RunArgument = "latest",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file, - to print it; else named after the run.", show_default=False),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="html, md or junit; else by the file's name, else html.", show_default=False),
    ] = None,
    max_mb: Annotated[
        float, typer.Option("--max-mb", min=0.1, help="How large an HTML file may be, in MB.")
    ] = MAX_REPORT_MB,
    worst: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the N worst cases, in an HTML file.", show_default=False),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="An older run: say what changed since.",
            show_default=False,
            autocompletion=complete_runs,
        ),
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="JUnit: a case fails below 80 (score × 100), or accuracy=4.", show_default=False),
    ] = None,
    group: GroupOption = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is no report.")] = False,
    address: LedgerOption = None,
) -> None:
    """Write a run as one HTML file with its images, which opens from disk and asks for nothing from elsewhere.

    Pictures are the small copies that the ledger keeps; they lose detail until the file is within --max-mb. Of a very
    large run it has reasons and pictures of the worst cases only; --worst N chooses so many from the
    start. `--format md` is for a pull request,
    `--format junit` for programs that show test results.
    """
    from beholder.api.files import ReportRequest, choose_report_format
    from beholder.api.run import Run
    from beholder.runs.suite_file import parse_thresholds

    kind = choose_report_format(format_, output, strict=False)
    ReportRequest(
        kind, max_mb, group, parse_thresholds(fail_under or ()), worst=worst
    )  # a wrong flag before a missing ledger
    loaded = Run.load(run, address)
    printed = str(output) == "-"
    with _report_progress(loaded.total) as progress:
        made = loaded.report(
            typer.get_binary_stream("stdout") if printed else output,
            format=format_,
            max_mb=max_mb,
            worst=worst,
            against=against,
            fail_under=parse_thresholds(fail_under or ()),
            group=group,
            progress=progress,
            force=force,
        )
    print_text(str(made), error=printed)


@contextmanager
def _report_progress(verdicts: int) -> Iterator[ProgressCallback]:
    """Show a bar for a large run."""
    from beholder.reports.progress import progress_bar

    with progress_bar("", verdicts, shown=verdicts >= PROGRESS_FROM_VERDICTS) as update:
        yield lambda what, done, of: update(description=what, completed=done, total=of)


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
    from beholder.web import view as view_ledger

    view_ledger(address, port=port, host=host, token=token, browser=browser)
