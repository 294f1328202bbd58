"""`beholder estimate`: the mean human score of a whole run, from a judge on all cases and people on a few."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.people_options import Aspects, JudgeScale, PeopleScale, said_by_people
from beholder.cli.runs import AsJson, LedgerAt
from beholder.cli.statistics_options import (
    CasesAt,
    GroupBy,
    Mapped,
    MaybeRun,
    RatingsOrReviews,
    ScoresAt,
    gathered,
)
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from beholder.statistics.data import Column, Floats, Ratings, Scores
    from beholder.statistics.estimation.estimating import Estimated
    from beholder.statistics.estimation.planning import Needed
    from beholder.statistics.intervals import Estimate

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Found:
    """What one judge and people give for one aspect. `judge_passes` says in words when the judge passes a case;
    `scales` are None where none was needed."""

    judge: str
    aspect: str
    column: str
    estimated: Estimated
    judge_passes: str = ""
    scales: _Scales | None = None


@dataclass(frozen=True, slots=True)
class _Scales:
    """The judge's and people's; `guessed` where only the ratings themselves tell the people's."""

    judge: Scale
    people: Scale
    guessed: bool


@dataclass(frozen=True, slots=True)
class _Given:
    """What was asked."""

    passes: float | None
    judge_passes: float | None
    width: float | None

    def check(self) -> None:
        if self.judge_passes is not None and self.passes is None:
            raise UsageError("--judge-pass goes with --pass, which says from which human score a case passes.")
        for name, value in (("--pass", self.passes), ("--judge-pass", self.judge_passes)):
            if value is not None and not isfinite(value):
                raise UsageError(f"{name} is a score from which a case passes, and {value} is none.")
        if self.width is not None and not 0 < self.width < inf:
            raise UsageError(
                "--width must be above 0: it is how far an interval may reach from its low to its high end."
            )


@dataclass(frozen=True, slots=True)
class _People:
    """What people said by aspect, the scales that were given for it, and whether they `reviewed` the run itself: then
    they rated on the rubric's own scales, however few of their values came up."""

    ratings: Mapping[str, Ratings]
    judge_scales: Mapping[str, Scale]
    scales: Mapping[str, Scale]
    reviewed: bool


