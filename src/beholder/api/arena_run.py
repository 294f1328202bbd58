"""`run_arena` lets judges compare models pair by pair; `plan_arena`: what that would cost; `show_arena`: its board."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import structs

from beholder.api.arena import Anchors, load_anchors
from beholder.api.arguments import JudgeArgument, SuiteLike, check_number, make_suite
from beholder.api.execute import RunHooks, as_hooks, plan, run
from beholder.api.options import OptionsLike
from beholder.api.run import Run, record_to_dict
from beholder.api.statistics import RunLike, check_sampling, open_run
from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.leaderboard import Leaderboard
from beholder.arena.pairs import PairPool, collect_items, derive_output_schema
from beholder.arena.run_votes import (
    ARENA_KEY,
    LEFT_OUT,
    MISSING,
    OUTPUTS,
    POOL_SIZE,
    UNPLACED,
    ArenaRounds,
    ArenaStatistics,
    RunVotes,
    describe_missing,
    describe_unplaced,
    list_missing,
)
from beholder.arena.selection import (
    ADAPTIVE,
    ALL,
    DEFAULT_WIDTH,
    AdaptiveSelection,
    RoundDecision,
    choose_evenly,
    parse_pairs,
)
from beholder.arena.votes import Votes
from beholder.cases.validation import make_image_check
from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger, LedgerLike, open_ledger
from beholder.reports.progress import ProgressCounter
from beholder.reviews.votes import select_reviews
from beholder.rubrics.rubric import Rubric
from beholder.runs.engine import RunObserver
from beholder.runs.plan import Plan
from beholder.runs.suite import Suite, SuiteObjects
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import to_json_values
from beholder.statistics.gate import Gate

RunAnchors: TypeAlias = Anchors | Run
"""Ratings that stay: those of a board, by model, in a file, or of another run (a `Run`, or its name)."""


class Arena:
    """A run of pairs and what it says of the models: the result of `run_arena` and `show_arena`.

    Attributes:
        run: The run.
        votes: Its votes; raises `UsageError` where it has none.
        statistics: Failed calls, flips, and the lean to what is shown first.
    """

    def __init__(
        self,
        run: Run,
        found: RunVotes,
        options: ArenaOptions,
        group: str | None = None,
    ) -> None:
        """Keep what was read of a run; the board is fitted when it is asked for."""
        self.run = run
        self._found, self._options, self._group = found, options, group

    @cached_property
    def votes(self) -> Votes:
        return self._found.votes(self._group, each_answer=self._options.position)

    @cached_property
    def statistics(self) -> ArenaStatistics:
        return self._found.statistics(draw_count=self._options.draw_count, seed=self._options.seed)

    @cached_property
    def board(self) -> Leaderboard:
        """The models, ranked by the votes.

        Raises:
            UsageError: There is no vote yet, or there are votes on one model only.
        """
        return fit_votes(self.votes, self._options)

    def gate(self, *fail_unless: str) -> Gate:
        """Decide whether models are better than others; see `Leaderboard.gate`."""
        return self.board.gate(*fail_unless)

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder arena show --json` prints: that of `arena fit`, with the run and its statistics."""
        return {
            **self.board.to_dict(),
            "run": record_to_dict(self.run.record),
            "asked": to_json_values(self.statistics),
        }

    def __repr__(self) -> str:
        asked = f"{self.statistics.votes:,} votes on {self.statistics.pairs:,} pairs"
        return f"<Arena {self.run.id} {self.run.name!r}, {self.run.state}: {asked}>"

    def _repr_html_(self) -> str:
        from beholder.reports.arena import arena_html

        return arena_html(self.board, self.statistics, self.run.name)


