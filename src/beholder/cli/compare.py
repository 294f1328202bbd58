"""`beholder compare` (the difference between two runs) and `beholder history` (the trend over a suite's runs)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cases.case import format_case_count
from beholder.cli.options import (
    CasesFile,
    DrawsOption,
    GroupOption,
    JsonOption,
    LedgerOption,
    ScoresFiles,
    SeedOption,
    write_text,
)
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord
    from beholder.statistics.comparison import Comparison
    from beholder.statistics.data import Scores
    from beholder.statistics.gate import ComparisonGate, FailOn
    from beholder.statistics.history import HistoryLine
    from beholder.statistics.pairs import RubricGrades


RUN_HELP = "a run's id, the start of it, its name, or `latest`."
BeforeRun = Annotated[str | None, typer.Argument(metavar="RUN_A", help=f"The old run: {RUN_HELP}", show_default=False)]
AfterRun = Annotated[str | None, typer.Argument(metavar="RUN_B", help=f"The new run: {RUN_HELP}", show_default=False)]


def compare(
    run_a: BeforeRun = None,
    run_b: AfterRun = None,
    scores: ScoresFiles = None,
    cases: CasesFile = None,
    group: GroupOption = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit code 1 on `regression`, or on `inconclusive`: where none can be ruled out.")
    ] = "",
    on: Annotated[
        list[str] | None, typer.Option(help="What the gate looks at: score (default), any, or a criterion by name.")
    ] = None,
    margin: Annotated[
        list[str] | None, typer.Option(help="How far a mean may fall, in its own unit: 0.02, or accuracy=0.2.")
    ] = None,
    detect: Annotated[float | None, typer.Option(help="Say how many cases show a difference of this size.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the cases that changed most are listed.")] = 10,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a summary for a pull request; - prints it.", show_default=False)
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the gate's decision as JUnit XML.")] = None,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare two runs case by case, the old one first: what changed, how sure that is, what would go unnoticed.

    A regression: the 95 % interval of the difference lies wholly below the margin, and the permutation test agrees.
    Exit codes: 0; 1 the gate failed; 2 wrong use, or nothing to decide by; 3 no case has a score in both runs.
    """
    from beholder.statistics.comparison import ComparisonOptions
    from beholder.statistics.comparison import compare as compared
    from beholder.statistics.gate import ON_SCORE, FailOn, gate_comparison

    wanted = _parse_fail_on(fail_on)
    plain, named = _parse_margins(margin or ())
    asked = ComparisonOptions(group, plain, named, detect, top, draws, seed)
    read = _load_compared(run_a, run_b, scores, cases, address)
    comparison = compared(read.before, read.after, asked, graded=read.graded, warnings=read.warnings)
    decided = gate_comparison(comparison, on or (ON_SCORE,), wanted or FailOn.REGRESSION) if wanted or junit else None
    _write_files(comparison, decided if wanted else None, markdown)
    if junit is not None and decided is not None:
        from beholder.reports.ci import comparison_junit

        write_text(junit, comparison_junit(comparison, decided))
    if json_:
        document = comparison.to_dict()
        print_text(json.dumps(document | ({"gate": decided.to_dict()} if decided and wanted else {})))
    elif markdown is None or str(markdown) != "-":
        _print_comparison(_with_titles(comparison, read.rubrics), decided if wanted else None)
    _exit_by_gate(comparison, decided if wanted else None)


def _exit_by_gate(comparison: Comparison, decided: ComparisonGate | None) -> None:
    """Exit with the code of the gate; called last, when tables and files are written."""
    from beholder.cli import EXIT_THRESHOLD, EXIT_UNSCORED

    if decided is not None and decided.failed:
        raise typer.Exit(EXIT_THRESHOLD)
    if decided is not None and decided.undecided:
        raise UsageError(next(iter(decided.undecided.values())))
    if comparison.is_empty:
        raise typer.Exit(EXIT_UNSCORED)


def _parse_fail_on(text: str) -> FailOn | None:
    from beholder.statistics.gate import FailOn

    try:
        return FailOn(text) if text else None
    except ValueError:
        raise UsageError(f"--fail-on is one of {', '.join(FailOn)}, not {text!r}.") from None


def _parse_margins(given: Sequence[str]) -> tuple[float, dict[str, float]]:
    """Return the margin for all columns, and margins by name."""
    margins: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(f"--margin takes a number, or NAME=NUMBER, and {text!r} is neither.") from None
        if name in margins:
            of = f"of {name!r}" if name else "for all"
            raise UsageError(f"The margin {of} is given twice, as {margins[name]:g} and as {value:g}; give it once.")
        margins[name] = value
    return margins.pop("", 0.0), margins


@dataclass(frozen=True, slots=True)
class _ComparedRuns:
    """The scores to compare and, for runs of a ledger, their grades, differences of set-up and rubrics."""

    before: Scores
    after: Scores
    graded: Sequence[RubricGrades] = ()
    warnings: Sequence[str] = ()
    rubrics: Sequence[Mapping[str, object]] = ()


