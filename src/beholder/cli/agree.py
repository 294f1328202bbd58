"""`beholder agree`: a judge against people, or against another judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    reviewed_by_people,
)
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from beholder.statistics.agreement.agreeing import Agreement
    from beholder.statistics.data import Ratings, Scores


def agree(
    run: MaybeRun = None,
    ratings: RatingsOrReviews = None,
    scores: ScoresAt = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with", help="Another run, or a file of scores: that judge in place of people.", show_default=False
        ),
    ] = None,
    cases: CasesAt = None,
    group: GroupBy = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only cases of a group: task=text.", show_default=False)
    ] = None,
    map_: Mapped = None,
    against: Annotated[str, typer.Option(help="The mean rating of a case, or each rating: mean or each.")] = "mean",
    scale: Annotated[
        list[str] | None, typer.Option(help="The judge's scale: 0..10, or SC=0..10.", show_default=False)
    ] = None,
    rating_scale: Annotated[
        list[str] | None, typer.Option(help="The people's scale: 0..1, or SC=0..1.", show_default=False)
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="Other metrics to set beside: CSV with case, judge, aspect, score.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every coefficient with its interval, and every rater.")] = False,
    seed: Seed = SEED,
    draws: DrawCount = DRAWS,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Say how far a judge agrees with people, beside how far people agree with each other and what a constant does."""
    from beholder.statistics.agreement.agreeing import Asked
    from beholder.statistics.agreement.agreeing import agree as agree_
    from beholder.statistics.agreement.drawing import Against
    from beholder.statistics.reading import read_scores
    from beholder.statistics.scales import scales_given

    if against not in tuple(Against):
        raise UsageError(f"--against is one of {', '.join(Against)}, not {against!r}.")
    if ratings is not None and with_ is not None:
        raise UsageError("Give --ratings (people) or --with (another judge), not both.")
    judges = gathered(run, scores, cases, ledger)
    other = _the_other(with_, ledger) if with_ is not None else None
    reviewed: Mapping[str, Ratings] = {}
    if ratings is None and other is None:
        reviewed = {} if scores else reviewed_by_people(run, ledger, assertions=full)
        other = None if reviewed else _second_of(judges)
    judges, people = _only(judges, reviewed or _reference(ratings, other), only or ())
    asked = Asked(
        mapped=map_ or (),
        against=Against(against),
        scales=_rated(scales_given(scale or ()), people),
        rating_scales=_rated(scales_given(rating_scale or ()), people)
        or _scales_of(other or (judges[0] if reviewed else None), people),
        group=group,
        beside=[one for path in baseline or () for one in read_scores(path)],
        draws=draws,
        seed=seed,
    )
    found = [agree_(judge, people, asked, other.name if other is not None else "") for judge in judges]
    if json_:
        say(json.dumps({"agreements": [one.to_dict() for one in found]}))
    else:
        _show_all(found, full=full)


def _second_of(judges: list[Scores]) -> Scores:
    """Of two judges the second, taken out: the first is compared with it where there are no people."""
    if len(judges) != 2:
        raise UsageError(
            "Say with what to compare: --ratings FILE for people, --with RUN for another judge. Nobody reviewed "
            "the run in `beholder view`."
        )
    return judges.pop()


def _reference(ratings: Path | None, other: Scores | None) -> Mapping[str, Ratings]:
    from beholder.statistics.agreement.agreeing import ratings_of
    from beholder.statistics.reading import read_ratings

    if other is not None:
        return ratings_of(other)
    return read_ratings(ratings) if ratings is not None else {}


def _scales_of(other: Scores | None, people: Mapping[str, Ratings]) -> dict[str, tuple[float, float]]:
    """What is known of another judge's scales, or of the scales of people who rated by the judge's own rubric."""
    columns = other.columns.values() if other is not None else ()
    return {one.name: one.scale for one in columns if one.scale is not None and one.name in people}


def _the_other(named: str, ledger: str | None) -> Scores:
    """The judge to compare with: a run of the ledger, or the one judge of a file."""
    path = Path(named)
    if not path.is_file():
        return gathered(named, None, None, ledger)[0]
    judges = gathered(None, [path])
    if len(judges) > 1:
        raise UsageError(f"{named!r} holds {len(judges)} judges ({', '.join(one.name for one in judges)}), not one.")
    return judges[0]


def _only(
    judges: Sequence[Scores], people: Mapping[str, Ratings], wanted: Iterable[str]
) -> tuple[list[Scores], Mapping[str, Ratings]]:
    """The cases of these groups. Ratings of cases that a judge has outside them go too."""
    from beholder.statistics.data import Ratings

    kept = list(judges)
    for text in wanted:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--only is written GROUP=VALUE, such as task=text, not {text!r}.")
        kept = [_in_group(one, name, value) for one in kept]
    gone = {case for one in judges for case in one.cases} - {case for one in kept for case in one.cases}
    if not gone:
        return kept, people
    found = {}
    for aspect, one_aspect in people.items():
        cases = tuple(case for case in one_aspect.cases if case not in gone)
        if cases:
            found[aspect] = Ratings(aspect, cases, one_aspect.raters, one_aspect.at(cases).values)
    return kept, found


def _in_group(judge: Scores, name: str, value: str) -> Scores:
    if name not in judge.groups:
        known = ", ".join(judge.groups) or "none (--cases FILE brings those of cases in plain files)"
        raise UsageError(f"--only asks for {name!r}, and no case of {judge.name} has such a group; there are: {known}.")
    rows = [row for row, own in enumerate(judge.groups[name]) if own == value]
    if not rows:
        there = ", ".join(sorted(set(judge.groups[name]) - {""})[:10])
        raise UsageError(f"No case of {judge.name} has {name} {value!r}; there is: {there}.")
    return judge.at(rows)


def _rated(
    given: Mapping[str, tuple[float, float]], people: Mapping[str, Ratings]
) -> Mapping[str, tuple[float, float]]:
    unknown = [aspect for aspect in given if aspect and aspect not in people]
    if unknown:
        raise UsageError(f"A scale is given for the aspect {unknown[0]!r}; there are {', '.join(people)}.")
    return given


def _show_all(found: Iterable[Agreement], *, full: bool) -> None:
    for at, one in enumerate(found):
        if at:
            say("")
        _show(one, full=full)


def _show(found: Agreement, *, full: bool) -> None:
    from rich.console import Console

    from beholder.reports.agreement import tables
    from beholder.reports.numbers import numbers_table, show_table
    from beholder.statistics.agreement.words import overall_sentence, sentences, straight_lines

    console = Console(highlight=False, emoji=False)
    other_judge = found.reference != "people"
    say(printable(f"{found.judge} against {found.reference}, {found.cases:,} case{'' if found.cases == 1 else 's'}"))
    for title, headers, rows in tables(found, full=full):
        say(f"\n{title}")
        show_table(numbers_table(headers, rows))
    say("")
    for one in found.criteria:
        console.print(printable(f"{one.aspect}: {' '.join(sentences(one, other_judge))}"), markup=False)
    for sentence in (overall_sentence(found), straight_lines(found.criteria)):
        if sentence:
            console.print(printable(sentence), markup=False)
    say("")
    for note in (*found.notes, found.intervals):
        console.print(printable(note), markup=False)
