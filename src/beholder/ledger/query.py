"""Filtering, sorting, paging and counting verdicts, and tallies of a run.

The database filters and sorts, from indexes, and only the verdicts of the page are unpacked: a run of 100,000 verdicts
is as quick to page through as one of a hundred. A `Tally` goes through all verdicts; its sums are decimal, so that a
mean of 0.8 is exactly 0.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, case, func, null, select

from beholder.ledger import encoding, schema
from beholder.ledger.read import VERDICT_ROWS, read_groups, to_stored_verdict
from beholder.ledger.schema import (
    chunks,
    json_list_has,
    json_list_length,
    json_number,
    json_text,
    json_values_contain,
    text_contains,
    without_index,
)
from beholder.ledger.search import matching_cases
from beholder.ledger.types import (
    FilterValues,
    RunCounts,
    RunProgress,
    StoredVerdict,
    VerdictFilter,
    VerdictPage,
)
from beholder.verdicts.verdict import WINNERS, Outcome, Verdict

_SAMPLE = 2000  # cases from which the names of the groups of a run are read

_V, _C = schema.verdicts.c, schema.cases.c
_TEXTS_DECODER = msgspec.json.Decoder(list[str])


def find_verdicts(connection: Connection, run: int, wanted: VerdictFilter, offset: int, limit: int) -> VerdictPage:
    """Return at most `limit` verdicts from `offset` on. Verdicts without a score count as the worst."""
    total, numbers = _select_page(connection, run, wanted, offset, limit)
    query = VERDICT_ROWS.where(_V.number.in_(numbers))
    rows = {row.number: row for row in connection.execute(query)} if numbers else {}
    return VerdictPage(total, tuple(to_stored_verdict(rows[number], {}) for number in numbers if number in rows))


def _select_page(
    connection: Connection, run: int, wanted: VerdictFilter, offset: int, limit: int
) -> tuple[int, Sequence[int]]:
    """Return how many verdicts pass the filter, and the numbers of those on the page."""
    conditions = _conditions(run, wanted)
    key = _sort_key(wanted)
    chosen = select(_V.number, _V.position, key.label("key")).where(_V.run == run, *conditions)
    if not conditions:  # an index has the count
        total = connection.scalar(select(func.count()).select_from(schema.verdicts).where(_V.run == run)) or 0
        query = select(_V.number).where(_V.run == run).order_by(*_sort_order(wanted, key, _V.position, _V.number))
        return total, connection.scalars(query.offset(offset).limit(limit)).all() if offset < total else ()
    found = chosen.cte("found")  # evaluated once, for the count and for the page
    count = select(func.count()).select_from(found)
    order = _sort_order(wanted, found.c.key, found.c.position, found.c.number)
    query = select(found.c.number, count.scalar_subquery()).order_by(*order).offset(offset).limit(limit)
    rows = connection.execute(query).all()
    if not rows and offset:  # past the last page
        return connection.scalar(count) or 0, []
    return (rows[0][1] if rows else 0), [row[0] for row in rows]


def count_outcomes(connection: Connection, run: int) -> RunCounts:
    """Return how many verdicts of a run have which outcome, grade and result; from an index."""
    counts = RunCounts()
    scored = _V.score.between(0, 1)  # not a damaged value
    query = select(
        _V.outcome,
        scored.label("scored"),
        _V.grade,
        _V.passed,
        func.count().label("many"),
        func.sum(_V.score).label("sum"),
    ).where(_V.run == run)
    score_sum, scored_count = 0.0, 0
    for row in connection.execute(query.group_by(_V.outcome, scored, _V.grade, _V.passed)):
        counts.verdicts += row.many
        counts.states[row.outcome or Outcome.UNREADABLE.value] += row.many  # a damaged value is read as none
        if row.grade is not None:
            counts.grades[row.grade] += row.many
        if row.passed is not None:
            counts.passed += row.many if row.passed else 0
            counts.failed += 0 if row.passed else row.many
        if row.scored:
            score_sum, scored_count = score_sum + row.sum, scored_count + row.many
    counts.mean = score_sum / scored_count if scored_count else None
    return counts


def read_progress(connection: Connection, runs: Sequence[str] | None) -> dict[str, RunProgress]:
    """Return how far these runs (all for `None`) are, by id; runs without verdicts are left out."""
    id_, scored, not_asked = schema.runs.c.id, _V.score.between(0, 1), _V.outcome == str(Outcome.OVER_BUDGET)
    counts = (func.count().filter(scored), func.avg(_V.score).filter(scored), func.count().filter(not_asked))
    query = (
        select(id_, func.count(), *counts)
        .join_from(schema.verdicts, schema.runs, _V.run == schema.runs.c.number)
        .group_by(id_)
    )
    queries = [query] if runs is None else [query.where(id_.in_(part)) for part in chunks(runs)]
    rows = [row for part in queries for row in connection.execute(part)]
    return {id_: RunProgress(*values) for id_, *values in rows}


def read_case_scores(connection: Connection, run: int, criterion: str) -> list[tuple[str, float | None]]:
    """Return the case and the score of each verdict of a run, in the order of the run; from indexes, as it reads no
    verdict.

    Args:
        connection: The connection.
        run: The number of the run.
        criterion: A criterion, whose score is on its own scale; empty for the score of the verdict (0–1).
    """
    rows = connection.execute(select(_V.number, _V.case_id).where(_V.run == run))
    cases: dict[int, str] = {row.number: row.case_id for row in rows}
    value = _score_column(VerdictFilter(criterion=criterion))
    query = select(_V.number, value).where(_V.run == run).order_by(_V.position, _V.number)
    return [
        (cases[number], score if isinstance(score, float) and (criterion or 0 <= score <= 1) else None)
        for number, score in connection.execute(query)
        if number in cases
    ]


def find_case_verdicts(connection: Connection, case_id: str, most: int) -> list[tuple[str, StoredVerdict]]:
    """Return the verdicts on a case in all runs, with the ids of the runs, newest first."""
    runs = schema.runs.c
    # Joined from the runs, so that each one is looked up in the index of runs and cases.
    numbers = connection.execute(
        select(runs.id, _V.number)
        .select_from(schema.runs)
        .join(schema.verdicts, (_V.run == runs.number) & (_V.case_id == encoding.storable_text(case_id)))
        .order_by(runs.number.desc(), _V.rubric)
        .limit(most)
    ).all()
    rows = {
        row.number: row
        for row in connection.execute(VERDICT_ROWS.where(_V.number.in_([row.number for row in numbers])))
    }
    return [(row.id, to_stored_verdict(rows[row.number], {})) for row in numbers]


def _conditions(run: int, wanted: VerdictFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.outcome:
        conditions.append(without_index(_V.outcome) == encoding.storable_text(wanted.outcome))
    if wanted.grade:
        conditions.append(_V.grade == encoding.storable_text(wanted.grade))
    if wanted.passed is not None:
        conditions.append(_V.passed.is_(wanted.passed))
    value = _score_column(wanted)
    if wanted.least is not None:
        conditions.append(value >= wanted.least)
    if wanted.most is not None:
        conditions.append(value <= wanted.most)
    if wanted.assertion:
        conditions.append(json_list_has(_V.facets, encoding.FACET_FAILED, encoding.storable_text(wanted.assertion)))
    if wanted.style:
        conditions.append(json_text(_V.facets, encoding.FACET_STYLE) == encoding.storable_text(wanted.style))
    if wanted.winner:
        conditions.append(json_text(_V.facets, encoding.FACET_WINNER) == encoding.storable_text(wanted.winner))
    if wanted.flag:
        conditions.append(json_list_has(_V.facets, encoding.FACET_FLAGS, encoding.storable_text(wanted.flag)))
    # Names and texts are looked up through the index of cases and rubrics, which yields numbers of verdicts.
    other = schema.verdicts.alias("named").c
    named = [other.rubric == encoding.storable_text(wanted.rubric)] if wanted.rubric else []
    if wanted.groups:
        named.append(other.case_id.in_(_select_cases(run, *(_in_group(*pair) for pair in wanted.groups.items()))))
    if wanted.text:
        text = encoding.storable_text(wanted.text)
        found = text_contains(other.case_id, text) | other.case_id.in_(
            _select_cases(run, json_values_contain(_C.groups, text))
        )
        by_words = matching_cases(run, wanted.text)
        named.append(found if by_words is None else found | other.case_id.in_(by_words))
    for marked, table in ((wanted.starred, schema.stars), (wanted.commented, schema.comments)):
        if marked:
            named.append(other.case_id.in_(select(table.c.case_id).where(table.c.run == run)))
    if named:
        conditions.append(_V.number.in_(select(other.number).where(other.run == run, *named)))
    return conditions


def _select_cases(run: int, *conditions: ColumnElement[bool]) -> Select[tuple[str]]:
    return select(_C.id).where(_C.run == run, *conditions)


def _in_group(group: str, value: str) -> ColumnElement[bool]:
    kept = json_text(_C.groups, encoding.storable_text(group))
    return kept == encoding.storable_text(value) if value else kept.is_not(None)


def _sort_key(wanted: VerdictFilter) -> ColumnElement[Any]:
    if wanted.sort == "order":
        return null()
    if wanted.sort == "case":
        return _V.case_id
    if wanted.sort == "bound":
        return func.coalesce(_V.score, json_number(_V.facets, encoding.FACET_BOUND))
    if wanted.sort == "no":
        return json_list_length(_V.facets, encoding.FACET_FAILED)
    if wanted.sort == "worst" and not wanted.criterion:
        # What has no score comes first: those that failed, then what was measured in part by its highest possible
        # score, which is less than what any score is here.
        bound = func.coalesce(json_number(_V.facets, encoding.FACET_BOUND), -1.0)
        return case((_V.score.is_(None), bound - 2.0), else_=_V.score)
    return _score_column(wanted)


def _score_column(wanted: VerdictFilter) -> ColumnElement[Any]:
    """Return the column that `least`, `most` and the sort order are about."""
    return (
        json_number(_V.facets, encoding.FACET_SCORES, encoding.storable_text(wanted.criterion))
        if wanted.criterion
        else _V.score
    )


def _sort_order(
    wanted: VerdictFilter, key: ColumnElement[Any], position: ColumnElement[int], number: ColumnElement[int]
) -> Sequence[ColumnElement[Any]]:
    last = (position, number)
    if wanted.sort == "order":
        return last
    if wanted.sort == "case":
        return (key, *last)
    if wanted.sort == "bound":
        return (key.nulls_last(), *last)
    if wanted.sort == "no":
        return (key.desc(), *last)
    return (key.desc().nulls_last() if wanted.sort == "best" else key.nulls_first(), *last)


_to_decimal = lru_cache(4096)(lambda value: Decimal(repr(value)))  # most scores occur many times


@dataclass(slots=True)
class RunningMean:
    """A running mean: `exact` for comparing with thresholds, `value` for display; both `None` without values."""

    total: Decimal = Decimal(0)
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += _to_decimal(value)
            self.count += 1

    @property
    def exact(self) -> Fraction | None:
        return Fraction(self.total) / self.count if self.count else None

    @property
    def value(self) -> float | None:
        exact = self.exact
        return None if exact is None else float(exact)


@dataclass(slots=True)
class RubricTally:
    """The totals and means of one rubric: criteria on their own scales, calibrated aspects on the raters'."""

    outcomes: Counter[str] = field(default_factory=Counter)
    score: RunningMean = field(default_factory=RunningMean)
    criteria: dict[str, RunningMean] = field(default_factory=dict)
    calibrated: dict[str, RunningMean] = field(default_factory=dict)
    filled: Counter[str] = field(default_factory=Counter)
    """By input, how many calibrated ratings have a median in its place; `uncalibrated` is why others are missing."""
    uncalibrated: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    passed: Counter[bool] = field(default_factory=Counter)
    winners: Counter[str] = field(default_factory=Counter)
    """Of preferences, of which there are so many; `flipped` counts those in which the answer of a judge followed the
    order, whatever the winner: of a single judge these are ties, of a jury the others may have decided."""
    preferences: int = 0
    flipped: int = 0

    def count_preferences(self) -> dict[str, int]:
        """Return how many preferences came to what; `failed` are those without a winner. Empty where there are none."""
        if not self.preferences:
            return {}
        counts = {winner: self.winners[winner] for winner in WINNERS}
        return {**counts, "flipped": self.flipped, "failed": self.outcomes.total() - self.winners.total()}

    def means(self) -> dict[str, RunningMean]:
        """The mean of each criterion, of `score`, and of calibrated scores."""
        people = {f"{key}, calibrated": mean for key, mean in self.calibrated.items()}
        return {**self.criteria, "score": self.score, **people}

    def add(self, verdict: encoding.VerdictExtract | Verdict) -> None:
        self.outcomes[str(verdict.outcome)] += 1
        self.score.add(verdict.score)
        for key, result in verdict.criteria.items():
            _mean_for(self.criteria, key).add(result.score)
        for key, people in verdict.calibrated.items():
            _mean_for(self.calibrated, key).add(people.value)
            self.filled.update(people.filled)
            if people.value is None:
                self.uncalibrated[people.why] += 1
        if verdict.preference is not None:
            self.preferences += 1
            self.flipped += verdict.preference.flipped
            if verdict.preference.winner is not None:
                self.winners[verdict.preference.winner] += 1
        if verdict.grade is not None:
            self.grades[verdict.grade] += 1
        if verdict.passed is not None:
            self.passed[verdict.passed] += 1


