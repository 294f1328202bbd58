"""The HTML report: a run as one file that opens from disk, without network or server.

`write_report` keeps the file within a size limit. Pictures are the thumbnails of the ledger, reduced until they fit;
then texts are cut. Style sheets and scripts are bundled into one `<style>` and one `<script>` under a content-security
policy that allows nothing else. `make_environment` is the Jinja environment that the web app uses too: all text is
escaped, and characters that hide or reorder letters are shown as escapes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import IO
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from beholder.images.prepare import THUMBNAIL_SIDE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports import charts
from beholder.reports.comparison import ChangedCase, ComparisonSection, compare_runs, comparison_section
from beholder.reports.formatting import format_interval, format_number
from beholder.reports.run_data import (
    ExampleVerdict,
    ProgressCallback,
    RunData,
    collect_run_data,
    no_progress,
    truncate_detail,
)
from beholder.reports.summary import ReportSummary, run_provenance, summarize_run
from beholder.reports.text import (
    MAX_REPORT_MB,
    criterion_titles,
    escape_hidden,
    flag_title,
    humanize,
    humanize_state,
    script_json,
    use_minus_sign,
)
from beholder.statistics.bootstrap import Estimate
from beholder.verdicts.verdict import format_count

STYLE_SHEETS = ("beholder.css", "compare-view.css", "charts.css", "report.css")
SCRIPTS = ("dom.js", "theme.js", "compare-view.js", "verdict-view.js", "report.js")

_IMPORT = re.compile(r"^import [^;]*? from \"\./[\w-]+\.js\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\b)", re.MULTILINE)


@cache
def bundle_style_sheet() -> str:
    """Return all style sheets as one."""
    return "".join(_read_asset(name) for name in STYLE_SHEETS)


@cache
def bundle_script() -> str:
    """Return all scripts as one module.

    Imports of each other and `export` before a declaration are removed; our modules use no other forms, and no two have
    the same top-level name. `SCRIPTS` is in order of dependency.
    """
    return "".join(_EXPORT.sub("", _IMPORT.sub("", _read_asset(name))) for name in SCRIPTS)


def content_security_policy() -> str:
    """Return the policy that allows exactly our style sheet and script (by digest) and pictures inside the page."""
    return (
        f"default-src 'none'; img-src data: blob:; style-src '{_csp_digest(bundle_style_sheet())}'; "
        f"script-src '{_csp_digest(bundle_script())}'; base-uri 'none'; form-action 'none'"
    )


def _read_asset(name: str) -> str:
    return (files("beholder.reports") / "assets" / name).read_text("utf-8")


def _csp_digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


TEMPLATE_PACKAGE = "beholder.reports"


def make_environment(*packages: str) -> Environment:
    """Return a Jinja environment.

    Args:
        packages: Packages whose templates are found first; then those of this package, among them `parts.html.j2`,
            which the report and the web app share.

    Returns:
        An environment that escapes text, and shows characters that hide or reorder letters as escapes; `Markup` stays.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, TEMPLATE_PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: escape_hidden(value) if type(value) is str else value,
    )
    made.filters |= {
        "named": humanize,
        "shown": _format_number_filter,
        "interval": _format_interval_filter,
        "minus": use_minus_sign,
        "state": humanize_state,
    }
    made.filters["flag"] = flag_title
    made.globals |= {"charts": charts, "counted": format_count}
    return made


def _format_number_filter(value: float | None, places: int = 3) -> str:
    return use_minus_sign(format_number(value, places))


def _format_interval_filter(estimate: Estimate, places: int = 3) -> str:
    return use_minus_sign(format_interval(estimate, places))


THREADS = 2
BLOCK_BYTES = 400_000  # of base64 in a block of pictures; the page parses a block when it needs one of its pictures
BLOCK_OVERHEAD = 80  # bytes of markup around a block
_SAMPLE_SIZE = 40  # pictures from which the size of all is estimated
_SIZE_MARGIN = 1.04  # error of the estimate that is allowed for, so that a second try is rare
_BATCH = 64  # pictures that are reduced at a time, so that memory stays bounded
_WEBP_METHOD = 2  # effort of the encoder: 4 makes a picture 4 % smaller and takes 20 % longer


