"""The HTML report: a run as one file that opens from disk, without network or server.

`write_report` keeps the file within a size limit. Pictures are the thumbnails of the ledger, reduced until they fit;
then texts are cut; then only the worst verdicts have their details and pictures in it. Style sheets and
scripts are bundled into one `<style>` and one `<script>` under a content-security policy that allows nothing else.
`make_environment` is the Jinja environment that the web app uses too: all text is escaped, and characters that hide or
reorder letters are shown as escapes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from itertools import accumulate, islice
from typing import IO
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports import charts
from beholder.reports.arena_section import ArenaSection, make_arena
from beholder.reports.comparison import ChangedCase, ComparisonSection, compare_runs, comparison_section
from beholder.reports.pictures import (
    BLOCK_OVERHEAD,
    PictureDetail,
    ReportPictures,
    estimate_picture_bytes,
    write_pictures,
)
from beholder.reports.run_data import (
    PAIR_GROUP,
    ExampleVerdict,
    ProgressCallback,
    RunData,
    collect_run_data,
    no_progress,
    pair_name,
    truncate_detail,
)
from beholder.reports.summary import ReportSummary, run_provenance, summarize_run
from beholder.reports.text import (
    MAX_REPORT_MB,
    criterion_titles,
    escape_hidden,
    flag_title,
    format_interval,
    format_number,
    humanize,
    humanize_state,
    script_json,
    use_minus_sign,
)
from beholder.rubrics.rubric import RubricKind
from beholder.statistics.bootstrap import Interval
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


def _format_interval_filter(estimate: Interval, places: int = 3) -> str:
    return use_minus_sign(format_interval(estimate, places))


# Characters that texts are cut to, one after the other, where reduced pictures are not enough.
TEXT_LENGTHS = (1200, 400, 160, 60)

# Where even that is not enough, the details and pictures of the best verdicts are left out. How long the texts of the
# others are, and how large their pictures at least:
KEPT_TEXT_LENGTH = 400
KEPT_PICTURES = PictureDetail(192, 48)
_SAMPLED_DETAILS = 400  # verdicts from which the size of all is estimated

# Of the room beside the numbers, what the list of all cases may take before some are left out of it, and takes then.
_LIST_SHARE, _CUT_LIST_SHARE = 0.6, 0.3
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
    worst: int | None = None,
    group: str | None = None,
    other: RunRecord | None = None,
    watch: ProgressCallback = no_progress,
) -> WrittenReport:
    """Write the report of a run. The same runs give the same bytes.

    Args:
        ledger: The ledger that has the run.
        record: The run.
        out: Where the page is written.
        max_mb: Size limit in million bytes. Pictures lose detail first, then texts are cut; where that is not enough,
            only the worst verdicts have details and pictures, and the others stay in the list, as long
            as that is within the limit.
        worst: Only so many verdicts are in the page: those that failed, and the worst.
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
        arena = make_arena(ledger, record)
        summary = summarize_run(gathered, group)
        parts = partial(_render_parts, gathered, summary, changed, arena)
        listed = _choose_listed(gathered, changed if worst is None else None, worst, max_mb, parts)
        if listed is not None:
            changed = _keep_listed(gathered, summary, changed, listed, details, shorter)
            details, shorter = shorter, details
            parts = partial(_render_parts, gathered, summary, changed, arena)
        left = int(max_mb * 1_000_000) - sum(map(len, parts((), (), None, ()))) - _SPARE_BYTES
        texts, cut = _fit_details(details, shorter, left - estimate_picture_bytes(ledger, list(gathered.pictures)))
        if texts is not None:
            pictures = write_pictures(ledger, list(gathered.pictures), left - _details_size(texts), shots, watch)
            if _details_size(texts) + pictures.size > left:  # the estimate was too low; now their size is known
                texts, cut = _fit_details(details, shorter, left - pictures.size)
        if texts is None:
            _keep_most_important(ledger, gathered, changed, details, shorter, left)
            texts, cut = shorter, KEPT_TEXT_LENGTH
            pictures = write_pictures(ledger, list(gathered.pictures), left - _details_size(texts), shots, watch)
        notes = _report_notes(max_mb, cut, gathered, changed, len(pictures.missing), summary.verdicts, worst)
        page = partial(parts, pictures=pictures)
        if _details_size(texts) + pictures.size > left:
            notes = _add_size_note(
                notes, max_mb, page(_split_detail_blocks(texts), pictures.blocks(shots), notes=notes)
            )
        written = sum(map(out.write, page(_split_detail_blocks(texts), pictures.blocks(shots), notes=notes)))
    detail = pictures.detail.description if len(gathered.pictures) > len(pictures.missing) else ""
    return WrittenReport(written, gathered.cases, len(gathered.index), detail, notes)


