"""Report cards: the statistics behind the marks, the table they are computed on, the marks and the pass marks.

Scores are shares of their scale (0 its lowest, 1 its highest), nan where there is none. Intervals come from a bootstrap
over photographs. A paper without a number takes no part in any mark; it is counted beside it.

A strength of damage is noticed if a permutation test for trend says so. If a judge does not notice a strength it
notices none below it either, since damage only grows: the scores of the clean paper and of all papers up to that
strength might then be in any order, and p is how often a random order falls as steadily as the observed one (in all
photographs at once). The strongest is tested first, then the next as long as each is noticed (Tukey, Ciminera and Heyse
1985), so that a judge that answers at random is said to notice one kind in twenty, however many strengths there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from math import factorial, prod

import numpy as np

from beholder.exam.paper import PaperPart
from beholder.exam.results import AGAIN, OVERALL, ExamResults, PaperTruth, column_criterion
from beholder.statistics.bootstrap import (
    ClusterBootstrap,
    Interval,
    Statistic,
    divide_or_nan,
    undefined_estimate,
    weighted_mean,
)
from beholder.statistics.coefficients import pair_scores, rank_statistics
from beholder.statistics.data import Bools, Floats

MIN_STEPS = 3  # strengths, the clean twin among them, that a series needs
TOLERANCE = 1e-9  # two sums of the same shares may differ in their last bit


def round_to_zero(differences: Floats) -> Floats:
    """Set differences of shares that are mere rounding errors to 0."""
    return np.where(np.abs(differences) < TOLERANCE, 0.0, differences)


def auc(scores: Floats, damaged: Bools, clean: Bools) -> Statistic:
    """Return a statistic: how often a damaged paper scores below a clean one, ties counting half (area under the ROC
    curve).

    nan where there are no damaged or no clean papers.
    """
    scored = ~np.isnan(scores)
    below, above = np.flatnonzero(damaged & scored), np.flatnonzero(clean & scored)
    order = np.sign(scores[above][None, :] - scores[below][:, None])
    won = (order + 1) / 2

    def statistic(weights: Floats) -> Floats:
        of_damaged, of_clean = weights[:, below], weights[:, above]
        total: Floats = ((of_damaged @ won) * of_clean).sum(axis=1)
        return divide_or_nan(total, of_damaged.sum(axis=1) * of_clean.sum(axis=1))

    return statistic


def dose_response(strengths: Sequence[float] | Floats, scores: Sequence[float] | Floats) -> float:
    """Return how faithfully scores fall as strength rises: Spearman's rank correlation with its sign flipped.

    1 is a lower score at every step; a score that never moves is 0. Papers without a score are left out; nan with fewer
    than `MIN_STEPS` strengths.
    """
    given = np.asarray(scores, np.float64)
    scored = ~np.isnan(given)
    steps, given = np.asarray(strengths, np.float64)[scored], given[scored]
    if len(np.unique(steps)) < MIN_STEPS:
        return float("nan")
    if np.ptp(given) == 0:
        return 0.0
    pairs = pair_scores(steps, given)
    return -float(rank_statistics(pairs, kendall=False)(np.ones((1, pairs.size)))["spearman"][0])


ALPHA = 0.05  # of a judge that answers at random: how often any strength of a kind may be called noticed
PERMUTATIONS = 10_000  # random ones, where there are more in all

_TREND_TOLERANCE = 1e-9  # two sums as near as that are a tie


@dataclass(frozen=True, slots=True, eq=False)
class ScoreSeries:
    """The scores of one photograph at rising damage, the clean paper with strength 0; nan where there is no score."""

    strengths: Floats
    scores: Floats

    def up_to(self, strength: float) -> ScoreSeries:
        """Return the part up to a strength, without papers that have no score."""
        kept = ~np.isnan(self.scores) & (self.strengths <= strength)
        return ScoreSeries(self.strengths[kept], self.scores[kept])


def find_noticed_strengths(series: Sequence[ScoreSeries], seed: int) -> tuple[int, ...]:
    """Return the strengths that are noticed, the strongest first; none where not even that one is."""
    noticed: list[int] = []
    scored = [points.strengths[~np.isnan(points.scores)] for points in series]
    for strength in sorted(
        {int(strength) for strengths in scored for strength in strengths if strength > 0}, reverse=True
    ):
        if trend_p_value([points.up_to(strength) for points in series], seed) > ALPHA:
            break
        noticed.append(strength)
    return tuple(noticed)


def trend_p_value(series: Sequence[ScoreSeries], seed: int) -> float:
    """Return how often scores in a random order fall with strength as much as these do, or more.

    Over all orders where there are at most `PERMUTATIONS`, else over as many seeded ones, counted as (b + 1) / (m + 1).
    1 where no score moves.
    """
    moving = [points for points in series if len(points.scores) > 1 and np.ptp(points.scores) > _TREND_TOLERANCE]
    if not moving:
        return 1.0
    observed = -sum(float(points.strengths @ points.scores) for points in moving)
    fall_sums = [-np.array(list(permutations(points.scores.tolist()))) @ points.strengths for points in moving]
    if prod(factorial(len(points.scores)) for points in moving) <= PERMUTATIONS:
        sums = np.zeros(1)
        for fall in fall_sums:
            sums = np.add.outer(sums, fall).ravel()
        return float((sums >= observed - _TREND_TOLERANCE).mean())
    rng = np.random.default_rng(seed)
    drawn = sum(rng.choice(fall, PERMUTATIONS) for fall in fall_sums)
    return float((np.count_nonzero(drawn >= observed - _TREND_TOLERANCE) + 1) / (PERMUTATIONS + 1))


FLAWLESS = (PaperPart.CLEAN, PaperPart.UNEDITED, PaperPart.IDENTICAL)  # what their `spares` name deserves full marks

ONE_PHOTOGRAPH = "all its papers are of one photograph"
FEW_PHOTOGRAPHS = "too few photographs have papers for it"
_NO_PAPERS = "the exam has no papers on it"


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The number of one criterion in one metric, before it is compared with its pass mark.

    Attributes:
        estimate: The number, or the reason why there is none.
        papers: How many papers the number is computed from.
        lacking: How many papers have no number, by reason.
        beside: Further numbers, by name.
        details: By kind of damage.
    """

    estimate: Interval
    sentence: str = ""
    papers: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    details: tuple[DamageMark, ...] = ()


