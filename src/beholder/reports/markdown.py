"""A comparison as Markdown, for a pull request or a build's summary page.

Names come from cases and rubrics: inside `<code>`, and with everything but letters, digits, blanks, hyphens and slashes
as a character reference, they can be no markup, no link, no table border, and call nobody by @name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beholder.reports.changes import HEADERS, TOLD, needed, notes, rows, verdict
from beholder.reports.numbers import shown
from beholder.reports.terminal import printable
from beholder.statistics.comparison.comparing import GRADE, Change, Comparison
from beholder.statistics.comparison.gating import Gate
from beholder.statistics.comparison.pairing import LISTED
from beholder.statistics.data import Kind

_LONGEST = 300
_PLAIN = frozenset(" -/")
_IN_PROSE = frozenset(" -/,.;:()–+%")


def comparison_markdown(comparison: Comparison, gate: Gate | None = None) -> str:
    """The verdict, the gate's decision, the tables, and what must not go unsaid."""
    return "\n".join(_lines(comparison, gate)) + "\n"


def code(text: str) -> str:
    """A name, shown as it is."""
    return f"<code>{_referenced(text[:_LONGEST], _PLAIN)}</code>"


def prose(text: str) -> str:
    """A sentence that may have names in it: its full stops and colons stay where they end something, and what would
    call somebody or lead to an issue is set apart from what follows it."""
    safe = _referenced(text, _IN_PROSE)
    safe = re.sub(r"[.:](?=[^\s\d])", lambda found: f"&#{ord(found.group())};", safe)
    return re.sub(r"&#(35|64);", r"<code>&#\1;</code>", safe)


def _referenced(text: str, plain: frozenset[str]) -> str:
    return "".join(letter if letter.isalnum() or letter in plain else f"&#{ord(letter)};" for letter in printable(text))


def _lines(comparison: Comparison, gate: Gate | None) -> Iterator[str]:
    yield f"### {code(comparison.after)} against {code(comparison.before)}"
    yield ""
    if gate is not None:
        yield f"{_decision(gate)} on {', '.join(code(name) for name in gate.on or gate.undecided)}."
        yield from (f"- {prose(sentence)}" for sentence in gate.said())
        yield ""
    yield prose(verdict(comparison))
    yield ""
    yield from _table(HEADERS, _named(comparison.of(Kind.OVERALL, Kind.PASSED, GRADE, Kind.CRITERION)))
    yield from _grades(comparison)
    yield from _folded("Assertions", HEADERS, _named(comparison.of(Kind.ASSERTION)))
    moved = (
        (code(one.case), code(one.group) if one.group else "", f"{one.by:+.3f}", _changes(one.changes))
        for one in comparison.moved
    )
    headers = ("case", comparison.group or "group", "by", "what")
    yield from _folded("Cases that changed most", headers, moved, texts=(0, 1, 3))
    said = [*notes(comparison), *needed(comparison)]
    if said:
        yield ""
        yield from (f"- {prose(sentence)}" for sentence in said)
    yield ""
    yield f"<sub>{prose(comparison.told)} {prose(TOLD)}</sub>"


def _decision(gate: Gate) -> str:
    if gate.regressed:
        return "❌ **Regression**"
    if gate.failed or gate.undecided:
        return "❌ **Not decided**"
    return "⚠️ **No regression shown, and cases lost**" if gate.unweighed else "✅ **No regression**"


def _named(changes: Sequence[Change]) -> Iterator[tuple[str, ...]]:
    for name, *cells in rows(changes):
        yield (code(name), *(prose(cell) for cell in cells))


def _changes(changes: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{code(name)} {shown(old)} → {shown(new)}" for name, (old, new) in list(changes.items())[:LISTED])


def _grades(comparison: Comparison) -> Iterator[str]:
    for one in comparison.of(GRADE):
        counts = ((code(name), f"{old:,}", f"{new:,}") for name, (old, new) in one.grades.items())
        yield from _folded(f"Grades: {one.better:,} up, {one.worse:,} down", (one.name, "before", "after"), counts)


def _folded(
    title: str, headers: Sequence[str], cells: Iterable[Sequence[str]], texts: Sequence[int] = (0,)
) -> Iterator[str]:
    lines = list(_table(headers, cells, texts))
    if len(lines) > 2:
        yield from ("", f"<details><summary>{prose(title)}</summary>", "", *lines, "", "</details>")


def _table(headers: Sequence[str], cells: Iterable[Sequence[str]], texts: Sequence[int] = (0,)) -> Iterator[str]:
    """`texts` are the columns that are no numbers."""
    yield f"| {' | '.join(prose(header) for header in headers)} |"
    yield f"|{'|'.join('---' if at in texts else '--:' for at in range(len(headers)))}|"
    for row in cells:
        yield f"| {' | '.join(row)} |"