def _load_compared(
    run_a: str | None, run_b: str | None, files: Sequence[Path] | None, cases: Path | None, address: str | None
) -> _ComparedRuns:
    from beholder.cli.options import load_scores
    from beholder.ledger.ledger import Ledger
    from beholder.statistics.data import add_groups, read_groups
    from beholder.statistics.pairs import describe_run_differences, load_compared_run, match_grades

    if files:
        all_scores = load_scores(run_a, files, cases)
        if len(all_scores) != 2:
            names = ", ".join(judge.name for judge in all_scores)
            raise UsageError(f"Two are compared, and the files hold the scores of {len(all_scores)}: {names}.")
        return _ComparedRuns(all_scores[0], all_scores[1])
    if run_a is None or run_b is None:
        raise UsageError("Name two runs, the old one first (`beholder runs` lists them), or two files with --scores.")
    with Ledger.open(address, read_only=True) as ledger:
        before, after = load_compared_run(ledger, run_a), load_compared_run(ledger, run_b)
    if before.record.id == after.record.id:
        print_text(f"beholder: {run_a!r} and {run_b!r} are the same run.", error=True)
    old, new = before.scores, after.scores
    if cases is not None:
        groups = read_groups(cases)
        old, new = add_groups(old, groups), add_groups(new, groups)
    rubrics = (*before.record.rubrics, *after.record.rubrics)
    return _ComparedRuns(old, new, match_grades(before, after), describe_run_differences(before, after), rubrics)


def _with_titles(comparison: Comparison, rubrics: Sequence[Mapping[str, object]]) -> Comparison:
    """Return the comparison with titles of criteria; columns of files keep their names."""
    from beholder.reports.comparison import with_titles
    from beholder.reports.text import column_title, criterion_titles
    from beholder.statistics.data import ColumnKind

    titles = criterion_titles(rubrics)
    criteria = (
        {*titles, *(change.name for change in comparison.select_kinds(ColumnKind.CRITERION))} if rubrics else set()
    )
    return with_titles(comparison, lambda name: column_title(name, titles) if name in criteria else name)


def _write_files(comparison: Comparison, decided: ComparisonGate | None, markdown: Path | None) -> None:
    if markdown is None:
        return
    from beholder.reports.ci import comparison_markdown

    text = comparison_markdown(comparison, decided)
    if str(markdown) == "-":
        print_text(text.rstrip("\n"))
    else:
        write_text(markdown, text)


def _print_comparison(comparison: Comparison, decided: ComparisonGate | None) -> None:
    from beholder.reports.comparison import (
        COMPARISON_HEADERS,
        COMPARISON_LEGEND,
        cases_needed,
        comparison_notes,
        comparison_rows,
        conclusion,
    )
    from beholder.reports.formatting import numbers_table, print_table
    from beholder.statistics.comparison import GRADE
    from beholder.statistics.data import ColumnKind

    cases = format_case_count(comparison.cases)
    many = "1 group" if comparison.groups == 1 else f"{comparison.groups:,} groups"
    groups = f" of {many} by {comparison.group}" if comparison.group else ""
    print_text(printable(f"{comparison.before} → {comparison.after}, {cases} in both{groups}"))
    print_table(
        numbers_table(
            COMPARISON_HEADERS,
            comparison_rows(
                comparison.select_kinds(ColumnKind.OVERALL, ColumnKind.PASSED, GRADE, ColumnKind.CRITERION)
            ),
        )
    )
    moving = [change for change in comparison.select_kinds(ColumnKind.ASSERTION) if change.better or change.worse]
    if moving:
        print_text("")
        print_table(numbers_table(("assertion", *COMPARISON_HEADERS[1:]), comparison_rows(moving)))
    for change in comparison.select_kinds(GRADE):
        counts = ", ".join(f"{name} {old:,} → {new:,}" for name, (old, new) in change.grades.items() if old or new)
        print_text(printable(f"{change.name}: {counts}; {change.better:,} up, {change.worse:,} down"))
    if comparison.changed_cases:
        print_text("\ncases that changed most")
        for moved in comparison.changed_cases:
            changes = ", ".join(f"{name} {old:.4g} → {new:.4g}" for name, (old, new) in moved.changes.items())
            print_text(printable(f"  {moved.by:+.3f}  {moved.case}: {changes}")[:300])
    print_text("")
    for sentence in (*comparison_notes(comparison), *cases_needed(comparison)):
        print_text(printable(sentence))
    print_text(f"{comparison.interval_note} {COMPARISON_LEGEND}")
    print_text("")
    print_text(printable(conclusion(comparison)))
    if decided is not None:
        for name, sentence in decided.doubted.items():
            if name not in decided.failed and name not in decided.undecided:
                print_text(printable(sentence))
        if decided.unweighed:
            print_text(printable(decided.unweighed))
        for sentence in (*decided.failed.values(), *(decided.undecided.values() if decided.failed else ())):
            print_text(f"beholder: {printable(sentence)}", error=True)


