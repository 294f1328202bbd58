"""Where a calibration comes from: the run or files, the judge and the rubrics that it is for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.cases import Case
from beholder.cases.reading import Shape, read_rows
from beholder.instruments.pixels import ROLES
from beholder.statistics.data import Column, Kind, Scores
from beholder.verdicts.calibrating import number_named, numbers_of
from beholder.verdicts.combinations import Combination, combination

if TYPE_CHECKING:
    from beholder.ledger import Ledger


@dataclass(frozen=True, slots=True, eq=False)
class Pedigree:
    """`judges`, `rubrics` (by name their version) and `styles` are those that a calibration may be applied to; empty
    where a file does not name them (the style of a verdict without one is empty too). `names` are by rubric what its
    verdicts say in numbers; `cases` those whose images are known."""

    source: str
    judges: tuple[str, ...]
    rubrics: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    prompt: str = ""
    cases: tuple[Case, ...] = ()
    styles: tuple[str, ...] = ()

    def names_beside(self, raw: str) -> frozenset[str] | None:
        """Of several rubrics, what the one that gives this number says besides: a verdict is calibrated by itself, and
        has no numbers of another rubric. None where there is only one."""
        if len(self.names) < 2:
            return None
        own = [names for names in self.names.values() if number_named(raw, dict.fromkeys(names, 0.0)) is not None]
        return own[0] if own else None

    def spelled_out(self, scores: Scores) -> Spelling:
        """How the columns of the scores are called in a calibration. Scores of one style name its assertions by their
        ids alone, and `A1` of another style is another question: here it is `Anime/A1`, as where there are several."""
        style = self.styles[0] if len(self.styles) == 1 else ""
        plain = [one.name for one in scores.columns.values() if one.kind is Kind.ASSERTION]
        return Spelling({name: f"{style}/{name}" for name in plain} if style else {})

    def to_dict(self) -> dict[str, object]:
        """As it stands under `made` in the file."""
        from beholder import __version__

        return {
            "by": f"beholder {__version__}",
            "on": datetime.now(UTC).date().isoformat(),
            "from": self.source,
            "judges": list(self.judges),
            "rubrics": dict(self.rubrics),
            "styles": [style for style in self.styles if style],
            "prompt": self.prompt or None,
        }


@dataclass(frozen=True, slots=True)
class Spelling:
    """Other names for columns, by their own."""

    names: Mapping[str, str]

    def of(self, column: Column) -> Column:
        """The column, which may be a combination of others, under its other name."""
        combined = combination(column.name)
        if column.name in self.names or combined is None:
            return replace(column, name=self.names.get(column.name, column.name))
        parts = tuple(self.names.get(part, part) for part in combined.parts)
        return replace(column, name=str(Combination(combined.how, parts)))

    def of_all(self, scores: Scores) -> Scores:
        return replace(scores, columns={one.name: one for one in map(self.of, scores.columns.values())})


def pedigree_of_run(ledger: Ledger, run: str) -> Pedigree:
    """Of a run in the ledger; its verdicts are gone through once."""
    record = ledger.run(run)
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    names: dict[str, set[str]] = {}
    styles: dict[str, None] = {}
    for one in ledger.judged(record.id):
        verdict = one.verdict
        judges[verdict.judge] = None
        rubrics[verdict.rubric] = verdict.rubric_version
        styles[verdict.style or ""] = None
        names.setdefault(verdict.rubric, set()).update(numbers_of([verdict]))
    prompt = hashlib.sha256(record.prompt.encode("utf-8", "surrogatepass")).hexdigest() if record.prompt else ""
    return Pedigree(
        f"run {record.id} ({record.name})",
        tuple(judges),
        rubrics,
        {rubric: frozenset(found) for rubric, found in names.items()},
        prompt,
        tuple(ledger.cases(record.id)),
        tuple(styles),
    )


def pedigree_of_files(scores: Scores, files: Sequence[Path], cases: Path | None) -> Pedigree:
    """Of plain files: verdicts name their judge and rubric themselves, a table names the judge. The images are those
    of the case file, relative to it."""
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    styles: dict[str, None] = {}
    for file in files:
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            for judge, rubric, version, style in _verdicts(file):
                if scores.name in (judge, f"{judge} ({file.name})"):  # a file may hold other judges' verdicts too
                    judges[judge], rubrics[rubric], styles[style] = None, version, None
    rows = read_rows(cases, Shape(roles=(*ROLES, ()))) if cases is not None else ()
    known = tuple(row.case for row in rows if row.case is not None and len(row.case.images) == 2)
    source = ", ".join(file.name for file in files)
    return Pedigree(source, tuple(judges) or (scores.name,), rubrics, cases=known, styles=tuple(styles))


def _verdicts(file: Path) -> list[tuple[str, str, str, str]]:
    """Judge, rubric, version and style of each verdict in a file; nothing of lines that are none."""
    found = []
    with file.open(encoding="utf-8-sig") as lines:
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and "criteria" in values:
                texts = [str(values.get(name) or "") for name in ("judge", "rubric", "rubric_version", "style")]
                found.append((texts[0], texts[1], texts[2], texts[3]))
    return found