def run_arena(
    suite: SuiteLike | None = None,
    /,
    *,
    pairs: str | int = ALL,
    until_width: float = DEFAULT_WIDTH,
    rubric: Rubric | str | os.PathLike[str] | None = None,
    cases: object = None,
    judge: JudgeArgument | Sequence[JudgeArgument] | None = None,
    ledger: LedgerLike = None,
    budget: float | None = None,
    fresh: bool = False,
    resume: str | Run = "",
    retry: str | Iterable[str] = (),
    skip_bad: bool = False,
    batch: bool = False,
    progress: bool | RunObserver | RunHooks | None = None,
    stop: threading.Event | None = None,
    options: OptionsLike = None,
    **settings: object,
) -> Arena:
    """Let judges compare the outputs of models on the same photographs or prompts, and rank the models.

    The cases are single outputs, with the group `model`: `{"id": …, "model": "aurora", "input": …, "output": …}`, or
    the pattern `pair={"input": "photos/{name}.png", "output": "out/{model}/{name}.png"}`. Each two outputs for the same
    photograph and texts are a pair. The run is an ordinary one: the same call resumes it.

    Args:
        suite: A `suite.yaml` whose rubric is of kind preference, or a mapping with its keys; see `run`.
        pairs: `"all"`; a number of pairs, spread evenly over models and photographs; or `"adaptive"`: in rounds, those
            that narrow the ranking most.
        until_width: Of adaptive pairs: no more are asked once no interval of the difference between two neighbors on
            the board is wider, in rating points.
        rubric: Such as `edit-preference`; see `run`.
        cases: See `run`.
        judge: See `run`.
        ledger: See `run`.
        budget: See `run`; adaptive pairs end with it.
        fresh: See `run`.
        resume: See `run`.
        retry: See `run`.
        skip_bad: Skip invalid cases, and outputs that have no partner.
        batch: See `run`; not with adaptive pairs, which depend on the answers before.
        progress: See `run`.
        stop: See `run`.
        options: See `run`.
        **settings: See `run`.

    Raises:
        UsageError: Something is wrong with suite, cases, judges or settings; found before the first call.
    """
    named = {"rubric": rubric, "cases": cases, "judge": judge, "ledger": ledger, "budget": budget}
    loaded, opened = make_suite(suite, {**settings, **named}, options)
    hooks = as_hooks(progress, stop)
    prepared = make_arena_suite(loaded, pairs, until_width, hooks, skip_bad=skip_bad, batch=batch)
    result = run(
        prepared,
        ledger=opened,
        fresh=fresh,
        resume=resume,
        retry=retry,
        skip_bad=skip_bad,
        batch=batch,
        progress=hooks,
        stop=stop,
    )
    return show_arena(result)


def plan_arena(
    suite: SuiteLike | None = None,
    /,
    *,
    pairs: str | int = ALL,
    skip_bad: bool = False,
    exact: bool = False,
    options: OptionsLike = None,
    **settings: object,
) -> Plan:
    """Return what an arena would ask and cost: pairs, calls, tokens, money. It asks nobody, and creates no ledger.

    Args:
        suite: See `run_arena`.
        pairs: See `run_arena`. Of adaptive pairs all are planned, which is the most that they can come to.
        skip_bad: Skip invalid cases, and outputs that have no partner.
        exact: Go through all pairs, however many there are; see `plan`.
        options: See `run`.
        **settings: As for `run`: `rubric`, `cases`, `judge`, `ledger` and so on.

    Raises:
        UsageError: Something is wrong with suite, cases, judges or settings.
    """
    loaded, opened = make_suite(suite, settings, options)
    prepared = make_arena_suite(loaded, pairs, DEFAULT_WIDTH, RunHooks(None), skip_bad=skip_bad)
    prepared.objects.rounds = None
    return plan(prepared, skip_bad=skip_bad, exact=exact, ledger=opened)


