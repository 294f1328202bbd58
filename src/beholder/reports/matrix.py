"""The matrix: what was judged side by side, with runs or models as columns and their scores as a light table.

A row is a case that several runs judged, or what several models made an output for: cases that are equal in everything
but their output and the group whose values are the columns. For a run of pairs a row is what the candidates were made
for, and a number the share of its pairs that a model won, a tie counting half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beholder.arena.pairs import ITEM_GROUPS, MODEL_FIRST, MODEL_SECOND, OUTPUT_FIELD, image_key
from beholder.arena.verdict_votes import PairRow
from beholder.cases.case import CANDIDATES, OUTPUT_ROLES, Case, list_texts
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import StoredVerdict
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE
from beholder.statistics.data import SOURCE_GROUP, Floats, Ints

MAX_COLUMNS = 8
POINTS = {"tie": 0.5}  # of a pair, for each candidate; the winner has 1

_UNNAMED = ("bytes:", "data:")  # images whose source does not tell them apart

RowKey = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A column: the id of a run or the value of a group, how many rows it has, how many of them have a score, and the
    mean of these."""

    name: str
    cases: int
    scored: int
    mean: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMatrix:
    """Scores of several runs or models on the same things.

    Attributes:
        columns: The columns.
        labels: A name for each row.
        cases: For each row the id of the case in each column, empty where there is none.
        scores: Rows × columns; nan where there is no score.
        spread: The highest score of a row less the lowest; nan with fewer than two.
        repeated: How many cases are further outputs for a cell that has one, and were left out.
        left_out: Values of the group that have no column, there being more than fit.
    """

    columns: tuple[MatrixColumn, ...]
    labels: tuple[str, ...]
    cases: tuple[tuple[str, ...], ...]
    scores: Floats
    spread: Floats
    repeated: int = 0
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, only: str = "", sort: str = "spread") -> Ints:
        """Return rows in order.

        Args:
            only: `differ` for rows whose scores differ, `lacking` for rows where a column has no score; empty for all.
            sort: `spread` for the largest difference first, `worst` for the lowest mean first, `order` as in the run.
        """
        with np.errstate(invalid="ignore"):
            kept = {
                "differ": self.spread > EQUALITY_TOLERANCE,
                "lacking": np.isnan(self.scores).any(axis=1),
            }.get(only, np.ones(len(self), np.bool_))
        rows: Ints = np.flatnonzero(kept)
        if sort == "order" or not len(rows):
            return rows
        if sort == "worst":
            known = ~np.isnan(self.scores[rows])
            sums, counts = np.where(known, self.scores[rows], 0.0).sum(axis=1), known.sum(axis=1)
            key = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
        else:
            key = -self.spread[rows]  # nan is last
        chosen: Ints = rows[np.argsort(key, kind="stable")]
        return chosen


def compute_run_matrix(address: str, runs: Sequence[str], criterion: str = "") -> ScoreMatrix:
    """Return the scores of runs by case; takes an address and ids, which can be sent to another process."""
    with Ledger.open(address, read_only=True) as ledger:
        found = [mean_by_case(ledger.case_scores(run, criterion)) for run in runs]
    counts = Counter(case for scores in found for case in scores)
    ids = [case for case in dict.fromkeys(case for scores in found for case in scores) if counts[case] > 1]
    cells = [[case if case in scores else "" for scores in found] for case in ids]
    values = [[_to_number(scores.get(case)) for scores in found] for case in ids]
    return _build(list(runs), ids, cells, values)


def compute_group_matrix(address: str, run: str, group: str, criterion: str = "") -> ScoreMatrix:
    """Return the scores of the values of a group, such as models, by what they are an output for."""
    with Ledger.open(address, read_only=True) as ledger:
        scores = mean_by_case(ledger.case_scores(run, criterion))
        most = Counter(value for value in ledger.group_values(run, group).values() if value)
        names = [name for name, _ in most.most_common(MAX_COLUMNS)]
        columns = sorted(names)
        place = {name: at for at, name in enumerate(columns)}
        rows: dict[RowKey, list[str]] = {}
        labels: dict[RowKey, str] = {}
        repeated = 0
        for case, key in _keyed_cases(ledger, run, group, scores.keys() if most else ()):
            at = place.get(case.groups.get(group, ""))
            if at is None:
                continue
            cells = rows.setdefault(key, [""] * len(columns))
            if cells[at]:
                repeated += 1
                continue
            cells[at] = case.id
            labels.setdefault(key, case.groups.get(SOURCE_GROUP, "") or case.id)
    order = {case: number for number, case in enumerate(scores)}  # that of the run
    keys = sorted(rows, key=lambda key: min(order.get(case, len(order)) for case in rows[key] if case))
    values = [[_to_number(scores.get(case)) for case in rows[key]] for key in keys]
    left_out = tuple(name for name in most if name not in place)
    return _build(columns, [labels[key] for key in keys], [rows[key] for key in keys], values, repeated, left_out)


