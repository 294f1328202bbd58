"""`beholder agree`: agreement of a judge with people, or with another judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cases.case import format_case_count
from beholder.cli.options import (
    CasesFile,
    DrawsOption,
    GroupOption,
    JsonOption,
    LedgerOption,
    MapOption,
    OptionalRun,
    RatingsOrReviews,
    ScoresFiles,
    SeedOption,
    load_review_ratings,
    load_scores,
)
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from beholder.statistics.agreement import Agreement
    from beholder.statistics.data import Ratings, Scores


def agree(
    run: OptionalRun = None,
    ratings: RatingsOrReviews = None,
    scores: ScoresFiles = None,
    with_: Annotated[
        str | None,
        typer.Option(
            "--with", help="Another run, or a file of scores: that judge in place of people.", show_default=False
        ),
    ] = None,
    cases: CasesFile = None,
    group: GroupOption = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only cases of a group: task=text.", show_default=False)
    ] = None,
    map_: MapOption = None,
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
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Say how far a judge agrees with people, beside how far people agree with each other and what a constant does."""
    from beholder.statistics.agreement import AgreementOptions
    from beholder.statistics.agreement import agree as agree_
    from beholder.statistics.aspects import parse_scales
    from beholder.statistics.data import read_scores
    from beholder.statistics.raters import ReferenceMode

    if against not in tuple(ReferenceMode):
        raise UsageError(f"--against is one of {', '.join(ReferenceMode)}, not {against!r}.")
    if ratings is not None and with_ is not None:
        raise UsageError("Give --ratings (people) or --with (another judge), not both.")
    judges = load_scores(run, scores, cases, address)
    other = _load_other_judge(with_, address) if with_ is not None else None
    reviewed: Mapping[str, Ratings] = {}
    if ratings is None and other is None:
        reviewed = {} if scores else load_review_ratings(run, address, assertions=full)
        other = None if reviewed else _pop_second_judge(judges)
    judges, people = _filter_groups(judges, reviewed or _load_reference(ratings, other), only or ())
    asked = AgreementOptions(
        pairs=map_ or (),
        against=ReferenceMode(against),
        scales=_check_scales(parse_scales(scale or ()), people),
        rating_scales=_check_scales(parse_scales(rating_scale or ()), people)
        or _reference_scales(other or (judges[0] if reviewed else None), people),
        group=group,
        baselines=[judge_scores for path in baseline or () for judge_scores in read_scores(path)],
        draw_count=draws,
        seed=seed,
    )
    agreements = [agree_(judge, people, asked, other.name if other is not None else "") for judge in judges]
    if json_:
        print_text(json.dumps({"agreements": [agreement.to_dict() for agreement in agreements]}))
    else:
        _print_agreements(agreements, full=full)


def _pop_second_judge(judges: list[Scores]) -> Scores:
    """Remove and return the second of two judges: without ratings the first is compared with it."""
    if len(judges) != 2:
        raise UsageError(
            "Say with what to compare: --ratings FILE for people, --with RUN for another judge. Nobody reviewed "
            "the run in `beholder view`."
        )
    return judges.pop()


def _load_reference(ratings: Path | None, other: Scores | None) -> Mapping[str, Ratings]:
    from beholder.statistics.agreement import ratings_from_scores
    from beholder.statistics.data import read_ratings

    if other is not None:
        return ratings_from_scores(other)
    return read_ratings(ratings) if ratings is not None else {}


def _reference_scales(other: Scores | None, people: Mapping[str, Ratings]) -> dict[str, tuple[float, float]]:
    """Return the known scales of the reference: another judge, or reviewers who rated by the judge's rubric."""
    columns = other.columns.values() if other is not None else ()
    return {column.name: column.scale for column in columns if column.scale is not None and column.name in people}


def _load_other_judge(named: str, address: str | None) -> Scores:
    """Load the judge to compare with: a run of the ledger, or the one judge of a file."""
    path = Path(named)
    if not path.is_file():
        return load_scores(named, None, None, address)[0]
    judges = load_scores(None, [path])
    if len(judges) > 1:
        raise UsageError(
            f"{named!r} holds {len(judges)} judges ({', '.join(judge.name for judge in judges)}), not one."
        )
    return judges[0]


def _filter_groups(
    judges: Sequence[Scores], people: Mapping[str, Ratings], wanted: Iterable[str]
) -> tuple[list[Scores], Mapping[str, Ratings]]:
    """Keep the cases of the wanted groups, in the scores and in the ratings."""
    from beholder.statistics.data import Ratings

    kept = list(judges)
    for text in wanted:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"--only is written GROUP=VALUE, such as task=text, not {text!r}.")
        kept = [_in_group(judge, name, value) for judge in kept]
    gone = {case for judge in judges for case in judge.cases} - {case for judge in kept for case in judge.cases}
    if not gone:
        return kept, people
    filtered = {}
    for aspect, one_aspect in people.items():
        cases = tuple(case for case in one_aspect.cases if case not in gone)
        if cases:
            filtered[aspect] = Ratings(aspect, cases, one_aspect.raters, one_aspect.for_cases(cases).values)
    return kept, filtered


def _in_group(judge: Scores, name: str, value: str) -> Scores:
    if name not in judge.groups:
        known = ", ".join(judge.groups) or "none (--cases FILE brings those of cases in plain files)"
        raise UsageError(f"--only asks for {name!r}, and no case of {judge.name} has such a group; there are: {known}.")
    rows = [row for row, group in enumerate(judge.groups[name]) if group == value]
    if not rows:
        values = ", ".join(sorted(set(judge.groups[name]) - {""})[:10])
        raise UsageError(f"No case of {judge.name} has {name} {value!r}; there is: {values}.")
    return judge.select(rows)


def _check_scales(
    given: Mapping[str, tuple[float, float]], people: Mapping[str, Ratings]
) -> Mapping[str, tuple[float, float]]:
    unknown = [aspect for aspect in given if aspect and aspect not in people]
    if unknown:
        raise UsageError(f"A scale is given for the aspect {unknown[0]!r}; there are {', '.join(people)}.")
    return given


def _print_agreements(agreements: Iterable[Agreement], *, full: bool) -> None:
    for at, agreement in enumerate(agreements):
        if at:
            print_text("")
        _print_agreement(agreement, full=full)


def _print_agreement(agreement: Agreement, *, full: bool) -> None:
    from rich.console import Console

    from beholder.reports.agreement import agreement_tables
    from beholder.reports.formatting import numbers_table, print_table
    from beholder.statistics.agreement_sentences import describe_criterion, describe_overall, describe_straightlining

    console = Console(highlight=False, emoji=False)
    other_judge = agreement.reference != "people"
    cases = format_case_count(agreement.cases)
    print_text(printable(f"{agreement.judge} against {agreement.reference}, {cases}"))
    for title, headers, rows in agreement_tables(agreement, full=full):
        print_text(f"\n{title}")
        print_table(numbers_table(headers, rows))
    print_text("")
    for criterion in agreement.criteria:
        console.print(
            printable(f"{criterion.aspect}: {' '.join(describe_criterion(criterion, other_judge))}"), markup=False
        )
    for sentence in (describe_overall(agreement), describe_straightlining(agreement.criteria)):
        if sentence:
            console.print(printable(sentence), markup=False)
    print_text("")
    for note in (*agreement.notes, agreement.intervals):
        console.print(printable(note), markup=False)
