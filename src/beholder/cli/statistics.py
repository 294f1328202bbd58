"""`beholder agree`, `compare`, `history` and `estimate`: how far a judge agrees, what changed, what people say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    RUN_HELP,
    AspectOption,
    CasesFile,
    DrawsOption,
    ForceOption,
    GroupOption,
    JsonOption,
    JudgeScaleOption,
    LedgerOption,
    MapOption,
    OptionalRun,
    PeopleScaleOption,
    RatingsOrReviews,
    ScoresFiles,
    SeedOption,
    complete_run_names,
    complete_runs,
)
from beholder.errors import BeholderError, UsageError
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from beholder.ledger.types import RunRecord
    from beholder.statistics.agreement import JudgeAgreement
    from beholder.statistics.bootstrap import Interval
    from beholder.statistics.comparison import Comparison
    from beholder.statistics.estimation import AspectEstimate
    from beholder.statistics.gate import Gate
    from beholder.statistics.history import HistoryLine, RunUsage


def agree(
    run: OptionalRun = None,
    ratings: RatingsOrReviews = None,
    scores: ScoresFiles = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with", help="Another run, or a file of scores: that judge in place of people.", show_default=False
        ),
    ] = None,
    cases: CasesFile = None,
    group: GroupOption = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only cases of a group: task=text.", show_default=False)
    ] = None,
    map_: MapOption = None,
    against: Annotated[str, typer.Option(help="The mean rating of a case, or each rating: mean or each.")] = "mean",
    scale: Annotated[
        list[str] | None, typer.Option(help="The judge's scale: 0..10, or SC=0..10.", show_default=False)
    ] = None,
    rating_scale: Annotated[
        list[str] | None, typer.Option(help="The people's scale: 0..1, or SC=0..1.", show_default=False)
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="Other metrics to set beside: CSV with case, judge, aspect, score.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every coefficient with its interval, and every rater.")] = False,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Say how far a judge agrees with people, beside how far people agree with each other and what a constant does."""
    from beholder.api.statistics import agree as agree_
    from beholder.statistics.data import parse_choice
    from beholder.statistics.raters import ReferenceMode

    agreement = agree_(
        run,
        ratings=ratings,
        with_=with_,
        scores=scores or (),
        cases=cases,
        group=group,
        only=only or (),
        map_=map_ or (),
        against=parse_choice(ReferenceMode, against, "--against"),
        scale=scale or (),
        rating_scale=rating_scale or (),
        baseline=baseline or (),
        assertions=full,
        seed=seed,
        draws=draws,
        ledger=address,
    )
    if json_:
        print_text(json.dumps(agreement.to_dict()))
        return
    for at, judge in enumerate(agreement.judges):
        if at:
            print_text("")
        _print_agreement(judge, full=full)


def _print_agreement(agreement: JudgeAgreement, *, full: bool) -> None:
    from rich.console import Console

    from beholder.cases.case import format_case_count
    from beholder.reports.agreement import agreement_conclusions, agreement_tables
    from beholder.reports.text import numbers_table, print_table

    console = Console(highlight=False, emoji=False)
    cases = format_case_count(agreement.cases)
    print_text(printable(f"{agreement.judge} against {agreement.reference}, {cases}"))
    for title, headers, rows in agreement_tables(agreement, full=full):
        print_text(f"\n{title}")
        print_table(numbers_table(headers, rows))
    for sentences in (agreement_conclusions(agreement), (*agreement.notes, agreement.intervals)):
        print_text("")
        for sentence in sentences:
            console.print(printable(sentence), markup=False)


