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
    ScoresAt,
    Seed,
    gathered,
    reviewed_by_people,
)
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from beholder.statistics.agreement.agreeing import Agreement, Criterion
    from beholder.statistics.data import Ratings, Scores
    from beholder.statistics.intervals import Estimate


def agree(
    run: MaybeRun = None,
    ratings: Annotated[
        Path | None,
        typer.Option(
            help="What people said: CSV or JSONL with case, rater, aspect, score; without it the run's reviews count.",
            show_default=False,
        ),
    ] = None,
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
        if not reviewed and len(judges) != 2:
            raise UsageError(
                "Say with what to compare: --ratings FILE for people, --with RUN for another judge. Nobody reviewed "
                "the run in `beholder view`."
            )
        other = None if reviewed else judges.pop()
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
        return
    for at, one in enumerate(found):
        if at:
            say("")
        _show(one, full=full)


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
        for at, one in enumerate(kept):
            rows = [row for row, own in enumerate(one.groups.get(name, ())) if own == value]
            if not rows:
                there = ", ".join(sorted(set(one.groups.get(name, ())))[:10]) or "no such group"
                raise UsageError(f"No case of {one.name} has {name} {value!r}; there is: {there}.")
            kept[at] = one.at(rows)
    gone = {case for one in judges for case in one.cases} - {case for one in kept for case in one.cases}
    if not gone:
        return kept, people
    found = {}
    for aspect, one_aspect in people.items():
        cases = tuple(case for case in one_aspect.cases if case not in gone)
        if cases:
            found[aspect] = Ratings(aspect, cases, one_aspect.raters, one_aspect.at(cases).values)
    return kept, found


def _rated(
    given: Mapping[str, tuple[float, float]], people: Mapping[str, Ratings]
) -> Mapping[str, tuple[float, float]]:
    unknown = [aspect for aspect in given if aspect and aspect not in people]
    if unknown:
        raise UsageError(f"A scale is given for the aspect {unknown[0]!r}; there are {', '.join(people)}.")
    return given


def _show(found: Agreement, *, full: bool) -> None:
    from rich.console import Console

    from beholder.reports.numbers import numbers_table
    from beholder.statistics.agreement.words import overall_sentence, sentences, straight_lines

    console = Console(highlight=False, emoji=False)
    other_judge = found.reference != "people"
    say(f"{found.judge} against {found.reference}, {found.cases:,} cases")
    for title, headers, rows in _tables(found, full=full):
        say(f"\n{title}")
        console.print(numbers_table(headers, rows))
    say("")
    for one in found.criteria:
        console.print(printable(f"{one.aspect}: {' '.join(sentences(one, other_judge))}"), markup=False)
    for sentence in (overall_sentence(found), straight_lines(found.criteria)):
        if sentence:
            console.print(printable(sentence), markup=False)
    say("")
    for note in (*found.notes, found.intervals):
        console.print(printable(note), markup=False)


_OTHERS = ("exact", "within_one", "tau_b", "tau_c", "pearson")

Tabled = tuple[str, "Sequence[str]", "list[Sequence[str]]"]


def _tables(found: Agreement, *, full: bool) -> Iterable[Tabled]:
    """Title, headers and rows. Narrow ones, so that intervals have room."""
    from beholder.reports.numbers import shown, with_interval

    def interval(estimate: Estimate | None) -> str:
        return "–" if estimate is None else with_interval(estimate, 2)

    def plain(estimate: Estimate | None) -> str:
        return "–" if estimate is None else shown(estimate.value, 2)

    def rows(cells: Callable[[Criterion], Sequence[str]], *, decides: bool | None = None) -> list[Sequence[str]]:
        picked = [one for one in found.criteria if decides is None or one.decides is decides]
        return [(one.aspect, *cells(one)) for one in picked]

    people = any(one.people for one in found.criteria)
    unit = "people's mean ratings" if found.against == "mean" else "people's single ratings"
    whose = "the other judge's scores" if found.reference != "people" else unit
    scored, decided = (any(one.decides is wanted for one in found.criteria) for wanted in (False, True))
    if scored:
        yield (
            f"Ranking: does the judge put cases in the order of {whose} (1 the same, 0 as by chance)?",
            ("criterion", "cases", "Spearman ρ", *(("one rater", "judge less rater") if people else ())),
            rows(
                lambda one: (
                    f"{one.cases:,}",
                    interval(one.coefficients["spearman"]),
                    *(
                        (plain(one.people.get("rater_spearman")), interval(one.people.get("rater_difference")))
                        if people
                        else ()
                    ),
                ),
                decides=False,
            ),
        )
        yield (
            f"Distance: how far are its numbers from {whose}, and how far is always saying the same?",
            ("criterion", "MAE", "constant", "difference", "bias"),
            [
                *rows(
                    lambda one: (
                        interval(one.coefficients["mae"]),
                        plain(one.constant.mae),
                        interval(one.constant.difference),
                        plain(one.coefficients["bias"]),
                    ),
                    decides=False,
                ),
                *_overall_row(found, interval, plain),
            ],
        )
        yield (
            "Same answer as a single rating beyond chance (κ), exactly, at most one step away; other coefficients",
            ("criterion", "quadratic κ", "exact", "±1", "τb", "τc", "Pearson"),
            rows(
                lambda one: (
                    interval(one.coefficients["quadratic_kappa"]),
                    *(plain(one.coefficients[name]) for name in _OTHERS),
                ),
                decides=False,
            ),
        )
    if decided:
        yield (
            "Yes or no: agreement beyond chance (κ); failures that are right (precision) and found (recall)",
            ("criterion", "cases", "Cohen's κ", "precision", "recall", "same"),
            rows(
                lambda one: (
                    f"{one.cases:,}",
                    *(interval(one.coefficients[name]) for name in ("kappa", "precision", "recall")),
                    plain(one.coefficients["exact"]),
                ),
                decides=True,
            ),
        )
    if people:
        yield (
            "People among themselves: 1 if they always agree, 0 if as by chance",
            ("criterion", "raters", "α ordinal", "α interval", "ICC(1,1)", "ICC(1,k)"),
            rows(
                lambda one: (
                    str(one.raters),
                    interval(one.people.get("alpha_ordinal")),
                    *(plain(one.people.get(name)) for name in ("alpha_interval", "icc_1", "icc_k")),
                )
            ),
        )
    if any(one.beside for one in found.criteria):
        yield (
            "Other metrics: their ranking, and how much better the judge ranks the same cases",
            ("criterion", "metric", "cases", "Spearman ρ", "judge better by"),
            [
                (one.aspect, metric.name, f"{metric.cases:,}", interval(metric.spearman), interval(metric.difference))
                for one in found.criteria
                for metric in one.beside
            ],
        )
    if full:
        yield from _in_full(found)


def _overall_row(
    found: Agreement, interval: Callable[[Estimate | None], str], plain: Callable[[Estimate | None], str]
) -> list[Sequence[str]]:
    if not found.overall:
        return []
    judge, constant, difference = (found.overall[name] for name in ("mae", "constant", "difference"))
    return [("mean of them", interval(judge), plain(constant), interval(difference), "")]


def _in_full(found: Agreement) -> Iterable[Tabled]:
    from beholder.reports.numbers import shown, with_interval

    yield (
        "Every coefficient",
        ("criterion", "coefficient", "value"),
        [
            (one.aspect, name, with_interval(estimate) + (f": {estimate.why}" if estimate.why else ""))
            for one in found.criteria
            for name, estimate in (*one.coefficients.items(), *one.people.items(), ("constant", one.constant.mae))
        ],
    )
    everybody = [(one, rater) for one in found.criteria for rater in one.each_rater]
    if everybody:
        yield (
            "Every rater: mean and spread of the ratings, how far above the others, and the value given most",
            ("criterion", "rater", "rated", "mean", "sd", "bias", "most given"),
            [
                (
                    one.aspect,
                    rater.rater,
                    str(rater.rated),
                    shown(rater.mean, 2),
                    shown(rater.deviation, 2),
                    shown(rater.bias, 2),
                    f"{rater.usual:g} in {rater.share:.0%}" + (" (straight line)" if rater.straight else ""),
                )
                for one, rater in everybody
            ],
        )
