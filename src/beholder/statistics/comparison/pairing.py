"""Two sets of scores, case by case: which cases and columns both have, and what only one has, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.data import SOURCE, Column, Floats, Ints, Kind, Scores

COMPARED = (Kind.OVERALL, Kind.PASSED, Kind.CRITERION, Kind.ASSERTION)
"""What has a better and a worse end; in the order in which it is told."""
SCORED = "scored"
LISTED = 10  # names in a sentence
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Fate:
    """A case that is in both runs and has no numbers in one of them, or lacks some: what became of it in each, and what
    only one of them has a number for."""

    case: str
    before: str
    after: str
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "case": self.case,
            "before": self.before,
            "after": self.after,
            "lost": list(self.lost),
            "gained": list(self.gained),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """One column in both runs, a value for each case that both have."""

    name: str
    kind: str
    before: Floats
    after: Floats
    scale: tuple[float, float] | None
    about: str = ""

    @property
    def difference(self) -> Floats:
        """After less before; nan where one of them is missing."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, eq=False)
class SharedCases:
    """The cases of both runs, in the order of the first. `groups` is what belongs together, None where nothing does."""

    cases: tuple[str, ...]
    columns: tuple[Paired, ...]
    groups: tuple[str, ...] | None
    group: str
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    unlike: tuple[Fate, ...]
    neither: tuple[Fate, ...]
    warnings: tuple[str, ...]


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """`a, b and 3 more`; a long name is cut."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(name[:_LONGEST] for name in names[:most]) + more


def shared_cases(before: Scores, after: Scores, group: str | None = None) -> SharedCases:
    """Pairs two sets of scores by case id. Raises `UsageError` where they have no case in common, or none is in the
    named group."""
    there = {case: row for row, case in enumerate(after.cases)}
    rows = [row for row, case in enumerate(before.cases) if case in there]
    if not rows:
        raise UsageError(
            f"{before.name} and {after.name} have no case in common; cases are paired by their ids, such as "
            f"{_sample(before)} here and {_sample(after)} there."
        )
    old = np.array(rows, np.int64)
    new = np.array([there[before.cases[row]] for row in rows], np.int64)
    cases = tuple(before.cases[row] for row in rows)
    known = set(cases)
    columns, warnings = _columns(before, after, old, new)
    groups, said = _groups(before, after, old, new, group)
    unlike = tuple(_unlike(before, after, cases, columns))
    told = {one.case for one in unlike}
    return SharedCases(
        cases=cases,
        columns=columns,
        groups=groups,
        group=group or SOURCE,
        only_before=tuple(case for case in before.cases if case not in known),
        only_after=tuple(case for case in after.cases if case not in known),
        unlike=unlike,
        neither=tuple(
            Fate(case, before.lacks[case], after.lacks[case])
            for case in cases
            if case in before.lacks and case in after.lacks and case not in told
        ),
        warnings=(*warnings, *said),
    )


def _sample(scores: Scores) -> str:
    return repr(scores.cases[0]) if scores.cases else "none at all"


def _columns(before: Scores, after: Scores, old: Ints, new: Ints) -> tuple[tuple[Paired, ...], list[str]]:
    """The columns that both have on one scale, and what is said of the others. A column is in both runs, too, where
    one of them has no number for it because none of its cases was scored."""
    found, apart = [], []
    first, second = _compared(before), _compared(after)
    first, second = first | _emptied(second, after, before), second | _emptied(first, before, after)
    for name, column in first.items():
        other = second.get(name)
        if other is None:
            continue
        if column.scale is not None and other.scale is not None and column.scale != other.scale:
            (low, high), (bottom, top) = column.scale, other.scale
            scales = f"{low:g} to {high:g} in {before.name}, {bottom:g} to {top:g} in {after.name}"
            apart.append(f"{name} has two scales ({scales}) and is not compared.")
            continue
        scale = column.scale or other.scale
        pair = Paired(name, column.kind, column.values[old], other.values[new], scale, column.about or other.about)
        found.append(pair)
        if column.kind is Kind.ASSERTION and column.about != other.about:
            apart.append(f"{name} asks another question in each run: {column.about!r}, then {other.about!r}.")
    for scores, mine, others in ((before, first, second), (after, second, first)):
        only = [name for name in mine if name not in others]
        if only:
            apart.append(f"Only {scores.name} has {listed(only)}, which cannot be compared.")
    found.sort(key=lambda one: [str(kind) for kind in COMPARED].index(one.kind))
    return tuple(found), apart


def _compared(scores: Scores) -> dict[str, Column]:
    return {name: one for name, one in scores.columns.items() if one.kind in COMPARED}


def _emptied(columns: Mapping[str, Column], scores: Scores, other: Scores) -> dict[str, Column]:
    """The columns of `scores` that `other` has not, since whatever of its cases has a number here was not scored there:
    as columns of `other`, without a number."""
    nothing = not _compared(other)
    shared = set(other.cases)
    found = {}
    for name, column in columns.items():
        cases = {scores.cases[row] for row in np.flatnonzero(~np.isnan(column.values))} & shared
        if name not in other.columns and (nothing or (cases and cases <= other.lacks.keys())):
            found[name] = replace(column, values=np.full(len(other), np.nan))
    return found


def _groups(
    before: Scores, after: Scores, old: Ints, new: Ints, name: str | None
) -> tuple[tuple[str, ...] | None, list[str]]:
    """The group of each case; where the runs tell two stories the first one's is taken, and that is said."""
    wanted = name or SOURCE
    first, second = before.groups.get(wanted), after.groups.get(wanted)
    if first is None and second is None:
        if name is None:
            return None, []
        there = ", ".join(dict.fromkeys((*before.groups, *after.groups))) or "none"
        raise UsageError(f"No case is in a group {name!r}; there are: {there}.")
    mine = [first[row] if first else "" for row in old]
    others = [second[row] if second else "" for row in new]
    differ = sum(bool(one and other and one != other) for one, other in zip(mine, others, strict=True))
    said = [f"{differ:,} cases are of another {wanted} in each run; {before.name} is followed."] if differ else []
    return tuple(one or other for one, other in zip(mine, others, strict=True)), said


def _unlike(before: Scores, after: Scores, cases: tuple[str, ...], columns: tuple[Paired, ...]) -> Iterator[Fate]:
    """The cases whose overall or criteria have a number in one run only, or that were scored in one only."""
    numbers = [one for one in columns if one.kind in (Kind.OVERALL, Kind.CRITERION)]
    shape = (len(cases), len(numbers))
    old = np.array([~np.isnan(one.before) for one in numbers], np.bool_).T.reshape(shape)
    new = np.array([~np.isnan(one.after) for one in numbers], np.bool_).T.reshape(shape)
    odd = (old != new).any(axis=1)
    for row, case in enumerate(cases):
        if odd[row] or (case in before.lacks) != (case in after.lacks):
            lost = tuple(one.name for one, gone in zip(numbers, old[row] & ~new[row], strict=True) if gone)
            gained = tuple(one.name for one, came in zip(numbers, new[row] & ~old[row], strict=True) if came)
            yield Fate(case, before.lacks.get(case, SCORED), after.lacks.get(case, SCORED), lost, gained)
