"""`beholder run`: all cases of a suite, begun or gone on with."""

from __future__ import annotations

import gc
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli.suite_flags import takes_a_suite
from beholder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.cases.checking import Checked
    from beholder.cli.progress import Counts
    from beholder.judges.protocol import Judge
    from beholder.ledger import Ledger, RunRecord
    from beholder.runs.sharing import Limits
    from beholder.runs.suite import Suite
    from beholder.verdicts.model import Outcome


@takes_a_suite
def run(
    suite: Suite,
    retry: Annotated[str, typer.Option(help="Final outcomes to try again: refused,filtered.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew and ask even what is answered already.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on without cases that are wrong.")] = False,
    batch: Annotated[bool, typer.Option("--batch", help="By the provider's batch API: half price, in a day.")] = False,
    of: Annotated[str, typer.Option("--run", help="Go on with this run, though its files were moved or touched.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: progress, then the summary.")] = False,
) -> None:
    """Judge all cases of a suite. Stopped or killed, the same command goes on where it was.

    Exit codes: 0; 1 a threshold was missed; 2 wrong use; 3 some cases have no score and no --max-unscored was given.
    """
    from beholder.judges.protocol import check_able
    from beholder.ledger import Ledger
    from beholder.runs.budget import Budget
    from beholder.runs.running import checked_cases, named, record_for, require_prices, seated
    from beholder.runs.sharing import Limits

    if of and fresh:
        raise UsageError("--run goes on with a run, and --fresh begins one; give one of them.")
    require_prices(suite)
    again = _outcomes(retry)
    limits = Limits(Budget(suite.budget_usd()))
    judges = seated(suite, limits)  # a missing key is found before a run is begun
    check_able(judges, suite.rubrics())
    if batch:
        from beholder.runs.batching import check_batch

        check_batch(suite)
    checked = checked_cases(suite, skip_bad=skip_bad)
    if checked.problem_count and not json_:
        print(f"beholder: {len(checked.bad)} cases are left out; they are wrong.", file=sys.stderr)
    with Ledger.open(suite.ledger_place()) as ledger:
        record, new = (
            (named(suite, ledger, checked, of), False) if of else record_for(suite, ledger, checked, fresh=fresh)
        )
        if not quiet and not json_:
            print(f"{'run' if new else 'going on with run'} {record.id} ({record.name}), {record.total} verdicts")
        limits.budget.spent = record.spent_usd or limits.budget.spent
        how = {"new": new, "quiet": quiet, "as_json": json_}
        if batch or handed_in(ledger, record.id):  # what is under way is not asked live as well
            from beholder.cli.collect import by_batch
            from beholder.runs.batching import How

            raise typer.Exit(by_batch(suite, ledger, record, checked, How(anew=batch, retry=again), **how))
        state, counts = carry_out(suite, ledger, record, checked, judges, limits, again, **how)
        raise typer.Exit(report_run(suite, ledger, record, state, counts, new=new, as_json=json_, quiet=quiet))


def handed_in(ledger: Ledger, run: str) -> bool:
    """Whether answers to requests of the run are to be had from a provider's batch."""
    from beholder.ledger import jobs

    with ledger.reading() as connection:
        return jobs.to_collect(connection, ledger.number(connection, run))


def carry_out(
    suite: Suite,
    ledger: Ledger,
    record: RunRecord,
    checked: Checked,
    judges: Sequence[Judge],
    limits: Limits,
    retry: frozenset[Outcome] = frozenset(),
    *,
    new: bool,
    quiet: bool,
    as_json: bool,
) -> tuple[str, Counts]:
    """Executes a run that was begun or found again, watched on the terminal; the state it ends in, and what it came
    to."""
    import asyncio

    from beholder.cli.listening import listening
    from beholder.ledger.model import INTERRUPTED
    from beholder.runs.holding import held
    from beholder.runs.running import run_suite

    counts = watch_of(record.total, quiet=quiet, as_json=as_json)
    gc.freeze()  # what is loaded stays; looking at it again and again costs a quarter of a millisecond a case
    gc.set_threshold(20_000, 20, 20)
    if not new:
        rename_by_flag(suite, ledger, record)
    try:
        with held(ledger, record.id):
            if handed_in(ledger, record.id):
                raise UsageError(f"The run {record.id} was handed in as a batch just now; `beholder collect` goes on.")
            state = asyncio.run(
                listening(lambda stop: run_suite(suite, ledger, record, checked, judges, limits, retry, counts, stop))
            )
    except KeyboardInterrupt:
        state = INTERRUPTED
    finally:
        counts.close()
    return state, counts


def rename_by_flag(suite: Suite, ledger: Ledger, record: RunRecord) -> None:
    """A name or tags that were given by flag hold also for a run that is gone on with."""
    if "name" in suite.by_flag:
        ledger.rename(record.id, suite.name)
    if "tags" in suite.by_flag:
        ledger.tag(record.id, *suite.tags)


def _outcomes(names: str) -> frozenset[Outcome]:
    from beholder.verdicts.model import Outcome

    try:
        return frozenset(Outcome(name.strip()) for name in names.split(",") if name.strip())
    except ValueError:
        raise UsageError(f"--retry takes outcomes ({', '.join(Outcome)}), and {names!r} has another word.") from None


def watch_of(total: int, *, quiet: bool, as_json: bool) -> Counts:
    from beholder.cli.progress import Bar, Counts, Lines

    return Lines(total) if as_json else Counts(total) if quiet or not sys.stderr.isatty() else Bar(total)


def report_run(
    suite: Suite,
    ledger: Ledger,
    record: RunRecord,
    state: str,
    counts: Counts,
    *,
    new: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Says what the run came to, and returns the exit code."""
    from beholder.reports.terminal import printable
    from beholder.runs.thresholds import Means, exit_code, missed

    # What was done before, or by others, is only in the ledger; reading it again costs a third of a millisecond a case.
    tally = ledger.tally(record.id) if counts.before or not new or ledger.shared else counts.tally
    criteria = {key: mean.exact for one in tally.rubrics.values() for key, mean in one.criteria.items()}
    means = Means(
        total=record.total,
        scored=tally.score.count,
        means={key: value for key, value in {**criteria, "score": tally.score.exact}.items() if value is not None},
    )
    wrong = missed(means, suite.fail_under, suite.max_unscored)
    code = exit_code(means, suite.fail_under, suite.max_unscored)
    summary: dict[str, Any] = {"event": "summary", "run": record.id, "name": record.name, "state": state}
    summary |= {"exit_code": code, "missed": wrong, **counts.to_dict(), "tally": tally.to_dict()}
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False))
    elif not quiet:
        from beholder.cli.summary import show_summary

        show_summary(summary, tally)
    if state == "interrupted" and not as_json:
        print("interrupted; the same command goes on where it was", file=sys.stderr)
    if not quiet and not as_json:
        for failure in counts.failures:
            print(f"  {printable(failure)[:300]}", file=sys.stderr)
        if more := counts.lacking - len(counts.failures):
            print(f"  … and {more} more without a score", file=sys.stderr)
    for sentence in wrong:
        print(f"beholder: {sentence}", file=sys.stderr)
    return code