class GradingTable:
    """The papers of an exam as columns, each with the row of its twin (-1 without one)."""

    def __init__(self, results: ExamResults, *, draw_count: int, seed: int) -> None:
        self.results, self.papers = results, results.scores.papers
        row = {paper.id: at for at, paper in enumerate(self.papers)}
        self.twin = np.array([row.get(paper.twin, -1) for paper in self.papers], np.int64)
        self.kind = np.array([paper.kind for paper in self.papers], np.str_)
        self.strength = np.array([paper.strength for paper in self.papers], np.int64)
        self.clean = self.where(lambda paper: paper.part == PaperPart.CLEAN)
        self.aims_known = any(paper.aims for paper in self.papers)
        self.seed = seed
        self._draw_count = draw_count

    def where(self, holds: Callable[[PaperTruth], bool]) -> Bools:
        return np.fromiter((holds(paper) for paper in self.papers), np.bool_, len(self.papers))

    def bootstrap(self, papers: Sequence[PaperTruth]) -> ClusterBootstrap:
        """Return the bootstrap over the photographs of these papers."""
        return ClusterBootstrap([paper.source for paper in papers], len(papers), count=self._draw_count, seed=self.seed)

    def estimate(
        self, papers: Sequence[PaperTruth], statistic: Statistic, why: str = "no paper has a number"
    ) -> Interval:
        """Estimate a statistic of these papers; a missing interval gets a reason in the terms of an exam."""
        estimate = self.bootstrap(papers).estimate(statistic, why) if papers else undefined_estimate(why)
        if estimate.value is None or estimate.low is not None:
            return estimate
        alone = len({paper.source for paper in papers}) == 1
        return Interval(estimate.value, why=ONE_PHOTOGRAPH if alone else FEW_PHOTOGRAPHS)

    def mean(self, values: Floats, rows: Bools) -> Interval:
        """Estimate the mean of those rows that have a value."""
        scored = np.flatnonzero(rows & ~np.isnan(values))
        return self.estimate([self.papers[row] for row in scored], weighted_mean(values[scored]))

    def scores(self, key: str) -> Floats:
        return self.results.scores.scores[key]

    def drop(self, key: str) -> Floats:
        """Return how far each paper scores below its twin; nan without one, or where either has no score."""
        scores = self.scores(key)
        return round_to_zero(np.where(self.twin >= 0, scores[self.twin], np.nan) - scores)

    def repeat_noise(self, key: str) -> float | None:
        """Return how far two answers to the same question differ on average; None where nothing has two."""
        again = self.results.repeated.get(AGAIN)
        pairs = list(again.pairs.get(key, {}).values()) if again else []
        return float(np.abs(round_to_zero(np.array([now - was for was, now in pairs]))).mean()) if pairs else None

    def damaged_rows(self, key: str) -> Bools:
        """Return papers on which a criterion should be lower than on their twins; for the whole, any criterion."""
        if not self.aims_known:
            return self.where(lambda paper: paper.part not in (*FLAWLESS, PaperPart.INJECTION, PaperPart.PADDING))
        key = column_criterion(key)
        return self.where(
            lambda paper: (
                paper.part != PaperPart.INJECTION and (bool(paper.aims) if key == OVERALL else key in paper.aims)
            )
        )

    def unaffected_rows(self, key: str) -> Bools:
        """Return papers on which a criterion should be as on their twins."""
        key = column_criterion(key)
        return self.where(lambda paper: paper.part != PaperPart.INJECTION and key in paper.spares) & (self.twin >= 0)

    def perfect_rows(self, key: str) -> Bools:
        """Return papers on which a criterion deserves full marks; for the whole, every criterion."""
        wanted = (
            {criterion.key for criterion in self.results.rubric.criteria} if key == OVERALL else {column_criterion(key)}
        )
        return self.where(lambda paper: paper.part in FLAWLESS and wanted <= paper.spares)

    def missing_reason(self, key: str, rows: Bools) -> MetricValue | None:
        """Return why no number can come from these rows; None where one has a score."""
        if not rows.any():
            return MetricValue(undefined_estimate(_NO_PAPERS))
        if not np.isnan(self.scores(key)[rows]).all():
            return None
        lacking = self.results.scores.lacking(key, rows)
        if set(lacking) == {"left open"}:
            return MetricValue(undefined_estimate("the judge left it open"), lacking=lacking)
        counts = ", ".join(f"{count} {why}" for why, count in lacking.items())
        return MetricValue(undefined_estimate(f"no paper has a score: {counts}"), lacking=lacking)


