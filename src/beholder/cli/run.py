"""The commands that judge a suite: `run`, `collect`, `init` and `plan`.

- `beholder run`: judge a suite, starting or resuming a run
- `beholder collect`: fetch the results of a batch run
- `beholder init`: write a suite to start from
- `beholder plan`: what a run would ask and cost, without a call
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import OtelOption, complete_runs, configure_telemetry, with_suite
from beholder.runs import FIRST_POLL_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from beholder.runs.execution import SuiteRun
    from beholder.runs.plan import JudgePlan, Plan
    from beholder.runs.suite import Suite


@with_suite
def run(
    suite: Suite,
    retry: Annotated[str, typer.Option(help="Final outcomes to try again: refused,filtered,unmeasured.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew and ask even what is answered already.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="By the provider's batch API: half price, in a day.")] = False,
    of: Annotated[
        str,
        typer.Option(
            "--run", help="Resume this run, though its files were moved or touched.", autocompletion=complete_runs
        ),
    ] = "",
    otel: OtelOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: progress, then the summary.")] = False,
) -> None:
    """Judge all cases of a suite. If it was stopped, run the same command again to resume.

    Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 some cases have no score and no --max-unscored was given;
    4 there are thresholds, and the run waits for its batch; 130 interrupted (Ctrl-C, SIGTERM) before it was finished.
    """
    from beholder.api.execute import run as run_suite
    from beholder.cli.output import RunOutput

    configure_telemetry(otel)

    def announce(suite_run: SuiteRun) -> None:
        if suite_run.checked.problem_count and not json_:
            print(f"beholder: {len(suite_run.checked.bad_positions)} invalid cases are skipped.", file=sys.stderr)
        if not quiet and not json_:
            record = suite_run.record
            begun = "run" if suite_run.is_new else "resuming run"
            print(f"{begun} {record.id} ({record.name}), {record.total} verdicts")

    output = RunOutput(quiet=quiet, as_json=json_, announce=announce)
    result = run_suite(suite, fresh=fresh, resume=of, retry=retry, skip_bad=skip_bad, batch=batch, progress=output)
    raise typer.Exit(output.report(result))


@with_suite
def collect(
    suite: Suite,
    wait: Annotated[bool, typer.Option("--wait", help="Poll until everything is answered.")] = False,
    repair: Annotated[str, typer.Option(help="Ask for repairs in a following batch, or live: batch, live.")] = "batch",
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel what is in progress at the provider.")] = False,
    pause: Annotated[float, typer.Option(help="With --wait: seconds to the second poll; later ones take longer.")] = (
        FIRST_POLL_S
    ),
    of: Annotated[
        str, typer.Option("--run", help="The run, if cases or images have changed since.", autocompletion=complete_runs)
    ] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: status, then the summary.")] = False,
) -> None:
    """Fetch what is answered of a run that was submitted with `run --batch`, check and score it as always.

    Give the same suite and flags as to `run`. What expired is submitted again; so are repairs of invalid answers.
    Exit codes: while something is in progress 4 if there are thresholds, else 0; then those of `run`.
    """
    from beholder.api.execute import collect as collect_suite
    from beholder.cli.output import RunOutput

    output = RunOutput(quiet=quiet, as_json=json_)
    result = collect_suite(
        suite,
        resume=of,
        wait=wait,
        pause_s=pause,
        repair=repair,
        cancel=cancel,
        skip_bad=skip_bad,
        progress=output,
    )
    if not cancel:
        raise typer.Exit(output.report(result))


def init(
    file: Annotated[Path | None, typer.Argument(help="The file to write; else suite.yaml.", show_default=False)] = None,
    promptfoo: Annotated[
        bool, typer.Option("--promptfoo", help="Write promptfooconfig.yaml and the assertion that it names instead.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a suite; write nothing.")] = False,
) -> None:
    """Write a commented suite to start from."""
    if schema:
        from beholder.runs.suite_file import suite_schema

        typer.echo(json.dumps(suite_schema(), indent=2, ensure_ascii=False))
        return
    from beholder.api.rubrics import init as write_suite

    file = write_suite(file, promptfoo=promptfoo)
    if promptfoo:
        typer.echo(f"Wrote {file} and {file.parent / 'beholder_assert.py'}. Say what is tested, then: promptfoo eval")
        return
    typer.echo(f"Wrote {file}. Say there what is judged and by whom, then: beholder plan {file}")


@with_suite
def plan(
    suite: Suite,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases.")] = False,
    brief: Annotated[
        bool | None, typer.Option("--brief/--no-brief", help="Show the brief of one case; --json has it anyway.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Make every brief, however many cases there are.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a run would ask and cost: cases, calls, tokens, money; with --brief also what the judge is told of one
    case. Asks nobody.

    If more than 2,000 cases are pending, totals are extrapolated from a random sample of 2,000, with a margin of error;
    --exact goes through all of them.
    """
    from beholder.api.execute import plan as make_plan
    from beholder.cli.output import print_brief, show_spinner

    with show_spinner("making briefs"):
        result = make_plan(suite, skip_bad=skip_bad, exact=exact)
    if json_:
        shown = {**result.to_dict(), **({"brief": None} if brief is False else {})}
        typer.echo(json.dumps(shown, ensure_ascii=False, default=str))
        return
    print_plan(result, suite)
    if brief is None and result.example:
        typer.echo("--brief shows what a judge is told about a case.")
    if brief and result.example:
        typer.echo("")
        print_brief(result.example)


