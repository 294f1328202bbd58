"""`beholder compare`: did the new build get worse?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.files import write
from beholder.cli.runs import AsJson, LedgerAt
from beholder.cli.statistics_options import DRAWS, SEED, CasesAt, DrawCount, GroupBy, ScoresAt, Seed
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from beholder.statistics.comparison.comparing import Comparison, Graded
    from beholder.statistics.comparison.gating import FailOn, Gate
    from beholder.statistics.data import Scores

NAMED = "a run's id, the start of it, its name, or `latest`."
Old = Annotated[str | None, typer.Argument(metavar="RUN_A", help=f"The old run: {NAMED}", show_default=False)]
New = Annotated[str | None, typer.Argument(metavar="RUN_B", help=f"The new run: {NAMED}", show_default=False)]


def compare(
    run_a: Old = None,
    run_b: New = None,
    scores: ScoresAt = None,
    cases: CasesAt = None,
    group: GroupBy = None,
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
    seed: Seed = SEED,
    draws: DrawCount = DRAWS,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Compare two runs case by case, the old one first: what changed, how sure that is, what would go unnoticed.

    A regression: the 95 % interval of the difference lies wholly below the margin, and the permutation test agrees.
    Exit codes: 0; 1 the gate failed; 2 wrong use, or nothing to decide by; 3 no case has a score in both runs.
    """
    from beholder.statistics.comparison.comparing import Asked
    from beholder.statistics.comparison.comparing import compare as compared
    from beholder.statistics.comparison.gating import SCORE, FailOn, gate

    wanted = _fail_on(fail_on)
    plain, named = _margins(margin or ())
    asked = Asked(group, plain, named, detect, top, draws, seed)
    read = _read(run_a, run_b, scores, cases, ledger)
    comparison = compared(read.before, read.after, asked, graded=read.graded, warnings=read.warnings)
    decided = gate(comparison, on or (SCORE,), wanted or FailOn.REGRESSION) if wanted or junit else None
    _write(comparison, decided if wanted else None, markdown)
    if junit is not None and decided is not None:
        from beholder.reports.junit import comparison_junit

        write(junit, comparison_junit(comparison, decided))
    if json_:
        found = comparison.to_dict()
        say(json.dumps(found | ({"gate": decided.to_dict()} if decided and wanted else {})))
    elif markdown is None or str(markdown) != "-":
        _show(_titled(comparison, read.rubrics), decided if wanted else None)
    _end(comparison, decided if wanted else None)


def _end(comparison: Comparison, decided: Gate | None) -> None:
    """Last of all, so that whoever has to find out why finds the tables and files written."""
    from beholder.cli import MISSED, UNSCORED

    if decided is not None and decided.failed:
        raise typer.Exit(MISSED)
    if decided is not None and decided.undecided:
        raise UsageError(next(iter(decided.undecided.values())))
    if comparison.empty:
        raise typer.Exit(UNSCORED)


def _fail_on(text: str) -> FailOn | None:
    from beholder.statistics.comparison.gating import FailOn

    try:
        return FailOn(text) if text else None
    except ValueError:
        raise UsageError(f"--fail-on is one of {', '.join(FailOn)}, not {text!r}.") from None


