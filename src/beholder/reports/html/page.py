"""A run as one HTML file: no network, no server; everything in it that comes from elsewhere is escaped."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from beholder.ledger import Ledger, RunRecord
from beholder.reports.html import charts, inlining, summary
from beholder.reports.html.against import Against, against, comparison_of
from beholder.reports.html.details import shortened
from beholder.reports.html.figures import Figures, figures
from beholder.reports.html.gathering import Gathered, gather
from beholder.reports.html.pictures import Pictures, fitted, least_room
from beholder.reports.html.texts import name_of, plain, script_json
from beholder.reports.numbers import shown, with_interval
from beholder.verdicts.model import counted

MAX_MB = 25.0
TEXTS = (1200, 400, 160, 60)  # characters that texts are cut to, when pictures alone cannot make a page small enough

_BLOCK = 64  # verdicts whose details the page reads at a time
_SPARE = 20_000  # bytes for what the page says of its own pictures


@dataclass(frozen=True, slots=True)
class Written:
    """What a report came to: `size` in bytes, how much detail its pictures have, and what a reader should know."""

    size: int
    cases: int
    verdicts: int
    pictures: str
    notes: tuple[str, ...]


def write_report(
    ledger: Ledger,
    record: RunRecord,
    out: IO[bytes],
    *,
    max_mb: float = MAX_MB,
    group: str | None = None,
    other: RunRecord | None = None,
) -> Written:
    """Writes the report of a run, within `max_mb` million bytes: pictures lose detail first, then texts are cut; no
    case is left out. With an `other`, older run it says what changed. The same runs give the same bytes. Raises
    `UsageError` for a `group` that no case has, and for runs without a case in common."""
    room = int(max_mb * 1_000_000)
    with tempfile.TemporaryFile() as details, tempfile.TemporaryFile() as shots, tempfile.TemporaryFile() as shorter:
        gathered = gather(ledger, record, details)
        numbers = figures(gathered, group)
        changed = None if other is None else against(comparison_of(ledger, record, other, group), other, gathered)
        told = partial(_parts, gathered, numbers, changed)
        fixed = sum(map(len, told((), (), None, ()))) + _SPARE
        digests = list(gathered.pictures)
        left = room - fixed
        notes: list[str] = []
        texts: IO[bytes] = details
        if digests or left < _size(details):
            texts, cut = _fitting_texts(details, shorter, left - least_room(ledger, digests))
            if cut:
                notes.append(f"Texts are cut to {cut} characters, so that the page stays under {max_mb:g} MB.")
        size = _size(texts)
        pictures = fitted(ledger, digests, left - size - len(digests) * 2, shots)
        if lost := len(pictures.missing):
            notes.append(_without(lost, len(digests)))
        if size + pictures.size > left:
            notes.append(
                f"The page is larger than {max_mb:g} MB although pictures and texts have the least detail there is; no "
                f"case was left out."
            )
        written = sum(
            out.write(part) for part in told(_detail_blocks(texts), pictures.blocks(shots), pictures, tuple(notes))
        )
    size_told = pictures.detail.told if len(digests) > len(pictures.missing) else ""
    return Written(written, gathered.cases, len(gathered.index), size_told, tuple(notes))


def _without(lost: int, of: int) -> str:
    if lost == of:
        return "There are no pictures: the ledger keeps none for this run (it was made with --no-thumbnails)."
    return f"{counted(lost, 'picture')} of {of} are missing: the ledger has none of them."


def _size(file: IO[bytes]) -> int:
    """Bytes that the details take on the page, about: a `<` is longer there."""
    file.seek(0)
    return sum(len(line) + 5 * line.count(b"<") for line in file)


def _fitting_texts(details: IO[bytes], shorter: IO[bytes], room: int) -> tuple[IO[bytes], int | None]:
    """The details, cut as far as they must be to fit, and how far: `None` where they fit as they are."""
    if _size(details) <= room:
        return details, None
    for longest in TEXTS:
        shorter.seek(0)
        shorter.truncate()
        details.seek(0)
        for line in details:
            cut = shortened(json.loads(line), longest)
            shorter.write(json.dumps(cut, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        if _size(shorter) <= room:
            break
    return shorter, longest


def _detail_blocks(details: IO[bytes]) -> Iterator[str]:
    details.seek(0)
    block: list[str] = []
    for line in details:
        block.append(line.decode().rstrip("\n").replace("<", "\\u003c"))
        if len(block) == _BLOCK:
            yield f"[{','.join(block)}]"
            block = []
    if block:
        yield f"[{','.join(block)}]"


def _parts(
    gathered: Gathered,
    numbers: Figures,
    changed: Against | None,
    details: Iterator[str] | tuple[str, ...],
    shots: Iterator[str] | tuple[str, ...],
    pictures: Pictures | None,
    notes: tuple[str, ...],
) -> Iterator[bytes]:
    environment = Environment(
        loader=PackageLoader("beholder.reports.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,  # Markup is ours, and stays
    )
    environment.filters |= {"named": name_of, "shown": shown, "interval": with_interval, "json": _json}
    environment.globals |= {"charts": charts, "counted": counted}
    rendered = environment.get_template("report.html.j2").generate(
        run=gathered.record,
        gathered=gathered,
        figures=numbers,
        against=changed,
        facts=summary.facts(gathered),
        pedigree=summary.pedigree(gathered),
        outcomes=summary.outcomes(gathered),
        grades=summary.grades(gathered),
        assertions=summary.failing(gathered),
        findings=summary.findings(gathered),
        flags=summary.flags(gathered),
        corrections=summary.most(gathered.corrections),
        corrections_in_all=sum(one.count for one in gathered.corrections.values()),
        notes=notes,
        picture_detail=pictures.detail.told if pictures and len(gathered.pictures) > len(pictures.missing) else "",
        index={
            **gathered.index.to_dict(),
            "questions": [plain(text) for text in gathered.questions.texts],
            "block": _BLOCK,
            "starts": list(pictures.starts) if pictures else [],
            "missing": sorted(pictures.missing) if pictures else [],
            "titles": {plain(one.key): one.title for one in numbers.criteria},
        },
        details=details,
        shots=shots,
        policy=inlining.policy(),
        style=Markup(inlining.style_sheet()),
        script=Markup(inlining.script()),
    )
    return (part.encode() for part in rendered)


def _json(value: object) -> Markup:
    return Markup(script_json(value))
