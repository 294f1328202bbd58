"""What papers with known truth tell of one criterion: damage and its strength, what is clean, what should not matter.

A move that should not be there counts whichever way it goes (`independence`) or where it goes up (`injection`,
`padding`), paper by paper, so that moves cannot make up for each other. A judge that wavers moves by itself: what
asking twice makes on average is taken off, and half of it where only rises count, since chance raises one of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.qualify.card import Detail
from beholder.qualify.desk import Desk, Found, percent
from beholder.qualify.detection import ROUNDING, auc, fall
from beholder.qualify.noticing import Series, noticed
from beholder.qualify.paper import Part
from beholder.statistics.data import Bools, Floats
from beholder.statistics.intervals import Estimate, undefined

FULL = 0.9  # of the scale: on one of ten steps or fewer only the top, on 0 to 1 what our bands call excellent

_NO_PAIR = "no paper and its twin both have a score"


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
    scores, drop = desk.scores(key), desk.drop(key)
    series = _series(desk, key)
    falls = np.full(len(scores), np.nan)  # of a series, at its first row
    graded = np.zeros(len(scores), np.bool_)
    by_kind: dict[str, list[Series]] = {}
    for (twin, kind), rows in series.items():
        graded[rows] = True
        one = Series(np.array([0.0, *desk.strength[rows]]), scores[[twin, *rows]])
        falls[rows[0]] = fall(one.strengths, one.scores)
        by_kind.setdefault(kind, []).append(one)
    if lack := desk.absent(key, graded):
        return lack
    lacking = desk.sitting.sat.lacking(key, graded)
    overall = desk.mean(falls, graded)
    if overall.value is None:
        return Found(undefined("too few papers of any series have a score"), lacking=lacking)
    kinds = []
    for kind, climbed in by_kind.items():
        of_kind = graded & (desk.kind == kind)
        first = _first_noticed(desk, drop, of_kind, climbed)
        kinds.append(Detail(kind, None, _count(scores, of_kind), desk.mean(falls, of_kind), first=first))
    return Found(
        overall,
        f"How faithfully the score falls as damage grows, 1 being at every step: {_first_told(kinds)}.",
        papers=_count(scores, graded),
        lacking=lacking,
        details=tuple(kinds),
    )


def _first_noticed(desk: Desk, drop: Floats, rows: Bools, series: Sequence[Series]) -> int | None:
    """The lowest strength that is noticed more surely than by chance, and whose drop is above zero in photographs like
    these: its interval is."""
    drops = {
        strength: desk.mean(drop, rows & (desk.strength == strength)).low for strength in noticed(series, desk.seed)
    }
    return min((strength for strength, low in drops.items() if low is not None and low > 0), default=None)


def _series(desk: Desk, key: str) -> dict[tuple[int, str], list[int]]:
    """The rows of each series of several strengths, by the row of its clean twin and the kind of damage."""
    found: dict[tuple[int, str], list[int]] = {}
    for row in np.flatnonzero(desk.aimed(key) & (desk.twin >= 0)):
        found.setdefault((int(desk.twin[row]), str(desk.kind[row])), []).append(int(row))
    return {at: rows for at, rows in found.items() if len(set(desk.strength[rows].tolist())) > 1}


def specificity(desk: Desk, key: str) -> Found:
    """Full marks where nothing is wrong."""
    rows, scores = desk.flawless(key), desk.scores(key)
    if lack := desk.absent(key, rows):
        return lack
    full = np.where(np.isnan(scores), np.nan, scores >= FULL - ROUNDING)
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
    wavering = desk.wavering(key)
    moves = np.abs(drop) - (wavering or 0.0)
    beyond = desk.mean(moves, rows)
    if beyond.value is None:
        return Found(undefined(_NO_PAIR), lacking=desk.sitting.sat.lacking(key, rows))
    moved, on_balance = float(np.nanmean(np.abs(drop[rows]))), float(np.nanmean(drop[rows]))
    aimed = desk.mean(drop, desk.aimed(key)).value
    beside = {"moved": moved, "on_balance": on_balance}
    beside |= {} if aimed is None else {"own_damage": aimed}
    beside |= {} if wavering is None else {"by_itself": wavering}
    own = f"; its own damage lowers it by {percent(aimed)}" if aimed is not None else ""
    return Found(
        beyond,
        f"Damage that is not its business {_moves(moved, on_balance)}{own}.{_by_chance(moved, wavering)}",
        papers=_count(drop, rows),
        lacking=desk.sitting.sat.lacking(key, rows),
        beside=beside,
        details=_by_kind(desk, moves, rows),
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
    full = np.where(desk.twin >= 0, scores[desk.twin], np.nan) >= FULL - ROUNDING
    lacking = desk.sitting.sat.lacking(key, rows)
    if no_room := int((rows & full & ~np.isnan(rise)).sum()):
        lacking["no room to rise"] = no_room
    rows = rows & ~full
    wavering = desk.wavering(key)
    by_itself = None if wavering is None else wavering / 2
    rises = np.maximum(rise, 0.0) - (by_itself or 0.0)
    beyond = desk.mean(rises, rows)
    if beyond.value is None:
        why = "without the text every paper has full marks already, so nothing could rise"
        return Found(undefined(why if no_room else _NO_PAIR), lacking=lacking)
    raised = float(np.nanmean(np.maximum(rise[rows], 0.0)))
    rose, fell = (_share(moved[rows] > 0, rise[rows]) or 0.0 for moved in (rise, -rise))
    beside = {"raised": raised, "rose": rose, "fell": fell}
    beside |= {} if by_itself is None else {"by_itself": by_itself}
    does = f"raises it by {percent(raised)} of the scale" if raised else "does not raise it"
    falls = f", {percent(fell)} fell, which counts as no rise" if fell else ""
    return Found(
        beyond,
        f"{what} {does}; {percent(rose)} of the papers rose{falls}.{_by_chance(raised, by_itself)}",
        papers=_count(rise, rows),
        lacking=lacking,
        beside=beside,
        details=_by_kind(desk, rises, rows),
    )


def _by_kind(desk: Desk, values: Floats, rows: Bools) -> tuple[Detail, ...]:
    return tuple(
        Detail(str(kind), None, _count(values, of_kind), desk.mean(values, of_kind))
        for kind in dict.fromkeys(desk.kind[rows].tolist())
        if not np.isnan(values[of_kind := rows & (desk.kind == kind)]).all()
    )


def _auc(desk: Desk, scores: Floats, damaged: Bools, clean: Bools) -> Estimate:
    rows = np.flatnonzero((damaged | clean) & ~np.isnan(scores))
    statistic = auc(scores[rows], damaged[rows], clean[rows])
    return desk.estimate([desk.papers[row] for row in rows], statistic, "no paper of one sort has a number")


def _first_told(kinds: Sequence[Detail]) -> str:
    seen = [f"{one.kind} from strength {one.first}" for one in kinds if one.first is not None]
    never = [one.kind for one in kinds if one.first is None and one.estimate.low is not None]
    alone = [one.kind for one in kinds if one.estimate.low is None]
    parts = [f"noticed {', '.join(seen)}"] if seen else []
    parts += [f"at no strength for certain {', '.join(never)}"] if never else []
    parts += [f"too few photographs to say from which strength {', '.join(alone)}"] if alone else []
    return "; ".join(parts)


def _moves(moved: float, on_balance: float) -> str:
    """`lowers it by 3.0% of the scale`; `moves it by 5.0% of the scale, up and down`; `does not move it`."""
    if moved == 0:
        return "does not move it"
    one_way = abs(moved - abs(on_balance)) < ROUNDING
    does = "moves" if not one_way else "lowers" if on_balance > 0 else "raises"
    return f"{does} it by {percent(moved)} of the scale" + ("" if one_way else ", up and down")


def _by_chance(moved: float, by_itself: float | None) -> str:
    """What part of a move is no more than the judge's own wavering."""
    if by_itself is None:
        return " Nothing was asked twice, so how much of that is chance is not known." if moved else ""
    return f" What asking twice makes, {percent(by_itself)}, is taken off." if by_itself else ""


def _count(values: Floats, rows: Bools) -> int:
    return int((rows & ~np.isnan(values)).sum())


def _share(holds: Bools, values: Floats) -> float | None:
    """Of the values that are there."""
    there = ~np.isnan(values)
    return float(holds[there].mean()) if there.any() else None