def _report_notes(
    max_mb: float,
    cut: int | None,
    gathered: RunData,
    changed: ComparisonSection | None,
    lost: int,
    verdicts: int,
    worst: int | None,
) -> tuple[str, ...]:
    notes, movers = [], "those that changed most, " if changed is not None and changed.movers else ""
    if len(gathered.index) < verdicts:
        why = f"the page is to stay under {max_mb:g} MB" if worst is None or worst > len(gathered.index) else ""
        notes.append(
            f"The cases below are {len(gathered.index):,} of {verdicts:,} verdicts, {movers if worst is None else ''}"
            f"those that failed and the worst{f', because {why}' if why else ''}: "
            f"{_describe_listed(gathered)}. The numbers are of all."
        )
    if gathered.kept is not None:
        notes.append(
            f"Reasons and pictures are here for {len(gathered.kept):,} of {len(gathered.index):,} verdicts, {movers}"
            f"those that failed and the worst, because the page is to stay under {max_mb:g} MB. The numbers above and "
            "the list are of all."
        )
    if cut is not None:
        notes.append(f"Texts are cut to {cut} characters, because the page is to stay under {max_mb:g} MB.")
    if lost:
        notes.append(_missing_pictures_note(lost, len(gathered.pictures)))
    return tuple(notes)


def _describe_listed(gathered: RunData) -> str:
    """Say which verdicts a page has whose list is not of all."""
    index = gathered.index
    scores = [score for score in index.score if score is not None]
    lacking, flagged = len(index) - len(scores), sum(map(bool, index.flagged))
    parts = [f"{lacking:,} without a score" if lacking else "", f"{flagged:,} with a flag" if flagged else ""]
    parts.append(f"scores from {min(scores):.2f} to {max(scores):.2f}" if scores else "")
    return ", ".join(filter(None, parts)) or "none"


def _choose_listed(
    gathered: RunData,
    changed: ComparisonSection | None,
    worst: int | None,
    max_mb: float,
    parts: Callable[..., Iterator[bytes]],
) -> list[int] | None:
    """Return the verdicts that the page has, the most important ones; `None` for all."""
    count = len(gathered.index)
    most = count if worst is None else min(worst, count)
    if count:
        listed = len(script_json(gathered.index.to_dict()).encode())
        room = max_mb * 1_000_000 - (sum(map(len, parts((), (), None, ()))) - listed)
        if listed * most / count > _LIST_SHARE * room:
            most = max(1, min(most, int(_CUT_LIST_SHARE * room / listed * count)))
    return None if most >= count else sorted(sorted(range(count), key=_importance(gathered, changed))[:most])


def _importance(gathered: RunData, changed: ComparisonSection | None) -> Callable[[int], tuple[bool, float, bool]]:
    """Return the sort key of verdicts: those that `changed` most, those that failed, the worst. Of what was measured in
    part the highest possible score counts; of equal ones those with a flag come first."""
    index = gathered.index
    moved = set() if changed is None else {mover.number for mover in changed.movers}

    def importance(at: int) -> tuple[bool, float, bool]:
        score = index.score[at]
        best = index.measured.get(at, ("", None, None))[2] if score is None else score
        return at not in moved, -1.0 if best is None else best, not index.flagged[at]

    return importance


