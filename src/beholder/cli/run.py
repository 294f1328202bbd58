"""The commands that judge a suite: `run`, `collect`, `init` and `plan`.

- `beholder run`: judge a suite, starting or resuming a run
- `beholder collect`: fetch the results of a batch run
- `beholder init`: write a suite to start from
- `beholder plan`: what a run would ask and cost, without a call
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli.options import with_suite
from beholder.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from rich.console import Console

    from beholder.cli.progress import ProgressCounter
    from beholder.ledger.types import RunRecord
    from beholder.runs.batch import BatchPassOptions, BatchRunStatus
    from beholder.runs.execution import SuiteRun
    from beholder.runs.plan import JudgePlan, Plan
    from beholder.runs.suite import Suite
    from beholder.verdicts.verdict import Outcome


@with_suite
def run(
    suite: Suite,
    retry: Annotated[str, typer.Option(help="Final outcomes to try again: refused,filtered.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew and ask even what is answered already.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="By the provider's batch API: half price, in a day.")] = False,
    of: Annotated[str, typer.Option("--run", help="Resume this run, though its files were moved or touched.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: progress, then the summary.")] = False,
) -> None:
    """Judge all cases of a suite. If it was stopped, run the same command again to resume.

    Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 some cases have no score and no --max-unscored was given.
    """
    from beholder.runs.execution import prepare_run

    if of and fresh:
        raise UsageError("--run resumes a run, and --fresh starts one; give one of them.")
    again = _parse_outcomes(retry)
    output = Output(quiet=quiet, as_json=json_)
    with prepare_run(suite, fresh=fresh, run=of, skip_bad=skip_bad, batch=batch) as suite_run:
        if suite_run.checked.problem_count and not json_:
            print(f"beholder: {len(suite_run.checked.bad_positions)} invalid cases are skipped.", file=sys.stderr)
        if not quiet and not json_:
            record = suite_run.record
            begun = "run" if suite_run.is_new else "resuming run"
            print(f"{begun} {record.id} ({record.name}), {record.total} verdicts")
        # Requests that are in a provider's batch are not asked live as well.
        if batch or suite_run.ledger.has_uncollected_batches(suite_run.id):
            from beholder.runs.batch import BatchPassOptions

            raise typer.Exit(execute_batch(suite_run, BatchPassOptions(retry_answered=batch, retry=again), output))
        state, counts = execute_run(suite_run, output, again)
        raise typer.Exit(report_result(suite_run, state, counts, output))


@dataclass(frozen=True, slots=True)
class Output:
    """How a command shows what it does: for people, nothing (`quiet`), or as lines of JSON."""

    quiet: bool = False
    as_json: bool = False

    def make_progress(self, total: int) -> ProgressCounter:
        """Return what counts the verdicts of a run, and shows how many there are."""
        from beholder.cli.progress import JsonProgress, ProgressBar, ProgressCounter

        if self.as_json:
            return JsonProgress(total)
        return ProgressCounter(total) if self.quiet or not sys.stderr.isatty() else ProgressBar(total)


def execute_run(
    suite_run: SuiteRun, output: Output, retry: frozenset[Outcome] = frozenset()
) -> tuple[str, ProgressCounter]:
    """Execute a run and show its progress; return the state it ends in, and its counts."""
    import asyncio

    from beholder.cli.progress import run_interruptible
    from beholder.ledger.types import INTERRUPTED

    counts = output.make_progress(suite_run.record.total)
    gc.freeze()  # what is loaded stays; looking at it again and again costs a quarter of a millisecond a case
    gc.set_threshold(20_000, 20, 20)
    suite_run.apply_name_and_tags()
    try:
        with suite_run.lock():
            if suite_run.ledger.has_uncollected_batches(suite_run.id):
                raise UsageError(
                    f"The run {suite_run.id} was submitted as a batch just now; `beholder collect` fetches it."
                )
            state = asyncio.run(run_interruptible(lambda stop: suite_run.execute(counts, stop, retry)))
    except KeyboardInterrupt:
        state = INTERRUPTED
    finally:
        counts.close()
    return state, counts


def _parse_outcomes(names: str) -> frozenset[Outcome]:
    from beholder.verdicts.verdict import Outcome

    try:
        return frozenset(Outcome(name.strip()) for name in names.split(",") if name.strip())
    except ValueError:
        raise UsageError(f"--retry takes outcomes ({', '.join(Outcome)}), and {names!r} has another word.") from None


def report_result(suite_run: SuiteRun, state: str, counts: ProgressCounter, output: Output) -> int:
    """Print what the run came to, and return the exit code."""
    from beholder.reports.text import printable
    from beholder.runs.execution import RunMeans, choose_exit_code, find_missed_thresholds

    suite, ledger, record = suite_run.suite, suite_run.ledger, suite_run.record
    # What was done before, or by others, is only in the ledger; reading it again costs a third of a millisecond a case.
    in_ledger = counts.done_before or not suite_run.is_new or ledger.shared
    tally = ledger.tally(record.id) if in_ledger else counts.tally
    criteria = {key: mean.exact for one in tally.rubrics.values() for key, mean in one.criteria.items()}
    means = RunMeans(
        total=record.total,
        scored=tally.score.count,
        means={key: value for key, value in {**criteria, "score": tally.score.exact}.items() if value is not None},
    )
    wrong = find_missed_thresholds(means, suite.fail_under, suite.max_unscored)
    code = choose_exit_code(means, suite.fail_under, suite.max_unscored)
    summary: dict[str, Any] = {"event": "summary", "run": record.id, "name": record.name, "state": state}
    summary |= {"exit_code": code, "missed": wrong, **counts.to_dict(), "tally": tally.to_dict()}
    if output.as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False))
    elif not output.quiet:
        from beholder.cli.progress import print_summary

        print_summary(summary, tally)
    if state == "interrupted" and not output.as_json:
        print("interrupted; run the same command again to resume", file=sys.stderr)
    if not output.quiet and not output.as_json:
        for failure in counts.failures:
            print(f"  {printable(failure)[:300]}", file=sys.stderr)
        if more := counts.unscored - len(counts.failures):
            print(f"  … and {more} more without a score", file=sys.stderr)
    for sentence in wrong:
        print(f"beholder: {sentence}", file=sys.stderr)
    return code


FIRST_POLL_S = 15.0
MAX_POLL_S = 600.0


@with_suite
def collect(
    suite: Suite,
    wait: Annotated[bool, typer.Option("--wait", help="Poll until everything is answered.")] = False,
    repair: Annotated[str, typer.Option(help="Ask for repairs in a following batch, or live: batch, live.")] = "batch",
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel what is in progress at the provider.")] = False,
    pause: Annotated[float, typer.Option(help="With --wait: seconds to the second poll; later ones take longer.")] = (
        FIRST_POLL_S
    ),
    of: Annotated[str, typer.Option("--run", help="The run, if cases or images have changed since.")] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: status, then the summary.")] = False,
) -> None:
    """Fetch what is answered of a run that was submitted with `run --batch`, check and score it as always.

    Give the same suite and flags as to `run`. What expired is submitted again; so are repairs of invalid answers.
    Exit codes: 0, also while something is in progress; else as those of `run`.
    """
    import asyncio

    from beholder.runs.batch import BatchPassOptions, cancel_jobs, resume_batch_run

    if repair not in ("batch", "live"):
        raise UsageError(f"--repair takes batch or live, and not {repair!r}.")
    with resume_batch_run(suite, run=of, skip_bad=skip_bad) as suite_run:
        if cancel:
            with suite_run.lock(alone=True):
                count = asyncio.run(cancel_jobs(suite_run, _print_message))
            if json_:
                typer.echo(json.dumps({"event": "cancelled", "run": suite_run.id, "jobs": count}))
            _print_message(f"{count} jobs are cancelled; `beholder collect` fetches what they had answered before.")
            return
        options = BatchPassOptions(repair_live=repair == "live", even_if_nothing_new=False)
        output = Output(quiet=quiet, as_json=json_)
        raise typer.Exit(execute_batch(suite_run, options, output, pause_s=pause if wait else None))


def execute_batch(
    suite_run: SuiteRun, options: BatchPassOptions, output: Output, *, pause_s: float | None = None
) -> int:
    """Make one pass over a batch run; with `pause_s`, repeat it after that many seconds until nothing is pending.

    Returns:
        The exit code.
    """
    import asyncio

    from beholder.cli.progress import run_interruptible
    from beholder.ledger.types import WAITING

    suite_run.apply_name_and_tags()
    with suite_run.lock(alone=True):
        status, counts = asyncio.run(
            run_interruptible(lambda stop: _collect_until_done(suite_run, options, output, stop, pause_s))
        )
    return 0 if status.state == WAITING else report_result(suite_run, status.state, counts, output)


async def _collect_until_done(
    suite_run: SuiteRun, options: BatchPassOptions, output: Output, stop: asyncio.Event, first_pause_s: float | None
) -> tuple[BatchRunStatus, ProgressCounter]:
    from beholder.ledger.types import WAITING
    from beholder.runs.batch import BatchPass
    from beholder.runs.concurrency import wait_or_stop

    before: ProgressCounter | None = None
    pause_s = first_pause_s
    while True:
        counts = output.make_progress(suite_run.record.total)
        if before is not None:
            counts.spent, counts.unpriced, counts.reused = before.spent, before.unpriced, before.reused
        try:
            status = await BatchPass(suite_run, options, counts, stop, _print_message).run()
        finally:
            counts.close()
        if status.state == WAITING and not output.quiet:
            _print_batch_status(suite_run.record, status, counts, as_json=output.as_json)
        if first_pause_s is None or pause_s is None or status.state != WAITING or stop.is_set():
            return status, counts
        pause_s = first_pause_s if status.fetched else min(2 * pause_s, MAX_POLL_S)
        await wait_or_stop(stop, pause_s)
        before = counts


def _print_batch_status(record: RunRecord, standing: BatchRunStatus, counts: ProgressCounter, *, as_json: bool) -> None:
    if as_json:
        said = {"event": "batch", "run": record.id, **counts.to_dict(), **asdict(standing)}
        typer.echo(json.dumps(said))
        return
    jobs = "1 job" if standing.jobs == 1 else f"{standing.jobs} jobs"
    new = f"{standing.fetched} fetched, {standing.handed_in} submitted; "
    typer.echo(f"{new}{standing.requests} requests are in progress in {jobs}, {standing.answered} of them answered")
    typer.echo("see: beholder collect with the same suite; most jobs end within hours, all within a day or so")


def _print_message(sentence: str) -> None:
    from beholder.reports.text import printable

    print(f"beholder: {printable(sentence)}", file=sys.stderr)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("suite.yaml"),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a suite; write nothing.")] = False,
) -> None:
    """Write a commented suite to start from."""
    if schema:
        from beholder.runs.suite_file import suite_schema

        typer.echo(json.dumps(suite_schema(), indent=2, ensure_ascii=False))
        return
    start = files("beholder.runs").joinpath("start_suite.yaml").read_text("utf-8")
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(start.replace("THIS-FILE", str(file)))
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists already; name another file, or remove it first.") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror or error}.") from None
    typer.echo(f"Wrote {file}. Say there what is judged and by whom, then: beholder plan {file}")


@with_suite
def plan(
    suite: Suite,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    brief: Annotated[bool, typer.Option("--brief/--no-brief", help="Show the brief of one case.")] = True,
    exact: Annotated[bool, typer.Option("--exact", help="Make every brief, however many cases there are.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a run would ask and cost: cases, calls, tokens, money, and the brief of one case. Asks nobody.

    If more than 2,000 cases are pending, totals are extrapolated from a random sample of 2,000, with a margin of error;
    --exact goes through all of them.
    """
    import asyncio

    from beholder.cli.output import brief_to_dict, print_brief, show_spinner
    from beholder.runs.execution import check_suite_cases, open_existing_ledger
    from beholder.runs.plan import SAMPLE_SIZE
    from beholder.runs.plan import plan_run as planned

    ledger = open_existing_ledger(suite, read_only=True)  # planning creates none
    try:
        checked = check_suite_cases(suite, ledger, skip_bad=skip_bad)
        with show_spinner("making briefs"):
            result = asyncio.run(planned(suite, checked, ledger, sample_size=None if exact else SAMPLE_SIZE))
    finally:
        if ledger:
            ledger.close()
    if json_:
        shown = _plan_to_dict(result)
        shown["left_out"] = len(checked.bad_positions)
        shown["brief"] = brief_to_dict(result.example) if brief and result.example else None
        typer.echo(json.dumps(shown, ensure_ascii=False, default=str))
        return
    _print_plan(result, suite, len(checked.bad_positions))
    if brief and result.example:
        typer.echo("")
        print_brief(result.example)


