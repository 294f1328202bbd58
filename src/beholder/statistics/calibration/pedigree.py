"""Where a calibration comes from: the run or files, the judge and the rubrics that it is for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.cases import Case
from beholder.cases.reading import Shape, read_rows
from beholder.instruments.pixels import ROLES
from beholder.statistics.data import Scores
from beholder.verdicts.calibrating import number_named, numbers_of

if TYPE_CHECKING:
    from beholder.ledger import Ledger


@dataclass(frozen=True, slots=True, eq=False)
class Pedigree:
    """`judges` and `rubrics` (by name their version) are those that a calibration may be applied to; empty where a file
    does not name them. `names` are by rubric what its verdicts say in numbers; `cases` those whose images are known."""

    source: str
    judges: tuple[str, ...]
    rubrics: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    prompt: str = ""
    cases: tuple[Case, ...] = ()

    def names_beside(self, raw: str) -> frozenset[str] | None:
        """Of several rubrics, what the one that gives this number says besides: a verdict is calibrated by itself, and
        has no numbers of another rubric. None where there is only one."""
        if len(self.names) < 2:
            return None
        own = [names for names in self.names.values() if number_named(raw, dict.fromkeys(names, 0.0)) is not None]
        return own[0] if own else None

    def to_dict(self) -> dict[str, object]:
        """As it stands under `made` in the file."""
        from beholder import __version__

        return {
            "by": f"beholder {__version__}",
            "on": datetime.now(UTC).date().isoformat(),
            "from": self.source,
            "judges": list(self.judges),
            "rubrics": dict(self.rubrics),
            "prompt": self.prompt or None,
        }


def pedigree_of_run(ledger: Ledger, run: str) -> Pedigree:
    """Of a run in the ledger; its verdicts are gone through once."""
    record = ledger.run(run)
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    names: dict[str, set[str]] = {}
    for one in ledger.judged(record.id):
        verdict = one.verdict
        judges[verdict.judge] = None
        rubrics[verdict.rubric] = verdict.rubric_version
        names.setdefault(verdict.rubric, set()).update(numbers_of([verdict]))
    prompt = hashlib.sha256(record.prompt.encode("utf-8", "surrogatepass")).hexdigest() if record.prompt else ""
    return Pedigree(
        f"run {record.id} ({record.name})",
        tuple(judges),
        rubrics,
        {rubric: frozenset(found) for rubric, found in names.items()},
        prompt,
        tuple(ledger.cases(record.id)),
    )


def pedigree_of_files(scores: Scores, files: Sequence[Path], cases: Path | None) -> Pedigree:
    """Of plain files: verdicts name their judge and rubric themselves, a table names the judge. The images are those
    of the case file, relative to it."""
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    for file in files:
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            for judge, rubric, version in _verdicts(file):
                judges[judge], rubrics[rubric] = None, version
    rows = read_rows(cases, Shape(roles=(*ROLES, ()))) if cases is not None else ()
    known = tuple(row.case for row in rows if row.case is not None and len(row.case.images) == 2)
    source = ", ".join(file.name for file in files)
    return Pedigree(source, tuple(judges) or (scores.name,), rubrics, cases=known)


def _verdicts(file: Path) -> list[tuple[str, str, str]]:
    """Judge, rubric and version of each verdict in a file; nothing of lines that are none."""
    found = []
    with file.open(encoding="utf-8-sig") as lines:
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and "criteria" in values:
                texts = [str(values.get(name) or "") for name in ("judge", "rubric", "rubric_version")]
                found.append((texts[0], texts[1], texts[2]))
    return found
