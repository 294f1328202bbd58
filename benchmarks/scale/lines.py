"""What the parts of the benchmark share: the command, and the lines of the table."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import Sample

BEHOLDER = (sys.executable, "-m", "beholder")
RUN = ("--concurrency", "64", "--no-thumbnails", "--no-audit")


@dataclass(frozen=True, slots=True)
class Line:
    """One number. `holds` is `None` where there is no goal."""

    what: str
    seen: str
    wanted: str = ""
    holds: bool | None = None


def at_most(what: str, seen: float, limit: float, places: int = 0) -> Line:
    return Line(what, f"{seen:,.{places}f}", f"≤ {limit:,.{places}f}", seen <= limit)


def with_memory(sample: Sample) -> str:
    return f"{sample.wall_s:.1f} ({sample.peak_mb:.0f})"


def suite_of(cases: Path, url: str) -> list[str]:
    """The flags that say what is judged by whom."""
    return ["--rubric", "edit-preservation", "--judge", "openai:bench", "--base-url", url, "--cases", str(cases)]


def scored(ledger: Path) -> int:
    """How many scored verdicts there are, as SQLite itself counts them."""
    with sqlite3.connect(ledger) as connection:
        [[count]] = connection.execute("SELECT count(*) FROM verdicts WHERE outcome = 'scored'")
    connection.close()
    return int(count)


def table(some: Sequence[Line]) -> str:
    words = {True: "reached", False: "missed", None: ""}
    return "\n".join(f"  {one.what:44} {one.seen:>20} {one.wanted:>20}  {words[one.holds]}".rstrip() for one in some)
