"""`beholder arena`: ask judges to compare outputs (`run`), boards (`show`, `fit`), people (`agree`, `estimate`)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    DrawsOption,
    ForceOption,
    JsonOption,
    LedgerOption,
    OptionalRun,
    SeedOption,
    with_suite,
)
from beholder.errors import LedgerError, UsageError
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from beholder.api.arena_run import Arena
    from beholder.arena.agreement import ArenaAgreement
    from beholder.arena.estimation import ArenaEstimate
    from beholder.arena.leaderboard import Leaderboard
    from beholder.arena.votes import Votes
    from beholder.runs.execution import SuiteRun
    from beholder.runs.suite import Suite
    from beholder.statistics.gate import Gate

app = typer.Typer(help="Rank models by votes on which of two outputs is better.", no_args_is_help=True)

VoteGroupOption = Annotated[
    str | None,
    typer.Option("--group", help="The column of what belongs together; else source, prompt or case."),
]


FailUnlessOption = Annotated[
    list[str] | None,
    typer.Option(help='Exit code 1 unless this holds: "candidate > baseline".', show_default=False),
]
PairsOption = Annotated[
    str, typer.Option(help="Which pairs to ask: all, a number spread evenly, or adaptive: where it tells most.")
]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Skip invalid cases and outputs without a partner.")]
VotesFile = Annotated[
    Path | None, typer.Option(help="Write the votes as CSV, as the public boards have them.", show_default=False)
]


@app.command("run")
@with_suite
def run(
    suite: Suite,
    pairs: PairsOption = "all",
    until_width: Annotated[
        float, typer.Option(help="Of adaptive pairs: until no interval between neighbors is wider, in rating points.")
    ] = 30.0,
    retry: Annotated[str, typer.Option(help="Final outcomes to try again: refused,filtered,unmeasured.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew and ask even what is answered already.")] = False,
    skip_bad: SkipBadOption = False,
    batch: Annotated[bool, typer.Option("--batch", help="By the provider's batch API: half price, in a day.")] = False,
    of: Annotated[str, typer.Option("--run", help="Resume this run, though its files were moved or touched.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="Lines of JSON: progress, the summary, then the board.")
    ] = False,
) -> None:
    """Let judges compare the outputs of several models, pair by pair, and rank the models.

    The rubric is of kind preference. The cases are single outputs with a column `model`, or a pattern with {model}:
    --pair input=photos/{name}.png --pair output=out/{model}/{name}.png. If it was stopped, run the same command again.

    Exit codes: those of `beholder run`.
    """
    from beholder.api.arena_run import run_arena
    from beholder.cli.output import RunOutput

    def announce(suite_run: SuiteRun) -> None:
        if not quiet and not json_:
            record = suite_run.record
            begun = "run" if suite_run.is_new else "resuming run"
            count = f"{suite_run.checked.count:,} pairs"
            limit = f"at most {count}, chosen adaptively" if suite_run.suite.objects.rounds is not None else count
            print_text(f"{begun} {record.id} ({printable(record.name)}), {limit}")

    output = RunOutput(quiet=quiet, as_json=json_, announce=announce)
    arena = run_arena(
        suite,
        pairs=pairs,
        until_width=until_width,
        fresh=fresh,
        resume=of,
        retry=retry,
        skip_bad=skip_bad,
        batch=batch,
        progress=output,
    )
    code = output.report(arena.run)
    try:
        if json_:
            print_text(json.dumps({"event": "arena", **arena.to_dict()}))
        elif not quiet:
            _print_arena(arena)
    except UsageError as error:  # no vote yet, as of a batch that waits; the exit code says what the run came to
        print_text(f"beholder: {printable(str(error))}", error=True)
    raise typer.Exit(code)


@app.command("plan")
@with_suite
def plan(
    suite: Suite,
    pairs: PairsOption = "all",
    skip_bad: SkipBadOption = False,
    exact: Annotated[bool, typer.Option("--exact", help="Make every brief, however many pairs there are.")] = False,
    json_: JsonOption = False,
) -> None:
    """Show what an arena would ask and cost: pairs, calls, tokens, money. Asks nobody.

    Adaptive pairs end earlier: of them all are planned, which is the most that they can come to.
    """
    from beholder.api.arena_run import plan_arena
    from beholder.cli.output import show_spinner
    from beholder.cli.run import print_plan

    with show_spinner("making briefs"):
        result = plan_arena(suite, pairs=pairs, skip_bad=skip_bad, exact=exact)
    if json_:
        print_text(json.dumps(result.to_dict(), ensure_ascii=False, default=str))
        return
    if pairs.strip().lower() == "adaptive":
        print_text("Adaptive pairs end as soon as the board is known: at most")
    print_plan(result, suite, "pairs")


@app.command("show")
def show(
    run: OptionalRun = None,
    judge: Annotated[
        str,
        typer.Option(
            help="Whose votes: the run's own, or people, or person:NAME: those given on its pairs in reviews.",
            show_default=False,
        ),
    ] = "",
    anchor: Annotated[
        str | None,
        typer.Option(
            help="Ratings that stay: another run, JSON of an earlier board, or CSV with model, rating.",
            show_default=False,
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="What belongs together; else source.", show_default=False)
    ] = None,
    position: Annotated[
        bool, typer.Option("--position", help="Also fit the advantage of being shown first; each answer is a vote.")
    ] = False,
    fail_unless: FailUnlessOption = None,
    csv: VotesFile = None,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    force: ForceOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the board of a run of pairs: ratings with intervals, both bad, flips and failed calls by model.

    Exit codes: 0; 1 a model is not better as --fail-unless wants it; 2 wrong use; 4 that cannot be told.
    """
    from beholder.api.arena_run import show_arena

    if csv is not None:
        _check_csv(csv, [] if anchor is None else [anchor], address, force)
    arena = show_arena(
        run, judge=judge, anchor=anchor, group=group, position=position, seed=seed, draws=draws, ledger=address
    )
    gate = arena.gate(*fail_unless) if fail_unless else None
    _write_votes(csv, arena.votes)
    if json_:
        print_text(json.dumps(arena.to_dict() | ({} if gate is None else {"gate": gate.to_dict()})))
    else:
        _print_arena(arena)
    if gate is not None:
        _exit_by_gate(gate)