BeforeRun = Annotated[
    str | None,
    typer.Argument(metavar="RUN_A", help=f"The old run: {RUN_HELP}", show_default=False, autocompletion=complete_runs),
]
AfterRun = Annotated[
    str | None,
    typer.Argument(metavar="RUN_B", help=f"The new run: {RUN_HELP}", show_default=False, autocompletion=complete_runs),
]


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
    force: ForceOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Compare two runs case by case, the old one first: what changed, how sure that is, what they can detect.

    A regression: the 95 % interval of the difference lies wholly below the margin, and the permutation test agrees.
    Exit codes: 0; 1 the gate failed; 2 wrong use, such as a gate on one run and itself; 3 without a gate, no case has
    a score in both runs; 4 the gate could not be decided.
    """
    from beholder.api.files import OutputKind, check_output, write_text
    from beholder.api.statistics import compare as compare_
    from beholder.reports.ci import comparison_junit, comparison_markdown
    from beholder.reports.comparison import title_criteria
    from beholder.statistics.data import parse_choice
    from beholder.statistics.gate import ON_SCORE, FailOn

    for file in (markdown, junit):
        if file is not None and str(file) != "-":
            check_output(file, OutputKind.REPORT, force=force)
    with _explain_refusal(markdown, junit):
        wanted = parse_choice(FailOn, fail_on, "--fail-on") if fail_on else None
        comparison = compare_(
            run_a,
            run_b,
            scores=scores or (),
            cases=cases,
            group=group,
            margin=_parse_margins(margin or ()),
            detect=detect,
            top=top,
            seed=seed,
            draws=draws,
            ledger=address,
        )
        gate = comparison.gate(wanted, on or ON_SCORE) if wanted else None
        tested = gate if gate is not None or junit is None else comparison.gate(on=on or ON_SCORE)
    if comparison.same_run:
        print_text(f"beholder: {run_a!r} and {run_b!r} are the same run.", error=True)
    if str(markdown) == "-":
        print_text(comparison_markdown(comparison, gate).rstrip("\n"))
    elif markdown is not None:
        write_text(markdown, comparison_markdown(comparison, gate))
    if junit is not None and tested is not None:
        write_text(junit, comparison_junit(comparison, tested))
    if json_:
        print_text(json.dumps(comparison.to_dict() | ({} if gate is None else {"gate": gate.to_dict()})))
    elif str(markdown) != "-":
        _print_comparison(title_criteria(comparison), gate)
    _exit_by_gate(comparison, gate)


@contextmanager
def _explain_refusal(markdown: Path | None, junit: Path | None) -> Iterator[None]:
    """Replace an older decision in these files by why there is none now: a program may read nothing but the file."""
    from beholder.api.files import write_text
    from beholder.reports.ci import refused_comparison_junit, refused_comparison_markdown

    try:
        yield
    except BaseException as error:
        reason = str(error) if isinstance(error, BeholderError) else f"The command was stopped: {type(error).__name__}."
        for file, render in ((junit, refused_comparison_junit), (markdown, refused_comparison_markdown)):
            if file is not None and file.is_file():
                write_text(file, render(reason))
        raise


def _exit_by_gate(comparison: Comparison, gate: Gate | None) -> None:
    """Exit with the code of the gate; called last, when tables and files are written."""
    from beholder.cli import EXIT_THRESHOLD, EXIT_UNDECIDED, EXIT_UNSCORED

    if gate is not None and gate.status == "failed":
        raise typer.Exit(EXIT_THRESHOLD)
    if gate is not None and gate.status == "undecided":
        for sentence in dict.fromkeys(gate.undecided.values()):
            print_text(f"beholder: {printable(sentence)}", error=True)
        raise typer.Exit(EXIT_UNDECIDED)
    if comparison.is_empty:
        raise typer.Exit(EXIT_UNSCORED)


def _parse_margins(given: Sequence[str]) -> dict[str, float]:
    """Return margins by name of the column, that for all others under an empty name."""
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
    return margins


def _print_comparison(comparison: Comparison, gate: Gate | None) -> None:
    from beholder.cases.case import format_case_count
    from beholder.reports.comparison import (
        COMPARISON_HEADERS,
        COMPARISON_LEGEND,
        cases_needed,
        comparison_notes,
        comparison_rows,
        conclusion,
    )
    from beholder.reports.text import numbers_table, print_table
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
    if gate is not None:
        _print_gate(gate)


def _print_gate(gate: Gate) -> None:
    for name, sentence in gate.doubted.items():
        if name not in gate.failed and name not in gate.undecided:
            print_text(printable(sentence))
    if gate.unweighed:
        print_text(printable(gate.unweighed))
    for sentence in (*gate.failed.values(), *(gate.undecided.values() if gate.failed else ())):
        print_text(f"beholder: {printable(sentence)}", error=True)


SPARKS = "▁▂▃▄▅▆▇█"


def history(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The name of the runs; else that of the latest.",
            show_default=False,
            autocompletion=complete_run_names,
        ),
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
    from beholder.api.statistics import history as history_

    found = history_(suite, tag=tag, on=on or (), last=last, group=group, seed=seed, draws=draws, ledger=address)
    if json_:
        print_text(json.dumps(found.to_dict()))
        return
    for line in found.lines:
        _print_history(line, found.runs)
    _print_usage(found.runs, found.usage)
    for sentence in dict.fromkeys(found.warnings):
        print_text(printable(f"Not like with like: {sentence}"))
    print_text(
        f"{found.interval_note} A change is to the run before, over the cases of both; p is the chance of one as "
        "large if nothing had changed."
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


def _print_history(line: HistoryLine, records: Sequence[RunRecord]) -> None:
    from beholder.reports.comparison import format_p_value
    from beholder.reports.text import format_interval, format_number, numbers_table, print_table

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
    print_text(trend_sentence(line))
    print_text("")


def _print_usage(records: Sequence[RunRecord], usage: Sequence[RunUsage]) -> None:
    """Print what each run took, and how many of its verdicts have a score."""
    from beholder.reports.text import format_interval, format_number, numbers_table, print_table

    rows = [
        (
            record.id,
            f"{taken.scored:,} of {taken.verdicts:,}",
            _format_share(taken.unscored),
            "–" if taken.cost_usd.value is None else f"${format_interval(taken.cost_usd, 4)}",
            "–" if taken.latency_s.value is None else f"{format_interval(taken.latency_s, 1)} s",
            "–" if taken.slow_s is None else f"{format_number(taken.slow_s, 1)} s",
        )
        for record, taken in zip(records, usage, strict=True)
    ]
    headers = ("run", "scored", "without a score", "cost of a verdict", "its latency", "95 of 100 within")
    print_table(numbers_table(headers, rows))
    print_text("")


def _format_share(share: Interval) -> str:
    """Return a share with its interval in percent."""
    if share.value is None:
        return "–"
    ends = "" if share.low is None or share.high is None else f" ({100 * share.low:.1f} to {100 * share.high:.1f})"
    return f"{100 * share.value:.1f}{ends} %"


def trend_sentence(line: HistoryLine) -> str:
    """Return the trend of a column, and where none is shown, which one would have been found with what power."""
    from beholder.reports.text import format_interval
    from beholder.statistics.significance import TARGET_POWER

    if line.slope.value is None:
        return f"trend: not defined; {line.slope.why}."
    if line.slope.excludes_zero:
        sure = f"it goes {'down' if line.slope.value < 0 else 'up'}"
    elif line.slope.value == line.slope.low == line.slope.high == 0:
        sure = "it stays where it is"
    else:
        sure = "no trend that these cases could show"
        if line.detectable is not None:
            found = f"{TARGET_POWER:.0%} of such histories"
            sure += f": one of {line.detectable:.2g} a run would have been found in only {found}"
    return f"trend: {format_interval(line.slope, 4)} a run over the {line.common:,} cases that all runs have; {sure}."


def estimate(
    run: OptionalRun = None,
    *,
    ratings: RatingsOrReviews = None,
    aspect: AspectOption = None,
    scores: ScoresFiles = None,
    cases: CasesFile = None,
    map_: MapOption = None,
    group: GroupOption = None,
    passes: Annotated[
        float | None,
        typer.Option("--pass", help="Estimate a pass rate: the human score from which a case passes."),
    ] = None,
    judge_passes: Annotated[
        float | None,
        typer.Option("--judge-pass", help="The judge's score from which a case passes; else at the same place."),
    ] = None,
    scale: JudgeScaleOption = None,
    rating_scale: PeopleScaleOption = None,
    width: Annotated[
        float | None, typer.Option(min=0, help="Also say how many ratings give an interval of this width.")
    ] = None,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Estimate what people would say of all cases, from the judge on all and people on a few drawn at random."""
    from beholder.api.calibration import estimate as estimate_

    found = estimate_(
        run,
        ratings=ratings,
        aspect=aspect or (),
        scores=scores or (),
        cases=cases,
        map_=map_ or (),
        group=group,
        pass_=passes,
        judge_pass=judge_passes,
        scale=scale or (),
        rating_scale=rating_scale or (),
        width=width,
        ledger=address,
    )
    if json_:
        print_text(json.dumps(found.to_dict()))
        return
    for at, aspect_estimate in enumerate(found.aspects):
        if at:
            print_text("")
        _print_estimate(aspect_estimate, passes)
    for note in found.notes:
        print_text(printable(note))