def estimate(
    run: MaybeRun = None,
    *,
    ratings: RatingsOrReviews = None,
    aspect: Aspects = None,
    scores: ScoresAt = None,
    cases: CasesAt = None,
    map_: Mapped = None,
    group: GroupBy = None,
    passes: Annotated[
        float | None,
        typer.Option("--pass", help="Estimate a pass rate: the human score from which a case passes."),
    ] = None,
    judge_passes: Annotated[
        float | None,
        typer.Option("--judge-pass", help="The judge's score from which a case passes; else at the same place."),
    ] = None,
    scale: JudgeScale = None,
    rating_scale: PeopleScale = None,
    width: Annotated[
        float | None, typer.Option(min=0, help="Also say how many ratings give an interval of this width.")
    ] = None,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Estimate what people would say of all cases, from the judge on all and people on a few drawn at random."""
    given = _Given(passes, judge_passes, width)
    given.check()
    every = said_by_people(ratings, run, scores, ledger, aspect)
    people = {name: every[name] for name in aspect or every}
    # A pair for an aspect that was not asked for is no mistake.
    pairs = [pair for pair in map_ or () if (name := pair.partition("=")[0].strip()) in people or name not in every]
    rated = _People(people, _scales(scale, people), _scales(rating_scale, people), ratings is None)
    found: list[_Found] = []
    notes: dict[str, None] = {}
    for judge in gathered(run, scores, cases, ledger):
        more, told = _by_one_judge(judge, rated, pairs, group, given)
        found += more
        notes |= dict.fromkeys(told)
    if json_:
        say(json.dumps({"passes": passes, "estimates": [_as_dict(one) for one in found], "notes": list(notes)}))
    else:
        _show_all(found, notes, passes)


def _by_one_judge(
    judge: Scores, people: _People, pairs: Sequence[str], group: str | None, given: _Given
) -> tuple[list[_Found], list[str]]:
    """What a judge and people give for each aspect, and what is to be said of it."""
    from beholder.statistics.mapping import matched, told
    from beholder.statistics.reading import group_of
    from beholder.statistics.scales import guessed_scales, scales_by_aspect

    columns = matched(people.ratings, judge, pairs)
    notes = [*told(columns, people.ratings, pairs)]
    belongs = group_of(judge, group)
    own = {name: one.scale for name, one in columns.items() if people.reviewed and one.scale is not None}
    rated_on = people.scales or own
    scales = scales_by_aspect(columns, people.ratings, people.judge_scales, rated_on)
    guessed = guessed_scales(columns, scales, people.judge_scales, rated_on)
    found = []
    for name, column in columns.items():
        ratings = people.ratings[name]
        notes += _strangers(ratings, judge)
        found.append(_estimated(judge, ratings, column, belongs, _Scales(*scales[name], name in guessed), given))
    return found, notes


def _strangers(people: Ratings, judge: Scores) -> list[str]:
    here = set(judge.cases)
    strange = sum(case not in here for case in people.cases)
    if strange == len(people.cases):
        cases = "The one case" if strange == 1 else f"All {strange:,} cases"
        one = f"; one of its cases is {judge.cases[0]!r}" if judge.cases else ""
        rated = f"that people rated {'is' if strange == 1 else 'are'} not in {judge.name}: {people.cases[0]!r}"
        raise UsageError(f"{cases} {rated}{one}.")
    which = "rated case is" if strange == 1 else "rated cases are"
    return [f"{strange:,} {which} not in {judge.name} and left out."] if strange else []


def _scales(given: Sequence[str] | None, people: Mapping[str, Ratings]) -> dict[str, Scale]:
    """By aspect, under an empty name for all."""
    from beholder.statistics.scales import scales_given

    found = scales_given(given or ())
    for name in found:
        if name and name not in people:
            raise UsageError(f"Nobody rated the aspect {name!r}, which has a scale; rated are {', '.join(people)}.")
    return found


def _estimated(
    judge: Scores,
    ratings: Ratings,
    column: Column,
    belongs: Sequence[str] | None,
    scales: _Scales,
    given: _Given,
) -> _Found:
    from beholder.statistics.data import Kind
    from beholder.statistics.estimation.estimating import estimated_mean
    from beholder.statistics.mapping import on_scale
    from beholder.statistics.scales import maps

    aspect = ratings.aspect
    scaled = replace(column, scale=scales.judge)
    human = ratings.at(judge.cases).mean()
    if given.passes is not None:
        return _passing(judge, aspect, scaled, human, scales, belongs, given)
    estimated = estimated_mean(
        human,
        column.values,
        belongs,
        moved=on_scale(scaled, scales.people).values if maps(scales.judge, scales.people) else None,
        within=None if scales.guessed else scales.people,
        either_way=column.kind in (Kind.MEASUREMENT, Kind.SPREAD),
        width=given.width,
    )
    return _Found(judge.name, aspect, column.name, estimated, scales=scales)


def _passing(
    judge: Scores,
    aspect: str,
    column: Column,
    human: Floats,
    scales: _Scales,
    belongs: Sequence[str] | None,
    given: _Given,
) -> _Found:
    import numpy as np

    from beholder.statistics.data import Kind
    from beholder.statistics.estimation.estimating import estimated_rate

    assert given.passes is not None
    least, used = given.judge_passes, None
    if column.kind is Kind.OVERALL and least is None:
        column = judge.columns.get(column.name.removesuffix("score") + "passed", column)
    if column.kind in (Kind.PASSED, Kind.ASSERTION):
        least, words = 1.0, f"{column.name} says so"
    else:
        used = scales if least is None else None
        least = _same_place(column, scales.people, given.passes) if least is None else least
        words = f"its {column.name} is at least {least:.3g}"

    def at_least(values: Floats, least: float) -> Floats:
        # A mean of thirds may come out a hair under the value that it is.
        return np.where(np.isnan(values), np.nan, (values >= least - 1e-9).astype(np.float64))

    passed = at_least(human, given.passes), at_least(column.values, least)
    estimated = estimated_rate(*passed, belongs, width=given.width)
    return _Found(judge.name, aspect, column.name, estimated, words, used)


def _same_place(column: Column, of_people: Scale, passes: float) -> float:
    """Where the judge's scale has what `passes` is on the people's."""
    assert column.scale is not None
    (low, high), (people_low, people_high) = column.scale, of_people
    if people_low == people_high:
        raise UsageError(
            "People gave one score only, so that their scale is not known; give it as --rating-scale 1..7."
        )
    return low + (passes - people_low) / (people_high - people_low) * (high - low)


def _show_all(found: Sequence[_Found], notes: Iterable[str], passes: float | None) -> None:
    for at, one in enumerate(found):
        if at:
            say("")
        _show(one, passes)
    for note in notes:
        say(printable(note))


def _show(one: _Found, passes: float | None) -> None:
    from beholder.reports.numbers import numbers_table, show_table, shown, with_interval
    from beholder.statistics.estimation.estimating import told

    found = one.estimated
    what = "mean human score" if passes is None else f"share that people pass ({passes:g} or more)"
    say(printable(f"{one.aspect}: {what} of {_cases(found.cases)}; {one.judge}, {one.column}"))
    rows = [
        ("people and judge", with_interval(found.together), _wide(found.together)),
        (f"people alone ({_cases(found.rated)})", with_interval(found.people), _wide(found.people)),
        (f"judge alone ({_cases(found.judged)})", with_interval(found.judge), _wide(found.judge)),
        ("judge less people", with_interval(found.bias), _wide(found.bias)),
    ]
    if found.correction is not None:
        label = "judge, corrected by how it errs"
        rows.insert(3, (label, with_interval(found.correction.rate), _wide(found.correction.rate)))
    say("")
    show_table(numbers_table(("", "estimate (interval)", "width"), rows))
    say("")
    for sentence in (*_meaning(one), *told(found)):
        say(printable(sentence))
    if found.widths:
        say("")
        buys = [
            (
                f"{row.ratings:,}" + (" (now)" if row.ratings == found.rated else ""),
                shown(row.with_judge),
                shown(row.people),
            )
            for row in found.widths
        ]
        show_table(numbers_table(("rated cases", "width with judge", "people alone"), buys))
    if found.needed is not None:
        say(_need(found.needed, found.cases, known=bool(found.widths)))


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count:,} cases"


def _wide(estimate: Estimate) -> str:
    from beholder.reports.numbers import shown

    return shown(None if estimate.low is None or estimate.high is None else estimate.high - estimate.low)


def _meaning(one: _Found) -> list[str]:
    """The numbers in words, for a reader who is no statistician."""
    found = one.estimated
    together, bias = found.together, found.bias
    sentences = []
    if together.value is not None and together.low is not None and together.high is not None:
        sentences.append(
            f"If people rated endlessly many cases like these, the result would lie between {together.low:.3f} and "
            f"{together.high:.3f}; the best guess is {together.value:.3f}."
        )
    else:
        sentences.append(f"There is no interval: {(together.why or 'not defined').removeprefix('no interval: ')}.")
    if bias.excludes_zero and bias.value is not None:
        way = "more" if bias.value > 0 else "less"
        sentences.append(f"The judge alone says {abs(bias.value):.3f} {way} than people: do not report its mean.")
    if found.weight is not None:
        correlation = "" if found.correlation is None else f" (correlation with people {found.correlation:.2f})"
        sentences.append(f"A point of the judge counts for {found.weight:.3g} points of people{correlation}.")
    sentences += _of_scales(one)
    if one.judge_passes:
        sentences.append(f"The judge passes a case where {one.judge_passes}.")
    if (corrected := found.correction) is not None:
        if corrected.sensitivity is not None and corrected.specificity is not None:
            sentences.append(
                f"It passes {corrected.sensitivity:.0%} of what people pass (sensitivity) and fails "
                f"{corrected.specificity:.0%} of what they fail (specificity); the corrected rate undoes these errors."
            )
        if corrected.rate.value is None:
            sentences.append(f"The corrected rate is {corrected.rate.why}.")
        if corrected.clipped:
            sentences.append("The corrected rate or its interval fell outside 0 and 1 and was cut there.")
    return sentences


def _of_scales(one: _Found) -> list[str]:
    from beholder.statistics.estimation.estimating import FEW
    from beholder.statistics.scales import ends, maps

    if one.scales is None:
        return []
    judge, people, sentences = one.scales.judge, one.scales.people, []
    if one.scales.guessed:
        rests = "where the judge passes a case rests" if one.judge_passes else "the judge alone and its bias rest"
        few = one.estimated.rated < FEW
        sentences.append(
            f"{'Warning: people' if few else 'People'}'s scale was not given and is taken to be {ends(people)}, as far "
            f"as their ratings reach; {rests} on that, and intervals are not cut at its ends. Give it with "
            "--rating-scale."
        )
    if not one.judge_passes and judge != people and maps(judge, people):
        sentences.append(
            f"The judge's {ends(judge)} is shown on people's {ends(people)}, end on end; the estimate itself does not "
            "depend on its scale."
        )
    return sentences


def _need(needed: Needed, cases: int, *, known: bool) -> str:
    def how(count: int | None) -> str:
        return f"more than all {_cases(cases)}" if count is None else f"{count:,} rated cases"

    if not known:
        return f"How many rated cases a width of {needed.width:g} takes cannot be told from these."

    with_judge = "" if needed.with_judge is None else f"{how(needed.with_judge)} with the judge, "
    return f"A width of {needed.width:g} takes {with_judge}{how(needed.people)} by people alone."


def _as_dict(one: _Found) -> dict[str, object]:
    from beholder.statistics.estimation.estimating import told

    found = one.estimated
    correction = found.correction
    return {
        "judge": one.judge,
        "aspect": one.aspect,
        "column": one.column,
        "cases": found.cases,
        "judged": found.judged,
        "rated": found.rated,
        "groups": found.groups,
        "together": found.together.to_dict(),
        "people": found.people.to_dict(),
        "judge_alone": found.judge.to_dict(),
        "bias": found.bias.to_dict(),
        "weight": found.weight,
        "correlation": found.correlation,
        "corrected": None
        if correction is None
        else {
            **correction.rate.to_dict(),
            "sensitivity": correction.sensitivity,
            "specificity": correction.specificity,
            "clipped": correction.clipped,
        },
        "cut": None if found.cut is None else list(found.cut),
        "widths": [asdict(row) for row in found.widths],
        "needed": None if found.needed is None else asdict(found.needed),
        "unlike": None if found.unlike is None else asdict(found.unlike),
        "told": [*_meaning(one), *told(found)],
    }
