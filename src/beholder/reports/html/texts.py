"""Texts from models, cases and files, made harmless for a page, and values in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

# Control characters, halves of surrogate pairs (no file can hold one), and what makes a browser show another text than
# the one that is there: overrides and marks of direction, annotations.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


_NEGATIVE = re.compile(r"(?<![\w.])-(?=\d)")


def plain(text: str) -> str:
    """`text` with whatever hides or reorders letters written out (`\\u202e`). Escaping for HTML is the template's."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n").replace("\r", "\n"))


def plain_values(value: object, longest: int | None = None) -> object:
    """JSON values with all their texts made plain, and cut to `longest` characters where that is given."""
    if isinstance(value, str):
        return plain(value if longest is None else cut(value, longest))
    if isinstance(value, Mapping):
        return {plain(str(key)): plain_values(inner, longest) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(inner, longest) for inner in value]
    return value


def cut(text: str, longest: int) -> str:
    """The text, or the beginning of it and an ellipsis: never longer than `longest`."""
    return text if len(text) <= longest else f"{text[: max(0, longest - 1)].rstrip()}…"


def script_json(value: object) -> str:
    """JSON that can stand in a `<script>`: nothing in it can end that, whatever the texts are."""
    dumped = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return dumped.replace("<", "\\u003c")


def name_of(key: str) -> str:
    """`unchanged_regions` as people read it."""
    return plain(key).replace("_", " ").capitalize()


def titles_of(rubrics: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """What the rubrics of a run call their criteria, by the column: `KEY`, or `RUBRIC.KEY` where several have it."""
    found: dict[str, str] = {}
    for rubric in rubrics:
        criteria = rubric.get("criteria")
        for one in criteria if isinstance(criteria, list | tuple) else ():
            if isinstance(one, Mapping) and isinstance(one.get("key"), str):
                title = plain(str(one.get("title") or "")) or name_of(one["key"])
                found[one["key"]] = title
                found[f"{rubric.get('rubric', '')}.{one['key']}"] = f"{title}, {plain(str(rubric.get('rubric', '')))}"
    return found


def column_title(name: str, titles: Mapping[str, str]) -> str:
    """What people call a column that is no assertion: a criterion by its title, `RUBRIC.score` as `Score, RUBRIC`."""
    rubric, _, what = name.rpartition(".")
    if name in titles:
        return titles[name]
    return f"{name_of(what)}, {plain(rubric)}" if rubric and what in ("score", "passed", "grade") else name_of(name)


def minus(text: str) -> str:
    """Numbers with the sign that is a minus; a hyphen is as short as a dash between words."""
    return _NEGATIVE.sub("−", text)
