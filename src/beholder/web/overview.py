"""A run in numbers, from what the ledger's indexes tell: no verdict is unpacked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from beholder.ledger import Ledger, RunRecord
from beholder.ledger.browsing import Line, Wanted
from beholder.ledger.facets import FLAGS, NO, SCORES, STYLE
from beholder.reports.html.figures import Bin, Figures, figures
from beholder.reports.html.gathering import Gathered
from beholder.reports.html.texts import plain
from beholder.statistics.data import Column, Floats, Kind, Scores

LISTED = 12
Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Failing:
    """An assertion that failed: how often, of how many scored verdicts of its style."""

    style: str
    id: str
    question: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class Overview:
    """`groups` are the values of each group, `scales` those of the criteria; for choices as for charts."""

    verdicts: int
    figures: Figures
    failing: tuple[Failing, ...]
    flags: tuple[tuple[str, int], ...]
    rubrics: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    scales: Mapping[str, Scale]


def overview_at(place: Path, run: str) -> Overview:
    """The numbers of a run of the ledger at a path: what another process can be sent."""
    with Ledger.open(place, read_only=True) as book:
        return overview(book, book.run(run))


def overview(book: Ledger, record: RunRecord) -> Overview:
    lines = book.lines(record.id)
    rubrics = tuple(dict.fromkeys(line.rubric for line in lines))
    scales = scales_of(book, record, rubrics)
    styles = [str(line.facets.get(STYLE, "")) for line in lines]
    groups = _groups(lines)
    if any(styles):
        groups[STYLE] = tuple(styles)
    scores = Scores(record.name, tuple(line.case for line in lines), _columns(lines, rubrics, scales), groups)
    flags = Counter(flag for line in lines for flag in line.facets.get(FLAGS, ()))
    return Overview(
        len(lines),
        figures(Gathered(record, scores=scores)),
        _failing(book, record, lines),
        tuple(flags.most_common()),
        rubrics,
        tuple(sorted({style for style in styles if style})),
        {name: tuple(sorted({value for value in values if value})) for name, values in groups.items()},
        scales,
    )


def scales_of(book: Ledger, record: RunRecord, rubrics: Sequence[str]) -> dict[str, Scale]:
    """The scales of the criteria, as a verdict by each rubric tells them."""
    found: dict[str, Scale] = {}
    for rubric in rubrics:
        for one in islice(book.judged(record.id, outcome="scored", rubric=rubric), 1):
            for key, result in one.verdict.criteria.items():
                found[key] = (float(result.scale[0]), float(result.scale[1]))
    return found


def grades_of(record: RunRecord, counted: Mapping[str, int]) -> list[Bin]:
    """Best grade first, as the rubrics list them; those that they do not list come last."""
    listed: list[str] = []
    for rubric in record.rubrics:
        scoring = rubric.get("scoring")
        grades = scoring.get("grades", ()) if isinstance(scoring, Mapping) else ()
        listed += [str(one["grade"]) for one in grades if isinstance(one, Mapping) and "grade" in one]
    names = [name for name in dict.fromkeys(listed) if counted] + sorted(set(counted) - set(listed))
    return [Bin(plain(name), counted.get(name, 0)) for name in names]


def states_of(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """Scored first, then what has no score, most first."""
    rest = sorted(((state, many) for state, many in counted.items() if state != "scored"), key=lambda one: -one[1])
    return [("scored", counted.get("scored", 0)), *rest]


def _columns(lines: Sequence[Line], rubrics: Sequence[str], scales: Mapping[str, Scale]) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for rubric in rubrics:
        name = "score" if len(rubrics) == 1 else f"{rubric}.score"
        values = _array([line.score if line.rubric == rubric else None for line in lines])
        if not np.isnan(values).all():
            found[name] = Column(name, Kind.OVERALL, values, (0.0, 1.0))
    passed = _array([line.passed for line in lines])
    if not np.isnan(passed).all():
        found["passed"] = Column("passed", Kind.PASSED, passed, (0.0, 1.0))
    scores = [line.facets.get(SCORES, {}) for line in lines]
    for key in dict.fromkeys(key for one in scores for key in one):
        values = _array([one.get(key) for one in scores])
        found[key] = Column(key, Kind.CRITERION, values, scales.get(key))
    return found


def _array(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _groups(lines: Sequence[Line]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for line in lines for name in line.groups)
    return {name: tuple(line.groups.get(name, "") for line in lines) for name in names}


def _failing(book: Ledger, record: RunRecord, lines: Sequence[Line]) -> tuple[Failing, ...]:
    failed: Counter[tuple[str, str]] = Counter()
    scored: Counter[str] = Counter()
    for line in lines:
        style = str(line.facets.get(STYLE, ""))
        scored[style] += line.outcome == "scored"
        failed.update((style, id_) for id_ in line.facets.get(NO, ()))
    return tuple(
        Failing(style, id_, _question(book, record, style, id_), count, scored[style])
        for (style, id_), count in failed.most_common(LISTED)
    )


def _question(book: Ledger, record: RunRecord, style: str, id_: str) -> str:
    wanted = Wanted(style=style, assertion=id_, sort="order")
    for one in book.browse(record.id, wanted, limit=1).judged:
        for result in one.verdict.criteria.values():
            for assertion in result.assertions:
                if assertion.id == id_:
                    return assertion.question
    return ""
