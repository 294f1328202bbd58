"""The arena in Python: `fit_arena` ranks models by votes, `agree_arena` sets judges' votes beside those of people.

`estimate_arena` estimates the board of people from both.
"""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from beholder.api.arguments import to_path
from beholder.api.run import Run
from beholder.api.statistics import RunLike, check_sampling, open_run
from beholder.arena import votes as vote_files
from beholder.arena.agreement import ArenaAgreement, agree_with_people
from beholder.arena.estimation import ArenaEstimate, estimate_board
from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.leaderboard import Leaderboard
from beholder.arena.verdict_votes import VerdictVotes, list_people_votes, list_verdict_votes
from beholder.arena.votes import Votes, VoteSource
from beholder.errors import UsageError
from beholder.images.image import regular_file
from beholder.ledger.ledger import LedgerLike
from beholder.reviews.votes import select_reviews
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.data import ColumnKind, Floats, Scores, select_group
from beholder.statistics.pairs import load_compared_run

Anchors: TypeAlias = Leaderboard | Mapping[str, float] | str | os.PathLike[str]
"""Ratings that stay: of a board, by model, or a file: JSON of `arena fit --json`, or CSV with model and rating."""

_VOTE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
_MAX_ANCHOR = 50_000  # farther apart the fit does not get from one to the other in its steps


def read_votes(source: VoteSource, *, group: str | None = None) -> Votes:
    """Read votes: rows of `model_a`, `model_b` and `winner` (`model_a`, `model_b`, `tie` or `both_bad`).

    Optional columns are `case` (or `id`), `prompt` or `source` (what several cases share), `judge`, and `order` (`ab`,
    or `ba` where model_b was shown first). A row without a winner is a call that failed, and is left out and counted.

    Args:
        source: A CSV, TSV or JSONL file; a Polars or pandas frame, or an iterable of mappings.
        group: The column that says what belongs together; else the first of `source`, `prompt`, `case`, `id` there is.

    Raises:
        UsageError: The file cannot be read, a column is missing, or rows are invalid; ten of them are listed.
    """
    return vote_files.read_votes(source, group=group)


def derive_votes(
    runs: Sequence[RunLike], *, on: str | None = None, group: str | None = None, ledger: LedgerLike = None
) -> Votes:
    """Make votes from the scores of runs over the same cases: of each two runs the one with the higher score wins.

    Args:
        runs: Two runs or more, each of one model; the model gets the name of its run.
        on: The score that decides, such as a criterion; else the overall score.
        group: The group by which cases belong together; else `source`, if the cases have it.
        ledger: The ledger of runs that are given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: There is no such run or column, a run is itself one of pairs, or no case has a score of two runs.
        LedgerError: The ledger cannot be read. It is never created.
    """
    if isinstance(runs, str | Run):
        raise UsageError("runs is a list of two runs or more.")
    loaded = []
    for run in runs:
        with open_run(run, ledger) as (opened, name):
            record = opened.run(name)
            if record.is_preference:
                raise UsageError(
                    f"The run {record.id} ({record.name}) asks which of two is better: it has votes on pairs, and no "
                    f"scores to make votes of. `beholder arena show {record.id}` shows its board."
                )
            loaded.append(load_compared_run(opened, name))
    ids = [run.record.id for run in loaded]
    twice = next((run for run in loaded if ids.count(run.record.id) > 1), None)
    if twice is not None:
        raise UsageError(f"The run {twice.record.name} ({twice.record.id}) is named twice; a model has one run.")
    names = [run.record.name for run in loaded]
    scores: dict[str, tuple[Sequence[str], Floats]] = {}
    groups: dict[str, str] = {}
    for compared in loaded:
        name = compared.record.name if names.count(compared.record.name) == 1 else compared.record.id
        cases = compared.scores.cases
        scores[name] = cases, compared.scores.columns[_choose_column(compared.scores, on, compared.record.total)].values
        groups |= dict(zip(cases, select_group(compared.scores, group) or (), strict=False))
    return vote_files.derive_votes(scores, groups, group or "source")