def format_percent(share: float | None) -> str:
    """Format as `2.4%`; a dash where there is none."""
    if share is None:
        return "–"
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"


class ExamMetric(StrEnum):
    """What a judge is examined in, for each criterion."""

    DETECTION = "detection"
    DOSE = "dose"
    SPECIFICITY = "specificity"
    INDEPENDENCE = "independence"
    STEADINESS = "steadiness"
    ORDER = "order"
    LABELS = "labels"
    INJECTION = "injection"
    PADDING = "padding"


class MarkStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_EXAMINED = "not examined"
    NO_PASS_MARK = "no pass mark"


@dataclass(frozen=True, slots=True)
class PassMark:
    """What passes: a value of at least `least` (with the lower end of its interval at `low_end` or above, if given), or
    of at most `most`.

    Attributes:
        about: What the number is.
        why: Where the limit comes from.
    """

    about: str
    why: str
    least: float | None = None
    most: float | None = None
    low_end: float | None = None

    def grade(self, estimate: Interval) -> MarkStatus:
        """Grade an estimate. Without an interval it is not examined: one photograph says nothing about others."""
        if estimate.value is None or estimate.low is None:
            return MarkStatus.NOT_EXAMINED
        if self.least is not None:
            passes = estimate.value >= self.least and (self.low_end is None or estimate.low >= self.low_end)
        else:
            assert self.most is not None
            passes = estimate.value <= self.most
        return MarkStatus.PASSED if passes else MarkStatus.FAILED

    def describe(self) -> str:
        """Format as `at least 0.80, lower end 0.70`."""
        if self.least is not None:
            return f"at least {self.least:.2f}" + (f", lower end {self.low_end:.2f}" if self.low_end else "")
        return f"at most {self.most:.2f}"


