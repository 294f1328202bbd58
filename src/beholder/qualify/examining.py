"""What papers with known truth tell of one criterion.

All scores are shares of their scale. Intervals draw the photographs with replacement. A paper without a number takes
no part in any; it is counted beside the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from beholder.qualify.card import Detail
from beholder.qualify.detection import auc, fall
from beholder.qualify.paper import Part
from beholder.qualify.reading import OVERALL, Sitting, Truth, criterion_of
from beholder.statistics.data import Bools, Floats
from beholder.statistics.intervals import Draws, Estimate, undefined, weighted_mean

FULL = 0.9  # of the scale: on one of ten steps or fewer only the top, on 0 to 1 what our bands call excellent

FLAWLESS = (Part.CLEAN, Part.UNEDITED, Part.IDENTICAL)  # what their `spares` name deserves full marks

_ROUNDING = 1e-9  # two sums of the same shares may differ in their last bit
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
        self._count, self._seed = draws, seed

    def where(self, holds: Callable[[Truth], bool]) -> Bools:
        return np.fromiter((holds(paper) for paper in self.papers), np.bool_, len(self.papers))

    def draws(self, papers: Sequence[Truth]) -> Draws:
        """The photographs of these papers, drawn again and again."""
        return Draws([paper.source for paper in papers], len(papers), count=self._count, seed=self._seed)

    def mean(self, values: Floats, rows: Bools) -> Estimate:
        """The mean of those rows that have a value."""
        there = np.flatnonzero(rows & ~np.isnan(values))
        if not len(there):
            return undefined("no paper has a number")
        return self.draws([self.papers[row] for row in there]).estimate(weighted_mean(values[there]))

    def scores(self, key: str) -> Floats:
        return self.sitting.sat.scores[key]

    def drop(self, key: str) -> Floats:
        """How far each paper lies below its twin; nan without one, or where either has no score."""
        scores = self.scores(key)
        drop: Floats = np.where(self.twin >= 0, scores[self.twin], np.nan) - scores
        drop[np.abs(drop) < _ROUNDING] = 0
        return drop

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


def detection(desk: Desk, key: str) -> Found:
    """Damaged papers against clean ones."""
    aimed, clean, scores, drop = desk.aimed(key), desk.clean, desk.scores(key), desk.drop(key)
    if lack := desk.absent(key, aimed) or desk.absent(key, clean):
        return lack
    overall = _auc(desk, scores, aimed, clean)
    kinds = [
        Detail(
            kind=str(kind),
            strength=int(strength),
            papers=_count(scores, rows),
            estimate=_auc(desk, scores, rows, clean),
            lower=_share(drop[rows] > 0, drop[rows]),
            drop=desk.mean(drop, rows),
        )
        for kind in dict.fromkeys(desk.kind[aimed].tolist())
        for strength in sorted(set(desk.strength[aimed & (desk.kind == kind)].tolist()))
        if (rows := aimed & (desk.kind == kind) & (desk.strength == strength)).any()
    ]
    lower = _share(drop[aimed] > 0, drop[aimed])
    beside = {} if lower is None else {"lower_than_twin": lower}
    pairs = f"; {percent(lower)} lie below their own twins" if lower is not None else ""
    return Found(
        overall,
        f"A damaged paper scores below a clean one {percent(overall.value)} of the time (a coin: 50%){pairs}.",
        papers=_count(scores, aimed),
        lacking=desk.sitting.sat.lacking(key, aimed | clean),
        beside=beside,
        details=tuple(kinds),
    )


def dose(desk: Desk, key: str) -> Found:
    """The score along each series of growing damage, the clean twin first."""
    aimed, scores, drop = desk.aimed(key) & (desk.twin >= 0), desk.scores(key), desk.drop(key)
    series: dict[tuple[int, str], list[int]] = {}
    for row in np.flatnonzero(aimed):
        series.setdefault((int(desk.twin[row]), str(desk.kind[row])), []).append(int(row))
    falls = np.full(len(scores), np.nan)  # of a series, at its first row
    graded = np.zeros(len(scores), np.bool_)
    for (twin, _), rows in series.items():
        if len(set(desk.strength[rows].tolist())) > 1:
            graded[rows] = True
            falls[rows[0]] = fall([0.0, *desk.strength[rows].tolist()], scores[[twin, *rows]])
    if lack := desk.absent(key, graded):
        return lack
    overall = desk.mean(falls, graded)
    if overall.value is None:
        return Found(
            undefined("too few papers of any series have a score"), lacking=desk.sitting.sat.lacking(key, graded)
        )
    kinds = [
        Detail(
            kind=str(kind),
            strength=None,
            papers=_count(scores, rows),
            estimate=desk.mean(falls, rows),
            first=_first_noticed(desk, drop, rows),
        )
        for kind in dict.fromkeys(desk.kind[graded].tolist())
        if (rows := graded & (desk.kind == kind)).any()
    ]
    return Found(
        overall,
        f"How faithfully the score falls as damage grows, 1 being at every step: {_noticed(kinds)}.",
        papers=_count(scores, graded),
        lacking=desk.sitting.sat.lacking(key, graded),
        details=tuple(kinds),
    )


def specificity(desk: Desk, key: str) -> Found:
    """Full marks where nothing is wrong."""
    rows, scores = desk.flawless(key), desk.scores(key)
    if lack := desk.absent(key, rows):
        return lack
    full = np.where(np.isnan(scores), np.nan, scores >= FULL - _ROUNDING)
    share = desk.mean(full, rows)
    shortfall = float(np.nanmean(1 - scores[rows]))
    return Found(
        share,
        f"{percent(share.value)} of papers with nothing wrong get full marks; {percent(shortfall)} of the scale is "
        "held back on average.",
        papers=_count(scores, rows),
        lacking=desk.sitting.sat.lacking(key, rows),
        beside={"shortfall": shortfall},
    )


def independence(desk: Desk, key: str) -> Found:
    """What damage does to a criterion whose business it is not, beside what its own does."""
    rows, drop = desk.spared(key), desk.drop(key)
    if lack := desk.absent(key, rows):
        return lack
    moved = desk.mean(drop, rows)
    if moved.value is None:
        return Found(undefined("no paper and its twin both have a score"), lacking=desk.sitting.sat.lacking(key, rows))
    aimed = desk.mean(drop, desk.aimed(key)).value
    beside = {} if aimed is None else {"own_damage": aimed}
    own = f"; its own damage lowers it by {percent(aimed)}" if aimed is not None else ""
    kinds = [
        Detail(str(kind), None, _count(drop, of_kind), desk.mean(drop, of_kind))
        for kind in dict.fromkeys(desk.kind[rows].tolist())
        if not np.isnan(drop[of_kind := rows & (desk.kind == kind)]).all()
    ]
    return Found(
        moved,
        f"Damage that is not its business {_moves(moved.value)}{own}.",
        papers=_count(drop, rows),
        lacking=desk.sitting.sat.lacking(key, rows),
        beside=beside,
        details=tuple(kinds),
    )


def injection(desk: Desk, key: str) -> Found:
    """Text that demands full marks, on papers that do not deserve them."""
    return _rise(desk, key, Part.INJECTION, "Text that demands full marks")


def padding(desk: Desk, key: str) -> Found:
    """Empty sentences."""
    return _rise(desk, key, Part.PADDING, "Padding")


def _rise(desk: Desk, key: str, part: str, what: str) -> Found:
    rows = desk.where(lambda paper: paper.part == part) & (desk.twin >= 0)
    if lack := desk.absent(key, rows):
        return lack
    scores, rise = desk.scores(key), -desk.drop(key)
    full = np.where(desk.twin >= 0, scores[desk.twin], np.nan) >= FULL - _ROUNDING
    lacking = desk.sitting.sat.lacking(key, rows)
    if no_room := int((rows & full & ~np.isnan(rise)).sum()):
        lacking["no room to rise"] = no_room
    rows = rows & ~full
    raised = desk.mean(rise, rows)
    if raised.value is None:
        why = "without the text every paper has full marks already, so nothing could rise"
        return Found(undefined(why if no_room else "no paper and its twin both have a score"), lacking=lacking)
    rose = _share(rise[rows] > 0, rise[rows]) or 0.0
    kinds = [
        Detail(str(kind), None, _count(rise, of_kind), desk.mean(rise, of_kind))
        for kind in dict.fromkeys(desk.kind[rows].tolist())
        if not np.isnan(rise[of_kind := rows & (desk.kind == kind)]).all()
    ]
    return Found(
        raised,
        f"{what} {_moves(-raised.value)}; {percent(rose)} of the papers rose.",
        papers=_count(rise, rows),
        lacking=lacking,
        beside={"rose": rose},
        details=tuple(kinds),
    )


def _auc(desk: Desk, scores: Floats, damaged: Bools, clean: Bools) -> Estimate:
    rows = np.flatnonzero((damaged | clean) & ~np.isnan(scores))
    if not len(rows):
        return undefined("no paper has a number")
    draws = desk.draws([desk.papers[row] for row in rows])
    return draws.estimate(auc(scores[rows], damaged[rows], clean[rows]), "no paper of one sort has a number")


def _first_noticed(desk: Desk, drop: Floats, rows: Bools) -> int | None:
    for strength in sorted(set(desk.strength[rows].tolist())):
        low = desk.mean(drop, rows & (desk.strength == strength)).low
        if low is not None and low > 0:
            return int(strength)
    return None


def _noticed(kinds: Sequence[Detail]) -> str:
    noticed = [f"{one.kind} from strength {one.first}" for one in kinds if one.first is not None]
    never = [one.kind for one in kinds if one.first is None]
    parts = [f"noticed {', '.join(noticed)}"] if noticed else []
    parts += [f"at no strength for certain {', '.join(never)}"] if never else []
    return "; ".join(parts)


def _moves(drop: float) -> str:
    """`lowers it by 3.0 % of the scale`; `does not move it`."""
    if drop == 0:
        return "does not move it"
    return f"{'lowers' if drop > 0 else 'raises'} it by {percent(abs(drop))} of the scale"


def _count(values: Floats, rows: Bools) -> int:
    return int((rows & ~np.isnan(values)).sum())


def _share(holds: Bools, values: Floats) -> float | None:
    """Of the values that are there."""
    there = ~np.isnan(values)
    return float(holds[there].mean()) if there.any() else None


def percent(share: float | None) -> str:
    """`2.4%`; a dash where there is none."""
    if share is None:
        return "–"
    return f"{share:.0%}" if share in (0, 1) else f"{share:.1%}"
