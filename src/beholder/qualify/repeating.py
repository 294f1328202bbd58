"""The same question again, as it was or in another dress: how far the answers lie apart.

For order and labels the number is what is left when the judge's own unsteadiness is taken off, paper by paper: the
distance between the first answer and the one in the other dress, less the distance between the first and the second
answer to the same question. Where a paper was not asked twice, nothing is taken off, and the sentence says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from beholder.qualify.desk import Desk, Found, percent
from beholder.qualify.detection import same
from beholder.qualify.reading import AGAIN, LABELS, ORDER, AskedAgain, Truth
from beholder.statistics.data import Floats
from beholder.statistics.intervals import undefined, weighted_mean

_DRESSES = {
    AGAIN: "Asked twice",
    ORDER: "With its criteria in reverse order",
    LABELS: "With its images called Image A, Image B",
}
LEAST_AGAIN = 0.5  # of the papers that had a score: of fewer, those that have two are the judge's choice


def steadiness(desk: Desk, key: str) -> Found:
    """Two answers to the same question."""
    return _apart(desk, key, AGAIN)


def order(desk: Desk, key: str) -> Found:
    """The criteria in reverse order."""
    return _apart(desk, key, ORDER)


def labels(desk: Desk, key: str) -> Found:
    """Other names for the images."""
    return _apart(desk, key, LABELS)


def _apart(desk: Desk, key: str, asked: str) -> Found:
    if asked not in desk.sitting.further:
        return Found(undefined("it was not asked a second time"))
    further = desk.sitting.further[asked]
    pairs = further.pairs.get(key, {})
    lacking = _lacking(further, key)
    papers = [paper for paper in desk.papers if paper.id in pairs]
    if not papers:
        return Found(undefined("the judge left it open or gave no score"), lacking=lacking)
    if len(papers) < LEAST_AGAIN * (of := len(papers) + _lost(desk, further, key)):
        return Found(undefined(f"only {len(papers)} of {of} papers have a score both times"), lacking=lacking)
    apart = _distances(papers, pairs)
    beside = {"apart": float(apart.mean()), "identical": float((apart == 0).mean())}
    sentence = f"{_DRESSES[asked]}, {_told(beside)}."
    again = desk.sitting.further[AGAIN].pairs.get(key, {}) if AGAIN in desk.sitting.further else {}
    numbers = apart
    if asked != AGAIN and all(paper.id in again for paper in papers):
        own = _distances(papers, again)
        numbers = apart - own
        beside["by_itself"] = float(own.mean())
        if own.any():
            sentence += f" Of that, {percent(beside['by_itself'])} is what asking twice makes."
    elif asked != AGAIN and apart.any():
        sentence += " Not all were asked twice, so how much of that is chance is not known."
    number = desk.estimate(papers, weighted_mean(numbers))
    return Found(number, sentence, papers=len(papers), lacking=lacking, beside=beside)


def _lacking(further: AskedAgain, key: str) -> dict[str, int]:
    """Why papers that were to be asked again have no two scores, counted."""
    found = Counter(further.lacking.get(key, {}).values())
    return dict(found) | ({"not judged yet": further.missing} if further.missing else {})


def _lost(desk: Desk, further: AskedAgain, key: str) -> int:
    """How many papers had a score the first time and have no second one. What was left open both times is no loss."""
    lacking = further.lacking.get(key, {})
    scored = desk.where(lambda paper: paper.id in lacking) & ~np.isnan(desk.scores(key))
    return int(scored.sum()) + further.missing


def _distances(papers: Sequence[Truth], pairs: Mapping[str, tuple[float, float]]) -> Floats:
    return np.abs(same(np.array([pairs[paper.id][1] - pairs[paper.id][0] for paper in papers])))


def _told(beside: Mapping[str, float]) -> str:
    if beside["identical"] == 1:
        return "every score is the same"
    return f"scores lie {percent(beside['apart'])} of the scale apart; {percent(beside['identical'])} are the same"