def _print_arena(arena: Arena) -> None:
    from beholder.reports.arena import ARENA_HEADERS, arena_rows, arena_sentences, leaderboard_title
    from beholder.reports.text import numbers_table, print_table

    board, statistics = arena.board, arena.statistics
    print_text(printable(leaderboard_title(board)))
    table = numbers_table(ARENA_HEADERS, arena_rows(board, statistics))
    table.columns[1].justify = "left"
    print_table(table)
    print_text("")
    for sentence in arena_sentences(board, statistics):
        print_text(printable(sentence))


def _write_votes(csv: Path | None, votes: Votes) -> None:
    from beholder.api.files import atomic_write

    if csv is not None:
        with atomic_write(csv) as file:
            file.write(votes.to_csv().encode("utf-8", "backslashreplace"))


@app.command("fit")
def fit(
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VOTES]",
            help="Votes: CSV or JSONL with model_a, model_b, winner (or tie, both_bad); with --runs: two runs or more.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="The arguments are runs, one for each model: their scores are compared.")
    ] = False,
    on: Annotated[
        str | None, typer.Option(help="Of runs: the score that decides; else the overall score.", show_default=False)
    ] = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="Ratings that stay: JSON of an earlier fit, or CSV with model, rating.", show_default=False),
    ] = None,
    group: VoteGroupOption = None,
    position: Annotated[bool, typer.Option("--position", help="Also fit the advantage of being shown first.")] = False,
    fail_unless: FailUnlessOption = None,
    csv: VotesFile = None,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    force: ForceOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Rank models by votes: Bradley–Terry with ties, intervals by bootstrap over photographs.

    Exit codes: 0; 1 a model is not better as --fail-unless wants it; 2 wrong use; 4 that cannot be told.
    """
    from beholder.api.arena import derive_votes, fit_arena, read_votes

    names = given or []
    if not runs and len(names) != 1:
        raise UsageError("Name one file of votes; or several runs, with --runs.")
    if not runs and (on is not None or address is not None):
        raise UsageError("--on and --ledger belong to runs (--runs), and a file of votes is given.")
    if csv is not None:
        _check_csv(csv, [path for path in (*([] if runs else names), anchor) if path is not None], address, force)
    votes = derive_votes(names, on=on, group=group, ledger=address) if runs else read_votes(names[0], group=group)
    board = fit_arena(votes, anchor=anchor, position=position, seed=seed, draws=draws)
    gate = board.gate(*fail_unless) if fail_unless else None
    _write_votes(csv, votes)
    if json_:
        print_text(json.dumps(board.to_dict() | ({} if gate is None else {"gate": gate.to_dict()})))
    else:
        _print_board(board)
    if gate is not None:
        _exit_by_gate(gate)


def _check_csv(csv: Path, inputs: Sequence[str | Path], address: str | None, force: bool) -> None:
    """Raise `UsageError` if the votes cannot be written, or would replace the ledger or what they are read from."""
    from beholder.api.files import OutputKind, check_output
    from beholder.ledger.database import resolve_address

    if not csv.is_file():  # a pipe or device may be both ends
        check_output(csv, OutputKind.VOTES)
        return
    with suppress(OSError, ValueError, LedgerError):  # no such file, or no file: it is not this one
        if os.path.samefile(resolve_address(address), csv):
            raise UsageError(f"{str(csv)!r} is the ledger itself; name another file.")
    for path in inputs:
        with suppress(OSError, ValueError):
            if os.path.samefile(path, csv):
                raise UsageError(f"{str(csv)!r} is what is read here; name another file to write the votes to.")
    check_output(csv, OutputKind.VOTES, force=force)


def _print_board(board: Leaderboard) -> None:
    from beholder.reports.arena import LEADERBOARD_HEADERS, leaderboard_rows, leaderboard_sentences, leaderboard_title
    from beholder.reports.text import numbers_table, print_table

    print_text(printable(leaderboard_title(board)))
    table = numbers_table(LEADERBOARD_HEADERS, leaderboard_rows(board))
    table.columns[1].justify = "left"
    print_table(table)
    print_text("")
    for sentence in leaderboard_sentences(board):
        print_text(printable(sentence))


def _exit_by_gate(gate: Gate) -> None:
    from beholder.cli import EXIT_THRESHOLD, EXIT_UNDECIDED

    for sentence in gate.sentences():
        print_text(f"beholder: {printable(sentence)}", error=True)
    if gate.status == "passed":
        print_text(f"beholder: the gate has passed: {printable(', '.join(gate.on))}", error=True)
    else:
        raise typer.Exit(EXIT_THRESHOLD if gate.status == "failed" else EXIT_UNDECIDED)


@app.command("agree")
def agree(
    votes: Annotated[
        list[Path],
        typer.Argument(
            metavar="VOTES",
            help="Votes of judges: CSV or JSONL with case, winner, and model_a, model_b, judge; or a run of pairs, "
            "with --runs several.",
        ),
    ],
    runs: Annotated[
        bool, typer.Option("--runs", help="The arguments are runs of pairs, whose verdicts are the votes.")
    ] = False,
    people: Annotated[
        Path | None,
        typer.Option(
            help="Votes of people on the same cases; without it those in the ledger on the run, or voters of a file "
            "are compared among themselves.",
            show_default=False,
        ),
    ] = None,
    group: VoteGroupOption = None,
    full: Annotated[bool, typer.Option("--full", help="Also the confusion table of each judge.")] = False,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Say how far judges vote as people do on the same pairs, and whether they lean to what they are shown first."""
    from beholder.api.arena import agree_arena

    if not runs and len(votes) != 1:
        raise UsageError("Name one file of votes or one run; or several runs, with --runs.")
    if address is not None and not runs and votes[0].exists():
        raise UsageError("--ledger belongs to runs (--runs), and a file of votes is given.")
    agreement = agree_arena(
        None if runs else votes[0],
        runs=[str(run) for run in votes] if runs else (),
        people=people,
        group=group,
        seed=seed,
        draws=draws,
        ledger=address,
    )
    if json_:
        print_text(json.dumps(agreement.to_dict()))
    else:
        _print_agreement(agreement, full=full)


