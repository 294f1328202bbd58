"""Papers laid before a judge: the suites that ordinary runs are made of.

All papers are asked once; some of them a second time as they were, and in two other dresses of the rubric (see
`variants`). Each of these sheets is a run of its own, planned, paid, cached, stopped and gone on with like any other.
The second time costs one answer a paper: the first is in the ledger.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from beholder.cases import Case
from beholder.errors import UsageError
from beholder.qualify.papers import exam_rubrics, set_exam
from beholder.qualify.reading import AGAIN, ASKED, papers_tag, sheet_tag
from beholder.qualify.variants import VARIANTS, write_rubric
from beholder.rubrics.model import Rubric
from beholder.runs.suite import Suite, suite_from
from beholder.statistics.data import SOURCE

TWICE = {"quick": 12, "usual": 28, "full": 60}  # papers that are asked again

_CASES, _OWN = "cases.jsonl", "own.jsonl"


@dataclass(frozen=True, slots=True)
class Sheet:
    """Papers that are asked in one go. `asked` is empty for all papers, else `again`, `order` or `labels`."""

    asked: str
    suite: Suite


@dataclass(frozen=True, slots=True)
class Exam:
    """The exam in one rubric, as it lies in a folder. `name` is how the rubric was named: its name, or a path; `twice`
    are the ids of the papers that are asked again; `papers` tells these papers from all others, to the byte."""

    name: str
    rubric: Rubric
    cases: Path
    twice: tuple[str, ...]
    papers: str

    @property
    def folder(self) -> Path:
        return self.cases.parent


def exam_in(
    name: str, rubric: Rubric, folder: Path, *, photos: Sequence[Path] = (), seed: int = 0, size: str = "usual"
) -> Exam:
    """Sets the papers of a rubric into a folder, or finds them there.

    A rubric of the user's own is given the papers of a built-in one that takes the same images and texts; what each
    paper should lower is then not known. Raises `UsageError` where there is none.
    """
    if rubric.name in exam_rubrics():
        papers = set_exam(rubric, folder, photos=photos, seed=seed, size=size)
        cases = folder / _CASES
    else:
        papers = set_exam(_like(rubric), folder, photos=photos, seed=seed, size=size)
        cases = folder / _OWN
        lines = map(json.loads, (folder / _CASES).read_text("utf-8").splitlines())
        _write(cases, [_without_aims(line) for line in lines])
    return Exam(name, rubric, cases, _again(papers, TWICE[size], seed), _digest(cases, papers))


def sheets(exam: Exam, flags: Mapping[str, object]) -> list[Sheet]:
    """What is asked, all papers first. `flags` say who is asked and how (see `suite_from`). A rubric of one criterion
    has no order, and one without images no labels."""
    common = {"rubric": exam.name, **flags}
    found = [Sheet("", _suite(exam, "", {**common, "cases": str(exam.cases)}))]
    again = _further(exam, AGAIN)
    found.append(Sheet(AGAIN, _suite(exam, AGAIN, {**common, "cases": str(again), "samples": 2})))
    for asked, dressed in VARIANTS.items():
        variant = dressed(exam.rubric)
        if variant != exam.rubric:
            rubric = write_rubric(variant, exam.folder / "variants" / asked)
            further = {**common, "cases": str(_further(exam, asked)), "rubric": str(rubric)}
            found.append(Sheet(asked, _suite(exam, asked, further)))
    return found


def _suite(exam: Exam, asked: str, flags: Mapping[str, object]) -> Suite:
    """The name and the tag are ours and no flags: a run that was renamed keeps its name when it is gone on with."""
    suite = suite_from(None, {"audit": False, "thumbnails": not asked, **flags})
    name = "-".join(filter(None, ("exam", exam.rubric.name, asked)))
    return structs.replace(suite, name=name, tags=(*suite.tags, sheet_tag(asked), papers_tag(exam.papers)))


def _further(exam: Exam, asked: str) -> Path:
    """The case file of the papers that are asked again."""
    path = exam.folder / f"{asked}.jsonl"
    lines = map(json.loads, exam.cases.read_text("utf-8").splitlines())
    chosen = [line for line in lines if line["id"] in exam.twice]
    _write(path, [{**line, "groups": {**line["groups"], ASKED: asked}} for line in chosen])
    return path


def _again(cases: Sequence[Case], count: int, seed: int) -> tuple[str, ...]:
    """The papers to ask again: as many of each photograph as can be, whatever their part."""
    chance = random.Random(seed)
    by_source: dict[str, list[str]] = {}
    for case in cases:
        by_source.setdefault(case.groups.get(SOURCE, ""), []).append(case.id)
    for papers in by_source.values():
        chance.shuffle(papers)
    rounds = [papers[turn] for turn in range(count) for papers in by_source.values() if turn < len(papers)]
    return tuple(rounds[:count])


def _digest(cases: Path, papers: Sequence[Case]) -> str:
    """Of the case file and every image."""
    whole = hashlib.sha256(cases.read_bytes())
    for path in sorted({str(image) for case in papers for image in case.images.values()}):
        whole.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return whole.hexdigest()[:8]


def _like(rubric: Rubric) -> Rubric:
    """The built-in rubric whose papers a user's own can be asked about: the same images, and texts that both know."""
    known = {field.name for field in rubric.fields}
    needed = {field.name for field in rubric.fields if field.required}
    takes = []
    for name in exam_rubrics():
        other = Rubric.load(name)
        fields = {field.name for field in other.fields}
        given = {field.name for field in other.fields if field.required}
        if other.roles == rubric.roles and needed <= given and fields <= known:
            return other
        takes.append(f"{' and '.join(other.roles)} with {', '.join(sorted(given))} ({name})")
    raise UsageError(
        f"There are no papers for the rubric {rubric.name!r}, which takes {' and '.join(rubric.roles) or 'no image'} "
        f"with {', '.join(sorted(needed)) or 'no text'}; there are for rubrics that take {'; '.join(takes)}."
    )


def _without_aims(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "groups": {key: value for key, value in line["groups"].items() if key not in ("aims", "spares")}}


def _write(path: Path, lines: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
