"""Two runs over the same cases: what changed, how sure that is, and what could have changed unseen.

Differences are the second less the first, by case, so that what makes a case hard is in neither. Intervals and tests
take the cases of one group (`source`) together. p-values are corrected by Holm within each kind of column: criteria
together, assertions together, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.comparison.differing import differences_of
from beholder.statistics.comparison.flipping import RARE, holm
from beholder.statistics.comparison.pairing import Fate, Paired, SharedCases, shared_cases
from beholder.statistics.comparison.power import Power, power
from beholder.statistics.data import Bools, Floats, Kind, Scores
from beholder.statistics.grouped import SAME
from beholder.statistics.intervals import DRAWS, SEED, Draws, Estimate, ratio

GRADE = "grade"
TOP = 10

_BOUNDED = (Kind.OVERALL, Kind.PASSED, Kind.CRITERION)


@dataclass(frozen=True, slots=True)
class Asked:
    """How to compare. `group` is what belongs together; `margin` how far a mean may fall before it counts, in the unit
    of each column, `margins` the same for columns by name; `detect` the difference for which the cases that it takes
    are wanted; `top` how many of the cases that changed most are told. Raises `UsageError` for a margin that is below 0
    or not finite, and for a `detect` that is not a number above 0."""

    group: str | None = None
    margin: float = 0.0
    margins: Mapping[str, float] = field(default_factory=dict)
    detect: float | None = None
    top: int = TOP
    draws: int = DRAWS
    seed: int = SEED

    def __post_init__(self) -> None:
        for name, value in (("", self.margin), *self.margins.items()):
            if not 0 <= value < inf:
                of = f" of {name}" if name else ""
                raise UsageError(
                    f"The margin{of} is how far a mean may fall: a number, 0 or more, and {value:g} is not."
                )
        if self.detect is not None and not 0 < self.detect < inf:
            raise UsageError(f"The difference to detect is a number above 0, and {self.detect:g} is not.")


@dataclass(frozen=True, slots=True)
class Graded:
    """The grades that one rubric gave in both runs, by case; `order` has them from the best to the worst."""

    name: str
    order: tuple[str, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one column over the cases that have a number for it in both runs.

    `before` and `after` are means, `difference` is after less before; pass rates and assertions are shares of yes,
    grades are steps. `better`, `same` and `worse` count cases. `p` is the sign-flip test's, `p_holm` corrected for the
    other columns of this kind, `p_beyond` the test against a drop by `margin`. `lost` counts the cases that have a
    number before and none after; `worst` and `best` are the difference if all of those had the lowest or the highest
    value of the scale, None where nothing was lost or the scale is not known. `grades` counts (before, after) by grade.
    """

    name: str
    kind: str
    cases: int
    groups: int
    before: float | None
    after: float | None
    difference: Estimate
    p: float | None
    p_holm: float | None
    better: int
    same: int
    worse: int
    power: Power
    margin: float = 0.0
    p_beyond: float | None = None
    lost: int = 0
    worst: Estimate | None = None
    best: Estimate | None = None
    about: str = ""
    grades: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def shown(self) -> bool:
        """Whether a change is shown at all: the interval leaves 0 out, and so does the test after correction."""
        return self.difference.excludes_zero and self.p_holm is not None and self.p_holm <= RARE

    @property
    def hinted(self) -> bool:
        """Whether the interval leaves 0 out, and the test does not agree or cannot, with so few groups."""
        return self.difference.excludes_zero and not self.shown

    @property
    def down(self) -> bool:
        return self.shown and self.difference.value is not None and self.difference.value < 0

    @property
    def up(self) -> bool:
        return self.shown and not self.down

    @property
    def may_have_fallen(self) -> bool:
        """Whether the difference lies wholly below the margin if all cases that lost their number had the lowest."""
        if self.worst is None:
            return False
        end = self.worst.value if self.worst.high is None else self.worst.high
        return end is not None and end < -self.margin - SAME

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "cases": self.cases,
            "groups": self.groups,
            "before": self.before,
            "after": self.after,
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_holm": self.p_holm,
            "better": self.better,
            "same": self.same,
            "worse": self.worse,
            "margin": self.margin,
            "p_beyond": self.p_beyond,
            "lost": self.lost,
            "if_lost_were_lowest": None if self.worst is None else self.worst.to_dict(),
            "if_lost_were_highest": None if self.best is None else self.best.to_dict(),
            "power": self.power.to_dict(),
        }
        if self.about:
            found["about"] = self.about
        if self.grades:
            found["grades"] = {name: {"before": old, "after": new} for name, (old, new) in self.grades.items()}
        return found


