"""`beholder calibrate`: learn from human ratings how to predict them from a judge's scores.

`show_progress` and `print_unmeasured` are also for commands that apply a calibration to the verdicts of a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    AspectOption,
    CasesFile,
    DrawsOption,
    FeaturesFile,
    ForceOption,
    GroupOption,
    JsonOption,
    JudgeScaleOption,
    LedgerOption,
    MapOption,
    PeopleScaleOption,
    RatingsOrReviews,
    ScoresFiles,
    SeedOption,
    complete_runs,
)
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from beholder.bands import IntervalBand
    from beholder.statistics.bootstrap import Interval
    from beholder.statistics.calibration import CalibrationChoice
    from beholder.statistics.calibration_evaluation import CandidateScore
    from beholder.statistics.calibration_features import Progress


MAX_LISTED = 3


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show a bar while images are measured and a spinner while maps are fitted, where stderr is a terminal."""
    from beholder.cli.output import show_spinner
    from beholder.reports.progress import progress_bar

    with ExitStack() as shown:
        updates = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in updates:
                shown.close()  # what was shown before is done
                measuring = what == "measuring"
                updates[what] = shown.enter_context(progress_bar(what, total)) if measuring else None
                if not measuring:
                    shown.enter_context(show_spinner(what))
            if (update := updates[what]) is not None:
                update(completed=done)

        yield progress


def print_unmeasured(unmeasured: Mapping[str, str], measured: int) -> None:
    """Print which cases could not be measured."""
    if unmeasured:
        total = len(unmeasured) + measured
        print_text(f"beholder: {len(unmeasured)} of {total} cases could not be measured:", error=True)
        for case_id, why in list(unmeasured.items())[:MAX_LISTED]:
            print_text(printable(f"  {case_id}: {why}")[:300], error=True)


