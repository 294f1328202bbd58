"""The results of an exam, read from the ledger: the papers with their truth, and the scores that the judge gave.

An exam is one run over the papers, tagged `exam`, and up to three over some of them, tagged with its id: `again` (the
same question a second time), `order` and `labels` (in a variant of the rubric).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord, StoredVerdict
from beholder.rubrics.rubric import Criterion, Number, Rubric
from beholder.statistics.data import SOURCE_GROUP, Bools, Floats
from beholder.verdicts.verdict import ANSWERED_OUTCOMES, Outcome, Verdict

TAG = GROUP = "exam"  # the tag of the first run; the group of every paper, whose value is the version of the exam
ASKED = "asked"  # the group with the variant in which a paper is asked again
AGAIN, ORDER, LABELS = REPEATED_SHEETS = ("again", "order", "labels")
OVERALL = "score"
_AT_MOST = " (at most)"


def upper_bound_column(criterion: str) -> str:
    """Return the column of the highest score that a judge's answers leave possible, where it gave no score itself."""
    return criterion + _AT_MOST


def column_criterion(column: str) -> str:
    """Return the criterion that a column is about."""
    return column.removesuffix(_AT_MOST)


def sheet_tag(variant: str) -> str:
    """Return the tag of a run: `exam`, `exam-again`, `exam-order`, `exam-labels`."""
    return f"{TAG}-{variant}" if variant else TAG


def sitting_tag(run: str) -> str:
    """Return the tag of the repeated runs of an exam, by the id of its first run."""
    return f"sitting-{run}"


def papers_tag(digest: str) -> str:
    """Return the tag of runs on the same papers."""
    return f"papers-{digest}"


@dataclass(frozen=True, slots=True)
class PaperTruth:
    """What is known of a paper.

    Attributes:
        strength: 0 where nothing is wrong.
        twin: The id of the paper that differs only in what is tested.
        aims: The criteria that should be lower than on the twin.
        spares: The criteria that should be as on the twin.
    """

    id: str
    part: str
    kind: str
    strength: int
    source: str
    twin: str
    aims: frozenset[str]
    spares: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class PaperScores:
    """The scores of papers as columns, a row for each paper.

    Attributes:
        papers: The truth of each row.
        scores: A column for each criterion, and `score` for the whole, as shares of their scale, nan where there is
            none. The whole counts only where every criterion has a score, since means of different criteria cannot be
            compared. A criterion that never has a score has a column of upper bounds (`upper_bound_column`) where the
            judge's answers give some.
        outcomes: The outcome of each row.
    """

    papers: tuple[PaperTruth, ...]
    scores: Mapping[str, Floats]
    outcomes: tuple[Outcome, ...]

    def __len__(self) -> int:
        return len(self.papers)

    def lacking(self, key: str, rows: Bools) -> dict[str, int]:
        """Count why papers have no number here: `left open`, or the outcome."""
        reasons: Counter[str] = Counter()
        for row in np.flatnonzero(rows & np.isnan(self.scores[key])):
            reasons[_missing_reason(self.outcomes[row])] += 1
        return dict(reasons)


@dataclass(frozen=True, slots=True)
class RepeatedScores:
    """The scores of a repeated sheet, by criterion and paper id.

    Attributes:
        pairs: The first score and the second.
        lacking: Why there are not two (`left open`, or the outcome).
        missing: How many papers are not judged yet.
    """

    pairs: Mapping[str, Mapping[str, tuple[float, float]]]
    lacking: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ExamResults:
    """Everything that a report card is made of.

    Attributes:
        scores: Of the first run.
        paper_set: The digest of the papers.
        repeated: The scores of the repeated sheets, by variant.
    """

    run: str
    name: str
    judge: str
    model: str | None
    rubric: Rubric
    exam: str
    total: int
    scores: PaperScores
    paper_set: str = ""
    repeated: Mapping[str, RepeatedScores] = field(default_factory=dict)


class _PaperAnswer(NamedTuple):
    outcome: Outcome
    shares: Mapping[str, float]


def load_results(ledger: Ledger, run: str) -> ExamResults:
    """Load the exam that a run belongs to, its first run or any of the repeated ones.

    Raises:
        UsageError: The run is no exam.
        LedgerError: There is no such run.
    """
    record = _find_first_run(ledger, ledger.run(run))
    if len(record.rubrics) != 1:
        raise _not_an_exam(record)
    rubric = msgspec.convert(record.rubrics[0], Rubric)
    judged = list(ledger.stored_verdicts(record.id))
    if not any(GROUP in stored.groups for stored in judged):
        raise _not_an_exam(record)
    scores = collect_paper_scores(rubric, judged)
    repeated: dict[str, RepeatedScores] = {}
    for other in ledger.runs(tag=sitting_tag(record.id)):  # the newest first, which is used
        sheet = list(ledger.stored_verdicts(other.id))
        variant = next((stored.groups.get(ASKED, "") for stored in sheet), "")
        if variant in REPEATED_SHEETS and variant not in repeated:
            answers = _pair_repeated(rubric, sheet) if variant == AGAIN else _pair_variants(rubric, sheet, scores)
            repeated[variant] = _collect_repeated(scores.scores, answers, other.total - len(sheet))
    shown = judged[0].verdict
    return ExamResults(
        run=record.id,
        name=record.name,
        judge=shown.judge,
        model=next((stored.verdict.model for stored in judged if stored.verdict.model), None),
        rubric=rubric,
        exam=next(stored.groups[GROUP] for stored in judged if GROUP in stored.groups),
        total=record.total,
        scores=scores,
        paper_set=_tag_suffix(papers_tag(""), record.tags),
        repeated=repeated,
    )


