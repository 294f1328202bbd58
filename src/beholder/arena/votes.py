"""Votes: which of two outputs is better; read from CSV, TSV and JSONL files or mappings, written as CSV.

The columns are those of the public boards: `model_a`, `model_b` and `winner`, which is `model_a`, `model_b`, `tie` or
`both_bad`. Optional ones are `case` (or `id`: what the two outputs were made for), `prompt` or `source` (what several
cases share), `judge` (who voted) and `order`: `ab` where model_a was shown first, as is assumed without the column,
`ba` where model_b was, or nothing where that is not known or both orders were asked.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from beholder.errors import UsageError
from beholder.images.image import regular_file
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE
from beholder.statistics.data import MAX_LISTED_PROBLEMS, SOURCE_GROUP, Bools, Floats, Ints

Codes: TypeAlias = npt.NDArray[np.int32]
VoteSource: TypeAlias = str | os.PathLike[str] | Iterable[object]
"""A CSV, TSV or JSONL file; a Polars or pandas frame, or an iterable of mappings, with the same names."""

GROUP_COLUMNS = (SOURCE_GROUP, "prompt", "case", "id")  # the first that the votes have says what belongs together
WINNERS = ("model_a", "model_b", "tie", "both_bad")
DERIVED_JUDGE = "derived from scores"
_DERIVED_NOTE = "The votes are derived from scores: nobody compared two outputs. Equal scores are ties."

_ALIASES = {"tie (bothbad)": "both_bad", "bothbad": "both_bad"}  # as older files of the public boards have them
_ORDERS = ("ab", "ba")
_JSON_LINES = {".jsonl", ".ndjson"}
_UNNAMED = ("first", "second")  # models of votes that do not name them, which only `agree` takes
_SECOND_OUTPUT = " (model_b)"  # added to the model of the second of two outputs of one model


class VoteOutcome(IntEnum):
    """What a vote says, by the order in which the outputs were shown."""

    FIRST = 0
    SECOND = 1
    TIE = 2
    BOTH_BAD = 3


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A column of texts as numbers: `names[codes[row]]`."""

    codes: Codes
    names: tuple[str, ...]

    def select(self, rows: npt.NDArray[np.bool_] | Ints) -> Labels:
        return Labels(self.codes[rows], self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """Votes on pairs of outputs, one in each row; see `read_votes`.

    Attributes:
        models: Names of the models, in the order in which they appear.
        first: The model whose output was shown first, as a number in `models`.
        second: The model whose output was shown second.
        outcome: What was voted, a `VoteOutcome`.
        case: What the two outputs were made for; None where the votes do not say.
        group: What belongs together, such as the photograph; None where each vote is independent of the others.
        judge: Who voted; None where the votes do not say.
        group_name: The column of `group`; empty without one.
        order: `ab` where `first` was shown first; empty where the pair was shown in both orders, so that neither was,
            or where that is not known; None without the column, so that `ab` is assumed.
        unanswered: Rows without a winner, by judge: calls that failed, which are no ties.
        derived: Whether the votes were made from scores instead of asking for them.
        notes: Sentences on what was left out or is doubtful.
    """

    models: tuple[str, ...]
    first: Codes
    second: Codes
    outcome: npt.NDArray[np.int8]
    case: Labels | None = None
    group: Labels | None = None
    judge: Labels | None = None
    order: Labels | None = None
    group_name: str = ""
    unanswered: Mapping[str, int] | None = None
    derived: bool = False
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.outcome)

    def __repr__(self) -> str:
        return f"<Votes: {len(self):,} on {len(self.models):,} models>"

    @property
    def has_order(self) -> Bools:
        """Which votes were given with `first` shown first, as far as is known."""
        if self.order is None:
            return np.ones(len(self), np.bool_)
        known: Bools = np.array([name == "ab" for name in self.order.names], np.bool_)[self.order.codes]
        return known

    def to_csv(self) -> str:
        """Return the rows of the public boards as CSV; the model that was shown first is `model_a`."""
        columns = {"case": self.case, "judge": self.judge, "order": self.order}
        if self.group is not None and self.group_name not in ("case", "id"):
            columns[self.group_name] = self.group
        present = {name: labels for name, labels in columns.items() if labels is not None}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("model_a", "model_b", "winner", *present))
        for row in range(len(self)):
            labels = [column.names[column.codes[row]] for column in present.values()]
            winner = WINNERS[self.outcome[row]]
            writer.writerow((self.models[self.first[row]], self.models[self.second[row]], winner, *labels))
        return text.getvalue()