def calibrate(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="A run, by its id, its start, its name or `latest`; of several, what the judges of the others said is "
            "learned from too.",
            show_default=False,
            autocompletion=complete_runs,
        ),
    ] = None,
    *,
    ratings: RatingsOrReviews = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the maps that help.", show_default=False)
    ] = None,
    aspect: AspectOption = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Write also maps that do not help.")] = False,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="One decision for all aspects, by a linear map unless --try names others: for few ratings of many.",
        ),
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Learn from the pixels too: every instrument on every pair of images.")
    ] = False,
    features: FeaturesFile = None,
    for_: Annotated[
        str, typer.Option("--for", help="What the map is chosen by: error (how far from people), or rank (the order).")
    ] = "error",
    try_: Annotated[
        list[str] | None, typer.Option("--try", help="Only this kind of map; again for another.", show_default=False)
    ] = None,
    map_: MapOption = None,
    scale: JudgeScaleOption = None,
    rating_scale: PeopleScaleOption = None,
    group: GroupOption = None,
    under_test: Annotated[
        str | None,
        typer.Option(help="The group that says what made an image: else `model`, if there.", show_default=False),
    ] = None,
    scores: ScoresFiles = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="Which judge of --scores; again for others whose numbers are learned from too.", show_default=False
        ),
    ] = None,
    cases: CasesFile = None,
    folds: Annotated[int, typer.Option(min=2, help="Into how many parts cases are divided to test maps.")] = 10,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    force: ForceOption = False,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Learn the map from what a judge said (and what was measured) to the rating that people would give.

    Maps of several kinds are tried on cases that they have not seen. The best is written to -o, if it is surely nearer
    to people than the judge's own number and than a constant; else nothing is, unless --anyway, and the exit code is 1.
    """
    from beholder.api.calibration import calibrate as calibrate_
    from beholder.api.files import OutputKind, check_output
    from beholder.cli import EXIT_THRESHOLD
    from beholder.statistics.calibration_evaluation import SelectionMeasure
    from beholder.statistics.data import parse_choice

    if output is not None:
        check_output(output, OutputKind.CALIBRATION, force=force)
    with show_progress() as progress:
        result = calibrate_(
            run or (),
            ratings=ratings,
            aspect=aspect or (),
            together=together,
            measure=measure,
            features=features,
            for_=parse_choice(SelectionMeasure, for_, "--for"),
            try_=try_ or (),
            map_=map_ or (),
            scale=scale or (),
            rating_scale=rating_scale or (),
            group=group,
            under_test=under_test,
            scores=scores or (),
            judge=judge or (),
            cases=cases,
            folds=folds,
            seed=seed,
            draws=draws,
            ledger=address,
            progress=progress,
        )
    print_unmeasured(result.unmeasured, result.measured)
    writes = output is not None and (result.helps or anyway)
    if writes and output is not None:
        result.save(output, anyway=anyway, force=force)
    if json_:
        print_text(json.dumps(result.to_dict() | {"written": str(output) if writes else None}))
    else:
        _print_results(result.choices, result.notes)
        _print_written(result.choices, output, anyway)
    raise typer.Exit(0 if result.helps else EXIT_THRESHOLD)


def _print_results(results: Sequence[CalibrationChoice], notes: Sequence[str]) -> None:
    from beholder.statistics.calibration_evaluation import AS_CHOSEN

    for result in results:
        first = result.tasks[0]
        raters, groups = len(first.ratings.raters), len(set(first.group_index.tolist()))
        raw = ", ".join(dict.fromkeys(task.raw.name for task in result.tasks))
        about = f"{len(first.cases):,} cases in {groups:,} groups, {raters} raters"
        about += f", {len(first.features.names)} features"
        print_text(printable(f"{result.aspect} (judge: {raw})\n{about}", lines=True))
        named = {key: f"{key}: {result.chosen}" if key == AS_CHOSEN else key for key in result.rows}
        _result_table("", {named[key]: row for key, row in result.rows.items()})
        if result.new_model:
            _result_table("maker unseen", result.new_model)
            _result_table("neither maker nor photograph seen", result.new_model_and_photo)
        for line in _result_sentences(result):
            print_text(printable(line))
        print_text("")
    low, high = results[0].tasks[0].scale
    print_text(f"error: how far from the people's mean on average, on their scale ({low:g} to {high:g}).")
    print_text("ρ: how far the order is that of people (1 wholly, 0 not at all; Spearman).")
    print_text(
        "In the first table every number is of cases whose group the map had not seen; `as chosen` made the choice "
        "anew without them."
    )
    if any(result.new_model for result in results):
        print_text(
            "Maker unseen: by maps of other makers' images, those of the same photograph among them. Neither seen: by "
            "maps of other makers' images of other photographs, which is what new images by a new maker can expect; "
            "but from which prediction on the end of the scale is predicted was found on other makers' images alone, "
            "of all photographs."
        )
    print_text(results[0].interval_note)
    for note in notes:
        print_text(printable(note))


def _result_table(title: str, rows: Mapping[str, CandidateScore]) -> None:
    from beholder.reports.text import format_interval, numbers_table, print_table

    cells = [(name, format_interval(row.rho), format_interval(row.error)) for name, row in rows.items()]
    print_table(numbers_table([title, "ρ", "error"], cells))


def _describe_gain(better: str, worse: str, gain: Interval | None) -> str:
    """Say how much better it is, or how much worse: never "less error by −0.1"."""
    from beholder.reports.text import format_interval

    if gain is None or gain.value is None:
        return ""
    if gain.value >= 0:
        return f"{better} by {format_interval(gain)}"
    low, high = (None if end is None else -end for end in (gain.high, gain.low))
    return f"{worse} by {format_interval(type(gain)(-gain.value, low, high, gain.why))}"


def _result_sentences(result: CalibrationChoice) -> list[str]:
    """Return the conclusions from the table, in sentences."""
    from beholder.statistics.calibration_evaluation import AS_CHOSEN

    row = result.rows[AS_CHOSEN]
    gains = [
        _describe_gain("less error than the raw judge", "more error than the raw judge", row.error_gain),
        _describe_gain("less error than a constant", "more error than a constant", row.constant_gain),
        _describe_gain("a higher ρ than the raw judge", "a lower ρ than the raw judge", row.rho_gain),
    ]
    lines = [
        f"As chosen: {'; '.join(filter(None, gains))}.",
        result.why if result.helps else f"Not saved: {result.why}",
    ]
    if result.maker_note:
        lines.append(result.maker_note)
    lines += [f"Not saved: {why}" for why in result.refused.values()]
    for task in result.tasks if result.helps else ():
        lines += _describe_bands(task.aspect, result.bands[task.aspect])
    if result.helps and not result.has_intervals:
        lines.append("There are too few groups to say how far people may be from it: its interval is the whole scale.")
    left = {name: why for fitted in result.maps.values() for name, why in fitted.usable.left_out.items()}
    if left:
        lines.append("Left out: " + ", ".join(f"{name} ({why})" for name, why in list(left.items())[:8]) + ".")
    return lines


def _describe_bands(aspect: str, bands: Sequence[IntervalBand]) -> list[str]:
    """Return sentences on how much the intervals covered, by the size of the prediction."""
    parts, points, start = [], [], ""
    for band in bands:
        where = f"predictions up to {band.up_to:.2f}" if band.up_to is not None else f"above {start}"
        parts.append(f"{where} {band.covered:.0%} of {band.cases:,} cases")
        if band.low == band.high == 0:
            points.append(
                f"For {where} the interval is the prediction alone: people's mean is exactly that in "
                f"{band.covered:.0%} of the cases, and no interval around it covers fewer."
            )
        start = "" if band.up_to is None else f"{band.up_to:.2f}"
    if not parts:
        return []
    return [f"80% intervals of {aspect} covered, of cases they were not computed on: {'; '.join(parts)}.", *points]


def _print_written(results: Sequence[CalibrationChoice], output: Path | None, anyway: bool) -> None:
    tasks = [(task.aspect, result.is_worth_having(task)) for result in results for task in result.tasks]
    helped, useless = ([name for name, helps in tasks if helps is which] for which in (True, False))
    if output is not None and anyway and useless:
        print_text(printable(f"Written although no better than without it: {', '.join(useless)}."))
    if not helped and not (output is not None and anyway):
        print_text("Nothing was written: no map is worth having. --anyway writes it all the same.")
    elif output is None:
        print_text(f"A map is worth having for {', '.join(helped)}; write it to a file with -o calibration.json.")
    else:
        names = ", ".join([*helped, *useless] if anyway else helped)
        print_text(printable(f"Wrote {output} for {names}; apply it with --calibration {output}."))
