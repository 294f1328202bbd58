"""`beholder estimate`: the mean human score of a whole run, from a judge on all cases and people on a few."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cases.case import format_case_count
from beholder.cli.options import (
    AspectOption,
    CasesFile,
    GroupOption,
    JsonOption,
    JudgeScaleOption,
    LedgerOption,
    MapOption,
    OptionalRun,
    PeopleScaleOption,
    RatingsOrReviews,
    ScoresFiles,
    load_people_ratings,
    load_scores,
)
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from beholder.statistics.bootstrap import Estimate
    from beholder.statistics.data import Column, Floats, Ratings, Scores
    from beholder.statistics.estimation import HumanScoreEstimate, RatingsNeeded


ScaleRange = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _AspectEstimate:
    """The estimate for one judge and aspect; `judge_passes` says when the judge passes a case, `scales` are None where
    none was needed."""

    judge: str
    aspect: str
    column: str
    estimated: HumanScoreEstimate
    judge_passes: str = ""
    scales: _AspectScales | None = None


@dataclass(frozen=True, slots=True)
class _AspectScales:
    """Scales of judge and people; `guessed` if the people's scale is only the range of their ratings."""

    judge: ScaleRange
    people: ScaleRange
    guessed: bool


@dataclass(frozen=True, slots=True)
class _EstimateRequest:
    """Options of the command: thresholds for a pass rate, and the wanted width of the interval."""

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
class _PeopleRatings:
    """Ratings by aspect and the scales that were given. If people `reviewed` the run itself, they rated on the scales
    of the rubric, even if they used few of the values."""

    ratings: Mapping[str, Ratings]
    judge_scales: Mapping[str, ScaleRange]
    scales: Mapping[str, ScaleRange]
    reviewed: bool