def _margins(given: Sequence[str]) -> tuple[float, dict[str, float]]:
    """The margin for all, and those by name."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(f"--margin takes a number, or NAME=NUMBER, and {text!r} is neither.") from None
        if name in found:
            of = f"of {name!r}" if name else "for all"
            raise UsageError(f"The margin {of} is given twice, as {found[name]:g} and as {value:g}; give it once.")
        found[name] = value
    return found.pop("", 0.0), found


@dataclass(frozen=True, slots=True)
class _Read:
    """What is compared, and of runs also their grades, in what they are unlike, and the rubrics of both."""

    before: Scores
    after: Scores
    graded: Sequence[Graded] = ()
    warnings: Sequence[str] = ()
    rubrics: Sequence[Mapping[str, object]] = ()


def _read(
    run_a: str | None, run_b: str | None, files: Sequence[Path] | None, cases: Path | None, ledger: str | None
) -> _Read:
    from beholder.cli.statistics_options import gathered
    from beholder.ledger import Ledger
    from beholder.statistics.comparison.pedigree import differences, graded, read_run
    from beholder.statistics.reading import read_groups, with_groups

    if files:
        found = gathered(run_a, files, cases)
        if len(found) != 2:
            names = ", ".join(one.name for one in found)
            raise UsageError(f"Two are compared, and the files hold the scores of {len(found)}: {names}.")
        return _Read(found[0], found[1])
    if run_a is None or run_b is None:
        raise UsageError("Name two runs, the old one first (`beholder runs` lists them), or two files with --scores.")
    with Ledger.open(ledger, read_only=True) as book:
        before, after = read_run(book, run_a), read_run(book, run_b)
    if before.record.id == after.record.id:
        say(f"beholder: {run_a!r} and {run_b!r} are the same run.", error=True)
    old, new = before.scores, after.scores
    if cases is not None:
        groups = read_groups(cases)
        old, new = with_groups(old, groups), with_groups(new, groups)
    rubrics = (*before.record.rubrics, *after.record.rubrics)
    return _Read(old, new, graded(before, after), differences(before, after), rubrics)


def _titled(comparison: Comparison, rubrics: Sequence[Mapping[str, object]]) -> Comparison:
    """With criteria as their rubrics call them; what comes from files has the names that it has there."""
    from beholder.reports.changes import labelled
    from beholder.reports.html.texts import column_title, titles_of
    from beholder.statistics.data import Kind

    titles = titles_of(rubrics)
    criteria = {*titles, *(one.name for one in comparison.of(Kind.CRITERION))} if rubrics else set()
    return labelled(comparison, lambda name: column_title(name, titles) if name in criteria else name)


def _write(comparison: Comparison, decided: Gate | None, markdown: Path | None) -> None:
    if markdown is None:
        return
    from beholder.reports.markdown import comparison_markdown

    text = comparison_markdown(comparison, decided)
    if str(markdown) == "-":
        say(text.rstrip("\n"))
    else:
        write(markdown, text)


def _show(comparison: Comparison, decided: Gate | None) -> None:
    from beholder.reports.changes import HEADERS, TOLD, needed, notes, rows, verdict
    from beholder.reports.numbers import numbers_table, show_table
    from beholder.statistics.comparison.comparing import GRADE
    from beholder.statistics.data import Kind

    cases = "1 case" if comparison.cases == 1 else f"{comparison.cases:,} cases"
    many = "1 group" if comparison.groups == 1 else f"{comparison.groups:,} groups"
    groups = f" of {many} by {comparison.group}" if comparison.group else ""
    say(printable(f"{comparison.before} → {comparison.after}, {cases} in both{groups}"))
    show_table(numbers_table(HEADERS, rows(comparison.of(Kind.OVERALL, Kind.PASSED, GRADE, Kind.CRITERION))))
    moving = [one for one in comparison.of(Kind.ASSERTION) if one.better or one.worse]
    if moving:
        say("")
        show_table(numbers_table(("assertion", *HEADERS[1:]), rows(moving)))
    for one in comparison.of(GRADE):
        counts = ", ".join(f"{name} {old:,} → {new:,}" for name, (old, new) in one.grades.items() if old or new)
        say(printable(f"{one.name}: {counts}; {one.better:,} up, {one.worse:,} down"))
    if comparison.moved:
        say("\ncases that changed most")
        for moved in comparison.moved:
            changes = ", ".join(f"{name} {old:.4g} → {new:.4g}" for name, (old, new) in moved.changes.items())
            say(printable(f"  {moved.by:+.3f}  {moved.case}: {changes}")[:300])
    say("")
    for sentence in (*notes(comparison), *needed(comparison)):
        say(printable(sentence))
    say(f"{comparison.told} {TOLD}")
    say("")
    say(printable(verdict(comparison)))
    if decided is not None:
        for name, sentence in decided.doubted.items():
            if name not in decided.failed and name not in decided.undecided:
                say(printable(sentence))
        if decided.unweighed:
            say(printable(decided.unweighed))
        for sentence in (*decided.failed.values(), *(decided.undecided.values() if decided.failed else ())):
            say(f"beholder: {printable(sentence)}", error=True)
