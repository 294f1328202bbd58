"""A run as one HTML file: no network, no server; everything in it that comes from elsewhere is escaped."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import IO
from urllib.parse import urlencode

from jinja2 import Template
from markupsafe import Markup

from beholder.ledger import Ledger, RunRecord
from beholder.reports.flag_titles import flag_title
from beholder.reports.html import MAX_MB, inlining
from beholder.reports.html.against import Against, Mover, against, comparison_of
from beholder.reports.html.details import shortened
from beholder.reports.html.gathering import Example, Gathered, Watch, gather, unwatched
from beholder.reports.html.pictures import AROUND, Pictures, fitted, least_room
from beholder.reports.html.summary import Summary, pedigree, summarised
from beholder.reports.html.templating import environment
from beholder.reports.html.texts import plain, script_json, titles_of
from beholder.verdicts.model import counted

TEXTS = (1200, 400, 160, 60)  # characters that texts are cut to, when pictures alone cannot make a page small enough

_BLOCK = 64  # verdicts whose details the page reads at a time
_SPARE = 20_000  # bytes for what the page says of its own pictures

Parts = Callable[[Iterable[str], Iterable[str], Pictures | None, tuple[str, ...]], Iterator[bytes]]
"""The page: from blocks of details, blocks of pictures, what pictures there are, and notes."""


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
    watch: Watch = unwatched,
) -> Written:
    """Writes the report of a run, within `max_mb` million bytes: pictures lose detail first, then texts are cut; no
    case is left out. With an `other`, older run it says what changed. The same runs give the same bytes. Raises
    `UsageError` for a `group` that no case has, and for runs without a case in common."""
    with tempfile.TemporaryFile() as details, tempfile.TemporaryFile() as shots, tempfile.TemporaryFile() as shorter:
        gathered = gather(ledger, record, details, watch=watch)
        changed = None if other is None else against(comparison_of(ledger, record, other, group), other, gathered)
        parts = partial(_parts, gathered, summarised(gathered, group), changed)
        digests = list(gathered.pictures)
        left = int(max_mb * 1_000_000) - sum(map(len, parts((), (), None, ()))) - _SPARE
        texts, cut = _fitting_texts(details, shorter, left - least_room(ledger, digests))
        pictures = fitted(ledger, digests, left - _size(texts), shots, watch)
        if _size(texts) + pictures.size > left:  # the guess was too low; now it is known what pictures take
            texts, cut = _fitting_texts(details, shorter, left - pictures.size)
        notes = _notes(max_mb, cut, len(pictures.missing), len(digests))
        if _size(texts) + pictures.size > left:
            notes = _true(notes, max_mb, parts(_detail_blocks(texts), pictures.blocks(shots), pictures, notes))
        written = sum(out.write(part) for part in parts(_detail_blocks(texts), pictures.blocks(shots), pictures, notes))
    detail = pictures.detail.told if len(digests) > len(pictures.missing) else ""
    return Written(written, gathered.cases, len(gathered.index), detail, notes)


def _notes(max_mb: float, cut: int | None, lost: int, of: int) -> tuple[str, ...]:
    notes = []
    if cut is not None:
        notes.append(f"Texts are cut to {cut} characters, because the page is to stay under {max_mb:g} MB.")
    if lost:
        notes.append(_without(lost, of))
    return tuple(notes)


def _true(notes: tuple[str, ...], max_mb: float, page: Iterator[bytes]) -> tuple[str, ...]:
    """The notes, and that the page is too large where it truly is: what it was allowed had something to spare."""
    if sum(map(len, page)) <= max_mb * 1_000_000:
        return notes
    return (
        *notes,
        f"The page is larger than {max_mb:g} MB although pictures and texts have the least detail there is; no case "
        "was left out.",
    )


def _without(lost: int, of: int) -> str:
    if lost == of:
        return "There are no pictures: the ledger keeps none for this run (it was made with --no-thumbnails)."
    return f"{counted(lost, 'picture')} of {of} are missing: the ledger has none of them."


def _size(details: IO[bytes]) -> int:
    """Bytes that the details take on the page: a `<` is longer there, and there is something around each block."""
    details.seek(0)
    lines = size = 0
    for line in details:
        lines += 1
        size += len(line) + 5 * line.count(b"<")
    return size + math.ceil(lines / _BLOCK) * AROUND


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
    summary: Summary,
    changed: Against | None,
    details: Iterable[str],
    shots: Iterable[str],
    pictures: Pictures | None,
    notes: tuple[str, ...],
) -> Iterator[bytes]:
    rendered = _template().generate(
        run=gathered.record,
        summary=summary,
        against=changed,
        pedigree=pedigree(gathered),
        notes=notes,
        picture_detail=pictures.detail.told if pictures and len(gathered.pictures) > len(pictures.missing) else "",
        index={
            **gathered.index.to_dict(),
            "questions": [plain(text) for text in gathered.questions.texts],
            "block": _BLOCK,
            "starts": list(pictures.starts) if pictures else [],
            "missing": sorted(pictures.missing) if pictures else [],
            "titles": {plain(key): title for key, title in titles_of(gathered.record.rubrics).items()}
            | {plain(one.key): one.title for one in summary.figures.criteria},
            "flag_titles": {name: flag_title(name) for name in gathered.index.flags.texts},
        },
        details=details,
        shots=shots,
        policy=inlining.policy(),
        style=Markup(inlining.style_sheet()),
        script=Markup(inlining.script()),
        case_link=_case_link,
        list_link=_list_link,
        picture_source=lambda digest: Markup('data-picture="{}"').format(gathered.pictures[digest]),
    )
    return (part.encode() for part in rendered)


@cache
def _template() -> Template:
    made = environment()
    made.filters["json"] = lambda value: Markup(script_json(value))
    return made.get_template("report.html.j2")


def _case_link(one: Example | Mover) -> str:
    return "" if one.number is None else f"#case={one.number}"


def _list_link(**asked: str) -> str:
    """The cases that these filters leave, where the page has such filters."""
    wanted = {name: plain(value) for name, value in asked.items() if value}
    if "group" in wanted:
        name, _, value = wanted.pop("group").partition("=")
        wanted[f"group.{name}"] = value
    return "" if wanted.keys() & {"assertion", "passed", "style"} else f"#{urlencode(wanted)}"