def read_votes(
    source: VoteSource, *, group: str | None = None, same_model: bool = False, needs_group: bool = True
) -> Votes:
    """Read votes.

    A row without a winner is a call that failed: it is left out and counted. A vote that one judge gave twice on one
    case, with the outputs in the same order, counts once; two that contradict each other are an error. Where the votes
    do not say who voted, both count, and a note says how many there are.

    Args:
        source: A CSV, TSV or JSONL file; a frame, or an iterable of mappings.
        group: The column that says what belongs together; else the first of `source`, `prompt`, `case`, `id` there is.
        same_model: Also take votes on two outputs of one model, and votes that do not name models, as agreement
            between judges can be computed on them. The columns model_a and model_b then say which output is which.
        needs_group: Whether votes without the column `group` are refused; else they have the groups of the next one.

    Raises:
        UsageError: The file cannot be read, a column is missing, or rows are invalid; ten of them are listed.
    """
    reader = _VoteReader(source, group, same_model, needs_group)
    reader.read()
    return reader.votes()


def derive_votes(scores: Mapping[str, tuple[Sequence[str], Floats]], groups: Mapping[str, str], name: str) -> Votes:
    """Turn scores of models on the same cases into votes: of each two models, the one with the higher score wins.

    Args:
        scores: By model, case ids and a score for each, nan where it has none.
        groups: The group of each case; a case without one is a group of its own.
        name: Name of the group; empty where there is none.

    Raises:
        UsageError: There are fewer than two models, or no case has a score of two of them.
    """
    models = tuple(scores)
    if len(models) < 2:
        raise UsageError("Name two runs or more: pairs are derived from the scores of several over the same cases.")
    cases = list(dict.fromkeys(case for ids, _ in scores.values() for case in ids))
    place = {case: row for row, case in enumerate(cases)}
    values = np.full((len(cases), len(models)), np.nan)
    for column, (ids, numbers) in enumerate(scores.values()):
        values[[place[case] for case in ids], column] = numbers
    scored = (~np.isnan(values)).sum(axis=1)
    parts = []
    for one in range(len(models)):
        for other in range(one + 1, len(models)):
            rows = np.flatnonzero(~np.isnan(values[:, one] - values[:, other]))
            difference = values[rows, one] - values[rows, other]
            outcome = np.where(np.abs(difference) <= EQUALITY_TOLERANCE, VoteOutcome.TIE, VoteOutcome.SECOND)
            outcome[difference > EQUALITY_TOLERANCE] = VoteOutcome.FIRST
            parts.append(np.stack([rows, np.full(len(rows), one), np.full(len(rows), other), outcome]))
    rows, first, second, outcome = np.concatenate(parts, axis=1)
    if not len(rows):
        raise UsageError(f"No case has a score of two models among {', '.join(models)}; cases are paired by their ids.")
    notes = [_DERIVED_NOTE]
    alone = int((scored == 1).sum())
    if alone:
        notes.append(f"{_count(alone, 'case')} with the score of one model only {_has(alone)} no pair.")
    if any(groups.get(case) for case in cases):
        names = [groups.get(case) or case for case in cases]
        numbers_of = {group: number for number, group in enumerate(dict.fromkeys(names))}
        group = Labels(np.array([numbers_of[one] for one in names], np.int32)[rows], tuple(numbers_of))
    else:
        group, name = Labels(rows.astype(np.int32), tuple(cases)), "case"
    return Votes(
        models,
        first.astype(np.int32),
        second.astype(np.int32),
        outcome.astype(np.int8),
        case=Labels(rows.astype(np.int32), tuple(cases)),
        group=group,
        judge=Labels(np.zeros(len(rows), np.int32), (DERIVED_JUDGE,)),
        group_name=name,
        derived=True,
        notes=tuple(notes),
    )