def make_arena_suite(
    suite: Suite, pairs: str | int, until_width: float, hooks: RunHooks, *, skip_bad: bool = False, batch: bool = False
) -> Suite:
    """Return the suite with pairs in place of its cases.

    Args:
        suite: Its cases are single outputs.
        pairs: See `run_arena`.
        until_width: See `run_arena`.
        hooks: Who is told of the rounds, and of what is left out.
        skip_bad: Whether cases that are wrong are left out.
        batch: Whether judges are asked by batch.

    Raises:
        UsageError: The rubric compares no candidates, or the options do not fit together.
        CaseError: Cases are wrong, or make no pair.
    """
    chosen = parse_pairs(pairs)
    check_number(hooks.name_argument("until_width"), until_width, above=0)
    if chosen == ADAPTIVE and batch:
        raise UsageError(
            "Adaptive pairs depend on the answers to the ones before, and a batch answers within a day; ask all pairs "
            "or a number of them by batch."
        )
    if suite.fail_under:
        raise UsageError(
            f"{hooks.name_argument('fail_under')} is a least mean of scores, and the mean of an arena is how often the "
            "candidate won that was put first, which says nothing of a model. Gate the board: `beholder arena show "
            '--fail-unless "candidate > baseline"`, or gate("candidate > baseline") in Python.'
        )
    if suite.engine == "ray":
        raise UsageError("An arena makes its pairs here, and is run by the engine local, not by ray.")
    if chosen != ADAPTIVE and until_width != DEFAULT_WIDTH:
        raise UsageError(f"{hooks.name_argument('until_width')} belongs to adaptive pairs, and these are {chosen}.")
    schema, names = derive_output_schema(suite.case_schema())
    collected = collect_items(suite.read_rows(schema), names, make_image_check(allow_remote=suite.allow_remote))
    pool = PairPool(collected.items, names)
    found = replace(
        collected, items=collected.items if len(pool) else (), problems=(*collected.problems, *pool.problems)
    )
    found.check(skip_bad=skip_bad)
    left_out = found.possible - len(pool)
    if found.problems:
        things = "1 thing is" if len(found.problems) == 1 else f"{len(found.problems):,} things are"
        unplaced = f", and {describe_unplaced(found.unplaced)}" if found.unplaced else ""
        hooks.notify(
            f"{left_out:,} of {found.possible:,} pairs are left out{unplaced}: {things} wrong with the cases, the "
            f"first: {found.problems[0]}"
        )
    missing = list_missing(found.missing)
    if missing:
        hooks.notify(f"{describe_missing(missing, found.outputs)}.")
    stored = {
        "pairs": str(chosen),
        POOL_SIZE: len(pool),
        LEFT_OUT: left_out,
        UNPLACED: found.unplaced,
        OUTPUTS: found.outputs,
        MISSING: msgspec.to_builtins(missing),
    }
    objects = SuiteObjects(suite.objects.rubric, None, suite.objects.judges, facts={ARENA_KEY: stored})
    if chosen == ADAPTIVE:
        objects.cases = pool.select(range(len(pool)))
        objects.rounds = ArenaRounds(AdaptiveSelection(pool, float(until_width)), _RoundProgress(hooks).show, stored)
    else:
        count = len(pool) if chosen == ALL else int(chosen)
        if count > len(pool):
            raise UsageError(
                f"There are {len(pool):,} pairs to compare, and {count:,} are asked for (--pairs or pairs=)."
            )
        objects.cases = pool.select(sorted(choose_evenly(pool, count).tolist()))
    return structs.replace(suite, objects=objects)


class _RoundProgress:
    """Tells a progress bar how many pairs there are by now."""

    def __init__(self, hooks: RunHooks) -> None:
        self._hooks = hooks

    def show(self, decision: RoundDecision, asked: int) -> None:
        if isinstance(self._hooks.observer, ProgressCounter):
            self._hooks.observer.total = asked + len(decision.pairs)


def show_arena(
    run: RunLike | None = None,
    *,
    judge: str = "",
    anchor: RunAnchors | None = None,
    group: str | None = None,
    position: bool = False,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> Arena:
    """Return the board of a run of pairs: ratings with intervals, flips, failed calls.

        show_arena("latest").gate("candidate > baseline").status

    Args:
        run: A run, or its name; the latest unless given.
        judge: Whose votes: those of the run, or `"people"` for those of everybody who voted on its pairs on the review
            page or in a file, or `"person:NAME"` for those of one of them.
        anchor: Ratings that stay as they are: an earlier board, ratings by model, a file of either, or another run.
        group: The group of cases that belong together; else `source`.
        position: Also fit the advantage of being shown first. Each answer is then a vote, since a verdict over both
            orders has no position.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of a run that is given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: The run is not one of pairs, or has no verdict.
        LedgerError: There is no such run or ledger.
    """
    check_sampling(seed, draws)
    with open_run(run, ledger) as (opened, name):
        found = RunVotes(opened, name, _find_reviews(opened, name, judge))
        shown = run if isinstance(run, Run) else Run(found.record, opened)
    anchors = {} if anchor is None else _load_run_anchors(anchor, ledger if not isinstance(run, Run) else run.address)
    return Arena(shown, found, ArenaOptions(position, anchors, draws, seed), group)


def _find_reviews(ledger: Ledger, run: str, judge: str) -> list[str] | None:
    if not judge:
        return None
    return [review.id for review in select_reviews(ledger, ledger.run(run).id, judge)]


def _load_run_anchors(anchor: RunAnchors, ledger: LedgerLike) -> dict[str, float]:
    if isinstance(anchor, Run):
        return load_anchors(show_arena(anchor).board)
    if isinstance(anchor, str) and not Path(anchor).exists():
        try:
            with open_ledger(ledger) as opened:
                opened.run(anchor)
        except LedgerError as error:
            raise UsageError(f"The anchor {anchor!r} is no file, and no run: {error}") from None
        return load_anchors(show_arena(anchor, ledger=ledger).board)
    return load_anchors(anchor)
