"""`beholder calibrate`: learn from people's ratings what a judge's answers mean on their scale."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibration_options import FeaturesAt, measured
from beholder.cli.files import write
from beholder.cli.people_options import Aspects, JudgeScale, PeopleScale, said_by_people
from beholder.cli.runs import AsJson, LedgerAt
from beholder.cli.statistics_options import (
    DRAWS,
    SEED,
    CasesAt,
    DrawCount,
    GroupBy,
    Mapped,
    MaybeRun,
    RatingsOrReviews,
    ScoresAt,
    Seed,
    gathered,
)
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from beholder.statistics.calibration import Measure, Result, Task, Terms
    from beholder.statistics.calibration.ground import Row
    from beholder.statistics.calibration.lesson import Recipe
    from beholder.statistics.calibration.pedigree import Pedigree
    from beholder.statistics.data import Ratings, Scores


def calibrate(
    run: MaybeRun = None,
    *,
    ratings: RatingsOrReviews = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the maps that help.", show_default=False)
    ] = None,
    aspect: Aspects = None,
    together: Annotated[
        bool, typer.Option("--together", help="One choice and one decision for all aspects: for few ratings of many.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Learn from the pixels too: every instrument on every pair of images.")
    ] = False,
    features: FeaturesAt = None,
    for_: Annotated[
        str, typer.Option("--for", help="What the map is chosen by: error (how far from people), or rank (the order).")
    ] = "error",
    try_: Annotated[
        list[str] | None, typer.Option("--try", help="Only this kind of map; again for another.", show_default=False)
    ] = None,
    map_: Mapped = None,
    scale: JudgeScale = None,
    rating_scale: PeopleScale = None,
    group: GroupBy = None,
    under_test: Annotated[
        str | None,
        typer.Option(help="The group that says what made an image: else `model`, if there.", show_default=False),
    ] = None,
    scores: ScoresAt = None,
    judge: Annotated[str | None, typer.Option(help="Which judge of --scores.", show_default=False)] = None,
    cases: CasesAt = None,
    folds: Annotated[int, typer.Option(min=2, help="Into how many parts cases are divided to test maps.")] = 10,
    seed: Seed = SEED,
    draws: DrawCount = DRAWS,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Learn the map from what a judge said (and what was measured) to the rating that people would give.

    Maps of several kinds are tried on cases that they have not seen. The best is written to -o, if it is surely nearer
    to people than the judge's own number and than a constant; else nothing is, and the exit code is 1.
    """
    from beholder.cli import MISSED
    from beholder.cli.output import waiting
    from beholder.statistics.calibration import Terms, calibrate, document
    from beholder.statistics.calibration.saving import text_of
    from beholder.statistics.scales import scales_given

    by = _measure(for_)
    recipes, notes = _recipes(try_ or ())
    known = _gathered(_Files(run, ratings, scores, cases, ledger), judge, aspect)
    known = replace(known, extra=_extra(known, features, measure=measure))
    rated_on = scales_given(rating_scale or ()) or ({} if ratings is not None else _own_scales(known))
    terms = Terms(group=group, under_test=under_test, seed=seed)
    tasks = _tasks(known, _Wanted(map_ or (), scales_given(scale or ()), rated_on, terms), notes.append)
    with waiting("fitting maps, and testing them on what they have not seen"):
        sets = [tasks] if together else [[task] for task in tasks]
        results = [calibrate(*each, recipes=recipes, by=by, folds=folds, seed=seed, draws=draws) for each in sets]
    source = "reviews" if ratings is None else ratings.name
    made = {**known.pedigree.to_dict(), "seed": seed, "folds": folds, "ratings": source}
    saved = document(results, made)
    written = output if saved["aspects"] else None
    if written is not None:
        write(written, text_of(saved) + "\n")
    if json_:
        _say_as_json(results, made, notes, written)
    else:
        _show(results, notes)
        _say_written(results, output)
    raise typer.Exit(0 if saved["aspects"] else MISSED)


def _measure(name: str) -> Measure:
    from beholder.statistics.calibration import Measure

    if name not in tuple(Measure):
        raise UsageError(f"--for is one of {', '.join(Measure)}, not {name!r}.")
    return Measure(name)


