"""A sitting out of the ledger: the papers with their truth, and what the judge said of them.

A sitting is one run over the papers, tagged `exam`, and up to three over some of them, tagged with its id: `again` (the
same question a second time), `order` and `labels` (the same question in another dress; see `variants`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.reading import Judged
from beholder.rubrics.model import Criterion, Number, Rubric
from beholder.statistics.data import SOURCE, Bools, Floats
from beholder.verdicts.model import Outcome, Verdict

TAG = GROUP = "exam"  # of its first run; of every paper, whose value is the version of the exam
ASKED = "asked"  # the group that tells on which further sheet a paper stands
AGAIN, ORDER, LABELS = FURTHER = ("again", "order", "labels")
OVERALL = "score"
_AT_MOST = " (at most)"


def at_most(criterion: str) -> str:
    """The column of the highest score that a judge's answers leave possible, where it left the score itself open."""
    return criterion + _AT_MOST


def criterion_of(column: str) -> str:
    """The criterion that a column is about."""
    return column.removesuffix(_AT_MOST)


def sheet_tag(asked: str) -> str:
    """The tag of a run: `exam`, `exam-again`, `exam-order`, `exam-labels`."""
    return f"{TAG}-{asked}" if asked else TAG


def sitting_tag(run: str) -> str:
    """What the further runs of a sitting are tagged with, by the id of its first."""
    return f"sitting-{run}"