@app.command("estimate")
def estimate(
    votes: Annotated[
        str | None,
        typer.Argument(
            metavar="[VOTES]",
            help="Votes of one judge (CSV or JSONL with case, model_a, model_b, winner), or a run of pairs; else the "
            "latest run.",
            show_default=False,
        ),
    ] = None,
    people: Annotated[
        Path | None,
        typer.Option(
            help="Votes of people on some of the pairs; without it those in the ledger on the run.", show_default=False
        ),
    ] = None,
    group: VoteGroupOption = None,
    fail_unless: FailUnlessOption = None,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Estimate the board that people would make: their votes on some pairs, corrected by the judge's on all.

    Exit codes: 0; 1 a model is not better as --fail-unless wants it; 2 wrong use; 4 that cannot be told.
    """
    from beholder.api.arena import estimate_arena

    found = estimate_arena(votes, people=people, group=group, seed=seed, draws=draws, ledger=address)
    gate = found.gate(*fail_unless) if fail_unless else None
    if json_:
        print_text(json.dumps(found.to_dict() | ({} if gate is None else {"gate": gate.to_dict()})))
    else:
        _print_estimate(found)
    if gate is not None:
        _exit_by_gate(gate)


def _print_estimate(found: ArenaEstimate) -> None:
    from beholder.reports.arena import (
        ESTIMATE_HEADERS,
        arena_estimate_rows,
        arena_estimate_sentences,
        arena_estimate_title,
        confusion_table,
    )
    from beholder.reports.text import numbers_table, print_table

    print_text(printable(arena_estimate_title(found)))
    table = numbers_table(ESTIMATE_HEADERS, arena_estimate_rows(found))
    table.columns[1].justify = "left"
    print_table(table)
    print_text("")
    print_table(numbers_table(*confusion_table(found.agreement.judges[0])))
    print_text("")
    for sentence in arena_estimate_sentences(found):
        print_text(printable(sentence))


def _print_agreement(agreement: ArenaAgreement, *, full: bool) -> None:
    from beholder.reports.arena import AGREEMENT_HEADERS, agreement_rows, agreement_sentences, confusion_table
    from beholder.reports.text import numbers_table, print_table

    print_table(numbers_table(AGREEMENT_HEADERS, agreement_rows(agreement)))
    for judge in agreement.judges if full else ():
        print_text(printable(f"\n{judge.judge}", lines=True))
        print_table(numbers_table(*confusion_table(judge)))
    print_text("")
    for sentence in agreement_sentences(agreement):
        print_text(printable(sentence))