def collect_paper_scores(rubric: Rubric, judged: Iterable[StoredVerdict]) -> PaperScores:
    """Collect verdicts on papers as columns."""
    listed = list(judged)
    criteria = [criterion.key for criterion in rubric.criteria]
    scores = {key: np.full(len(listed), np.nan) for key in (*criteria, *map(upper_bound_column, criteria), OVERALL)}
    for row, stored in enumerate(listed):
        for key, share in _score_shares(rubric, stored.verdict).items():
            scores[key][row] = share
    for key in criteria:
        bounded, scored = not np.isnan(scores[upper_bound_column(key)]).all(), not np.isnan(scores[key]).all()
        if scored or not bounded:
            del scores[upper_bound_column(key)]
    return PaperScores(tuple(map(_read_truth, listed)), scores, tuple(stored.verdict.outcome for stored in listed))


def _find_first_run(ledger: Ledger, record: RunRecord) -> RunRecord:
    """Return the first run of the exam that a run belongs to."""
    first = _tag_suffix(sitting_tag(""), record.tags)
    return ledger.run(first) if first else record


def _tag_suffix(prefix: str, tags: Sequence[str]) -> str:
    """Return what follows the prefix in the newest tag that has it; empty where none does."""
    return next((tag.removeprefix(prefix) for tag in reversed(tags) if tag.startswith(prefix)), "")


def _read_truth(judged: StoredVerdict) -> PaperTruth:
    groups = judged.groups
    strength = groups.get("strength", "")
    return PaperTruth(
        id=judged.verdict.case,
        part=groups.get("part", ""),
        kind=groups.get("kind", "") or groups.get("part", ""),
        strength=int(strength) if strength.isdigit() else 0,
        source=groups.get(SOURCE_GROUP, ""),
        twin=groups.get("twin", ""),
        aims=_split_names(groups.get("aims", "")),
        spares=_split_names(groups.get("spares", "")),
    )


def _split_names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _score_shares(rubric: Rubric, verdict: Verdict) -> dict[str, float]:
    if not verdict.answered:
        return {}
    shares = _share_of_scale(
        rubric, {key: criterion.score for key, criterion in verdict.criteria.items()}, verdict.score
    )
    for criterion in rubric.criteria:
        result = verdict.criteria.get(criterion.key)
        if result and result.score is None and result.score_range:
            shares[upper_bound_column(criterion.key)] = _criterion_share(result.score_range[1], criterion)
    return shares


def _share_of_scale(rubric: Rubric, criteria: Mapping[str, Number | None], overall: float | None) -> dict[str, float]:
    shares = {
        criterion.key: _criterion_share(score, criterion)
        for criterion in rubric.criteria
        if (score := criteria.get(criterion.key)) is not None
    }
    if overall is not None and len(shares) == len(rubric.criteria):
        shares[OVERALL] = overall
    return shares


def _criterion_share(score: Number, criterion: Criterion) -> float:
    low, high = criterion.scale
    return (score - low) / (high - low)


def _pair_repeated(rubric: Rubric, judged: Iterable[StoredVerdict]) -> Iterator[tuple[str, _PaperAnswer, _PaperAnswer]]:
    """Yield the answers to each paper the first and the second time."""
    for stored in judged:
        jurors = stored.verdict.jury.jurors if stored.verdict.jury else ()
        answers = [
            _PaperAnswer(juror.outcome, _share_of_scale(rubric, juror.criteria, juror.score)) for juror in jurors
        ]
        no_answer = _PaperAnswer(stored.verdict.outcome, {})  # where it came to no jury
        first, second, *_ = *answers, no_answer, no_answer
        yield stored.verdict.case, first, second


def _pair_variants(
    rubric: Rubric, judged: Iterable[StoredVerdict], scores: PaperScores
) -> Iterator[tuple[str, _PaperAnswer, _PaperAnswer]]:
    """Yield the answers to each paper in the first run and in this one."""
    first = {paper.id: row for row, paper in enumerate(scores.papers)}
    for stored in judged:
        row = first.get(stored.verdict.case)
        if row is not None:
            was = {key: float(values[row]) for key, values in scores.scores.items() if not np.isnan(values[row])}
            now = _PaperAnswer(stored.verdict.outcome, _score_shares(rubric, stored.verdict))
            yield stored.verdict.case, _PaperAnswer(scores.outcomes[row], was), now


def _collect_repeated(
    columns: Iterable[str], answers: Iterable[tuple[str, _PaperAnswer, _PaperAnswer]], missing: int
) -> RepeatedScores:
    pairs: dict[str, dict[str, tuple[float, float]]] = {key: {} for key in columns}
    lacking: dict[str, dict[str, str]] = {key: {} for key in pairs}
    for case, was, now in answers:
        for key in pairs:
            if key in was.shares and key in now.shares:
                pairs[key][case] = was.shares[key], now.shares[key]
            else:
                lacking[key][case] = _missing_reason((now if key in was.shares else was).outcome)
    return RepeatedScores(pairs, lacking, missing)


def _missing_reason(outcome: Outcome) -> str:
    """Return why a criterion has no score in an answer of that outcome."""
    return "left open" if outcome in ANSWERED_OUTCOMES else str(outcome)


def _not_an_exam(record: RunRecord) -> UsageError:
    return UsageError(
        f"The run {record.id} ({record.name}) is no exam; `beholder runs --tag {TAG}` lists those that are, and "
        "`beholder qualify --judge JUDGE` takes one."
    )
