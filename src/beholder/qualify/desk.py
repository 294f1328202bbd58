"""A sitting laid out for marking, and what an examiner finds there.

All scores are shares of their scale. Intervals draw the photographs with replacement. A paper without a number takes
no part in any; it is counted beside the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from beholder.qualify.card import Detail
from beholder.qualify.detection import same
from beholder.qualify.paper import Part
from beholder.qualify.reading import AGAIN, OVERALL, Sitting, Truth, criterion_of
from beholder.statistics.data import Bools, Floats
from beholder.statistics.intervals import Draws, Estimate, Statistic, undefined, weighted_mean

FLAWLESS = (Part.CLEAN, Part.UNEDITED, Part.IDENTICAL)  # what their `spares` name deserves full marks

ONE_PHOTOGRAPH = "all its papers are of one photograph"
FEW_PHOTOGRAPHS = "too few photographs have papers for it"
_NO_PAPERS = "the exam has no papers on it"


@dataclass(frozen=True, slots=True)
class Found:
    """A number that is yet to be held against its pass mark; or why there is none, in the estimate. The other fields
    are those of `Mark`."""

    estimate: Estimate
    sentence: str = ""
    papers: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, float] = field(default_factory=dict)
    details: tuple[Detail, ...] = ()


class Desk:
    """A sitting laid out for marking: the papers as columns, each with the row of its twin (-1 without one)."""

    def __init__(self, sitting: Sitting, *, draws: int, seed: int) -> None:
        self.sitting, self.papers = sitting, sitting.sat.papers
        row = {paper.id: at for at, paper in enumerate(self.papers)}
        self.twin = np.array([row.get(paper.twin, -1) for paper in self.papers], np.int64)
        self.kind = np.array([paper.kind for paper in self.papers], np.str_)
        self.strength = np.array([paper.strength for paper in self.papers], np.int64)
        self.clean = self.where(lambda paper: paper.part == Part.CLEAN)
        self.aims_known = any(paper.aims for paper in self.papers)
        self.seed = seed
        self._count = draws

    def where(self, holds: Callable[[Truth], bool]) -> Bools:
        return np.fromiter((holds(paper) for paper in self.papers), np.bool_, len(self.papers))

    def draws(self, papers: Sequence[Truth]) -> Draws:
        """The photographs of these papers, drawn again and again."""
        return Draws([paper.source for paper in papers], len(papers), count=self._count, seed=self.seed)

    def estimate(self, papers: Sequence[Truth], statistic: Statistic, why: str = "no paper has a number") -> Estimate:
        """The statistic of these papers. Where it has no interval, `why` says so in the words of an exam."""
        found = self.draws(papers).estimate(statistic, why) if papers else undefined(why)
        if found.value is None or found.low is not None:
            return found
        alone = len({paper.source for paper in papers}) == 1
        return replace(found, why=ONE_PHOTOGRAPH if alone else FEW_PHOTOGRAPHS)

    def mean(self, values: Floats, rows: Bools) -> Estimate:
        """The mean of those rows that have a value."""
        there = np.flatnonzero(rows & ~np.isnan(values))
        return self.estimate([self.papers[row] for row in there], weighted_mean(values[there]))

    def scores(self, key: str) -> Floats:
        return self.sitting.sat.scores[key]

    def drop(self, key: str) -> Floats:
        """How far each paper lies below its twin; nan without one, or where either has no score."""
        scores = self.scores(key)
        return same(np.where(self.twin >= 0, scores[self.twin], np.nan) - scores)

    def wavering(self, key: str) -> float | None:
        """How far two answers to the same question lie apart on average; None where nothing has two."""
        again = self.sitting.further.get(AGAIN)
        pairs = list(again.pairs.get(key, {}).values()) if again else []
        return float(np.abs(same(np.array([now - was for was, now in pairs]))).mean()) if pairs else None

    def aimed(self, key: str) -> Bools:
        """Papers on which a criterion should be lower than on their twins: the whole, where any criterion should."""
        if not self.aims_known:
            return self.where(lambda paper: paper.part not in (*FLAWLESS, Part.INJECTION, Part.PADDING))
        key = criterion_of(key)
        return self.where(
            lambda paper: paper.part != Part.INJECTION and (bool(paper.aims) if key == OVERALL else key in paper.aims)
        )

    def spared(self, key: str) -> Bools:
        """Papers on which it should be what it is on their twins."""
        key = criterion_of(key)
        return self.where(lambda paper: paper.part != Part.INJECTION and key in paper.spares) & (self.twin >= 0)

    def flawless(self, key: str) -> Bools:
        """Papers on which it deserves full marks: the whole, where every criterion does."""
        wanted = {one.key for one in self.sitting.rubric.criteria} if key == OVERALL else {criterion_of(key)}
        return self.where(lambda paper: paper.part in FLAWLESS and wanted <= paper.spares)

    def absent(self, key: str, rows: Bools) -> Found | None:
        """Why no number can come of these rows; `None` where one has a score."""
        if not rows.any():
            return Found(undefined(_NO_PAPERS))
        if not np.isnan(self.scores(key)[rows]).all():
            return None
        lacking = self.sitting.sat.lacking(key, rows)
        if set(lacking) == {"left open"}:
            return Found(undefined("the judge left it open"), lacking=lacking)
        said = ", ".join(f"{count} {why}" for why, count in lacking.items())
        return Found(undefined(f"no paper has a score: {said}"), lacking=lacking)


def percent(share: float | None) -> str:
    """`2.4%`; a dash where there is none."""
    if share is None:
        return "–"
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
