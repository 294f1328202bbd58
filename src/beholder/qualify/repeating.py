"""The same question again, as it was or in another dress: how far the answers lie apart.

For order and labels the number is what is left when the judge's own unsteadiness is taken off, paper by paper: the
distance between the first answer and the one in the other dress, less the distance between the first and the second
answer to the same question. Where a paper was not asked twice, nothing is taken off, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from beholder.qualify.examining import Desk, Found, percent
from beholder.qualify.reading import AGAIN, LABELS, ORDER, Truth
from beholder.statistics.data import Floats
from beholder.statistics.intervals import undefined, weighted_mean

_DRESSES = {
    AGAIN: "Asked twice",
    ORDER: "With its criteria in reverse order",
    LABELS: "With its images called Image A, Image B",
}
_ROUNDING = 1e-9


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
    further = desk.sitting.further
    if asked not in further:
        return Found(undefined("it was not asked a second time"))
    pairs = further[asked].get(key, {})
    papers = [paper for paper in desk.papers if paper.id in pairs]
    if not papers:
        return Found(undefined("the judge left it open or gave no score"))
    apart = _distances(papers, pairs)
    beside = {"apart": float(apart.mean()), "identical": float((apart == 0).mean())}
    sentence = f"{_DRESSES[asked]}, {_told(beside)}."
    again = further.get(AGAIN, {}).get(key, {})
    numbers = apart
    if asked != AGAIN and all(paper.id in again for paper in papers):
        own = _distances(papers, again)
        numbers = apart - own
        beside["by_itself"] = float(own.mean())
        if own.any():
            sentence += f" Of that, {percent(beside['by_itself'])} is what asking twice makes."
    elif asked != AGAIN and apart.any():
        sentence += " Not all were asked twice, so how much of that is chance is not known."
    return Found(desk.draws(papers).estimate(weighted_mean(numbers)), sentence, papers=len(papers), beside=beside)


def _distances(papers: Sequence[Truth], pairs: Mapping[str, tuple[float, float]]) -> Floats:
    apart = np.array([abs(pairs[paper.id][1] - pairs[paper.id][0]) for paper in papers])
    apart[apart < _ROUNDING] = 0
    return apart


def _told(beside: Mapping[str, float]) -> str:
    if beside["identical"] == 1:
        return "every score is the same"
    return f"scores lie {percent(beside['apart'])} of the scale apart; {percent(beside['identical'])} are the same"