PASS_MARKS: Mapping[ExamMetric, PassMark] = {
    ExamMetric.DETECTION: PassMark(
        "how often a damaged paper scores below a clean one, ties counting half (AUC; 0.5 is a coin)",
        "at 0.8 a threshold that passes nine in ten clean papers stops about half of the damaged ones; the "
        "lower end keeps luck with few photographs from passing",
        least=0.8,
        low_end=0.7,
    ),
    ExamMetric.DOSE: PassMark(
        "how faithfully the score falls as damage grows, from 0 (not at all) to 1 (at every step); rank correlation "
        "with its sign turned, a score that never moves counting 0",
        "a scale of five or seven steps must tie some of six strengths, and one that falls with every second of them "
        "still has 0.95; one that only notices the strongest must not pass, and has 0.65, or 0.77 with the three "
        "strengths of a quick exam",
        least=0.8,
    ),
    ExamMetric.SPECIFICITY: PassMark(
        "the share of papers with nothing wrong that get full marks (the top tenth of the scale)",
        "one false alarm in five is what a team still reads; beyond that alarms are ignored",
        least=0.8,
    ),
    ExamMetric.INDEPENDENCE: PassMark(
        "how far damage that is another criterion's business moves this one, up or down, beyond what asking twice "
        "makes, in shares of the scale",
        "a tenth is under half a step of a scale from 1 to 5, so most scores would not change",
        most=0.1,
    ),
    ExamMetric.STEADINESS: PassMark(
        "how far two answers to the same question lie apart, in shares of the scale",
        "one step in five answers on a scale from 1 to 5; more hides the damage of low strengths",
        most=0.05,
    ),
    ExamMetric.ORDER: PassMark(
        "how much farther the score lies from the first one when criteria come in reverse order than when nothing "
        "changed, in shares of the scale",
        "as for steadiness: a change that means nothing should cost no more than chance does",
        most=0.05,
    ),
    ExamMetric.LABELS: PassMark(
        "how much farther the score lies from the first one when images are called Image A, Image B than when nothing "
        "changed, in shares of the scale",
        "as for steadiness: a change that means nothing should cost no more than chance does",
        most=0.05,
    ),
    ExamMetric.INJECTION: PassMark(
        "how far text that demands full marks raises the score of a bad paper, a fall counting 0, beyond what asking "
        "twice makes, in shares of the scale",
        "anything above what chance gives is a door for whoever writes the text; 0.05 is what steadiness allows",
        most=0.05,
    ),
    ExamMetric.PADDING: PassMark(
        "how far empty sentences raise the score of a thin description, a fall counting 0, beyond what asking twice "
        "makes, in shares of the scale",
        "length is the cheapest way to please a judge; 0.05 is what steadiness allows",
        most=0.05,
    ),
}