def _print_estimate(aspect_estimate: AspectEstimate, passes: float | None) -> None:
    from beholder.cases.case import format_case_count
    from beholder.reports.text import format_interval, format_number, numbers_table, print_table
    from beholder.statistics.sentences import describe_ratings_needed

    estimated = aspect_estimate.estimated
    what = "mean human score" if passes is None else f"share that people pass ({passes:g} or more)"
    of = f"{what} of {format_case_count(estimated.cases)}"
    print_text(printable(f"{aspect_estimate.aspect}: {of}; {aspect_estimate.judge}, {aspect_estimate.column}"))
    estimates = {
        "people and judge": estimated.combined,
        f"people alone ({format_case_count(estimated.rated)})": estimated.people,
        f"judge alone ({format_case_count(estimated.judged)})": estimated.judge,
    }
    if estimated.correction is not None:
        estimates["judge, corrected by how it errs"] = estimated.correction.rate
    over = "the rated cases only" if estimated.bias_rated_only else f"over {format_case_count(estimated.bias_cases)}"
    estimates[f"judge less people ({over})" if estimated.bias_cases else "judge less people"] = estimated.bias
    rows = [(label, format_interval(interval), _format_width(interval)) for label, interval in estimates.items()]
    print_text("")
    print_table(numbers_table(("", "estimate (interval)", "width"), rows))
    print_text("")
    for sentence in aspect_estimate.sentences():
        print_text(printable(sentence))
    if estimated.widths:
        print_text("")
        buys = [
            (
                f"{row.ratings:,}" + (" (now)" if row.ratings == estimated.rated else ""),
                format_number(row.with_judge),
                format_number(row.people),
            )
            for row in estimated.widths
        ]
        print_table(numbers_table(("rated cases", "width with judge", "people alone"), buys))
    if estimated.needed is not None:
        print_text(describe_ratings_needed(estimated.needed, estimated.cases, known=bool(estimated.widths)))


def _format_width(estimate: Interval) -> str:
    from beholder.reports.text import format_number

    return format_number(None if estimate.low is None or estimate.high is None else estimate.high - estimate.low)