class _Coder:
    """Numbers texts in the order in which they appear."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.codes = array("i")

    def add(self, text: str) -> None:
        self.codes.append(self.numbers.setdefault(text, len(self.numbers)))

    def labels(self) -> Labels:
        return Labels(np.array(self.codes, np.int32), tuple(self.numbers))


class _VoteReader:
    """Reads rows into compact arrays and collects what is wrong with them."""

    def __init__(self, source: VoteSource, group: str | None, same_model: bool, needs_group: bool) -> None:
        self._source, self._wanted, self._same_model, self._needs_group = source, group, same_model, needs_group
        self._name = repr(str(source)) if isinstance(source, str | os.PathLike) else "the table"
        self._models: dict[str, int] = {}
        self._first, self._second, self._outcome, self._lines = array("i"), array("i"), array("b"), array("i")
        names = dict.fromkeys((*GROUP_COLUMNS, "judge", *([] if group is None else [group])))
        self._labels = {name: _Coder() for name in names}
        self._orders, self._has_order = _Coder(), False
        self._unanswered: dict[str, int] = {}
        self._own_rivals = 0
        self._problems: list[str] = []
        self._problem_count = 0

    def read(self) -> None:
        rows = self._rows()
        first = next(rows, None)
        if first is None:
            raise UsageError(f"{self._title()} holds no votes; it should have rows of model_a,model_b,winner.")
        self._check_columns(list(first[1]))
        self._add(*first)
        for line, record in rows:
            self._add(line, record)

    def _title(self) -> str:
        return self._name[0].upper() + self._name[1:]

    def _rows(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        if not isinstance(self._source, str | os.PathLike):
            for number, record in enumerate(_iter_records(self._source), start=1):
                if not isinstance(record, Mapping):
                    raise UsageError(f"Votes are a file, a frame or mappings, not {type(record).__name__} objects.")
                yield number, {str(name): _to_text(value) for name, value in record.items()}
            return
        path = Path(self._source)
        try:
            with regular_file(path).open(encoding="utf-8-sig", newline="") as lines:
                yield from self._json_rows(lines) if path.suffix.lower() in _JSON_LINES else self._table_rows(lines)
        except UnicodeDecodeError:
            raise UsageError(f"{self._title()} is not UTF-8 text; save it as UTF-8.") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"The file {self._name} cannot be read: {reason}.") from None

    def _json_rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict):
                yield number, {name: _to_text(value) for name, value in record.items()}
            else:
                self._reject(number, "is no JSON object")

    def _table_rows(self, lines: Iterable[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
        reader = csv.reader(lines, delimiter="\t" if str(self._source).lower().endswith(".tsv") else ",")
        try:
            header = [name.strip() for name in next(reader, [])]
            twice = next((name for name in header if header.count(name) > 1), None)
            if twice is not None:
                raise UsageError(f"{self._title()} has two columns called {twice!r}.")
            if header:
                self._check_columns(header)
                self._check_group(header)
            width = len(header)
            for cells in reader:
                if len(cells) == width:
                    yield reader.line_num, dict(zip(header, cells, strict=True))
                elif cells:
                    self._reject(reader.line_num, f"has {len(cells)} cells, and the header has {width}")
        except csv.Error as error:
            raise UsageError(f"{self._title()} cannot be read as a table, line {reader.line_num}: {error}.") from None

    def _check_columns(self, columns: list[str]) -> None:
        """Find the columns to read. Raise for one that is missing, with the one that was probably meant."""
        needed = ("winner",) if self._same_model and "model_a" not in columns else ("model_a", "model_b", "winner")
        missing = [name for name in needed if name not in columns]
        if missing:
            raise UsageError(
                f"{self._title()} has no column {' and no column '.join(missing)};"
                f"{_suggest(missing[0], columns)} it has: {', '.join(columns)}."
            )

    def _check_group(self, columns: Sequence[str]) -> None:
        if self._needs_group and self._wanted is not None and self._wanted not in columns:
            raise UsageError(
                f"{self._title()} has no column {self._wanted!r} to group votes by;"
                f"{_suggest(self._wanted, columns)} it has: {', '.join(columns)}."
            )

    def _add(self, line: int, record: Mapping[str, str]) -> None:
        models = [record.get(name, "").strip() for name in ("model_a", "model_b")]
        if models == ["", ""] and self._same_model:
            models = list(_UNNAMED)
        elif not all(models):
            self._reject(line, "there is one output only: model_a and model_b name two")
            return
        if models[0] == models[1] and not self._same_model:
            self._own_rivals += 1
            return
        word = record.get("winner", "").strip()
        if not word:
            judge = record.get("judge", "").strip()
            self._unanswered[judge] = self._unanswered.get(judge, 0) + 1
            return
        winner = _ALIASES.get(word.lower(), word.lower())
        self._has_order |= "order" in record
        given = record.get("order", "").strip().lower()
        order = given or "ab"
        if winner not in WINNERS:
            self._reject(line, _explain_winner(word, models))
            return
        if order not in _ORDERS:
            self._reject(line, f"the order {order[:40]!r} is not ab (model_a was shown first) or ba")
            return
        outcome = WINNERS.index(winner)
        if models[0] == models[1]:  # of two outputs of one model only the column says which is which
            models[1] += _SECOND_OUTPUT
        if order == "ba":
            models.reverse()
            outcome = (VoteOutcome.SECOND, VoteOutcome.FIRST, VoteOutcome.TIE, VoteOutcome.BOTH_BAD)[outcome]
        for model, column in zip(models, (self._first, self._second), strict=True):
            column.append(self._models.setdefault(model, len(self._models)))
        self._outcome.append(outcome)
        self._lines.append(line)
        for name, coder in self._labels.items():
            coder.add(record.get(name, "").strip())
        self._orders.add("ab" if given else "")

    def _reject(self, line: int, problem: str) -> None:
        self._problem_count += 1
        if len(self._problems) < MAX_LISTED_PROBLEMS:
            place = "line" if isinstance(self._source, str | os.PathLike) else "row"
            self._problems.append(f"{place} {line}: {problem}")

    def votes(self) -> Votes:
        """Return what was read, with repeated votes counted once; raise for invalid rows."""
        labels = {name: coder.labels() for name, coder in self._labels.items() if coder.numbers.keys() - {""}}
        if len(self._outcome):
            self._check_group([*labels, "model_a", "model_b", "winner"])
        group_name = next((name for name in (self._wanted or "", *GROUP_COLUMNS) if name in labels), "")
        group = labels.get(group_name)
        judge = labels.get("judge")
        votes = Votes(
            tuple(self._models),
            np.array(self._first, np.int32),
            np.array(self._second, np.int32),
            np.array(self._outcome, np.int8),
            case=labels.get("case", labels.get("id")),
            group=None if group is None else _separate_unnamed(group),
            judge=judge,
            order=self._orders.labels() if self._has_order else None,
            group_name=group_name,
            unanswered=self._unanswered,
            derived=judge is not None and set(judge.names) == {DERIVED_JUDGE},
        )
        kept, notes = self._check_repeats(votes)
        notes += _describe_derived(votes)
        if self._problem_count:
            more = self._problem_count - len(self._problems)
            lines = [*self._problems, *([f"… and {more:,} more"] if more > 0 else [])]
            rows = f"{_count(self._problem_count, 'row')} of {self._name} cannot be used:"
            raise UsageError("\n".join([rows, *lines]))
        if not len(votes):
            why = "all compare a model with itself" if self._own_rivals else "no row has a winner"
            raise UsageError(f"{self._title()} holds no vote: {why}.")
        if self._own_rivals:
            does = "compares" if self._own_rivals == 1 else "compare"
            notes.insert(
                0,
                f"{_count(self._own_rivals, 'row')} {does} a model with itself, which ranks nothing, and "
                f"{_do(self._own_rivals)} not count.",
            )
        failed = sum(self._unanswered.values())
        if failed:
            notes.insert(
                0, f"{_count(failed, 'row')} without a winner {_has(failed)} no vote, and {_do(failed)} not count."
            )
        return select_votes(votes, kept, tuple(notes))

    def _check_repeats(self, votes: Votes) -> tuple[Ints, list[str]]:
        """Return the rows to keep, and sentences on votes that are repeated or flip with the order."""
        every = np.arange(len(votes))
        if votes.case is None or not len(votes):
            return every, []
        named = np.array([bool(name) for name in votes.case.names])[votes.case.codes]
        pair = votes.first.astype(np.int64) * len(votes.models) + votes.second
        who = votes.case.codes.astype(np.int64)
        if votes.judge is not None:
            who = who * len(votes.judge.names) + votes.judge.codes
        order = np.lexsort((every, pair, who))
        repeats = (np.diff(who[order]) == 0) & (np.diff(pair[order]) == 0) & named[order[1:]]
        if votes.judge is None:
            return every, _describe_unnamed(votes.outcome[order], repeats)
        for before, after in zip(order[:-1][repeats], order[1:][repeats], strict=True):
            if votes.outcome[before] != votes.outcome[after]:
                judge, case = votes.judge.names[votes.judge.codes[after]], votes.case.names[votes.case.codes[after]]
                first, second = votes.models[votes.first[after]], votes.models[votes.second[after]]
                said = " and then ".join(WINNERS[votes.outcome[row]] for row in (before, after))
                self._reject(
                    self._lines[after],
                    f"{judge!r} voted on {first!r} and {second!r} of {case!r} before (line {self._lines[before]}), "
                    f"and the two votes contradict each other: {said}",
                )
        kept = np.sort(np.concatenate([order[:1], order[1:][~repeats]]))
        gone = len(votes) - len(kept)
        notes = (
            [f"{_count(gone, 'vote')} {_has(gone)} been given before and {_do(gone)} not count again."] if gone else []
        )
        return kept, notes + _describe_flips(votes, kept[named[kept]], who)


def _describe_derived(votes: Votes) -> list[str]:
    if votes.derived:
        return [_DERIVED_NOTE]
    if votes.judge is None or DERIVED_JUDGE not in votes.judge.names:
        return []
    derived = int((votes.judge.codes == votes.judge.names.index(DERIVED_JUDGE)).sum())
    return [f"{derived:,} of {_count(len(votes), 'vote')} are derived from scores: nobody compared the two outputs."]


def _describe_unnamed(outcome: npt.NDArray[np.int8], repeats: Bools) -> list[str]:
    """Describe votes on a pair that another vote is on, where nothing says whether one judge gave both."""
    again, differing = int(repeats.sum()), int((repeats & (np.diff(outcome) != 0)).sum())
    if not again:
        return []
    contradicts = f" {differing:,} of them {'contradicts' if differing == 1 else 'contradict'} the vote before."
    return [
        f"{_count(again, 'vote')} {'is' if again == 1 else 'are'} on a pair that was voted on before, and no column "
        f"judge says by whom: each counts.{contradicts if differing else ''}"
    ]


def _describe_flips(votes: Votes, rows: Ints, who: Ints) -> list[str]:
    """Describe how often a judge that saw a pair in both orders changed its vote with the order."""
    low, high = np.minimum(votes.first, votes.second)[rows], np.maximum(votes.first, votes.second)[rows]
    turned = votes.first[rows] > votes.second[rows]
    outcome = votes.outcome[rows]
    winner = np.where(turned & (outcome < VoteOutcome.TIE), 1 - outcome, outcome)
    order = np.lexsort((turned, high, low, who[rows]))
    same = np.ones(max(0, len(rows) - 1), np.bool_)
    for column in (who[rows], low, high):
        same &= np.diff(column[order]) == 0
    changed = same & (np.diff(winner[order]) != 0)
    decided = winner[order] < VoteOutcome.TIE
    flipped = changed & decided[1:] & decided[:-1]
    pairs, changes, flips = int(same.sum()), int(changed.sum()), int(flipped.sum())
    if not pairs:
        return []
    # `arena show` counts the flips alone; the two numbers stand beside each other here.
    apart = f", in {flips:,} of them from one output to the other (a flip)" if flips < changes else ""
    return [
        f"In {changes:,} of {pairs:,} pairs that a judge saw in both orders, its vote changed with the order{apart}."
    ]


def with_known_order(votes: Votes) -> Votes:
    """Return the votes of which it is known what was shown first, as the advantage of the first position is fitted to.

    Raises:
        UsageError: That is known of none.
    """
    known = np.flatnonzero(votes.has_order)
    lost = len(votes) - len(known)
    if not lost:
        return votes
    if not len(known):
        raise UsageError(
            "None of these votes says which output was shown first: their order is empty, as of verdicts over both "
            "orders. Of a run, `beholder arena show RUN --position` fits the single answers."
        )
    note = f"{_count(lost, 'vote')} without a known order {_do(lost)} not count, as the position is fitted."
    return select_votes(votes, known, (*votes.notes, note))


def select_votes(votes: Votes, rows: Ints, notes: tuple[str, ...]) -> Votes:
    """Return some votes, on the models that they are on."""
    models, place = np.unique(np.concatenate([votes.first[rows], votes.second[rows]]), return_inverse=True)
    first, second = place.astype(np.int32).reshape(2, -1)
    return Votes(
        tuple(votes.models[at] for at in models),
        first,
        second,
        votes.outcome[rows],
        case=None if votes.case is None else votes.case.select(rows),
        group=None if votes.group is None else votes.group.select(rows),
        judge=None if votes.judge is None else votes.judge.select(rows),
        order=None if votes.order is None else votes.order.select(rows),
        group_name=votes.group_name,
        unanswered=votes.unanswered,
        derived=votes.derived,
        notes=notes,
    )


def _separate_unnamed(group: Labels) -> Labels:
    """Make each row without a group a group of its own."""
    if "" not in group.names:
        return group
    rows = np.flatnonzero(group.codes == group.names.index(""))
    codes = group.codes.copy()
    codes[rows] = len(group.names) + np.arange(len(rows), dtype=np.int32)
    return Labels(codes, (*group.names, *("" for _ in rows)))


def _explain_winner(word: str, models: Sequence[str]) -> str:
    if word in models:
        return f"the winner is written model_a or model_b, not by its name {word[:40]!r}"
    hint = _suggest(word.lower(), WINNERS)
    return f"{word[:40]!r} is no winner;{hint} there are {', '.join(WINNERS)}"


def _suggest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f" did you mean {close[0]!r}?" if close else ""


def _iter_records(source: Any) -> Iterable[object]:
    """Return the rows of a Polars or pandas frame as mappings; other iterables as they are."""
    if hasattr(source, "iter_rows"):
        return cast("Iterable[object]", source.iter_rows(named=True))
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        return cast("Iterable[object]", source.to_dict("records"))
    if not isinstance(source, Iterable):
        raise UsageError(f"Votes are a file, a frame or mappings, not {type(source).__name__}.")
    return source


def _to_text(value: object) -> str:
    return "" if value is None or value != value else str(value)  # nan: what pandas has for nothing


def _count(number: int, thing: str) -> str:
    return f"1 {thing}" if number == 1 else f"{number:,} {thing}s"


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


def _do(number: int) -> str:
    return "does" if number == 1 else "do"