@dataclass(frozen=True, slots=True)
class Moved:
    """A case that changed much: by how much (overall, 0–1), its group, and each number that changed, before and
    after."""

    case: str
    group: str
    by: float
    changes: Mapping[str, tuple[float, float]]

    def to_dict(self) -> dict[str, object]:
        changes = {name: {"before": old, "after": new} for name, (old, new) in self.changes.items()}
        return {"case": self.case, "group": self.group, "by": self.by, "changes": changes}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`cases` counts those that both runs have, `groups` their groups by `group`. `unlike` are those that have a number
    in one run only, `neither` those that were scored in neither; `warnings` say what makes the runs unlike."""

    before: str
    after: str
    cases: int
    groups: int
    group: str | None
    changes: tuple[Change, ...]
    moved: tuple[Moved, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    unlike: tuple[Fate, ...]
    neither: tuple[Fate, ...]
    warnings: tuple[str, ...]
    told: str

    @property
    def empty(self) -> bool:
        """Whether nothing has a number in both runs."""
        return not any(one.cases for one in self.changes)

    def of(self, *kinds: str) -> tuple[Change, ...]:
        return tuple(one for one in self.changes if one.kind in kinds)

    def to_dict(self) -> dict[str, object]:
        return {
            "before": self.before,
            "after": self.after,
            "cases": self.cases,
            "groups": self.groups,
            "group": self.group,
            "changes": [one.to_dict() for one in self.changes],
            "moved": [one.to_dict() for one in self.moved],
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "unlike": [one.to_dict() for one in self.unlike],
            "neither": [one.to_dict() for one in self.neither],
            "warnings": list(self.warnings),
            "told": self.told,
        }


def most_lost(changes: Sequence[Change]) -> Change | None:
    """The column of which most cases lost their number: an overall score, if any did; None where no case did."""
    lost = [one for one in changes if one.lost]
    overall = [one for one in lost if one.kind == Kind.OVERALL]
    return max(overall or lost, key=lambda one: one.lost, default=None)


def compare(
    before: Scores,
    after: Scores,
    asked: Asked | None = None,
    *,
    graded: Sequence[Graded] = (),
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compares two sets of scores case by case. `graded` are grades, `warnings` what makes the runs unlike. Raises
    `UsageError` where the two have no case in common, or a margin has no column."""
    asked = asked or Asked()
    pairs = shared_cases(before, after, asked.group)
    columns = (*pairs.columns, *(_steps(one, pairs.cases) for one in graded))
    allowed = _margins(columns, asked)
    drawn = Draws(pairs.groups, len(pairs.cases), count=asked.draws, seed=asked.seed)
    changes = _changes(columns, drawn, allowed, asked.detect)
    counts = {one.name: _grade_counts(one, pairs.cases) for one in graded}
    return Comparison(
        before=before.name,
        after=after.name,
        cases=len(pairs.cases),
        groups=drawn.groups,
        group=pairs.group if pairs.groups is not None else None,
        changes=tuple(replace(one, grades=counts[one.name]) if one.kind == GRADE else one for one in changes),
        moved=_moved(pairs, asked.top),
        only_before=pairs.only_before,
        only_after=pairs.only_after,
        unlike=pairs.unlike,
        neither=pairs.neither,
        warnings=(*warnings, *pairs.warnings),
        told=drawn.told(),
    )


def _margins(columns: Sequence[Paired], asked: Asked) -> list[float]:
    unknown = asked.margins.keys() - {one.name for one in columns}
    if unknown and columns:
        there = ", ".join(one.name for one in columns)
        raise UsageError(f"There is no {sorted(unknown)[0]!r} to have a margin; there are: {there}.")
    return [asked.margins.get(one.name, asked.margin) for one in columns]


