"""`beholder collect`: what came back for a run that was handed in with `run --batch`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.suite_flags import takes_a_suite
from beholder.errors import UsageError

if TYPE_CHECKING:
    import asyncio

    from beholder.cases.checking import Checked
    from beholder.cli.progress import Counts
    from beholder.ledger import Ledger, RunRecord
    from beholder.runs.batching import How, Standing
    from beholder.runs.suite import Suite

FIRST_PAUSE_S = 15.0
LONGEST_PAUSE_S = 600.0


@takes_a_suite
def collect(
    suite: Suite,
    wait: Annotated[bool, typer.Option("--wait", help="Look again and again until all is answered.")] = False,
    repair: Annotated[str, typer.Option(help="Ask for repairs in a following batch, or live: batch, live.")] = "batch",
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel what is under way at the provider.")] = False,
    pause: Annotated[float, typer.Option(help="With --wait: seconds to the second look; later ones take longer.")] = (
        FIRST_PAUSE_S
    ),
    of: Annotated[str, typer.Option("--run", help="The run, if cases or images have changed since.")] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on without cases that are wrong.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Lines of JSON: how it stands, then the summary.")] = False,
) -> None:
    """Fetch what is answered of a run that was handed in with `run --batch`, check and score it as always.

    Give the same suite and flags as to `run`. What expired is handed in again; so are repairs of invalid answers.
    Exit codes: 0, also while something is under way; else as those of `run`.
    """
    import asyncio

    from beholder.cli.run import handed_in
    from beholder.ledger import Ledger
    from beholder.ledger.model import WAITING
    from beholder.runs.batching import How, cancel_all
    from beholder.runs.holding import held
    from beholder.runs.running import checked_cases, fingerprint

    if repair not in ("batch", "live"):
        raise UsageError(f"--repair takes batch or live, and not {repair!r}.")
    checked = checked_cases(suite, skip_bad=skip_bad)
    with Ledger.open(suite.ledger_place(), create=False) as ledger:
        record = ledger.run(of) if of else ledger.find(fingerprint(suite, checked))
        if record is None:
            raise UsageError(
                "There is no run of this suite in the ledger: `beholder run --batch` hands one in. If a case or image "
                "has changed since, name the run with --run."
            )
        if record.state != WAITING and not handed_in(ledger, record.id):
            raise UsageError(
                f"Nothing of the run {record.id} is under way; `beholder run --batch` hands in what is open."
            )
        if cancel:
            with held(ledger, record.id, alone=True):
                count = asyncio.run(cancel_all(suite, ledger, record, _tell))
            if json_:
                typer.echo(json.dumps({"event": "cancelled", "run": record.id, "jobs": count}))
            _tell(f"{count} jobs are cancelled; `beholder collect` fetches what they had answered before.")
            return
        how = How(repair_live=repair == "live", idle=False)
        options = {"new": False, "quiet": quiet, "as_json": json_}
        raise typer.Exit(by_batch(suite, ledger, record, checked, how, pause_s=pause if wait else None, **options))


def by_batch(
    suite: Suite,
    ledger: Ledger,
    record: RunRecord,
    checked: Checked,
    how: How,
    *,
    new: bool,
    quiet: bool,
    as_json: bool,
    pause_s: float | None = None,
) -> int:
    """Goes on with a run by batch, and says how it stands; with a pause, until nothing is under way. The exit code."""
    import asyncio

    from beholder.cli.listening import listening
    from beholder.cli.run import rename_by_flag, report_run
    from beholder.ledger.model import WAITING
    from beholder.runs.holding import held

    if not new:
        rename_by_flag(suite, ledger, record)
    with held(ledger, record.id, alone=True):
        standing, counts = asyncio.run(
            listening(lambda stop: _passes(suite, ledger, record, checked, how, stop, quiet, as_json, pause_s))
        )
    if standing.state == WAITING:
        return 0
    return report_run(suite, ledger, record, standing.state, counts, new=new, as_json=as_json, quiet=quiet)


async def _passes(
    suite: Suite,
    ledger: Ledger,
    record: RunRecord,
    checked: Checked,
    how: How,
    stop: asyncio.Event,
    quiet: bool,
    as_json: bool,
    pause_s: float | None,
) -> tuple[Standing, Counts]:
    from beholder.cli.run import watch_of
    from beholder.ledger.model import WAITING
    from beholder.runs.batching import one_pass
    from beholder.runs.clerk import pause

    before: Counts | None = None
    first = pause_s
    while True:
        counts = watch_of(record.total, quiet=quiet, as_json=as_json)
        if before is not None:
            counts.spent, counts.unpriced, counts.reused = before.spent, before.unpriced, before.reused
        try:
            standing = await one_pass(suite, ledger, record, checked, counts, stop, _tell, how)
        finally:
            counts.close()
        if standing.state == WAITING and not quiet:
            _show(record, standing, counts, as_json=as_json)
        if first is None or pause_s is None or standing.state != WAITING or stop.is_set():
            return standing, counts
        pause_s = first if standing.fetched else min(2 * pause_s, LONGEST_PAUSE_S)
        await pause(stop, pause_s)
        before = counts


def _show(record: RunRecord, standing: Standing, counts: Counts, *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        said = {"event": "batch", "run": record.id, **counts.to_dict(), **asdict(standing)}
        typer.echo(json.dumps(said))
        return
    jobs = "1 job" if standing.jobs == 1 else f"{standing.jobs} jobs"
    new = f"{standing.fetched} fetched, {standing.handed_in} handed in; "
    typer.echo(f"{new}{standing.requests} requests are under way in {jobs}, {standing.answered} of them answered")
    typer.echo("see: beholder collect with the same suite; most jobs end within hours, all within a day or so")


def _tell(sentence: str) -> None:
    from beholder.reports.terminal import printable

    print(f"beholder: {printable(sentence)}", file=sys.stderr)