def _choose_column(scores: Scores, on: str | None, cases: int) -> str:
    if on is not None and on in scores.columns:
        return on
    overall = [column.name for column in scores.columns.values() if column.kind is ColumnKind.OVERALL]
    if on is None and len(overall) == 1:
        return overall[0]
    kinds = (ColumnKind.OVERALL, ColumnKind.CRITERION)
    names = ", ".join(column.name for column in scores.columns.values() if column.kind in kinds) or "none"
    if on is None:
        if names == "none":
            raise UsageError(f"No case of {scores.name} is scored, of {cases:,}, so that there is nothing to compare.")
        why = "several overall scores" if overall else "no overall score"
        raise UsageError(f"{scores.name} has {why}; say which score decides (--on or on=): {names}.")
    raise UsageError(f"{scores.name} has no score {on!r}; there are: {names}.")


def fit_arena(
    votes: Votes | VoteSource | None = None,
    *,
    runs: Sequence[RunLike] = (),
    on: str | None = None,
    anchor: Anchors | None = None,
    group: str | None = None,
    position: bool = False,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> Leaderboard:
    """Rank models by votes: Bradley–Terry with ties (Davidson), intervals by bootstrap over groups.

        fit_arena("votes.csv").gate("candidate > baseline").status

    Args:
        votes: The votes: a file, a frame or mappings (see `read_votes`), or what `read_votes` returned.
        runs: In place of votes: runs of one model each over the same cases, whose scores decide (see `derive_votes`).
        on: The score of runs that decides; else the overall score.
        anchor: Ratings that stay as they are: an earlier board, ratings by model, or a file of either.
        group: The column or group by which votes belong together; else `source`, `prompt` or `case`.
        position: Also fit the advantage of being shown first.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of runs that are given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: Votes are invalid, or there are fewer than two models.
        LedgerError: The ledger cannot be read. It is never created.
    """
    check_sampling(seed, draws)
    if (votes is None) == (not runs):
        raise UsageError("Name a file of votes, or runs whose scores are compared (--runs or runs=): one of the two.")
    if votes is None:
        votes = derive_votes(runs, on=on, group=group, ledger=ledger)
    elif on is not None or ledger is not None:
        raise UsageError("A score (--on or on=) and a ledger belong to runs, and votes are given.")
    elif not isinstance(votes, Votes):
        votes = read_votes(votes, group=group)
    elif group is not None and group != votes.group_name:
        raise UsageError(f"These votes were read with the group {votes.group_name!r}; read them with group={group!r}.")
    anchors = {} if anchor is None else load_anchors(anchor)
    return fit_votes(votes, ArenaOptions(position, anchors, draws, seed))


def agree_arena(
    votes: Votes | VoteSource | None = None,
    *,
    runs: Sequence[RunLike] = (),
    people: Votes | VoteSource | None = None,
    group: str | None = None,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> ArenaAgreement:
    """Say how far judges vote as people do on the same pairs, and how far people agree among themselves.

    Votes are matched by `case` (or `id`) and models, in whichever order these were shown; models need not be named.
    Two outputs without names, or of one model, are told apart by their columns, model_a and model_b.

    Args:
        votes: The votes of judges; `judge` tells several apart. A text that is no file is the name of a run.
        runs: In place of votes: runs of pairs, by a rubric of kind `preference`. A verdict is a vote; where a pair was
            asked in both orders, each answer is also a vote by itself, whose lean to what was shown first can be told.
            Of several runs, each judge has the name of its run behind its own.
        people: The votes of people. Without them those that people gave on the pairs of the runs in reviews; where
            there are none, the voters of a file, or the judges of several runs, are compared among themselves.
        group: The column by which cases belong together; else `source`, `prompt` or `case`.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of runs that are given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: Votes are invalid or have no case, or no pair has votes of both sides; or a run is none of pairs.
        LedgerError: The ledger cannot be read. It is never created.
    """
    check_sampling(seed, draws)
    if not runs and isinstance(votes, str | os.PathLike) and _names_run(votes):
        votes, runs = None, [str(votes)]
    if (votes is None) == (not runs):
        raise UsageError("Name a file of votes, or runs of pairs (--runs or runs=): one of the two.")
    if isinstance(runs, str | Run):
        raise UsageError("runs is a list of runs.")
    if votes is None:
        listed = _list_run_votes(runs, ledger)
        people = people if people is not None else [row for _, given in listed for row in given] or None
        if people is None and len(listed) == 1:
            raise UsageError(
                "Nobody has voted on the pairs of the run yet, so that there is nothing to compare: name a file of "
                "people's votes (--people or people=), let people vote in `beholder view`, or name several runs "
                "(--runs or runs=)."
            )
        # Among runs, the answers behind a verdict are no voters besides it.
        votes = [row for found, _ in listed for rows in found[: 1 if people is None else 2] for row in rows]
    judged, reference = _read_both(votes, people, group, same_model=True)
    return agree_with_people(judged, reference, group=group or "", draw_count=draws, seed=seed)


def estimate_arena(
    votes: Votes | VoteSource | RunLike | None = None,
    *,
    people: Votes | VoteSource | None = None,
    group: str | None = None,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
) -> ArenaEstimate:
    """Estimate the board that people would make of all pairs, from a judge's votes on all and people's on some.

    The estimate is people's board, corrected by what the judge says of the other pairs: whatever the bias of the judge
    it is one of people's votes, with narrower intervals if the judge votes much as they do. People's pairs must have
    been drawn at random from those of the judge.

        estimate_arena("latest", people="votes.csv").gate("candidate > baseline").status

    Args:
        votes: The votes of one judge, or a run of pairs or its name; the latest run unless given.
        people: The votes of people on some of these pairs, matched as by `agree_arena`; else those that people gave on
            the pairs of the run in reviews.
        group: The column or group by which cases belong together; else `source`, `prompt` or `case`.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of a run that is given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: Votes are invalid or of several judges, no pair has votes of both, or nobody has voted.
        LedgerError: The ledger cannot be read. It is never created.
    """
    check_sampling(seed, draws)
    if votes is None or isinstance(votes, Run) or (isinstance(votes, str | os.PathLike) and _names_run(votes)):
        run = votes if votes is None or isinstance(votes, Run) else str(votes)
        found, voted = _list_run_votes([run or "latest"], ledger)[0]
        table: Votes | VoteSource = found.verdicts
        every = [*found.verdicts, *found.answers]
        orders = _list_orders(run, ledger) if people is None else {}
        people = people if people is not None else voted or None
    else:
        table, every, orders = votes, [], {}
    if people is None:
        raise UsageError(
            "Name the votes of people (--people or people=), or let people vote on pairs of the run in `beholder view`."
        )
    judged, reference = _read_both(table, people, group)
    assert reference is not None
    answers = _read_both(every, reference, group)[0] if every else None
    options = ArenaOptions(draw_count=draws, seed=seed)
    return estimate_board(judged, reference, options, group=group or "", answers=answers, orders=orders)


def _read_both(
    votes: Votes | VoteSource, people: Votes | VoteSource | None, group: str | None, *, same_model: bool = False
) -> tuple[Votes, Votes | None]:
    """Read the votes of judges and those of people; one of the two has the column `group`."""
    if (
        isinstance(votes, str | os.PathLike)
        and isinstance(people, str | os.PathLike)
        and Path(votes).resolve() == Path(people).resolve()
    ):
        raise UsageError(
            f"{str(people)!r} is named twice, so that its votes would be compared with themselves; `beholder arena "
            "agree` without people (--people or people=) compares those who voted among themselves."
        )
    if not isinstance(votes, Votes):
        needed = people is None or (isinstance(people, Votes) and people.group_name != group)
        votes = vote_files.read_votes(votes, group=group, same_model=same_model, needs_group=needed)
    if people is None or isinstance(people, Votes):
        return votes, people
    needed = votes.group_name != group
    return votes, vote_files.read_votes(people, group=group, same_model=same_model, needs_group=needed)


def _list_run_votes(runs: Sequence[RunLike], ledger: LedgerLike) -> list[tuple[VerdictVotes, list[dict[str, str]]]]:
    """Return the votes of each run's judge, and those of the people who reviewed it.

    Of several runs each has its name (its id, if another has the same name) after that of its judge, since one judge
    may have made them all, and may have voted otherwise.
    """
    records = {}
    for run in runs:
        with open_run(run, ledger) as (opened, name):
            record = opened.run(name)
            records[record.id] = run, record.name
    names = Counter(name for _, name in records.values())
    listed = []
    for id_, (run, name) in records.items():
        with open_run(run, ledger) as (opened, _):
            title = (name if names[name] == 1 else id_) if len(records) > 1 else ""
            reviews = [review.id for review in select_reviews(opened, id_)]
            judged = list_verdict_votes(opened.stored_verdicts(id_), title)
            listed.append((judged, list_people_votes(opened, reviews)))
    return listed


def _list_orders(run: RunLike | None, ledger: LedgerLike) -> dict[str, str]:
    """Return the orders of those who voted on the pairs of a run and were not given them at random, by their names."""
    with open_run(run, ledger) as (opened, name):
        chosen = [review for review in select_reviews(opened, opened.run(name).id) if not review.order.is_random]
        rated = opened.rated_cases([review.id for review in chosen])
    return {review.rater: str(review.order) for review in chosen if rated.get(review.id)}


def _names_run(given: str | os.PathLike[str]) -> bool:
    """Return whether a text names a run: there is no such file, and it does not look like one of votes."""
    path = Path(given)
    return path.suffix.lower() not in _VOTE_SUFFIXES and not path.exists()


def load_anchors(anchor: Anchors) -> dict[str, float]:
    """Return ratings by model; raise `UsageError` for what is no rating."""
    if isinstance(anchor, Leaderboard):
        return {row.model: row.rating.value for row in anchor.ratings if row.rating.value is not None}
    found = dict(anchor) if isinstance(anchor, Mapping) else _read_anchors(to_path("anchor", anchor))
    for model, rating in found.items():
        if not isinstance(rating, int | float) or isinstance(rating, bool) or not abs(rating) <= _MAX_ANCHOR:
            allowed = f"−{_MAX_ANCHOR:,} to {_MAX_ANCHOR:,}"
            raise UsageError(f"The anchor of {model!r} is a rating, such as 1000, from {allowed}, not {rating!r}.")
    if not found:
        raise UsageError("There is no rating to anchor the board by.")
    return {str(model): float(rating) for model, rating in found.items()}


def _read_rating(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{str(path)!r}, line {line}: the rating {text[:40]!r} is no number.") from None


def _read_anchors(path: Path) -> dict[str, float]:
    wanted = "JSON of `beholder arena fit --json`, or a CSV file with the columns model and rating"
    try:
        text = regular_file(path).read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"The anchors {str(path)!r} cannot be read: it is not UTF-8 text.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The anchors {str(path)!r} cannot be read: {reason}.") from None
    try:
        if text.lstrip().startswith("{"):
            return {str(row["model"]): float(row["rating"]["value"]) for row in json.loads(text)["ratings"]}
        rows = csv.DictReader(text.splitlines())
        return {row["model"].strip(): _read_rating(path, rows.line_num, row["rating"]) for row in rows}
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error, RecursionError):
        raise UsageError(f"The anchors {str(path)!r} cannot be read: they are {wanted}.") from None