@dataclass(frozen=True, slots=True)
class PictureDetail:
    """Size limit of pictures: pixels of the longer side, and WebP quality (None: as the ledger has it)."""

    side: int
    quality: int | None = None

    @property
    def description(self) -> str:
        return f"at most {self.side} pixels wide and high" + (
            "" if self.quality is None else f", WebP quality {self.quality}"
        )


DETAIL_LEVELS = (PictureDetail(THUMBNAIL_SIDE), *(PictureDetail(side, 32 + side // 12) for side in range(448, 32, -32)))


@dataclass(frozen=True, slots=True)
class ReportPictures:
    """Pictures in a file, as blocks of JSON arrays of base64 texts.

    Attributes:
        detail: The size limit that they were reduced to.
        size: Bytes in the page, with the markup around blocks and the list of missing pictures.
        starts: Number of the first picture of each block.
        missing: Numbers of pictures that the ledger does not have.
        lengths: Bytes of each block in the file.
    """

    detail: PictureDetail
    size: int
    starts: tuple[int, ...]
    missing: frozenset[int] = frozenset()
    lengths: tuple[int, ...] = field(default=(), repr=False)

    def blocks(self, file: IO[bytes]) -> Iterator[str]:
        """Read the blocks back from the file."""
        file.seek(0)
        for length in self.lengths:
            yield file.read(length).decode("ascii")


def min_picture_bytes(ledger: Ledger, digests: Sequence[str]) -> int:
    """Estimate the bytes that the pictures need in the page with the least detail."""
    return round(_estimate_bytes(ledger, digests, DETAIL_LEVELS[-1]) * _SIZE_MARGIN)


def write_pictures(
    ledger: Ledger, digests: Sequence[str], max_bytes: int, file: IO[bytes], watch: ProgressCallback = no_progress
) -> ReportPictures:
    """Write pictures with as much detail as fits, or with the least detail where nothing fits.

    Args:
        ledger: The ledger with the thumbnails.
        digests: Of the image files, in the order of their numbers on the page.
        max_bytes: Size limit in the page.
        file: Where the blocks are written.
        watch: Told of progress.
    """
    at = bisect_left(
        DETAIL_LEVELS, True, key=lambda detail: _estimate_bytes(ledger, digests, detail) * _SIZE_MARGIN <= max_bytes
    )
    for detail in DETAIL_LEVELS[at:-1]:
        made = _write_blocks(ledger, digests, detail, file, max_bytes, watch)
        if made is not None:
            return made
    made = _write_blocks(ledger, digests, DETAIL_LEVELS[-1], file, None, watch)
    assert made is not None
    return made


def _write_blocks(
    ledger: Ledger,
    digests: Sequence[str],
    detail: PictureDetail,
    file: IO[bytes],
    max_bytes: int | None,
    watch: ProgressCallback,
) -> ReportPictures | None:
    """Write all pictures; return None as soon as they exceed `max_bytes`."""
    import pybase64

    file.seek(0)
    file.truncate()
    size, starts, lengths, missing = BLOCK_OVERHEAD, [0], [0], set()
    for number, data in enumerate(_make_pictures(ledger, digests, detail)):
        if data is None:
            missing.add(number)
        text = b"" if data is None else pybase64.b64encode(data)
        if lengths[-1] + len(text) > BLOCK_BYTES and lengths[-1]:
            lengths[-1] += file.write(b"]")
            starts.append(number)
            lengths.append(0)
            size += BLOCK_OVERHEAD
        lengths[-1] += file.write((b'["' if number == starts[-1] else b',"') + text + b'"')
        size += _encoded_size(data, number)
        watch("making pictures", number + 1, len(digests))
        if max_bytes is not None and size > max_bytes:
            return None
    lengths[-1] += file.write(b"]" if digests else b"[]")
    return ReportPictures(detail, size, tuple(starts), frozenset(missing), tuple(lengths))


def _make_pictures(ledger: Ledger, digests: Sequence[str], detail: PictureDetail) -> Iterator[bytes | None]:
    """Yield the pictures in order, None for one that the ledger does not have."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(digests), _BATCH):
            batch = digests[start : start + _BATCH]
            kept = ledger.has_thumbnail(batch)
            stored = [ledger.thumbnail(digest) if digest in kept else None for digest in batch]
            yield from pool.map(partial(_reduce_picture, detail=detail), stored)


def _estimate_bytes(ledger: Ledger, digests: Sequence[str], detail: PictureDetail) -> float:
    """Estimate bytes in the page from an evenly spaced sample of pictures; exact where there are few."""
    step = max(1, len(digests) // _SAMPLE_SIZE)
    sample = digests[::step]
    sizes = [_encoded_size(data, len(digests)) for data in _make_pictures(ledger, sample, detail)]
    return BLOCK_OVERHEAD + sum(sizes) / max(1, len(sample)) * len(digests)


def _encoded_size(data: bytes | None, number: int) -> int:
    """Return the bytes of a picture in the page: base64 in quotes, a comma, and a missing one's number in a list."""
    return 4 * ((len(data) + 2) // 3) + 3 if data is not None else 3 + len(str(number)) + 1


def _reduce_picture(stored: bytes | None, detail: PictureDetail) -> bytes | None:
    """Return the picture reduced to `detail`, or as it is if that is smaller; None for one that cannot be read."""
    if stored is None or detail.quality is None:
        return stored
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(stored), formats=["WEBP"]) as opened:
            picture = opened.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        return None
    share = detail.side / max(picture.size)
    if share < 1:
        size = (max(1, round(picture.width * share)), max(1, round(picture.height * share)))
        picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=detail.quality, method=_WEBP_METHOD)
    return out.getvalue() if share < 1 or out.tell() < len(stored) else stored


# Characters that texts are cut to, one after the other, where reduced pictures are not enough.
TEXT_LENGTHS = (1200, 400, 160, 60)

_DETAILS_PER_BLOCK = 64  # verdicts; the page parses a block when it needs one of them
_SPARE_BYTES = 20_000  # for the part of the page that depends on the pictures: starts of blocks, notes


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Size in bytes and contents of a report; `pictures` describes their detail, `notes` what was reduced."""

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
    max_mb: float = MAX_REPORT_MB,
    group: str | None = None,
    other: RunRecord | None = None,
    watch: ProgressCallback = no_progress,
) -> WrittenReport:
    """Write the report of a run. The same runs give the same bytes.

    Args:
        ledger: The ledger that has the run.
        record: The run.
        out: Where the page is written.
        max_mb: Size limit in million bytes: pictures lose detail first, then texts are cut; no case is left out.
        group: Name of the group of cases that belong together (clusters of the bootstrap); else `source`.
        other: An older run to compare with.
        watch: Told of progress.

    Raises:
        UsageError: No case has the group, or the runs have no case in common.
    """
    with tempfile.TemporaryFile() as details, tempfile.TemporaryFile() as shots, tempfile.TemporaryFile() as shorter:
        gathered = collect_run_data(ledger, record, details, watch=watch)
        changed = (
            None if other is None else comparison_section(compare_runs(ledger, record, other, group), other, gathered)
        )
        parts = partial(_render_parts, gathered, summarize_run(gathered, group), changed)
        digests = list(gathered.pictures)
        left = int(max_mb * 1_000_000) - sum(map(len, parts((), (), None, ()))) - _SPARE_BYTES
        texts, cut = _fit_details(details, shorter, left - min_picture_bytes(ledger, digests))
        pictures = write_pictures(ledger, digests, left - _details_size(texts), shots, watch)
        if _details_size(texts) + pictures.size > left:  # the estimate was too low; now their size is known
            texts, cut = _fit_details(details, shorter, left - pictures.size)
        notes = _report_notes(max_mb, cut, len(pictures.missing), len(digests))
        if _details_size(texts) + pictures.size > left:
            notes = _add_size_note(
                notes, max_mb, parts(_split_detail_blocks(texts), pictures.blocks(shots), pictures, notes)
            )
        written = sum(
            out.write(part) for part in parts(_split_detail_blocks(texts), pictures.blocks(shots), pictures, notes)
        )
    detail = pictures.detail.description if len(digests) > len(pictures.missing) else ""
    return WrittenReport(written, gathered.cases, len(gathered.index), detail, notes)


def _report_notes(max_mb: float, cut: int | None, lost: int, of: int) -> tuple[str, ...]:
    notes = []
    if cut is not None:
        notes.append(f"Texts are cut to {cut} characters, because the page is to stay under {max_mb:g} MB.")
    if lost:
        notes.append(_missing_pictures_note(lost, of))
    return tuple(notes)


def _add_size_note(notes: tuple[str, ...], max_mb: float, page: Iterator[bytes]) -> tuple[str, ...]:
    """Add a note if the page exceeds its limit: without the spare bytes it may still be within."""
    if sum(map(len, page)) <= max_mb * 1_000_000:
        return notes
    return (
        *notes,
        f"The page is larger than {max_mb:g} MB although pictures and texts have the least detail there is; no case "
        "was left out.",
    )


def _missing_pictures_note(lost: int, of: int) -> str:
    if lost == of:
        return "There are no pictures: the ledger keeps none for this run (it was made with --no-thumbnails)."
    return f"{format_count(lost, 'picture')} of {of} are missing: the ledger has none of them."


def _details_size(details: IO[bytes]) -> int:
    """Return the bytes of the details in the page: `<` is written as an escape, and each block has markup around it."""
    details.seek(0)
    lines = size = 0
    for line in details:
        lines += 1
        size += len(line) + 5 * line.count(b"<")
    return size + math.ceil(lines / _DETAILS_PER_BLOCK) * BLOCK_OVERHEAD


def _fit_details(details: IO[bytes], shorter: IO[bytes], max_bytes: int) -> tuple[IO[bytes], int | None]:
    """Cut texts as far as necessary, into `shorter`.

    Returns:
        The file to use, and the characters that texts were cut to (None: not cut).
    """
    if _details_size(details) <= max_bytes:
        return details, None
    for longest in TEXT_LENGTHS:
        shorter.seek(0)
        shorter.truncate()
        details.seek(0)
        for line in details:
            cut = truncate_detail(json.loads(line), longest)
            shorter.write(json.dumps(cut, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        if _details_size(shorter) <= max_bytes:
            break
    return shorter, longest


def _split_detail_blocks(details: IO[bytes]) -> Iterator[str]:
    details.seek(0)
    block: list[str] = []
    for line in details:
        block.append(line.decode().rstrip("\n").replace("<", "\\u003c"))
        if len(block) == _DETAILS_PER_BLOCK:
            yield f"[{','.join(block)}]"
            block = []
    if block:
        yield f"[{','.join(block)}]"


def _render_parts(
    gathered: RunData,
    summary: ReportSummary,
    changed: ComparisonSection | None,
    details: Iterable[str],
    shots: Iterable[str],
    pictures: ReportPictures | None,
    notes: tuple[str, ...],
) -> Iterator[bytes]:
    rendered = _template().generate(
        run=gathered.record,
        summary=summary,
        against=changed,
        pedigree=run_provenance(gathered),
        notes=notes,
        picture_detail=pictures.detail.description
        if pictures and len(gathered.pictures) > len(pictures.missing)
        else "",
        index={
            **gathered.index.to_dict(),
            "questions": [escape_hidden(text) for text in gathered.questions.texts],
            "block": _DETAILS_PER_BLOCK,
            "starts": list(pictures.starts) if pictures else [],
            "missing": sorted(pictures.missing) if pictures else [],
            "titles": {escape_hidden(key): title for key, title in criterion_titles(gathered.record.rubrics).items()}
            | {escape_hidden(criterion.key): criterion.title for criterion in summary.figures.criteria},
            "flag_titles": {name: flag_title(name) for name in gathered.index.flags.texts},
        },
        details=details,
        shots=shots,
        policy=content_security_policy(),
        style=Markup(bundle_style_sheet()),
        script=Markup(bundle_script()),
        case_link=_case_link,
        list_link=_list_link,
        picture_source=lambda digest: Markup('data-picture="{}"').format(gathered.pictures[digest]),
    )
    return (part.encode() for part in rendered)


@cache
def _template() -> Template:
    made = make_environment()
    made.filters["json"] = lambda value: Markup(script_json(value))
    return made.get_template("report.html.j2")


def _case_link(example: ExampleVerdict | ChangedCase) -> str:
    return "" if example.number is None else f"#case={example.number}"


def _list_link(**asked: str) -> str:
    """Return the fragment that filters the cases; empty for filters that the page does not have."""
    wanted = {name: escape_hidden(value) for name, value in asked.items() if value}
    if "group" in wanted:
        name, _, value = wanted.pop("group").partition("=")
        wanted[f"group.{name}"] = value
    return "" if wanted.keys() & {"assertion", "passed", "style"} else f"#{urlencode(wanted)}"
