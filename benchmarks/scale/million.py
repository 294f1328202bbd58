"""A case file of a million lines: what looking at all of it takes, and going on with a run of it that is done.

No million calls are made. A real run is begun and stopped; the verdicts that it lacks are then copies of its first one,
under the ids of the other cases, written with SQL. Pictures come round again, more of them than are remembered.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from measuring import Sample, measure, server, stats

from scale.cases import MODELS, write_cases
from scale.lines import BEHOLDER, RUN, Line, suite_of, with_memory

COUNT = 1_000_000
BEGUN = 200  # requests after which the run is stopped


def million(folder: Path, pictures: int) -> list[Line]:
    """Uses the pictures in `folder`, of which there are so many."""
    cases = write_cases(folder / "pictures" / "million.jsonl", COUNT, pictures)
    ledger = folder / "million.db"
    with server("--varied") as url:
        suite = [*suite_of(cases, url), "--ledger", str(ledger)]
        new = measure([*BEHOLDER, "plan", *suite, "--json", "--no-brief"])
        _begin(url, [*BEHOLDER, "run", *suite, *RUN, "--quiet"])
        _fill(ledger)
        done = measure([*BEHOLDER, "plan", *suite, "--json", "--no-brief"])
        before = int(str(stats(url)["requests"]))
        again = measure([*BEHOLDER, "run", *suite, *RUN, "--quiet"], url=url)
        asked = again.requests - before
    return [
        *(Line(what, with_memory(sample)) for what, sample in _named(new, done, again)),
        Line("requests that this made", f"{asked:,}", "0", asked == 0),
        Line("its ledger (without answers), MB", f"{ledger.stat().st_size / 2**20:,.0f}"),
    ]


def _named(new: Sample, done: Sample, again: Sample) -> list[tuple[str, Sample]]:
    return [
        ("plan, nothing done yet: s (MB at most)", new),
        ("plan, everything done: s (MB at most)", done),
        ("run, everything done: s (MB at most)", again),
    ]


def _begin(url: str, command: list[str]) -> None:
    """Begins a run and stops it as Ctrl-C does: what is under way is finished."""
    before = int(str(stats(url)["requests"]))
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and int(str(stats(url)["requests"])) < before + BEGUN:
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(signal.SIGINT)
    if process.returncode not in (0, 3):
        sys.exit(f"the run of a million cases could not be begun: it ended with {process.returncode}")


def _fill(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(verdicts)")]
        same = ", ".join(name for name in columns if name not in ("number", "position", "case_id"))
        connection.execute(
            f"INSERT OR IGNORE INTO verdicts (position, case_id, {same}) "
            f"WITH RECURSIVE count(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM count WHERE at < {COUNT - 1}) "
            f"SELECT at, printf('photo-%07d/model-%d', at / {MODELS}, at % {MODELS}), {same} "
            "FROM count, (SELECT * FROM verdicts ORDER BY number LIMIT 1)"
        )
    connection.close()