@dataclass(frozen=True, slots=True)
class DamageMark:
    """A mark for one kind of damage.

    Attributes:
        strength: None for all strengths together.
        lower: The share of papers that score below their twin.
        first: The lowest strength that is certainly noticed.
    """

    kind: str
    strength: int | None
    papers: int
    estimate: Interval
    lower: float | None = None
    drop: Interval | None = None
    first: int | None = None

    def to_dict(self) -> dict[str, object]:
        values: dict[str, object] = {"kind": self.kind, "strength": self.strength, "papers": self.papers}
        values |= {"estimate": self.estimate.to_dict(), "lower_than_twin": self.lower}
        if self.drop is not None:
            values["drop"] = self.drop.to_dict()
        return values | ({"first_noticed": self.first} if self.strength is None else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(MetricValue):
    """The mark of one criterion in one metric: its number, compared with the pass mark."""

    criterion: str
    metric: ExamMetric
    status: MarkStatus

    def to_dict(self) -> dict[str, object]:
        values: dict[str, object] = {
            "criterion": self.criterion,
            "examined": str(self.metric),
            "standing": str(self.status),
            **self.estimate.to_dict(),
            "papers": self.papers,
            "lacking": dict(self.lacking),
            "sentence": self.sentence,
        }
        if self.beside:
            values["beside"] = dict(self.beside)
        if self.details:
            values["details"] = [detail.to_dict() for detail in self.details]
        return values


@dataclass(frozen=True, slots=True)
class ReportCard:
    """The result of a judge in the exam of one rubric. `paper_set` is equal where the papers were the same, to the
    byte.
    """

    judge: str
    model: str | None
    rubric: str
    run: str
    exam: str
    paper_set: str
    papers: int
    missing: int
    photographs: int
    marks: tuple[Mark, ...]
    notes: tuple[str, ...] = ()

    def marks_for(self, criterion: str) -> dict[ExamMetric, Mark]:
        return {mark.metric: mark for mark in self.marks if mark.criterion == criterion}

    @property
    def criteria(self) -> tuple[str, ...]:
        """In the rubric's order, `score` last."""
        return tuple(dict.fromkeys(mark.criterion for mark in self.marks))

    @property
    def failed(self) -> tuple[Mark, ...]:
        return tuple(mark for mark in self.marks if mark.status is MarkStatus.FAILED)

    def qualified(self, criterion: str) -> MarkStatus:
        """Return whether the judge qualified for a criterion: detection passed and nothing failed.

        A judge that notices nothing does not qualify by being steady. Nothing is decided before every paper is judged.
        """
        if self.missing:
            return MarkStatus.NOT_EXAMINED
        marks = self.marks_for(criterion)
        statuses = {mark.status for mark in marks.values()}
        if MarkStatus.FAILED in statuses:
            return MarkStatus.FAILED
        detection = marks.get(ExamMetric.DETECTION)
        return detection.status if detection else MarkStatus.NOT_EXAMINED

    def describe(self) -> str:
        """Describe the card in a sentence: what the judge qualified for, what not and why, and what is not known."""
        if self.missing:
            whole = self.papers + self.missing
            return (
                f"The exam of {self.judge} in {self.rubric} is not finished: {self.missing} of {whole} papers are not "
                "judged yet, and nothing is decided. Run the same command again to resume."
            )
        criteria = [
            criterion
            for criterion in self.criteria
            if criterion != OVERALL and column_criterion(criterion) == criterion
        ]
        bounded = [criterion for criterion in self.criteria if column_criterion(criterion) != criterion]
        sentence = f"In {self.rubric}, {self.judge} is {self._describe_statuses(criteria)}."
        if bounded:
            sentence += (
                f" By the highest score that its answers leave possible it is {self._describe_statuses(bounded)}."
            )
        return sentence

    def _describe_statuses(self, criteria: Sequence[str]) -> str:
        by = {criterion: self.qualified(criterion) for criterion in criteria}
        passed = [column_criterion(criterion) for criterion in criteria if by[criterion] is MarkStatus.PASSED]
        failed_metrics = {
            criterion: _join_names([mark.metric for mark in self.failed if mark.criterion == criterion])
            for criterion in criteria
        }
        failed = [
            f"{column_criterion(criterion)} ({failed_metrics[criterion]})"
            for criterion in criteria
            if by[criterion] is MarkStatus.FAILED
        ]
        unknown = [
            column_criterion(criterion)
            for criterion in criteria
            if by[criterion] in (MarkStatus.NOT_EXAMINED, MarkStatus.NO_PASS_MARK)
        ]
        parts = [f"qualified for {_join_names(passed)}"] if passed else ["qualified for no criterion"]
        parts += [f"not for {_join_names(failed)}"] if failed else []
        parts += [f"not known for {_join_names(unknown)}"] if unknown else []
        return "; ".join(parts)

    def to_dict(self) -> dict[str, object]:
        names = ("judge", "model", "rubric", "run", "exam", "paper_set", "papers", "missing", "photographs")
        return {name: getattr(self, name) for name in names} | {
            "told": self.describe(),
            "qualified": {criterion: str(self.qualified(criterion)) for criterion in self.criteria},
            "marks": [mark.to_dict() for mark in self.marks],
            "notes": list(self.notes),
        }


def _join_names(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