def _plan_to_dict(result: Plan) -> dict[str, Any]:
    from beholder.runs.plan import sum_estimated_costs

    money = sum_estimated_costs(result.judges)
    judges = [
        {**asdict(one), **{name: _to_float(getattr(one, name)) for name in _MONEY_FIELDS}} for one in result.judges
    ]
    return {
        "cases": result.cases,
        "verdicts": result.verdicts,
        "done": result.done,
        "unreadable": result.unreadable,
        "run": result.run,
        "sampled": {"cases": result.made, "of": result.pending} if result.made < result.pending else None,
        "calls": sum(one.calls for one in result.judges),
        "answered": sum(one.answered for one in result.judges),
        "money_low": _to_float(money[0]) if money else None,
        "money_high": _to_float(money[1]) if money else None,
        "judges": judges,
    }


_MONEY_FIELDS = ("money_low", "money_high", "batch_low", "batch_high")


def _to_float(amount: object) -> float | None:
    return None if amount is None else float(str(amount))


def _print_plan(result: Plan, suite: Suite, left_out: int) -> None:
    from rich.console import Console

    from beholder.runs.plan import sum_estimated_costs

    console = Console(highlight=False, emoji=False)
    rubrics = ", ".join(one.name for one in suite.rubrics())
    bad = f" ({left_out} invalid ones skipped)" if left_out else ""
    console.print(f"{result.cases} cases{bad}, {result.verdicts} verdicts by {rubrics}")
    if result.run:
        console.print(f"would resume run {result.run}: {result.done} are done", markup=False)
    if not result.judges:
        console.print("no judge is named")
        return
    print_judge_plans(console, result.judges)
    if result.made < result.pending:
        margin = 100 * max(one.margin for one in result.judges)
        console.print(
            f"Extrapolated from {result.made:,} of {result.pending:,} cases, drawn at random: what the calls come to "
            f"is within {margin:.2g} % of this, 95 times in 100. --exact makes every brief."
        )
    money_all = sum_estimated_costs(result.judges)
    if money_all is None:
        console.print("A model without a known price needs `price:` in the suite before a budget is accepted.")
    elif suite.budget is not None and money_all[1] > suite.budget:
        console.print(
            f"The budget of ${suite.budget:g} may stop it: it could cost ${money_all[1]:.4f}.", style="yellow"
        )


def print_judge_plans(console: Console, judges: Sequence[JudgePlan]) -> None:
    """Calls, tokens and money, a line for each judge."""
    from rich.table import Table

    from beholder.runs.plan import NOTHING_SENT

    table = Table("judge", "calls", "in the ledger", "text tokens", "image tokens", "answer tokens", "USD", box=None)
    for one in judges:
        money = "unknown" if one.money_low is None else f"{one.money_low:.4f} – {one.money_high:.4f}"
        table.add_row(
            one.judge,
            f"{one.calls:,}",
            f"{one.answered:,}",
            f"~{one.text_tokens:,}",
            f"{one.image_tokens:,}",
            f"{one.output_low:,} – {one.output_high:,}",
            money,
        )
    console.print(table)
    for one in judges:
        rule = one.rule if one.rule == NOTHING_SENT else f"images by {one.rule}; text is an estimate"
        if one.rule:
            console.print(f"  {one.judge}: {rule}", style="dim", markup=False)
        if one.calls and one.batch_high is not None:
            console.print(f"  {one.judge}: USD {one.batch_low:.4f} – {one.batch_high:.4f} with --batch", markup=False)