def compute_pair_matrix(address: str, run: str) -> ScoreMatrix:
    """Return, for a run of pairs, the share of its pairs that each model won, by what the candidates were made for."""
    with Ledger.open(address, read_only=True) as ledger:
        pairs: dict[str, PairRow] = {}
        digests: dict[str, dict[str, str]] = {}
        for stored in ledger.stored_verdicts(run):
            pairs[stored.verdict.case] = PairRow.of(stored)
            digests.setdefault(stored.verdict.case, {}).update(_source_digests(stored))
        most = Counter(model for row in pairs.values() for model in row.models if model)
        columns = sorted(name for name, _ in most.most_common(MAX_COLUMNS))
        place = {name: at for at, name in enumerate(columns)}
        rows: dict[RowKey, list[str]] = {}
        points: dict[RowKey, list[list[float]]] = {}
        labels: dict[RowKey, str] = {}
        for case in ledger.cases(run):
            if case.id not in pairs:
                continue
            key, row = _row_key(case, "", digests[case.id]), pairs[case.id]
            cells = rows.setdefault(key, [""] * len(columns))
            won = points.setdefault(key, [[] for _ in columns])
            labels.setdefault(key, case.groups.get(SOURCE_GROUP, "") or case.id)
            for role, model in zip(CANDIDATES, row.models, strict=True):
                if model not in place:
                    continue
                cells[place[model]] = cells[place[model]] or case.id
                if row.winner is not None:
                    won[place[model]].append(1.0 if row.winner == role else POINTS.get(row.winner, 0.0))
    values = [[float(np.mean(found)) if found else np.nan for found in won] for won in points.values()]
    left_out = tuple(name for name in most if name not in place)
    return _build(columns, list(labels.values()), list(rows.values()), values, 0, left_out)


def find_output(case: Case) -> tuple[str, str]:
    """Return the role of the image that a case judges, and the field of the text, of which one is empty."""
    image = next((role for role in OUTPUT_ROLES[:-1] if role in case.images), "")
    if not image and OUTPUT_FIELD in case.fields:
        return "", OUTPUT_FIELD
    return image or next((role for role in OUTPUT_ROLES if role in case.images), ""), ""


def mean_by_case(scores: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return the mean score of each case over its rubrics; None where it has none."""
    found: dict[str, list[float]] = {}
    for case, score in scores:
        known = found.setdefault(case, [])
        if score is not None:
            known.append(score)
    return {case: sum(known) / len(known) if known else None for case, known in found.items()}


def _keyed_cases(ledger: Ledger, run: str, by: str, judged: Iterable[str]) -> Iterable[tuple[Case, RowKey]]:
    """Yield the cases of a run with what they have in common with the others of their row."""
    known = set(judged)
    unnamed = []
    for case in ledger.cases(run) if known else ():
        if case.id not in known:
            continue
        if any(str(source).startswith(_UNNAMED) for _, source in case.list_images()):
            unnamed.append(case)
        else:
            yield case, _row_key(case, by, {})
    images: dict[str, dict[str, str]] = {}
    for stored in ledger.stored_verdicts_on(run, [case.id for case in unnamed]):
        images.setdefault(stored.verdict.case, {}).update(_source_digests(stored))
    for case in unnamed:
        yield case, _row_key(case, by, images.get(case.id, {}))


def _source_digests(stored: StoredVerdict) -> dict[str, str]:
    return {image.role: image.source_digest for image in stored.verdict.shown_images}


def _row_key(case: Case, by: str, digests: Mapping[str, str]) -> RowKey:
    role, name = find_output(case)
    own = {role, name, by, *CANDIDATES}
    images = tuple((at, digests.get(at) or image_key(source)) for at, source in case.list_images() if at not in own)
    fields = tuple(sorted((at, list_texts(text)) for at, text in case.fields.items() if at not in own))
    return images, fields, tuple(case.groups.get(group, "") for group in ITEM_GROUPS if group != by)


def _to_number(score: float | None) -> float:
    return np.nan if score is None else score


def _build(
    names: Sequence[str],
    labels: Sequence[str],
    cells: Sequence[Sequence[str]],
    values: Sequence[Sequence[float]],
    repeated: int = 0,
    left_out: tuple[str, ...] = (),
) -> ScoreMatrix:
    scores: Floats = np.array(values, np.float64).reshape(len(labels), len(names))
    known = ~np.isnan(scores)
    several = known.sum(axis=1) > 1 if len(names) else np.zeros(len(labels), np.bool_)
    spread = np.full(len(labels), np.nan)
    if several.any():
        spread[several] = np.nanmax(scores[several], axis=1) - np.nanmin(scores[several], axis=1)
    columns = tuple(
        MatrixColumn(
            name,
            sum(bool(row[at]) for row in cells),
            int(known[:, at].sum()),
            float(scores[known[:, at], at].mean()) if known[:, at].any() else None,
        )
        for at, name in enumerate(names)
    )
    return ScoreMatrix(columns, tuple(labels), tuple(map(tuple, cells)), scores, spread, repeated, left_out)


def candidate_role(groups: Mapping[str, str], model: str) -> str:
    """Return which candidate of a pair a model made."""
    names = (groups.get(MODEL_FIRST), groups.get(MODEL_SECOND))
    return CANDIDATES[names.index(model)] if model in names else ""
