"""From a sitting to its report card."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from beholder.qualify import examining, repeating
from beholder.qualify.card import PASS_MARKS, Card, Examined, Mark, Standing
from beholder.qualify.desk import Desk, Found
from beholder.qualify.reading import OVERALL, Sitting, at_most
from beholder.statistics.intervals import DRAWS, SEED

EXAMINERS: Mapping[Examined, Callable[[Desk, str], Found]] = {
    Examined.DETECTION: examining.detection,
    Examined.DOSE: examining.dose,
    Examined.SPECIFICITY: examining.specificity,
    Examined.INDEPENDENCE: examining.independence,
    Examined.STEADINESS: repeating.steadiness,
    Examined.ORDER: repeating.order,
    Examined.LABELS: repeating.labels,
    Examined.INJECTION: examining.injection,
    Examined.PADDING: examining.padding,
}

_BY_AIM = (Examined.DETECTION, Examined.DOSE)  # what they mean depends on what a paper aims at
_AIMS_UNKNOWN = (
    "Which criterion each kind of damage should lower is not known for this rubric: detection and dose are told for "
    "every criterion, and none passes or fails by them."
)


def card_of(sitting: Sitting, *, draws: int = DRAWS, seed: int = SEED) -> Card:
    """The report card of a sitting: every criterion, and `score` for the whole, in everything that it is examined in.
    A judge that may abstain has no mark where it did."""
    desk = Desk(sitting, draws=draws, seed=seed)
    criteria = [one.key for one in sitting.rubric.criteria]
    columns = [column for key in criteria for column in (key, at_most(key)) if column in sitting.sat.scores]
    marks = [
        _mark(desk, column, examined)
        for column in (*columns, OVERALL)
        for examined in Examined
        if _asked(column, examined)
    ]
    papers = sitting.sat.papers
    notes = [desk.draws(papers).told()]
    if not desk.aims_known:
        notes.append(_AIMS_UNKNOWN)
    return Card(
        judge=sitting.judge,
        model=sitting.model,
        rubric=sitting.rubric.name,
        run=sitting.run,
        exam=sitting.exam,
        paper_set=sitting.paper_set,
        papers=len(papers),
        missing=sitting.total - len(papers),
        photographs=len({paper.source for paper in papers}),
        marks=tuple(marks),
        notes=tuple(notes),
    )


def _asked(key: str, examined: Examined) -> bool:
    """The whole has no independence: every damage is its business."""
    return not (key == OVERALL and examined is Examined.INDEPENDENCE)


def _mark(desk: Desk, key: str, examined: Examined) -> Mark:
    found = EXAMINERS[examined](desk, key)
    standing, sentence = PASS_MARKS[examined].standing(found.estimate), found.sentence
    if standing is Standing.NOT_EXAMINED:
        sentence = f"{sentence} Not examined: {found.estimate.why}.".lstrip()
    if found.estimate.value is not None and not desk.aims_known and examined in _BY_AIM:
        standing, sentence = Standing.NO_PASS_MARK, found.sentence
    if found.lacking and found.estimate.value is not None:
        counted = ", ".join(f"{count} {why}" for why, count in found.lacking.items())
        sentence = f"{sentence} Papers without a number: {counted}."
    return Mark(
        criterion=key,
        examined=examined,
        standing=standing,
        estimate=found.estimate,
        sentence=sentence,
        papers=found.papers,
        lacking=found.lacking,
        beside=found.beside,
        details=found.details,
    )