def _keep_listed(
    gathered: RunData,
    summary: ReportSummary,
    changed: ComparisonSection | None,
    listed: list[int],
    details: IO[bytes],
    kept: IO[bytes],
) -> ComparisonSection | None:
    """Leave only some verdicts in the index, with their pictures, and write their details into `kept`; examples lead to
    no others. Returns the comparison, whose cases have other numbers now."""
    places = {number: place for place, number in enumerate(listed)}
    numbers: dict[int, int] = {}  # of the pictures, by their numbers so far

    def number(picture: int) -> int:
        return numbers.setdefault(picture, len(numbers))

    digests = list(gathered.pictures)
    for mover in () if changed is None else changed.movers:
        for _, digest in mover.shots:
            number(gathered.pictures[digest])
    details.seek(0)
    kept.writelines(_rewrite_line(line, pictures=number) for at, line in enumerate(details) if at in places)
    gathered.index = gathered.index.select(listed, number)
    gathered.pictures = {digests[old]: new for old, new in numbers.items()}
    counts = [count for _, count in (*summary.failing, *summary.corrections)]
    counts += [count for _, items in summary.findings.values() for _, count in items]
    counts += [count for _, _, count in summary.flags]
    for count in counts:
        count.examples = _renumber_examples(count.examples, places)
    summary.outcomes[:] = [
        (state, count, _renumber_examples(examples, places)) for state, count, examples in summary.outcomes
    ]
    if changed is None:
        return None
    movers = (replace(one, number=None if one.number is None else places.get(one.number)) for one in changed.movers)
    return replace(changed, movers=tuple(movers))


def _renumber_examples(examples: Sequence[ExampleVerdict], places: Mapping[int, int]) -> list[ExampleVerdict]:
    """Return the examples with their new numbers; those that are not in the page have none, and come last."""
    renumbered = [replace(one, number=None if one.number is None else places.get(one.number)) for one in examples]
    return sorted(renumbered, key=lambda one: one.number is None)