@dataclass(slots=True, repr=False)
class Tally:
    """The totals and means of verdicts; only scored ones count in a mean. `cost_usd` is the known cost of all answers,
    also of those that an earlier run paid for; `unpriced` counts the verdicts of unknown cost."""

    verdicts: int = 0
    reused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    score: RunningMean = field(default_factory=RunningMean)
    rubrics: dict[str, RubricTally] = field(default_factory=dict)
    judges: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0

    def __repr__(self) -> str:
        outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes.most_common())
        mean = "" if self.score.value is None else f", mean score {self.score.value:.3f}"
        return f"<Tally of {self.verdicts:,} verdicts: {outcomes or 'none'}{mean}>"

    def add(self, one: StoredVerdict | encoding.StoredExtract) -> None:
        verdict = one.verdict
        self.verdicts += 1
        self.reused += one.reused
        self.outcomes[str(verdict.outcome)] += 1
        self.score.add(verdict.score)
        if verdict.rubric not in self.rubrics:
            self.rubrics[verdict.rubric] = RubricTally()
        self.rubrics[verdict.rubric].add(verdict)
        self.judges[verdict.judge] += 1
        for model in {verdict.model} if verdict.jury is None else {juror.model for juror in verdict.jury.jurors}:
            if model:
                self.models[model] += 1
        for flag in {flag.flag for flag in verdict.flags}:
            self.flags[flag] += 1
        for name, count in verdict.usage.items():
            if count:
                self.usage[name] += count
        if verdict.cost_usd is not None:
            self.cost_usd += verdict.cost_usd
        elif verdict.attempts:
            self.unpriced += 1

    @property
    def unscored(self) -> int:
        """How many have no score: they failed, or too little was answered for one."""
        return self.verdicts - self.score.count

    @property
    def calibrated(self) -> int:
        """How many calibrated ratings there are, of all aspects."""
        return sum(mean.count for rubric in self.rubrics.values() for mean in rubric.calibrated.values())

    @property
    def not_asked(self) -> int:
        """How many are `over_budget`: nobody was asked, and the next start of the run asks."""
        return self.outcomes[str(Outcome.OVER_BUDGET)]

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, with the keys that a verdict has for the same things."""
        return {
            "verdicts": self.verdicts,
            "reused": self.reused,
            "outcomes": dict(self.outcomes.most_common()),
            "score": self.score.value,
            "rubrics": {
                name: {
                    "outcomes": dict(rubric.outcomes.most_common()),
                    "score": rubric.score.value,
                    "criteria": {
                        key: {"score": mean.value, "scored": mean.count} for key, mean in rubric.criteria.items()
                    },
                    **(
                        {
                            "calibrated": {
                                key: {"mean": mean.value, "cases": mean.count}
                                for key, mean in rubric.calibrated.items()
                            }
                        }
                        if rubric.calibrated
                        else {}
                    ),
                    **({"preference": counted} if (counted := rubric.count_preferences()) else {}),
                    "grades": dict(sorted(rubric.grades.items())),
                    "passed": rubric.passed[True],
                    "failed": rubric.passed[False],
                }
                for name, rubric in self.rubrics.items()
            },
            "judges": dict(self.judges.most_common()),
            "models": dict(self.models.most_common()),
            "flags": dict(self.flags.most_common()),
            "usage": dict(self.usage),
            "cost_usd": None if self.unpriced and not self.cost_usd else float(self.cost_usd),
            "unpriced": self.unpriced,
        }


def _mean_for(means: dict[str, RunningMean], key: str) -> RunningMean:
    if key not in means:
        means[key] = RunningMean()
    return means[key]


def tally_verdicts(verdicts: Iterable[StoredVerdict | encoding.StoredExtract]) -> Tally:
    tally = Tally()
    for verdict in verdicts:
        tally.add(verdict)
    return tally


def tally_groups(verdicts: Iterable[StoredVerdict], group: str) -> dict[str, Tally]:
    """Return a tally for each value of a group; cases without that group are under the empty text."""
    tallies: dict[str, Tally] = {}
    for verdict in verdicts:
        tallies.setdefault(verdict.groups.get(group, ""), Tally()).add(verdict)
    return tallies


MAX_GROUP_CHOICES = 200  # values of a group that can be chosen among


def read_filter_values(connection: Connection, run: int) -> FilterValues:
    """Return the values by which the verdicts of a run can be filtered; fast, as it unpacks no verdict."""
    columns = (
        json_text(_V.facets, encoding.FACET_FAILED),
        json_text(_V.facets, encoding.FACET_FLAGS),
        json_text(_V.facets, encoding.FACET_STYLE),
        json_text(_V.facets, encoding.FACET_WINNER),
    )
    failed: set[str] = set()
    flags: set[str] = set()
    styles: set[str] = set()
    winners: set[str] = set()
    # Combinations of the four are few, however many verdicts there are.
    for failed_json, flags_json, style, winner in connection.execute(select(*columns).where(_V.run == run).distinct()):
        failed.update(_parse_texts(failed_json))
        flags.update(_parse_texts(flags_json))
        styles.update([style] if style and isinstance(style, str) else [])
        winners.update([winner] if winner and isinstance(winner, str) else [])
    groups = {}
    sample = connection.scalars(select(_C.groups).where(_C.run == run).limit(_SAMPLE))
    for name in dict.fromkeys(name for text in sample for name in read_groups(text, "")):
        value = json_text(_C.groups, encoding.storable_text(name))
        query = select(value).where(_C.run == run, value != "").distinct().limit(MAX_GROUP_CHOICES + 1)
        values = [value for value in connection.scalars(query) if isinstance(value, str)]
        if 1 < len(values) <= MAX_GROUP_CHOICES:
            groups[name] = _sorted_naturally(values)
    return FilterValues(
        frozenset(filter(None, connection.scalars(select(_V.rubric).where(_V.run == run).distinct()))),
        _sorted_naturally(failed),
        _sorted_naturally(flags),
        _sorted_naturally(styles),
        groups,
        tuple(one for one in WINNERS if one in winners),
    )


def _parse_texts(text: str | None) -> list[str]:
    """Return a list of texts from a JSON column; none where it is damaged."""
    try:
        return _TEXTS_DECODER.decode(text or "[]")
    except (ValueError, TypeError):
        return []


def _sorted_naturally(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=_natural_sort_key))


def _natural_sort_key(text: str) -> tuple[str, int, str]:
    """Return a sort key by which A2 comes before A10."""
    letters = text.rstrip("0123456789")
    digits = text[len(letters) :]
    return letters, int(digits or 0) if digits.isascii() and len(digits) < 10 else 0, text