def _own_scales(known: _Known) -> dict[str, tuple[float, float]]:
    """Who reviewed the run rated on the rubric's own scales."""
    columns = known.judged.columns.items()
    return {name: one.scale for name, one in columns if one.scale is not None and name in known.people}


def _recipes(wanted: Sequence[str]) -> tuple[dict[str, Recipe], list[str]]:
    """The kinds of map to try, a constant always among them, and what is to be said of them."""
    from importlib.util import find_spec

    from beholder.statistics.calibration.ground import CONSTANT
    from beholder.statistics.calibration.recipes import RECIPES, TREES

    if unknown := [name for name in wanted if name not in RECIPES]:
        raise UsageError(f"--try takes {', '.join(RECIPES)}, not {unknown[0]!r}.")
    chosen = {name: one for name, one in RECIPES.items() if not wanted or name in wanted or name == CONSTANT}
    if find_spec("sklearn") is not None or not TREES & set(chosen):
        return chosen, []
    if wanted and TREES & set(wanted):
        raise UsageError(f"{', '.join(TREES & set(wanted))} needs scikit-learn: pip install 'beholder[calibrate]'")
    note = f"Not tried without scikit-learn (pip install 'beholder[calibrate]'): {', '.join(sorted(TREES))}."
    return {name: one for name, one in chosen.items() if name not in TREES}, [note]