def print_plan(result: Plan, suite: Suite, things: str = "cases") -> None:
    """Print what a run would ask and cost; `things` are what its cases are called."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    rubrics = ", ".join(one.name for one in suite.rubrics())
    bad = f" ({result.left_out} invalid ones skipped)" if result.left_out else ""
    console.print(f"{result.cases} {things}{bad}, {result.verdicts} verdicts by {rubrics}")
    if result.run:
        console.print(f"would resume run {result.run}: {result.done} are done", markup=False)
    if not result.judges:
        console.print("no judge is named")
        return
    print_judge_plans(console, result.judges)
    if result.made < result.pending:
        margin = 100 * max(one.margin for one in result.judges)
        console.print(
            f"Extrapolated from {result.made:,} of {result.pending:,} {things}, drawn at random: what the calls come "
            f"to is within {margin:.2g} % of this, 95 times in 100. --exact makes every brief."
        )
    if result.money is None:
        has_list = importlib.util.find_spec("genai_prices") is not None
        install = "" if has_list else ", or the price list (pip install 'beholder[prices]'),"
        lacking = f"A model without a known price needs `price:` in the suite{install} before a budget is accepted."
        console.print(lacking, markup=False)
    elif suite.budget is not None and result.money[1] > suite.budget:
        console.print(
            f"The budget of ${suite.budget:g} may stop it: it could cost ${result.money[1]:.4f}.", style="yellow"
        )


def print_judge_plans(console: Console, judges: Sequence[JudgePlan]) -> None:
    """Calls, tokens and money, a line for each judge."""
    from rich.table import Table

    from beholder.reports.text import print_table
    from beholder.runs.plan import NOTHING_SENT

    columns = ("judge", "calls", "in the ledger", "text tokens", "image tokens", "answer tokens", "expected USD", "USD")
    table = Table(*columns, box=None)
    for one in judges:
        money = "unknown" if one.money_low is None else f"{one.money_low:.4f} – {one.money_high:.4f}"
        table.add_row(
            one.name,
            f"{one.calls:,}",
            f"{one.answered:,}",
            f"~{one.text_tokens:,}",
            f"{one.image_tokens:,}",
            f"{one.output_low:,} – {one.output_high:,}",
            "unknown" if one.money_expected is None else f"{one.money_expected:.4f}",
            money,
        )
    print_table(table, error=console.stderr)
    for one in judges:
        rule = one.rule if one.rule == NOTHING_SENT else f"images by {one.rule}; text is an estimate"
        if one.rule:
            console.print(f"  {one.name}: {rule}", style="dim", markup=False)
        if one.calls and one.rule != NOTHING_SENT:
            console.print(f"  {one.name}: {_describe_expectation(one)}", style="dim", markup=False)
        if one.calls and one.batch_high is not None:
            about = "" if one.batch_expected is None else f", about {one.batch_expected:.4f},"
            money = f"USD {one.batch_low:.4f} – {one.batch_high:.4f}{about}"
            console.print(f"  {one.name}: {money} with --batch", markup=False)


def _describe_expectation(one: JudgePlan) -> str:
    """Return a sentence on where the expected number of answer tokens comes from."""
    if one.output_expected is None:
        return "it thinks before it answers, and the ledger has no answer of it yet: what to expect is known after some"
    each = f"about {one.output_expected / one.calls:,.0f} tokens an answer"
    return f"{each}, by {one.learned_from:,} in the ledger" if one.learned_from else f"{each}, as is usual"
