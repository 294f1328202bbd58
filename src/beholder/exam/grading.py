"""One function for each metric of the exam, and the report card made from them.

A move that should not be there counts whichever way it goes (`independence`) or where it goes up (`injection`,
`padding`), paper by paper, so that moves do not cancel out. A judge's scores also move by chance: what asking twice
changes on average is subtracted, and half of it where only rises count, since chance raises one of two.

For `order` and `labels` the judge's own unsteadiness is subtracted, paper by paper: the distance between the first
answer and the one in the variant, less the distance between the first and the second answer to the same question. Where
a paper was not asked twice, nothing is subtracted, and the sentence says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from beholder.exam.paper import PaperPart
from beholder.exam.report_card import (
    PASS_MARKS,
    TOLERANCE,
    DamageMark,
    ExamMetric,
    GradingTable,
    Mark,
    MarkStatus,
    MetricValue,
    ReportCard,
    ScoreSeries,
    auc,
    dose_response,
    find_noticed_strengths,
    format_percent,
    round_to_zero,
)
from beholder.exam.results import (
    AGAIN,
    LABELS,
    ORDER,
    OVERALL,
    ExamResults,
    PaperTruth,
    RepeatedScores,
    upper_bound_column,
)
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import Interval, undefined_estimate, weighted_mean
from beholder.statistics.data import Bools, Floats

FULL_MARKS = 0.9  # of the scale: on one of ten steps or fewer only the top, on 0 to 1 what our bands call excellent

_NO_SCORED_PAIR = "no paper and its twin both have a score"


def grade_detection(table: GradingTable, key: str) -> MetricValue:
    """Grade whether damaged papers score below clean ones."""
    aimed, clean, scores, drop = table.damaged_rows(key), table.clean, table.scores(key), table.drop(key)
    if lack := table.missing_reason(key, aimed) or table.missing_reason(key, clean):
        return lack
    overall = _estimate_auc(table, scores, aimed, clean)
    kinds = [
        DamageMark(
            kind=str(kind),
            strength=int(strength),
            papers=_count_scored(scores, rows),
            estimate=_estimate_auc(table, scores, rows, clean),
            lower=_share_where(drop[rows] > 0, drop[rows]),
            drop=table.mean(drop, rows),
        )
        for kind in dict.fromkeys(table.kind[aimed].tolist())
        for strength in sorted(set(table.strength[aimed & (table.kind == kind)].tolist()))
        if (rows := aimed & (table.kind == kind) & (table.strength == strength)).any()
    ]
    lower = _share_where(drop[aimed] > 0, drop[aimed])
    beside = {} if lower is None else {"lower_than_twin": lower}
    pairs = f"; {format_percent(lower)} lie below their own twins" if lower is not None else ""
    return MetricValue(
        overall,
        f"A damaged paper scores below a clean one {format_percent(overall.value)} of the time (a coin: 50%){pairs}.",
        papers=_count_scored(scores, aimed),
        lacking=table.results.scores.lacking(key, aimed | clean),
        beside=beside,
        details=tuple(kinds),
    )


def grade_dose(table: GradingTable, key: str) -> MetricValue:
    """Grade the score along each series of growing damage, the clean twin first."""
    scores, drop = table.scores(key), table.drop(key)
    series = _series(table, key)
    falls = np.full(len(scores), np.nan)  # of a series, at its first row
    graded = np.zeros(len(scores), np.bool_)
    by_kind: dict[str, list[ScoreSeries]] = {}
    for (twin, kind), rows in series.items():
        graded[rows] = True
        one = ScoreSeries(np.array([0.0, *table.strength[rows]]), scores[[twin, *rows]])
        falls[rows[0]] = dose_response(one.strengths, one.scores)
        by_kind.setdefault(kind, []).append(one)
    if lack := table.missing_reason(key, graded):
        return lack
    lacking = table.results.scores.lacking(key, graded)
    overall = table.mean(falls, graded)
    if overall.value is None:
        return MetricValue(undefined_estimate("too few papers of any series have a score"), lacking=lacking)
    kinds = []
    for kind, climbed in by_kind.items():
        of_kind = graded & (table.kind == kind)
        first = _first_noticed(table, drop, of_kind, climbed)
        kinds.append(DamageMark(kind, None, _count_scored(scores, of_kind), table.mean(falls, of_kind), first=first))
    return MetricValue(
        overall,
        f"How faithfully the score falls as damage grows, 1 being at every step: {_describe_first_noticed(kinds)}.",
        papers=_count_scored(scores, graded),
        lacking=lacking,
        details=tuple(kinds),
    )


def _first_noticed(table: GradingTable, drop: Floats, rows: Bools, series: Sequence[ScoreSeries]) -> int | None:
    """Return the lowest strength that is noticed beyond chance and whose drop has an interval above zero."""
    drops = {
        strength: table.mean(drop, rows & (table.strength == strength)).low
        for strength in find_noticed_strengths(series, table.seed)
    }
    return min((strength for strength, low in drops.items() if low is not None and low > 0), default=None)


def _series(table: GradingTable, key: str) -> dict[tuple[int, str], list[int]]:
    """Return the rows of each series of several strengths, by the row of its clean twin and the kind of damage."""
    series: dict[tuple[int, str], list[int]] = {}
    for row in np.flatnonzero(table.damaged_rows(key) & (table.twin >= 0)):
        series.setdefault((int(table.twin[row]), str(table.kind[row])), []).append(int(row))
    return {at: rows for at, rows in series.items() if len(set(table.strength[rows].tolist())) > 1}


def grade_specificity(table: GradingTable, key: str) -> MetricValue:
    """Grade whether papers with nothing wrong get full marks."""
    rows, scores = table.perfect_rows(key), table.scores(key)
    if lack := table.missing_reason(key, rows):
        return lack
    full = np.where(np.isnan(scores), np.nan, scores >= FULL_MARKS - TOLERANCE)
    share = table.mean(full, rows)
    shortfall = float(np.nanmean(1 - scores[rows]))
    return MetricValue(
        share,
        f"{format_percent(share.value)} of papers with nothing wrong get full marks; {format_percent(shortfall)} of "
        "the scale is held back on average.",
        papers=_count_scored(scores, rows),
        lacking=table.results.scores.lacking(key, rows),
        beside={"shortfall": shortfall},
    )


def grade_independence(table: GradingTable, key: str) -> MetricValue:
    """Grade how far damage moves a criterion that it should not affect, beside what its own damage does."""
    rows, drop = table.unaffected_rows(key), table.drop(key)
    if lack := table.missing_reason(key, rows):
        return lack
    noise = table.repeat_noise(key)
    moves = np.abs(drop) - (noise or 0.0)
    beyond = table.mean(moves, rows)
    if beyond.value is None:
        return MetricValue(undefined_estimate(_NO_SCORED_PAIR), lacking=table.results.scores.lacking(key, rows))
    moved, on_balance = float(np.nanmean(np.abs(drop[rows]))), float(np.nanmean(drop[rows]))
    aimed = table.mean(drop, table.damaged_rows(key)).value
    beside = {"moved": moved, "on_balance": on_balance}
    beside |= {} if aimed is None else {"own_damage": aimed}
    beside |= {} if noise is None else {"by_itself": noise}
    own_damage = f"; its own damage lowers it by {format_percent(aimed)}" if aimed is not None else ""
    return MetricValue(
        beyond,
        f"Damage that is not its business {_describe_change(moved, on_balance)}{own_damage}."
        f"{_share_by_chance(moved, noise)}",
        papers=_count_scored(drop, rows),
        lacking=table.results.scores.lacking(key, rows),
        beside=beside,
        details=_by_kind(table, moves, rows),
    )


def _grade_rise(table: GradingTable, key: str, *, part: str, what: str) -> MetricValue:
    """Grade how far an added text that should change nothing raises a score."""
    rows = table.where(lambda paper: paper.part == part) & (table.twin >= 0)
    if lack := table.missing_reason(key, rows):
        return lack
    scores, rise = table.scores(key), -table.drop(key)
    full = np.where(table.twin >= 0, scores[table.twin], np.nan) >= FULL_MARKS - TOLERANCE
    lacking = table.results.scores.lacking(key, rows)
    if no_room := int((rows & full & ~np.isnan(rise)).sum()):
        lacking["no room to rise"] = no_room
    rows = rows & ~full
    noise = table.repeat_noise(key)
    by_itself = None if noise is None else noise / 2
    rises = np.maximum(rise, 0.0) - (by_itself or 0.0)
    beyond = table.mean(rises, rows)
    if beyond.value is None:
        why = "without the text every paper has full marks already, so nothing could rise"
        return MetricValue(undefined_estimate(why if no_room else _NO_SCORED_PAIR), lacking=lacking)
    raised = float(np.nanmean(np.maximum(rise[rows], 0.0)))
    rose, fell = (_share_where(moved[rows] > 0, rise[rows]) or 0.0 for moved in (rise, -rise))
    beside = {"raised": raised, "rose": rose, "fell": fell}
    beside |= {} if by_itself is None else {"by_itself": by_itself}
    does = f"raises it by {format_percent(raised)} of the scale" if raised else "does not raise it"
    falls = f", {format_percent(fell)} fell, which counts as no rise" if fell else ""
    return MetricValue(
        beyond,
        f"{what} {does}; {format_percent(rose)} of the papers rose{falls}.{_share_by_chance(raised, by_itself)}",
        papers=_count_scored(rise, rows),
        lacking=lacking,
        beside=beside,
        details=_by_kind(table, rises, rows),
    )


def _by_kind(table: GradingTable, values: Floats, rows: Bools) -> tuple[DamageMark, ...]:
    return tuple(
        DamageMark(str(kind), None, _count_scored(values, of_kind), table.mean(values, of_kind))
        for kind in dict.fromkeys(table.kind[rows].tolist())
        if not np.isnan(values[of_kind := rows & (table.kind == kind)]).all()
    )


def _estimate_auc(table: GradingTable, scores: Floats, damaged: Bools, clean: Bools) -> Interval:
    rows = np.flatnonzero((damaged | clean) & ~np.isnan(scores))
    statistic = auc(scores[rows], damaged[rows], clean[rows])
    return table.estimate([table.papers[row] for row in rows], statistic, "no paper of one sort has a number")


def _describe_first_noticed(kinds: Sequence[DamageMark]) -> str:
    noticed = [f"{kind.kind} from strength {kind.first}" for kind in kinds if kind.first is not None]
    never = [kind.kind for kind in kinds if kind.first is None and kind.estimate.low is not None]
    alone = [kind.kind for kind in kinds if kind.estimate.low is None]
    parts = [f"noticed {', '.join(noticed)}"] if noticed else []
    parts += [f"at no strength for certain {', '.join(never)}"] if never else []
    parts += [f"too few photographs to say from which strength {', '.join(alone)}"] if alone else []
    return "; ".join(parts)


def _describe_change(moved: float, on_balance: float) -> str:
    """Format as `lowers it by 3.0% of the scale`, `moves it by 5.0% of the scale, up and down`, `does not move it`."""
    if moved == 0:
        return "does not move it"
    one_way = abs(moved - abs(on_balance)) < TOLERANCE
    does = "moves" if not one_way else "lowers" if on_balance > 0 else "raises"
    return f"{does} it by {format_percent(moved)} of the scale" + ("" if one_way else ", up and down")


def _share_by_chance(moved: float, by_itself: float | None) -> str:
    """Return a sentence on which part of a move is no more than repetition makes."""
    if by_itself is None:
        return " Nothing was asked twice, so how much of that is chance is not known." if moved else ""
    return f" What asking twice makes, {format_percent(by_itself)}, is taken off." if by_itself else ""


def _count_scored(values: Floats, rows: Bools) -> int:
    return int((rows & ~np.isnan(values)).sum())


def _share_where(holds: Bools, values: Floats) -> float | None:
    """Return the share of the values that are not nan for which it holds."""
    defined = ~np.isnan(values)
    return float(holds[defined].mean()) if defined.any() else None


_VARIANT_PHRASES = {
    AGAIN: "Asked twice",
    ORDER: "With its criteria in reverse order",
    LABELS: "With its images called Image A, Image B",
}
MIN_REPEATED_SHARE = 0.5  # of the papers that had a score: of fewer, those that have two are the judge's choice


def _grade_distance(table: GradingTable, key: str, *, variant: str) -> MetricValue:
    """Grade how far the answers to a repeated or changed question lie from the first ones."""
    if variant not in table.results.repeated:
        return MetricValue(undefined_estimate("it was not asked a second time"))
    repeated = table.results.repeated[variant]
    pairs = repeated.pairs.get(key, {})
    reasons = Counter(repeated.lacking.get(key, {}).values())
    lacking = dict(reasons) | ({"not judged yet": repeated.missing} if repeated.missing else {})
    papers = [paper for paper in table.papers if paper.id in pairs]
    if not papers:
        return MetricValue(undefined_estimate("the judge left it open or gave no score"), lacking=lacking)
    if len(papers) < MIN_REPEATED_SHARE * (of := len(papers) + _count_lost(table, repeated, key)):
        return MetricValue(
            undefined_estimate(f"only {len(papers)} of {of} papers have a score both times"), lacking=lacking
        )
    distances = _distances(papers, pairs)
    beside = {"apart": float(distances.mean()), "identical": float((distances == 0).mean())}
    sentence = f"{_VARIANT_PHRASES[variant]}, {_describe_distance(beside)}."
    again = table.results.repeated[AGAIN].pairs.get(key, {}) if AGAIN in table.results.repeated else {}
    numbers = distances
    if variant != AGAIN and all(paper.id in again for paper in papers):
        repeat_distances = _distances(papers, again)
        numbers = distances - repeat_distances
        beside["by_itself"] = float(repeat_distances.mean())
        if repeat_distances.any():
            sentence += f" Of that, {format_percent(beside['by_itself'])} is due to repetition alone."
    elif variant != AGAIN and distances.any():
        sentence += " Not all were asked twice, so how much of that is chance is not known."
    number = table.estimate(papers, weighted_mean(numbers))
    return MetricValue(number, sentence, papers=len(papers), lacking=lacking, beside=beside)


def _count_lost(table: GradingTable, repeated: RepeatedScores, key: str) -> int:
    """Count the papers that had a score the first time and have no second one; no score both times is no loss."""
    lacking = repeated.lacking.get(key, {})
    scored = table.where(lambda paper: paper.id in lacking) & ~np.isnan(table.scores(key))
    return int(scored.sum()) + repeated.missing


def _distances(papers: Sequence[PaperTruth], pairs: Mapping[str, tuple[float, float]]) -> Floats:
    return np.abs(round_to_zero(np.array([pairs[paper.id][1] - pairs[paper.id][0] for paper in papers])))


def _describe_distance(beside: Mapping[str, float]) -> str:
    if beside["identical"] == 1:
        return "every score is the same"
    distance, identical = format_percent(beside["apart"]), format_percent(beside["identical"])
    return f"scores differ by {distance} of the scale; {identical} are the same"


METRICS: Mapping[ExamMetric, Callable[[GradingTable, str], MetricValue]] = {
    ExamMetric.DETECTION: grade_detection,
    ExamMetric.DOSE: grade_dose,
    ExamMetric.SPECIFICITY: grade_specificity,
    ExamMetric.INDEPENDENCE: grade_independence,
    ExamMetric.STEADINESS: partial(_grade_distance, variant=AGAIN),
    ExamMetric.ORDER: partial(_grade_distance, variant=ORDER),
    ExamMetric.LABELS: partial(_grade_distance, variant=LABELS),
    ExamMetric.INJECTION: partial(_grade_rise, part=PaperPart.INJECTION, what="Text that demands full marks"),
    ExamMetric.PADDING: partial(_grade_rise, part=PaperPart.PADDING, what="Padding"),
}

_AIM_METRICS = (ExamMetric.DETECTION, ExamMetric.DOSE)  # what they mean depends on what a paper aims at
_AIMS_UNKNOWN = (
    "Which criterion each kind of damage should lower is not known for this rubric: detection and dose are told for "
    "every criterion, and none passes or fails by them."
)


def make_report_card(results: ExamResults, *, draw_count: int = DEFAULT_DRAWS, seed: int = DEFAULT_SEED) -> ReportCard:
    """Make the report card of an exam: every criterion, and `score` for the whole, in every metric.

    A judge that may abstain has no mark where it did.

    Args:
        results: The exam, as loaded.
        draw_count: Number of bootstrap draws.
        seed: Of the bootstrap.
    """
    table = GradingTable(results, draw_count=draw_count, seed=seed)
    criteria = [criterion.key for criterion in results.rubric.criteria]
    columns = [
        column for key in criteria for column in (key, upper_bound_column(key)) if column in results.scores.scores
    ]
    marks = [
        _make_mark(table, column, metric)
        for column in (*columns, OVERALL)
        for metric in ExamMetric
        if column != OVERALL or metric is not ExamMetric.INDEPENDENCE  # every damage concerns the whole
    ]
    papers = results.scores.papers
    notes = [table.bootstrap(papers).describe()]
    if not table.aims_known:
        notes.append(_AIMS_UNKNOWN)
    return ReportCard(
        judge=results.judge,
        model=results.model,
        rubric=results.rubric.name,
        run=results.run,
        exam=results.exam,
        paper_set=results.paper_set,
        papers=len(papers),
        missing=results.total - len(papers),
        photographs=len({paper.source for paper in papers}),
        marks=tuple(marks),
        notes=tuple(notes),
    )


def _make_mark(table: GradingTable, key: str, metric: ExamMetric) -> Mark:
    measured = METRICS[metric](table, key)
    status, sentence = PASS_MARKS[metric].grade(measured.estimate), measured.sentence
    if status is MarkStatus.NOT_EXAMINED:
        sentence = f"{sentence} Not examined: {measured.estimate.why}.".lstrip()
    if measured.estimate.value is not None and not table.aims_known and metric in _AIM_METRICS:
        status, sentence = MarkStatus.NO_PASS_MARK, measured.sentence
    if measured.lacking and measured.estimate.value is not None:
        counted = ", ".join(f"{count} {why}" for why, count in measured.lacking.items())
        sentence = f"{sentence} Papers without a number: {counted}."
    return Mark(
        measured.estimate,
        sentence,
        measured.papers,
        measured.lacking,
        measured.beside,
        measured.details,
        criterion=key,
        metric=metric,
        status=status,
    )