def papers_tag(digest: str) -> str:
    """What runs on the same papers are tagged with."""
    return f"papers-{digest}"


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of a paper. `strength` is 0 where nothing is wrong; `twin` the id of the paper that differs from it
    only in what it tests; `aims` the criteria that should fall, `spares` those that should stay."""

    id: str
    part: str
    kind: str
    strength: int
    source: str
    twin: str
    aims: frozenset[str]
    spares: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Sat:
    """What was said of papers, a row each, with the outcome of each row.

    `scores` has a column for each criterion, and `score` for the whole, as shares of their scale, nan where there is
    none. The whole counts only where no criterion was left open: means of different criteria cannot be compared. A
    criterion that never has a score has a second column where the judge's answers bound it (`at_most`).
    """

    papers: tuple[Truth, ...]
    scores: Mapping[str, Floats]
    outcomes: tuple[Outcome, ...]

    def __len__(self) -> int:
        return len(self.papers)

    def lacking(self, key: str, rows: Bools) -> dict[str, int]:
        """Why papers have no number here, counted: `left open`, or the outcome."""
        found: Counter[str] = Counter()
        for row in np.flatnonzero(rows & np.isnan(self.scores[key])):
            found[_lack(self.outcomes[row])] += 1
        return dict(found)


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """What was said on a further sheet. By criterion and paper id: `pairs` of scores, the first time and the other
    time, or in `lacking` why there are not two (`left open`, or the outcome). `missing` papers are not judged yet."""

    pairs: Mapping[str, Mapping[str, tuple[float, float]]]
    lacking: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Sitting:
    """Everything that a report card is made of.

    `paper_set` is the same for the same papers; `further` is what was said on the further sheets, by their names.
    """

    run: str
    name: str
    judge: str
    model: str | None
    rubric: Rubric
    exam: str
    total: int
    sat: Sat
    paper_set: str = ""
    further: Mapping[str, AskedAgain] = field(default_factory=dict)


class _Said(NamedTuple):
    outcome: Outcome
    shares: Mapping[str, float]


def sitting(ledger: Ledger, run: str) -> Sitting:
    """The sitting that a run belongs to (its first run, or any of the further ones). Raises `UsageError` for a run
    that is no exam, `LedgerError` for one that is not there."""
    record = _first(ledger, ledger.run(run))
    if len(record.rubrics) != 1:
        raise _no_exam(record)
    rubric = msgspec.convert(record.rubrics[0], Rubric)
    judged = list(ledger.judged(record.id))
    if not any(GROUP in one.groups for one in judged):
        raise _no_exam(record)
    sat = sat_by(rubric, judged)
    further: dict[str, AskedAgain] = {}
    for other in ledger.runs(tag=sitting_tag(record.id)):  # the newest first, which stands
        sheet = list(ledger.judged(other.id))
        asked = next((one.groups.get(ASKED, "") for one in sheet), "")
        if asked in FURTHER and asked not in further:
            answers = _twice(rubric, sheet) if asked == AGAIN else _beside(rubric, sheet, sat)
            further[asked] = _further(sat.scores, answers, other.total - len(sheet))
    shown = judged[0].verdict
    return Sitting(
        run=record.id,
        name=record.name,
        judge=shown.judge,
        model=next((one.verdict.model for one in judged if one.verdict.model), None),
        rubric=rubric,
        exam=next(one.groups[GROUP] for one in judged if GROUP in one.groups),
        total=record.total,
        sat=sat,
        paper_set=_after(papers_tag(""), record.tags),
        further=further,
    )


def sat_by(rubric: Rubric, judged: Iterable[Judged]) -> Sat:
    """Verdicts on papers, as columns."""
    listed = list(judged)
    criteria = [one.key for one in rubric.criteria]
    scores = {key: np.full(len(listed), np.nan) for key in (*criteria, *map(at_most, criteria), OVERALL)}
    for row, one in enumerate(listed):
        for key, share in _shares(rubric, one.verdict).items():
            scores[key][row] = share
    for key in criteria:
        bounded, scored = not np.isnan(scores[at_most(key)]).all(), not np.isnan(scores[key]).all()
        if scored or not bounded:
            del scores[at_most(key)]
    return Sat(tuple(map(_truth, listed)), scores, tuple(one.verdict.outcome for one in listed))


def _first(ledger: Ledger, record: RunRecord) -> RunRecord:
    """The first run of the sitting that a run belongs to."""
    of = _after(sitting_tag(""), record.tags)
    return ledger.run(of) if of else record


def _after(prefix: str, tags: Sequence[str]) -> str:
    """What follows the prefix in the newest tag that has it; empty where none does."""
    return next((tag.removeprefix(prefix) for tag in reversed(tags) if tag.startswith(prefix)), "")


def _truth(judged: Judged) -> Truth:
    groups = judged.groups
    strength = groups.get("strength", "")
    return Truth(
        id=judged.verdict.case,
        part=groups.get("part", ""),
        kind=groups.get("kind", "") or groups.get("part", ""),
        strength=int(strength) if strength.isdigit() else 0,
        source=groups.get(SOURCE, ""),
        twin=groups.get("twin", ""),
        aims=_names(groups.get("aims", "")),
        spares=_names(groups.get("spares", "")),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _shares(rubric: Rubric, verdict: Verdict) -> dict[str, float]:
    if not verdict.scored:
        return {}
    found = _on_scale(rubric, {key: one.score for key, one in verdict.criteria.items()}, verdict.score)
    for criterion in rubric.criteria:
        result = verdict.criteria.get(criterion.key)
        if result and result.score is None and result.score_range:
            found[at_most(criterion.key)] = _share(result.score_range[1], criterion)
    return found


def _on_scale(rubric: Rubric, criteria: Mapping[str, Number | None], overall: float | None) -> dict[str, float]:
    found = {one.key: _share(score, one) for one in rubric.criteria if (score := criteria.get(one.key)) is not None}
    if overall is not None and len(found) == len(rubric.criteria):
        found[OVERALL] = overall
    return found


def _share(score: Number, criterion: Criterion) -> float:
    low, high = criterion.scale
    return (score - low) / (high - low)


def _twice(rubric: Rubric, judged: Iterable[Judged]) -> Iterator[tuple[str, _Said, _Said]]:
    """What the judge said of each paper the first and the second time."""
    for one in judged:
        jurors = one.verdict.jury.jurors if one.verdict.jury else ()
        said = [_Said(juror.outcome, _on_scale(rubric, juror.criteria, juror.score)) for juror in jurors]
        nothing = _Said(one.verdict.outcome, {})  # where it came to no jury
        was, now, *_ = *said, nothing, nothing
        yield one.verdict.case, was, now


def _beside(rubric: Rubric, judged: Iterable[Judged], sat: Sat) -> Iterator[tuple[str, _Said, _Said]]:
    """What the judge said of each paper in the first run and in this one."""
    first = {paper.id: row for row, paper in enumerate(sat.papers)}
    for one in judged:
        row = first.get(one.verdict.case)
        if row is not None:
            was = {key: float(values[row]) for key, values in sat.scores.items() if not np.isnan(values[row])}
            now = _Said(one.verdict.outcome, _shares(rubric, one.verdict))
            yield one.verdict.case, _Said(sat.outcomes[row], was), now


def _further(columns: Iterable[str], answers: Iterable[tuple[str, _Said, _Said]], missing: int) -> AskedAgain:
    pairs: dict[str, dict[str, tuple[float, float]]] = {key: {} for key in columns}
    lacking: dict[str, dict[str, str]] = {key: {} for key in pairs}
    for case, was, now in answers:
        for key in pairs:
            if key in was.shares and key in now.shares:
                pairs[key][case] = was.shares[key], now.shares[key]
            else:
                lacking[key][case] = _lack((now if key in was.shares else was).outcome)
    return AskedAgain(pairs, lacking, missing)


def _lack(outcome: Outcome) -> str:
    """Why a criterion has no score in an answer of that outcome."""
    return "left open" if outcome is Outcome.SCORED else str(outcome)


def _no_exam(record: RunRecord) -> UsageError:
    return UsageError(
        f"The run {record.id} ({record.name}) is no exam; `beholder runs --tag {TAG}` lists those that are, and "
        "`beholder qualify --judge JUDGE` sits one."
    )