def _changes(columns: Sequence[Paired], draws: Draws, margins: Sequence[float], detect: float | None) -> list[Change]:
    differences = [one.difference for one in columns]
    bounds = {at: ends for at, one in enumerate(columns) if (ends := _bounds(one)) is not None}
    found = differences_of(draws, differences, margins, [values for ends in bounds.values() for values in ends])
    bounded = {at: found.beside[2 * place :][:2] for place, at in enumerate(bounds)}
    corrected, tests = _corrected(columns, found.p)
    changes = []
    for at, column in enumerate(columns):
        values = differences[at]
        there: Bools = ~np.isnan(values)
        cases, groups = int(found.cases[at]), int(found.groups[at])
        worst, best = bounded.get(at, (None, None))
        changes.append(
            Change(
                name=column.name,
                kind=column.kind,
                cases=cases,
                groups=groups,
                before=_mean(column.before[there]),
                after=_mean(column.after[there]),
                difference=found.means[at],
                p=_number(found.p[at]),
                p_holm=_number(corrected[at]),
                better=int((values[there] > SAME).sum()),
                same=int((np.abs(values[there]) <= SAME).sum()),
                worse=int((values[there] < -SAME).sum()),
                power=power(float(found.errors[at]), groups, cases, detect, tests[at]),
                margin=margins[at],
                p_beyond=_number(found.p_beyond[at]),
                lost=int((~np.isnan(column.before) & np.isnan(column.after)).sum()),
                worst=worst,
                best=best,
                about=column.about,
            )
        )
    return changes


def _corrected(columns: Sequence[Paired], p: Floats) -> tuple[Floats, list[int]]:
    """Holm within each kind, and how many tests that is for each column."""
    corrected, tests = np.full(len(columns), np.nan), [1] * len(columns)
    for kind in dict.fromkeys(one.kind for one in columns):
        family = [at for at, one in enumerate(columns) if one.kind == kind]
        corrected[family] = holm(p[family])
        for at in family:
            tests[at] = int((~np.isnan(p[family])).sum())
    return corrected, tests


def _bounds(column: Paired) -> tuple[Floats, Floats] | None:
    """The differences if what has no number any more had the lowest of the scale, and the highest."""
    lost = ~np.isnan(column.before) & np.isnan(column.after)
    if column.scale is None or column.kind not in _BOUNDED or not lost.any():
        return None
    low, high = (np.where(lost, end, column.after) - column.before for end in column.scale)
    return low, high


def _steps(one: Graded, cases: Sequence[str]) -> Paired:
    """Grades as steps from the worst, which is 0."""
    step = {grade: float(at) for at, grade in enumerate(reversed(one.order))}
    before, after = (
        np.array([step.get(grades.get(case, ""), np.nan) for case in cases]) for grades in (one.before, one.after)
    )
    return Paired(one.name, GRADE, before, after, (0.0, max(1.0, len(one.order) - 1.0)))


def _grade_counts(one: Graded, cases: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Of the cases that have a grade in both runs."""
    known = [(one.before[case], one.after[case]) for case in cases if case in one.before and case in one.after]
    names = dict.fromkeys((*one.order, *(grade for both in known for grade in both)))
    olds, news = [old for old, _ in known], [new for _, new in known]
    return {name: (olds.count(name), news.count(name)) for name in names}


def _moved(pairs: SharedCases, top: int) -> tuple[Moved, ...]:
    """The cases that changed most: by the mean of their overall scores, else of their criteria as shares of a scale."""
    overall = [one for one in pairs.columns if one.kind == Kind.OVERALL]
    ranked = overall or [one for one in pairs.columns if one.kind == Kind.CRITERION]
    told = [one for one in pairs.columns if one.kind != Kind.ASSERTION]
    if not ranked or not top:
        return ()
    shares = np.array([one.difference / _width(one) for one in ranked])
    known = ~np.isnan(shares)
    by = np.nan_to_num(ratio(np.where(known, shares, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64)))
    found = []
    for row in np.argsort(-np.abs(by), kind="stable")[:top]:
        if abs(by[row]) <= SAME:
            break
        changes = {
            one.name: (float(one.before[row]), float(one.after[row])) for one in told if abs(one.difference[row]) > SAME
        }
        group = pairs.groups[row] if pairs.groups is not None else ""
        found.append(Moved(pairs.cases[row], group, float(by[row]), changes))
    return tuple(found)


def _width(column: Paired) -> float:
    """Of the scale; where it is not known, of the values that were seen."""
    if column.scale is not None:
        return column.scale[1] - column.scale[0] or 1.0
    values = np.concatenate([column.before, column.after])
    values = values[~np.isnan(values)]
    return float(np.ptp(values)) or 1.0 if len(values) else 1.0


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
