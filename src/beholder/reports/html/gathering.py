"""A run, gathered for its page in one pass over the verdicts; the details go to a file as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, NamedTuple, TypeVar

from beholder.judges.audit import DISAGREE, NOT_AUDITED
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.facets import STYLE
from beholder.ledger.reading import Judged
from beholder.ledger.tallying import Tally
from beholder.reports.html.details import Numbered, detail, state_of
from beholder.reports.html.texts import cut, plain
from beholder.statistics.data import Scores
from beholder.statistics.reading import scores_of_verdicts
from beholder.verdicts.model import Verdict
from beholder.verdicts.values import shown

EXAMPLES = 3
AUDIT = (DISAGREE, NOT_AUDITED)
_QUOTED = 160  # characters of an example
_DISTINCT = 5000  # texts of a finding that are told apart; what else there is is in the cases

T = TypeVar("T")
Watch = Callable[[str, int, int], object]
"""Hears how far a long piece of work is: what is done, how much of it, of how much."""


def unwatched(what: str, done: int, of: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Example:
    """A verdict to look at: its number on the page, its case and rubric, and what it says on the matter."""

    number: int
    case: str
    rubric: str
    text: str = ""


class Question(NamedTuple):
    """An assertion as it was asked: by which rubric, for which style (empty for none)."""

    rubric: str
    style: str
    id: str
    question: str


@dataclass(slots=True)
class Counted:
    """Something that came up: how often, of how many times it could have, and a few verdicts to look at."""

    count: int = 0
    of: int = 0
    examples: list[Example] = field(default_factory=list)

    def add(self, number: int, verdict: Verdict, text: str = "") -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES and all(one.number != number for one in self.examples):
            self.examples.append(Example(number, verdict.case, verdict.rubric, cut(text, _QUOTED)))


@dataclass(slots=True)
class Index:
    """What the page needs of every verdict to filter, sort and draw a card; a list for each thing, a place for each
    verdict. Names that come again are numbers into `rubrics`, `flags` and `values`."""

    case: list[str] = field(default_factory=list)
    rubric: list[int] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    grade: list[str | None] = field(default_factory=list)
    passed: list[bool | None] = field(default_factory=list)
    flagged: list[list[int]] = field(default_factory=list)
    corrected: list[int] = field(default_factory=list)
    pictured: list[list[int]] = field(default_factory=list)
    criteria: dict[str, list[float | None]] = field(default_factory=dict)
    groups: dict[str, list[int | None]] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    rubrics: Numbered = field(default_factory=Numbered)
    flags: Numbered = field(default_factory=Numbered)
    values: Numbered = field(default_factory=Numbered)

    def __len__(self) -> int:
        return len(self.case)

    def add(self, one: Judged, pictures: list[int]) -> int:
        """The number of the verdict on the page."""
        verdict, number = one.verdict, len(self)
        self.case.append(plain(verdict.case))
        self.rubric.append(self.rubrics.number(plain(verdict.rubric)))
        self.state.append(state_of(one))
        self.score.append(verdict.score)
        self.grade.append(None if verdict.grade is None else plain(verdict.grade))
        self.passed.append(verdict.passed)
        self.flagged.append([self.flags.number(plain(name)) for name in dict.fromkeys(f.flag for f in verdict.flags)])
        self.corrected.append(len(verdict.corrections))
        self.pictured.append(pictures)
        for key, result in verdict.criteria.items():
            self.scales.setdefault(plain(key), (float(result.scale[0]), float(result.scale[1])))
            _put(self.criteria, plain(key), number, result.score)
        groups = {**one.groups, STYLE: verdict.style} if verdict.style else one.groups
        for name, value in groups.items():
            _put(self.groups, plain(name), number, self.values.number(plain(value)))
        return number

    def to_dict(self) -> dict[str, object]:
        """JSON values; short columns are filled up."""
        for scores in self.criteria.values():
            scores.extend([None] * (len(self) - len(scores)))
        for values in self.groups.values():
            values.extend([None] * (len(self) - len(values)))
        whole = ("case", "rubric", "state", "score", "grade", "passed", "flagged", "corrected", "pictured")
        found: dict[str, object] = {name: getattr(self, name) for name in whole}
        found |= {"criteria": self.criteria, "groups": self.groups, "scales": self.scales}
        return found | {name: getattr(self, name).texts for name in ("rubrics", "flags", "values")}


@dataclass(slots=True)
class Gathered:
    """What a run came to, as its page tells it. `pictures` numbers the image files by their digest, in order."""

    record: RunRecord
    tally: Tally = field(default_factory=Tally)
    index: Index = field(default_factory=Index)
    questions: Numbered = field(default_factory=Numbered)
    pictures: dict[str, int] = field(default_factory=dict)
    assertions: dict[Question, Counted] = field(default_factory=dict)
    findings: dict[str, dict[str, Counted]] = field(default_factory=dict)
    flags: dict[str, Counted] = field(default_factory=dict)
    corrections: dict[tuple[str, str, str, str], Counted] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, Counted] = field(default_factory=dict)
    scores: Scores = field(default_factory=lambda: Scores("", (), {}))
    cases: int = 0


def gather(
    ledger: Ledger, record: RunRecord, details: IO[bytes] | None = None, *, watch: Watch = unwatched
) -> Gathered:
    """The run; the detail of each verdict is written to `details`, where there is such a file: JSON, a line each."""
    gathered = Gathered(record)
    fields = {} if details is None else {case.id: case.fields for case in ledger.cases(record.id)}

    def passing() -> Iterator[tuple[Verdict, Mapping[str, str]]]:
        for one in ledger.judged(record.id):
            number = _noted(gathered, one)
            if details is not None:
                line = detail(one, fields.get(one.verdict.case, {}), gathered.questions, gathered.pictures)
                details.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            watch("reading verdicts", number + 1, record.total)
            yield one.verdict, _groups(one)

    gathered.scores = scores_of_verdicts(plain(record.name), passing())
    gathered.cases = len(gathered.scores)
    return gathered


def _noted(gathered: Gathered, one: Judged) -> int:
    """Takes note of a verdict on its way into columns; its number on the page."""
    verdict = one.verdict
    pictures = [gathered.pictures.setdefault(image.source_digest, len(gathered.pictures)) for image in verdict.images]
    number = gathered.index.add(one, pictures)
    gathered.tally.add(one)
    gathered.versions[verdict.rubric] = verdict.rubric_version
    if verdict.score is None:
        gathered.lacks.setdefault(state_of(one), Counted()).add(
            number, verdict, verdict.detail or verdict.lack.removeprefix("left open, ")
        )
    _note(gathered, number, verdict)
    return number


def _groups(one: Judged) -> Mapping[str, str]:
    """Those of the case, and the style of the verdict where no group is called so."""
    style = one.verdict.style
    return {**one.groups, STYLE: style} if style and STYLE not in one.groups else one.groups


def _note(gathered: Gathered, number: int, verdict: Verdict) -> None:
    for result in verdict.criteria.values():
        for assertion in result.assertions:
            if assertion.answer not in ("yes", "no"):
                continue
            name = Question(verdict.rubric, verdict.style or "", assertion.id, assertion.question)
            counted = gathered.assertions.setdefault(name, Counted())
            counted.of += 1
            if assertion.answer == "no":
                counted.add(number, verdict, assertion.evidence)
    for key, items in verdict.findings.items():
        found = gathered.findings.setdefault(plain(key), {})
        for item in dict.fromkeys(items):
            text = plain(item).strip()
            if text in found or len(found) < _DISTINCT:
                found.setdefault(text, Counted()).add(number, verdict)
    for flag in {flag.flag: flag for flag in reversed(verdict.flags)}.values():  # a verdict counts once for a flag
        gathered.flags.setdefault(flag.flag, Counted()).add(number, verdict, flag.why)
    for one in verdict.corrections:
        what = (plain(one.at), said(one.said), said(one.stands), plain(one.why))
        gathered.corrections.setdefault(what, Counted()).add(number, verdict)


def said(value: object) -> str:
    """A value of a correction in words; a judge may have claimed anything."""
    if value is None:
        return "nothing"
    return plain(cut(value if isinstance(value, str) else shown(value), 60))


def _put(columns: dict[str, list[T | None]], name: str, number: int, value: T | None) -> None:
    column = columns.setdefault(name, [])
    column.extend([None] * (number - len(column)))
    column.append(value)