def _rewrite_line(line: bytes, longest: int | None = None, pictures: Callable[[int], int] = int) -> bytes:
    """Return a line of the details with texts cut to `longest` characters, and its pictures numbered anew."""
    detail = json.loads(line)
    if longest is not None:
        detail = truncate_detail(detail, longest)
    for image in (*detail.get("images", ()), *detail.get("pictures", ())):
        if "picture" in image:
            image["picture"] = pictures(image["picture"])
    return json.dumps(detail, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _add_size_note(notes: tuple[str, ...], max_mb: float, page: Iterator[bytes]) -> tuple[str, ...]:
    """Add a note if the page exceeds its limit: without the spare bytes it may still be within."""
    if sum(map(len, page)) <= max_mb * 1_000_000:
        return notes
    return (*notes, f"The page is larger than {max_mb:g} MB: its numbers and the list of cases take that much.")


def _missing_pictures_note(lost: int, of: int) -> str:
    if lost == of:
        return "There are no pictures: the ledger keeps none for this run (it was made without thumbnails)."
    return f"{format_count(lost, 'picture')} of {of} are missing: the ledger has none of them."


def _details_size(details: IO[bytes]) -> int:
    """Return the bytes of the details in the page: `<` is written as an escape, and each block has markup around it."""
    details.seek(0)
    lines = size = 0
    for line in details:
        lines += 1
        size += len(line) + 5 * line.count(b"<")
    return size + math.ceil(lines / _DETAILS_PER_BLOCK) * BLOCK_OVERHEAD


def _fit_details(details: IO[bytes], shorter: IO[bytes], max_bytes: int) -> tuple[IO[bytes] | None, int | None]:
    """Cut texts as far as necessary, into `shorter`.

    Returns:
        The file to use (None: no cut is enough), and the characters that texts were cut to (None: not cut).
    """
    size = _details_size(details)
    if size <= max_bytes:
        return details, None
    details.seek(0)
    step = max(1, sum(1 for _ in details) // _SAMPLED_DETAILS)
    details.seek(0)
    sample = list(islice(details, 0, None, step))
    error = 0.98 if step > 1 else 1.0  # of the estimate that is allowed for: whether it fits is seen when it is done
    for longest in TEXT_LENGTHS:
        share = sum(len(_rewrite_line(line, longest)) for line in sample) / sum(map(len, sample))
        if share * size * error > max_bytes:
            continue
        shorter.seek(0)
        shorter.truncate()
        details.seek(0)
        shorter.writelines(_rewrite_line(line, longest) for line in details)
        if _details_size(shorter) <= max_bytes:
            return shorter, longest
    return None, None


def _keep_most_important(
    ledger: Ledger,
    gathered: RunData,
    changed: ComparisonSection | None,
    details: IO[bytes],
    shorter: IO[bytes],
    max_bytes: int,
) -> None:
    """Write the details of as many verdicts as fit with their pictures into `shorter`, the most important ones first.

    These are the cases that changed most, those that failed, then the worst. `gathered` keeps the pictures of these
    alone.
    """
    index, digests = gathered.index, list(gathered.pictures)
    movers = () if changed is None else changed.movers
    numbers: dict[int, int] = {}  # of the pictures on the page, by their numbers so far

    def number(picture: int) -> int:
        return numbers.setdefault(picture, len(numbers))

    for mover in movers:
        for _, digest in mover.shots:
            number(gathered.pictures[digest])
    picture_bytes = estimate_picture_bytes(ledger, digests, KEPT_PICTURES) / max(1, len(digests))
    details.seek(0)
    starts = [0, *accumulate(map(len, details))]
    size, kept = 2 * BLOCK_OVERHEAD + len(numbers) * picture_bytes, []
    shorter.seek(0)
    shorter.truncate()
    for at in sorted(range(len(index)), key=_importance(gathered, changed)):
        details.seek(starts[at])
        line = _rewrite_line(details.readline(), KEPT_TEXT_LENGTH, number)
        size += len(line) + 5 * line.count(b"<") + len(f"{at},") + BLOCK_OVERHEAD / _DETAILS_PER_BLOCK
        if size + len(numbers) * picture_bytes > max_bytes:
            break
        shorter.write(line)
        kept.append(at)
    # Pictures of the verdict that did not fit were numbered last, and may stay.
    gathered.pictures = {digests[old]: new for old, new in numbers.items()}
    gathered.kept = kept
    pictured: list[list[int]] = [[] for _ in index.pictured]
    for at in kept:
        pictured[at] = [numbers[picture] for picture in index.pictured[at]]
    index.pictured = pictured


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
    arena: ArenaSection | None,
    details: Iterable[str],
    shots: Iterable[str],
    pictures: ReportPictures | None,
    notes: tuple[str, ...],
) -> Iterator[bytes]:
    rendered = _template().generate(
        run=gathered.record,
        summary=summary,
        against=changed,
        arena=arena,
        pair_link=lambda model, other: _list_link(group=f"{PAIR_GROUP}={pair_name(model, other)}"),
        pedigree=run_provenance(gathered),
        notes=notes,
        picture_detail=pictures.detail.description
        if pictures and len(gathered.pictures) > len(pictures.missing)
        else "",
        index={
            **gathered.index.to_dict(),
            "questions": [escape_hidden(text) for text in gathered.questions.texts],
            "block": _DETAILS_PER_BLOCK,
            **({} if gathered.kept is None else {"kept": gathered.kept}),
            "starts": list(pictures.starts) if pictures else [],
            "missing": sorted(pictures.missing) if pictures else [],
            "titles": {escape_hidden(key): title for key, title in criterion_titles(gathered.record.rubrics).items()}
            | {escape_hidden(criterion.key): criterion.title for criterion in summary.figures.criteria},
            "flag_titles": {name: flag_title(name) for name in gathered.index.flags.texts},
            "preferences": [
                escape_hidden(str(rubric.get("rubric", "")))
                for rubric in gathered.record.rubrics
                if rubric.get("kind") == RubricKind.PREFERENCE
            ],
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
    return "" if wanted.keys() & {"assertion", "least", "passed", "style"} else f"#{urlencode(wanted)}"