@dataclass(frozen=True, slots=True)
class _Files:
    """Where things are: a run in a ledger or files of scores, and what people said."""

    run: str | None
    ratings: Path | None
    scores: Sequence[Path] | None
    cases: Path | None
    ledger: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What people said by aspect, what the judge said, what it is, and by case what is known besides."""

    people: Mapping[str, Ratings]
    judged: Scores
    pedigree: Pedigree
    extra: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def rated(self) -> set[str]:
        """The cases that have both ratings and scores."""
        return {case for one in self.people.values() for case in one.cases} & set(self.judged.cases)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """Which number answers which aspect (`--map`), on which scales, and on what terms the rest is learned."""

    pairs: Sequence[str]
    scales: Mapping[str, tuple[float, float]]
    rating_scales: Mapping[str, tuple[float, float]]
    terms: Terms


def _gathered(files: _Files, judge: str | None, aspects: Collection[str] | None) -> _Known:
    """What one judge and people said of these aspects, or all."""
    from beholder.statistics.calibration.pedigree import pedigree_of_files, pedigree_of_run

    people = said_by_people(files.ratings, files.run, files.scores, files.ledger, aspects)
    people = {name: one for name, one in people.items() if not aspects or name in aspects}
    found = gathered(files.run, files.scores, files.cases, files.ledger)
    named = [one for one in found if judge is None or one.name == judge]
    if len(named) != 1:
        there = ", ".join(one.name for one in found)
        raise UsageError(f"A calibration is for one judge; say which with --judge: {there}.")
    if files.scores:
        return _Known(people, named[0], pedigree_of_files(named[0], files.scores, files.cases))
    from beholder.ledger import Ledger

    with Ledger.open(files.ledger, read_only=True) as book:
        return _Known(people, named[0], pedigree_of_run(book, files.run or "latest"))


def _extra(known: _Known, features: Path | None, *, measure: bool) -> dict[str, dict[str, float]]:
    """What is known of the rated cases beside what the judge said."""
    from beholder.statistics.calibration import read_features

    extra = read_features(features) if features is not None else {}
    if not measure:
        return extra
    if not known.pedigree.cases:
        raise UsageError("--measure needs the images of the cases: a run, or plain files with --cases FILE.")
    for case, values in measured(one for one in known.pedigree.cases if one.id in known.rated).items():
        extra[case] = {**extra.get(case, {}), **values}
    return extra


def _tasks(known: _Known, wanted: _Wanted, note: Callable[[str], None]) -> list[Task]:
    from beholder.statistics.calibration import Besides, task_of
    from beholder.statistics.mapping import matched, told
    from beholder.statistics.scales import scales_by_aspect

    people = known.people
    pairs = [pair for pair in wanted.pairs if pair.partition("=")[0].strip() in people]  # others were not asked for
    columns = matched(people, known.judged, pairs)
    for sentence in told(columns, people, pairs):
        note(sentence)
    scales = scales_by_aspect(columns, people, wanted.scales, wanted.rating_scales)
    spelling = known.pedigree.spelled_out(known.judged)
    judged, columns = spelling.of_all(known.judged), {aspect: spelling.of(one) for aspect, one in columns.items()}
    further = {name for values in known.extra.values() for name in values}
    tasks = []
    for aspect, column in columns.items():
        own, of_people = scales[aspect]
        beside = [one for one in columns.values() if one is not column]
        names = known.pedigree.names_beside(column.name)
        tasks.append(
            task_of(
                judged,
                people[aspect],
                replace(column, scale=own),
                replace(wanted.terms, scale=of_people),
                Besides(known.extra, None if names is None else names | further, beside),
            )
        )
    return tasks


def _say_as_json(
    results: Sequence[Result], made: Mapping[str, object], notes: Sequence[str], written: Path | None
) -> None:
    from beholder.statistics.calibration.saving import scores_of

    told = [scores_of(result, task) | {"aspect": task.aspect} for result in results for task in result.tasks]
    where = None if written is None else str(written)
    say(json.dumps({"written": where, "made": made, "aspects": told, "notes": notes}))


def _show(results: Sequence[Result], notes: Sequence[str]) -> None:
    from beholder.statistics.calibration.ground import CHOSEN

    for result in results:
        first = result.tasks[0]
        raters, groups = len(first.ratings.raters), len(set(first.numbers.tolist()))
        raw = ", ".join(dict.fromkeys(task.raw.name for task in result.tasks))
        about = f"{len(first.cases):,} cases in {groups:,} groups, {raters} raters"
        about += f", {len(first.features.names)} features"
        say(printable(f"{result.aspect} (judge: {raw})\n{about}", lines=True))
        named = {key: f"{key}: {result.chosen}" if key == CHOSEN else key for key in result.rows}
        _table("", {named[key]: row for key, row in result.rows.items()})
        if result.unseen:
            _table("maker unseen", result.unseen)
            _table("neither maker nor photograph seen", result.neither)
        for line in _meaning(result):
            say(printable(line))
        say("")
    low, high = results[0].tasks[0].scale
    say(f"error: how far from the people's mean on average, on their scale ({low:g} to {high:g}).")
    say("ρ: how far the order is that of people (1 wholly, 0 not at all; Spearman).")
    say(
        "In the first table every number is of cases whose group the map had not seen; `as chosen` made the choice "
        "anew without them."
    )
    if any(result.unseen for result in results):
        say(
            "Maker unseen: by maps of other makers' images, those of the same photograph among them. Neither seen: by "
            "maps of other makers' images of other photographs, which is what new images by a new maker can expect."
        )
    say(results[0].told)
    for note in notes:
        say(printable(note))


def _table(title: str, rows: Mapping[str, Row]) -> None:
    from beholder.reports.numbers import numbers_table, show_table, with_interval

    cells = [(name, with_interval(row.rho), with_interval(row.error)) for name, row in rows.items()]
    show_table(numbers_table([title, "ρ", "error"], cells))


def _meaning(result: Result) -> list[str]:
    """What the table comes to, in sentences."""
    from beholder.reports.numbers import with_interval
    from beholder.statistics.calibration.ground import CHOSEN

    row = result.rows[CHOSEN]
    gains = {
        "less error than the raw judge": row.error_gain,
        "than a constant": row.constant_gain,
        "a higher ρ than the raw judge": row.rho_gain,
    }
    told = "; ".join(f"{what} by {with_interval(one)}" for what, one in gains.items() if one is not None)
    lines = [f"As chosen: {told}.", result.why if result.helps else f"Not saved: {result.why}"]
    if result.makers:
        lines.append(result.makers)
    if result.helps and not result.bounded:
        lines.append("There are too few groups to say how far people may be from it: its interval is the whole scale.")
    left = {name: why for one in result.fitted.values() for name, why in one.usable.left_out.items()}
    if left:
        lines.append("Left out: " + ", ".join(f"{name} ({why})" for name, why in list(left.items())[:8]) + ".")
    return lines


def _say_written(results: Sequence[Result], output: Path | None) -> None:
    helped = [result.aspect for result in results if result.helps]
    if not helped:
        say("Nothing was written: no map is worth having.")
    elif output is None:
        say(f"A map is worth having for {', '.join(helped)}; write it to a file with -o calibration.json.")
    else:
        say(printable(f"Wrote {output} for {', '.join(helped)}; apply it with --calibration {output}."))
