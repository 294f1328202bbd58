"""A run beside what people said of it in reviews: pairs, agreement, and what people say where the judge says much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from beholder.errors import LedgerError, UsageError
from beholder.ledger import Ledger, RunRecord
from beholder.reports.html.figures import means_of
from beholder.reports.html.texts import column_title, titles_of
from beholder.statistics.agreement.agreeing import Agreement, Asked, Criterion, agree
from beholder.statistics.agreement.words import overall_sentence, sentences
from beholder.statistics.data import Column, Floats, Kind, Ratings, Scores
from beholder.statistics.intervals import Draws
from beholder.statistics.reading import group_of, scores_of_verdicts
from beholder.statistics.reviews import ratings_of_reviews
from beholder.web.plots import Scale, Step, lean, reliability, scatter

STEPS = 8  # into which a scale is divided that has more values
LEAST = 2  # cases that a step must have


@dataclass(frozen=True, slots=True)
class Aspect:
    """One aspect: the judge beside people. `said` is what the numbers come to, in sentences; `leans` is the bias of
    each rater, drawn."""

    title: str
    criterion: Criterion
    said: tuple[str, ...]
    chart: Markup
    leans: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class Agreed:
    agreement: Agreement
    aspects: tuple[Aspect, ...]
    overall: str


@dataclass(frozen=True, slots=True)
class Curve:
    """What people say of one aspect where the judge says so much; of `cases` in all, of which `left_out` are in no
    step, each being the only one for which the judge says so much. `drawn` says how intervals were."""

    title: str
    steps: tuple[Step, ...]
    cases: int
    left_out: int
    chart: Markup
    drawn: str


def agreed(book: Ledger, record: RunRecord) -> Agreed | None:
    """The run beside people; nothing where nobody rated it, or no case has both a score and a rating."""
    ratings = ratings_of_reviews(book, record.id, assertions=False)
    if not ratings:
        return None
    scores = _rated(book, record, ratings)
    scales = {name: column.scale for name, column in scores.columns.items() if column.scale is not None}
    try:
        found = agree(
            scores, ratings, Asked(rating_scales={name: scale for name, scale in scales.items() if name in ratings})
        )
    except LedgerError:
        raise
    except UsageError:  # what it says is for who chose files and options; a page has a sentence of its own
        return None
    titles = titles_of(record.rubrics)
    aspects = [
        Aspect(
            column_title(one.aspect, titles),
            one,
            tuple(sentences(one)),
            scatter(
                _pairs(scores, scores.columns[one.criterion], ratings[one.aspect]),
                one.rated_on,
                one.constant.value,
                one.people["rater_mae"].value if "rater_mae" in one.people else None,
            ),
            _leans(one),
        )
        for one in found.criteria
    ]
    return Agreed(found, tuple(aspects), overall_sentence(found))


def curves(book: Ledger, record: RunRecord) -> tuple[Curve, ...] | None:
    """What people say where the judge says so much, by aspect; nothing where nobody rated the run."""
    ratings = ratings_of_reviews(book, record.id, assertions=False)
    if not ratings:
        return None
    scores, titles = _rated(book, record, ratings), titles_of(record.rubrics)
    found = []
    for aspect, people in ratings.items():
        column = scores.columns.get(aspect)
        if column is None or column.scale is None or column.kind not in (Kind.CRITERION, Kind.OVERALL):
            continue
        said = people.at(scores.cases).mean()
        there = np.flatnonzero(~np.isnan(column.values) & ~np.isnan(said))
        if not len(there):
            continue
        together = group_of(scores, None)
        draws = Draws(None if together is None else [together[row] for row in there], len(there))
        steps = _steps(column.values[there], said[there], column.scale, draws)
        left_out = len(there) - sum(step.cases for step in steps)
        chart = reliability(steps, column.scale)
        title = column_title(aspect, titles)
        found.append(Curve(title, tuple(steps), len(there), left_out, chart, draws.told()))
    return tuple(found)


def _rated(book: Ledger, record: RunRecord, ratings: dict[str, Ratings]) -> Scores:
    """What the judge said of the cases that people rated."""
    cases = list(dict.fromkeys(case for one in ratings.values() for case in one.cases))
    return scores_of_verdicts(record.name, ((one.verdict, one.groups) for one in book.judged_on(record.id, cases)))


def _leans(one: Criterion) -> tuple[Markup, ...]:
    known = [abs(rater.bias) for rater in one.each_rater if rater.bias is not None]
    reach = max([*known, (one.rated_on[1] - one.rated_on[0]) / 4])  # little ones shall look little
    return tuple(lean(rater.bias, reach) for rater in one.each_rater)


def _pairs(scores: Scores, column: Column, people: Ratings) -> list[tuple[float, float]]:
    said = people.at(scores.cases).mean()
    both = ~np.isnan(column.values) & ~np.isnan(said)
    return [(float(x), float(y)) for x, y in zip(column.values[both], said[both], strict=True)]


def _steps(judge: Floats, people: Floats, scale: Scale, draws: Draws) -> list[Step]:
    """Cases by what the judge says: each value for itself where there are few, else equal parts of the scale."""
    levels = np.unique(judge)
    if len(levels) <= STEPS + 3:
        places = np.searchsorted(levels, judge)
    else:
        width = (scale[1] - scale[0]) / STEPS or 1.0
        places = np.clip(((judge - scale[0]) / width).astype(np.int64), 0, STEPS - 1)
    parts = [place for place in np.unique(places) if np.count_nonzero(places == place) >= LEAST]
    means = means_of(draws, {str(place): np.where(places == place, people, np.nan) for place in parts})
    return [
        Step(float(judge[places == place].mean()), means[str(place)], int(np.count_nonzero(places == place)))
        for place in parts
    ]