def estimate(
    run: OptionalRun = None,
    *,
    ratings: RatingsOrReviews = None,
    aspect: AspectOption = None,
    scores: ScoresFiles = None,
    cases: CasesFile = None,
    map_: MapOption = None,
    group: GroupOption = None,
    passes: Annotated[
        float | None,
        typer.Option("--pass", help="Estimate a pass rate: the human score from which a case passes."),
    ] = None,
    judge_passes: Annotated[
        float | None,
        typer.Option("--judge-pass", help="The judge's score from which a case passes; else at the same place."),
    ] = None,
    scale: JudgeScaleOption = None,
    rating_scale: PeopleScaleOption = None,
    width: Annotated[
        float | None, typer.Option(min=0, help="Also say how many ratings give an interval of this width.")
    ] = None,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Estimate what people would say of all cases, from the judge on all and people on a few drawn at random."""
    given = _EstimateRequest(passes, judge_passes, width)
    given.check()
    every = load_people_ratings(ratings, run, scores, address, aspect)
    people = {name: every[name] for name in aspect or every}
    # A pair for an aspect that was not asked for is no mistake.
    pairs = [pair for pair in map_ or () if (name := pair.partition("=")[0].strip()) in people or name not in every]
    rated = _PeopleRatings(people, _parse_scales(scale, people), _parse_scales(rating_scale, people), ratings is None)
    all_estimates: list[_AspectEstimate] = []
    notes: dict[str, None] = {}
    for judge in load_scores(run, scores, cases, address):
        estimates, judge_notes = _estimate_for_judge(judge, rated, pairs, group, given)
        all_estimates += estimates
        notes |= dict.fromkeys(judge_notes)
    if json_:
        print_text(
            json.dumps(
                {
                    "passes": passes,
                    "estimates": [_estimate_to_dict(estimate) for estimate in all_estimates],
                    "notes": list(notes),
                }
            )
        )
    else:
        _print_estimates(all_estimates, notes, passes)


def _estimate_for_judge(
    judge: Scores, people: _PeopleRatings, pairs: Sequence[str], group: str | None, given: _EstimateRequest
) -> tuple[list[_AspectEstimate], list[str]]:
    """Return the estimate for each aspect of one judge, and notes for the user."""
    from beholder.statistics.aspects import describe_matches, find_guessed_scales, infer_scales_by_aspect, match_aspects
    from beholder.statistics.data import select_group

    columns = match_aspects(people.ratings, judge, pairs)
    notes = [*describe_matches(columns, people.ratings, pairs)]
    belongs = select_group(judge, group)
    rubric_scales = {
        name: column.scale for name, column in columns.items() if people.reviewed and column.scale is not None
    }
    rated_on = people.scales or rubric_scales
    scales = infer_scales_by_aspect(columns, people.ratings, people.judge_scales, rated_on)
    guessed = find_guessed_scales(columns, scales, people.judge_scales, rated_on)
    estimates = []
    for name, column in columns.items():
        ratings = people.ratings[name]
        notes += _unknown_case_notes(ratings, judge)
        estimates.append(
            _estimate_aspect(judge, ratings, column, belongs, _AspectScales(*scales[name], name in guessed), given)
        )
    return estimates, notes


def _unknown_case_notes(people: Ratings, judge: Scores) -> list[str]:
    here = set(judge.cases)
    strange = sum(case not in here for case in people.cases)
    if strange == len(people.cases):
        cases = "The one case" if strange == 1 else f"All {strange:,} cases"
        example = f"; one of its cases is {judge.cases[0]!r}" if judge.cases else ""
        rated = f"that people rated {'is' if strange == 1 else 'are'} not in {judge.name}: {people.cases[0]!r}"
        raise UsageError(f"{cases} {rated}{example}.")
    which = "rated case is" if strange == 1 else "rated cases are"
    return [f"{strange:,} {which} not in {judge.name} and left out."] if strange else []


def _parse_scales(given: Sequence[str] | None, people: Mapping[str, Ratings]) -> dict[str, ScaleRange]:
    """Return scales by aspect, under an empty name for all aspects."""
    from beholder.statistics.aspects import parse_scales

    parsed = parse_scales(given or ())
    for name in parsed:
        if name and name not in people:
            raise UsageError(f"Nobody rated the aspect {name!r}, which has a scale; rated are {', '.join(people)}.")
    return parsed


def _estimate_aspect(
    judge: Scores,
    ratings: Ratings,
    column: Column,
    belongs: Sequence[str] | None,
    scales: _AspectScales,
    given: _EstimateRequest,
) -> _AspectEstimate:
    from beholder.statistics.aspects import can_rescale, rescale
    from beholder.statistics.data import ColumnKind
    from beholder.statistics.estimation import estimate_human_mean

    aspect = ratings.aspect
    scaled = replace(column, scale=scales.judge)
    human = ratings.for_cases(judge.cases).mean()
    if given.passes is not None:
        return _estimate_pass_rate(judge, aspect, scaled, human, scales, belongs, given)
    estimated = estimate_human_mean(
        human,
        column.values,
        belongs,
        judge_rescaled=rescale(scaled, scales.people).values if can_rescale(scales.judge, scales.people) else None,
        scale=None if scales.guessed else scales.people,
        allow_negative=column.kind in (ColumnKind.MEASUREMENT, ColumnKind.SPREAD),
        width=given.width,
    )
    return _AspectEstimate(judge.name, aspect, column.name, estimated, scales=scales)


def _estimate_pass_rate(
    judge: Scores,
    aspect: str,
    column: Column,
    human: Floats,
    scales: _AspectScales,
    belongs: Sequence[str] | None,
    given: _EstimateRequest,
) -> _AspectEstimate:
    import numpy as np

    from beholder.statistics.data import ColumnKind
    from beholder.statistics.estimation import estimate_pass_rate

    assert given.passes is not None
    least, used = given.judge_passes, None
    if column.kind is ColumnKind.OVERALL and least is None:
        column = judge.columns.get(column.name.removesuffix("score") + "passed", column)
    if column.kind in (ColumnKind.PASSED, ColumnKind.ASSERTION):
        least, words = 1.0, f"{column.name} says so"
    else:
        used = scales if least is None else None
        least = _map_pass_score(column, scales.people, given.passes) if least is None else least
        words = f"its {column.name} is at least {least:.3g}"

    def at_least(values: Floats, least: float) -> Floats:
        # A mean of thirds may come out a hair under the value that it is.
        return np.where(np.isnan(values), np.nan, (values >= least - 1e-9).astype(np.float64))

    passed = at_least(human, given.passes), at_least(column.values, least)
    estimated = estimate_pass_rate(*passed, belongs, width=given.width)
    return _AspectEstimate(judge.name, aspect, column.name, estimated, words, used)


def _map_pass_score(column: Column, of_people: ScaleRange, passes: float) -> float:
    """Return the point of the judge's scale at the same relative place as `passes` on the people's."""
    assert column.scale is not None
    (low, high), (people_low, people_high) = column.scale, of_people
    if people_low == people_high:
        raise UsageError(
            "People gave one score only, so that their scale is not known; give it as --rating-scale 1..7."
        )
    return low + (passes - people_low) / (people_high - people_low) * (high - low)


def _print_estimates(estimates: Sequence[_AspectEstimate], notes: Iterable[str], passes: float | None) -> None:
    for at, estimate in enumerate(estimates):
        if at:
            print_text("")
        _print_estimate(estimate, passes)
    for note in notes:
        print_text(printable(note))


def _print_estimate(aspect_estimate: _AspectEstimate, passes: float | None) -> None:
    from beholder.reports.formatting import format_interval, format_number, numbers_table, print_table
    from beholder.statistics.estimation import describe_estimate

    estimated = aspect_estimate.estimated
    what = "mean human score" if passes is None else f"share that people pass ({passes:g} or more)"
    of = f"{what} of {format_case_count(estimated.cases)}"
    print_text(printable(f"{aspect_estimate.aspect}: {of}; {aspect_estimate.judge}, {aspect_estimate.column}"))
    rows = [
        ("people and judge", format_interval(estimated.combined), _format_width(estimated.combined)),
        (
            f"people alone ({format_case_count(estimated.rated)})",
            format_interval(estimated.people),
            _format_width(estimated.people),
        ),
        (
            f"judge alone ({format_case_count(estimated.judged)})",
            format_interval(estimated.judge),
            _format_width(estimated.judge),
        ),
        ("judge less people", format_interval(estimated.bias), _format_width(estimated.bias)),
    ]
    if estimated.correction is not None:
        label = "judge, corrected by how it errs"
        rows.insert(3, (label, format_interval(estimated.correction.rate), _format_width(estimated.correction.rate)))
    print_text("")
    print_table(numbers_table(("", "estimate (interval)", "width"), rows))
    print_text("")
    for sentence in (*_result_sentences(aspect_estimate), *describe_estimate(estimated)):
        print_text(printable(sentence))
    if estimated.widths:
        print_text("")
        buys = [
            (
                f"{row.ratings:,}" + (" (now)" if row.ratings == estimated.rated else ""),
                format_number(row.with_judge),
                format_number(row.people),
            )
            for row in estimated.widths
        ]
        print_table(numbers_table(("rated cases", "width with judge", "people alone"), buys))
    if estimated.needed is not None:
        print_text(_needed_sentence(estimated.needed, estimated.cases, known=bool(estimated.widths)))


def _format_width(estimate: Estimate) -> str:
    from beholder.reports.formatting import format_number

    return format_number(None if estimate.low is None or estimate.high is None else estimate.high - estimate.low)


def _result_sentences(aspect_estimate: _AspectEstimate) -> list[str]:
    """Return the result in sentences for a reader who is no statistician."""
    estimated = aspect_estimate.estimated
    together, bias = estimated.combined, estimated.bias
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
    if estimated.weight is not None:
        correlation = "" if estimated.correlation is None else f" (correlation with people {estimated.correlation:.2f})"
        sentences.append(f"A point of the judge counts for {estimated.weight:.3g} points of people{correlation}.")
    sentences += _scale_sentences(aspect_estimate)
    if aspect_estimate.judge_passes:
        sentences.append(f"The judge passes a case where {aspect_estimate.judge_passes}.")
    if (corrected := estimated.correction) is not None:
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


def _scale_sentences(aspect_estimate: _AspectEstimate) -> list[str]:
    from beholder.statistics.aspects import can_rescale, format_scale
    from beholder.statistics.estimation import FEW_RATINGS

    if aspect_estimate.scales is None:
        return []
    judge, people, sentences = aspect_estimate.scales.judge, aspect_estimate.scales.people, []
    if aspect_estimate.scales.guessed:
        rests = (
            "where the judge passes a case rests"
            if aspect_estimate.judge_passes
            else "the judge alone and its bias rest"
        )
        few = aspect_estimate.estimated.rated < FEW_RATINGS
        sentences.append(
            f"{'Warning: people' if few else 'People'}'s scale was not given and is taken to be {format_scale(people)}"
            f", as far as their ratings reach; {rests} on that, and intervals are not cut at its ends. Give it with "
            "--rating-scale."
        )
    if not aspect_estimate.judge_passes and judge != people and can_rescale(judge, people):
        sentences.append(
            f"The judge's {format_scale(judge)} is shown on people's {format_scale(people)}, end on end; the estimate "
            "itself does not depend on its scale."
        )
    return sentences


def _needed_sentence(needed: RatingsNeeded, cases: int, *, known: bool) -> str:
    def how(count: int | None) -> str:
        return f"more than all {format_case_count(cases)}" if count is None else f"{count:,} rated cases"

    if not known:
        return f"How many rated cases a width of {needed.width:g} takes cannot be told from these."

    with_judge = "" if needed.with_judge is None else f"{how(needed.with_judge)} with the judge, "
    return f"A width of {needed.width:g} takes {with_judge}{how(needed.people)} by people alone."


def _estimate_to_dict(aspect_estimate: _AspectEstimate) -> dict[str, object]:
    from beholder.statistics.estimation import describe_estimate

    estimated = aspect_estimate.estimated
    correction = estimated.correction
    return {
        "judge": aspect_estimate.judge,
        "aspect": aspect_estimate.aspect,
        "column": aspect_estimate.column,
        "cases": estimated.cases,
        "judged": estimated.judged,
        "rated": estimated.rated,
        "groups": estimated.groups,
        "together": estimated.combined.to_dict(),
        "people": estimated.people.to_dict(),
        "judge_alone": estimated.judge.to_dict(),
        "bias": estimated.bias.to_dict(),
        "weight": estimated.weight,
        "correlation": estimated.correlation,
        "corrected": None
        if correction is None
        else {
            **correction.rate.to_dict(),
            "sensitivity": correction.sensitivity,
            "specificity": correction.specificity,
            "clipped": correction.clipped,
        },
        "cut": None if estimated.clipped_to is None else list(estimated.clipped_to),
        "widths": [asdict(row) for row in estimated.widths],
        "needed": None if estimated.needed is None else asdict(estimated.needed),
        "unlike": None if estimated.sampling_warning is None else asdict(estimated.sampling_warning),
        "told": [*_result_sentences(aspect_estimate), *describe_estimate(estimated)],
    }
