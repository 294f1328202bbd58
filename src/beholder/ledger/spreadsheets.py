"""CSV that a spreadsheet opens without running anything in it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # after apostrophes too, so that `bare` takes off no more than was put on


def csv_line(cells: Iterable[str | int | float | bool | None]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)  # told to end lines in \n, it would not quote a cell with a \r in it
    return line.getvalue().removesuffix("\r\n").encode("utf-8", "backslashreplace") + b"\n"


def harmless(text: str) -> str:
    """A text that a spreadsheet would run as a formula (it starts with = + - @, a tab or a return, and is no number)
    with an apostrophe in front, which spreadsheets do not show."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def bare(text: str) -> str:
    """The text again, without the apostrophe of `harmless`; one that belongs to a name ('t Hooft) stays."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text