SPARKS = "▁▂▃▄▅▆▇█"


def history(
    suite: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The name of the runs; else that of the latest.", show_default=False),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag; without NAME, all of them.")] = None,
    on: Annotated[list[str] | None, typer.Option(help="What to follow: score (default), or a criterion.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many runs, the newest.")] = None,
    group: GroupOption = None,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Follow a suite over its runs: the mean of each, what changed from one to the next, and the trend."""
    from beholder.ledger.ledger import Ledger
    from beholder.statistics.bootstrap import CONFIDENCE_LEVEL
    from beholder.statistics.data import SOURCE_GROUP
    from beholder.statistics.history import analyze_history as followed
    from beholder.statistics.pairs import describe_run_differences, load_compared_run

    with Ledger.open(address, read_only=True) as ledger:
        records = _select_runs(ledger, suite, tag)[-(last or 0) :]
        runs = [load_compared_run(ledger, record.id) for record in records]
    lines = followed([run.scores for run in runs], on or (), group=group, draw_count=draws, seed=seed)
    warnings = [
        f"{old.record.id} to {new.record.id}: {sentence}"
        for old, new in pairwise(runs)
        for sentence in describe_run_differences(old, new)
    ]
    if json_:
        listed = [{"run": record.id, "name": record.name, "created": record.created.isoformat()} for record in records]
        print_text(json.dumps({"runs": listed, "lines": [line.to_dict() for line in lines], "warnings": warnings}))
        return
    for line in lines:
        _print_history(line, records)
    for sentence in dict.fromkeys(warnings):
        print_text(printable(f"Not like with like: {sentence}"))
    kept = group or SOURCE_GROUP
    grouped = any(kept in run.scores.groups for run in runs)
    together = f"cases of one {kept} together" if grouped else "each case independent of the others"
    print_text(
        f"Intervals are {CONFIDENCE_LEVEL:.0%} bootstrap, {draws:,} draws (seed {seed}), {together}. A change is to "
        "the run before, over the cases of both; p is the chance of one as large if nothing had changed."
    )


def sparkline(values: list[float | None]) -> str:
    """Return a block character for each value, scaled from the lowest to the highest; a blank for None."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, width = min(known), max(known) - min(known)
    return "".join(
        " " if value is None else SPARKS[round((value - low) / width * (len(SPARKS) - 1)) if width > 0 else 3]
        for value in values
    )


def _select_runs(ledger: Ledger, suite: str | None, tag: str | None) -> list[RunRecord]:
    """Return the runs of a suite or with a tag, the oldest first."""
    records = ledger.runs(tag=tag)
    if suite is None and tag is None and records:
        suite = records[0].name
    selected = [record for record in records if suite is None or suite in (record.name, record.suite.get("name"))]
    if not selected:
        names = ", ".join(sorted({run.name for run in ledger.runs()})[:10]) or "none"
        wanted = " and ".join(f"{what} {name!r}" for what, name in (("the name", suite), ("the tag", tag)) if name)
        raise UsageError(f"No run has {wanted or 'a name'}; the names are: {names}.")
    return selected[::-1]


def _print_history(line: HistoryLine, records: list[RunRecord]) -> None:
    from beholder.reports.comparison import format_p_value
    from beholder.reports.formatting import format_interval, format_number, numbers_table, print_table

    rows = [
        (
            record.id,
            record.name,
            f"{record.created:%Y-%m-%d %H:%M}",
            f"{point.cases:,}",
            f"{point.without:,}",
            format_interval(point.mean),
            "–" if point.change is None else format_interval(point.change),
            format_p_value(point.p),
        )
        for record, point in zip(records, line.points, strict=True)
    ]
    headers = ("run", "name", "started", "cases", "without", f"mean {line.name}", "change", "p")
    print_table(numbers_table(headers, rows))
    means = [point.mean.value for point in line.points]
    known = [value for value in means if value is not None]
    span = f"  {format_number(min(known))} to {format_number(max(known))}" if known else ""
    print_text(printable(f"{line.name}  {sparkline(means)}{span}"))
    print_text(_trend_sentence(line))
    print_text("")


def _trend_sentence(line: HistoryLine) -> str:
    from beholder.reports.formatting import format_interval

    if line.slope.value is None:
        return f"trend: not defined; {line.slope.why}."
    if line.slope.excludes_zero:
        sure = f"it goes {'down' if line.slope.value < 0 else 'up'}"
    elif line.slope.value == line.slope.low == line.slope.high == 0:
        sure = "it stays where it is"
    else:
        sure = "no trend that these cases could show"
    return f"trend: {format_interval(line.slope, 4)} a run over the {line.common:,} cases that all runs have; {sure}."
