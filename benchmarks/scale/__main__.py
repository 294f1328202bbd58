"""A hundred thousand cases through the real command, end to end into SQLite: `make bench-scale`, or

    PYTHONPATH=benchmarks python -m scale [--cases 100000] [--ray] [--million] [--json]

The judge is the loopback server of `benchmarks/server.py` in a process of its own, without latency; its answers differ
from each other. Each case has an edited picture of its own of 16 × 16 pixels. All files are in a temporary folder that
is deleted at the end: 0.7 GB of them, 2 GB with --million. It takes 4 minutes on two idle cores, 6 more with
--million. Memory is read from /proc, so that this runs on Linux only. Nothing here fails because a time is long.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import Sample, measure, server

from scale.cases import write_cases, write_pictures
from scale.lines import BEHOLDER, RUN, Line, at_most, scored, suite_of, table, with_memory
from scale.pages import Page
from scale.watching import Watched, watch

CASES = 100_000
MEMORY_AT = (10_000, 50_000, 100_000)
UNDONE = 0.01
CALM = 3.0  # the run and the server make a load of about 2


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that was measured."""

    cases: int
    run: Watched
    scored: int
    ledger_bytes: int
    plan_new: Sample
    plan_done: Sample
    export: Sample
    resumed: Watched
    page: Page
    disk_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many, more than 10,000; {CASES:,} unless told")
    parser.add_argument("--ray", action="store_true", help="also Ray on two nodes of this machine, against one engine")
    parser.add_argument("--million", action="store_true", help="also a case file of a million lines: check and resume")
    parser.add_argument("--json", action="store_true", help="print everything that was measured as JSON")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    begun = time.monotonic()
    parts: dict[str, list[Line]] = {}
    with tempfile.TemporaryDirectory(prefix="beholder-scale-") as folder:
        seen = measured(Path(folder), given.cases, say=not given.json)
        parts[f"{given.cases:,} cases"] = lines(seen)
        if given.million:
            from scale.million import million

            parts["A case file of a million lines"] = million(Path(folder), given.cases)
        if given.ray:
            from scale.spreading import spread

            parts["Ray on two nodes of this machine"] = spread(Path(folder), given.cases)
    took = time.monotonic() - begun
    if given.json:
        said = {
            "load_before": load,
            "took_s": took,
            "parts": {name: list(map(asdict, some)) for name, some in parts.items()},
            "measured": asdict(seen),
        }
        print(json.dumps(said, indent=2))
        return
    for name, some in parts.items():
        print(f"\n{name}\n{table(some)}")
    print(f"\n{os.cpu_count()} cores, load {load:.1f} before; all of it took {took:.0f} s")
    if max(load, os.getloadavg()[0]) > CALM:
        print("Other programs were running, and all times are too long.")


def measured(folder: Path, count: int, *, say: bool) -> Seen:
    """Runs everything in a folder, one after another."""

    def told(what: str) -> None:
        if say:
            print(f"… {what}", file=sys.stderr, flush=True)

    told(f"writing {count:,} cases")
    pictures = folder / "pictures"
    write_pictures(pictures, count)
    cases = write_cases(pictures / "cases.jsonl", count, count)
    ledger = folder / "ledger.db"
    with server("--varied") as url:
        suite = [*suite_of(cases, url), "--ledger", str(ledger)]
        told("plan, with nothing in the ledger")
        plan_new = measure([*BEHOLDER, "plan", *suite, "--json", "--no-brief"])
        told("run")
        run = watch([*BEHOLDER, "run", *suite, *RUN, "--json"], url)
        scored_ = scored(ledger)
        size = sum(path.stat().st_size for path in folder.glob("ledger.db*"))
        told("plan, with everything done")
        plan_done = measure([*BEHOLDER, "plan", *suite, "--json", "--no-brief"])
        told("export")
        verdicts = folder / "verdicts.parquet"
        export = measure([*BEHOLDER, "export", "--to", "parquet", "-o", str(verdicts), "--ledger", str(ledger)])
        told("the run's page")
        page = _page(ledger, str(run.summary["run"]))
        told("the same run again, without the last hundredth of its verdicts")
        forget(ledger, count - int(count * UNDONE))
        resumed = watch([*BEHOLDER, "run", *suite, *RUN, "--json"], url)
    disk = int(subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True).stdout.split()[0])
    ended = [run.code, resumed.code, plan_new.code, plan_done.code, export.code]
    if any(ended):
        sys.exit(f"a command failed: {ended}")
    return Seen(count, run, scored_, size, plan_new, plan_done, export, resumed, page, disk * 1024)


def forget(ledger: Path, position: int) -> None:
    """Deletes the verdicts from that position on, and the answers they were made from, as if they had never been and
    the run had been killed then."""
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "DELETE FROM answers WHERE id IN (SELECT answers FROM verdicts WHERE position >= ?)", [position]
        )
        connection.execute("DELETE FROM verdicts WHERE position >= ?", [position])
        connection.execute("UPDATE runs SET state = 'running'")
    connection.close()


def _page(ledger: Path, run: str) -> Page:
    """In a process of its own: this one must stay small (`measuring.measure` says why)."""
    command = [sys.executable, "-m", "scale.pages", str(ledger), run]
    return Page(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))


def lines(seen: Seen) -> list[Line]:
    run, again, page, count = seen.run, seen.resumed, seen.page, seen.cases
    wall, cpu, served = (run.halves(name) for name in ("at_s", "cpu_s", "server_s"))
    marks = sorted({min(mark, count) for mark in MEMORY_AT})
    memory = [run.resident_at(mark) for mark in marks]
    undone = int(count * UNDONE)
    whole = seen.scored == run.requests == count
    return [
        Line("run: wall time, s", f"{run.wall_s:.1f}"),
        Line("cases a second, from the first request on", f"{count / (run.wall_s - (run.first_s or 0)):.0f}"),
        Line("CPU a case, ms", f"{1000 * run.cpu_s / count:.2f}"),
        Line(
            "scored, and requests made for them", f"{seen.scored:,} / {run.requests:,}", f"{count:,} / {count:,}", whole
        ),
        *(Line(f"resident after {mark:,}, MB", f"{size:.1f}") for mark, size in zip(marks, memory, strict=True)),
        at_most("largest of these against the smallest", max(memory) / min(memory), 1.1, 2),
        Line("second half against the first: wall, CPU", f"{wall:.2f}, {cpu:.2f}"),
        # Each answer costs the server the same: what changes there is the speed of the machine.
        at_most("  CPU, as the server's own allows for", cpu / served, 1.05, 2),
        at_most("ledger, bytes a verdict", seen.ledger_bytes / count, 2048),
        Line("plan, nothing done yet: s (MB at most)", with_memory(seen.plan_new)),
        Line("plan, everything done: s (MB at most)", with_memory(seen.plan_done)),
        Line("export to Parquet: s (MB at most)", with_memory(seen.export)),
        at_most("page of the run, first visit, ms", page.first_ms, 300),
        Line("its numbers are there after, s", f"{page.ready_s:.1f}"),
        at_most("page of the run from then on, ms", page.median_ms, 300),
        at_most("its cases, worst first, ms", page.cases_ms, 300),
        Line("resume with 99 % done: requests made", f"{again.requests:,}", f"{undone:,}", again.requests == undone),
        at_most("  from the start to its first request, s", again.first_s or 0, 10, 1),
        at_most("  to the end of it all, the last cases judged, s", again.wall_s, 10, 1),
        Line("  CPU of it all, s (MB at most)", f"{again.cpu_s:.1f} ({again.peak_mb:.0f})"),
        at_most("disk in use at the end, MB", seen.disk_bytes / 2**20, 4096),
    ]


if __name__ == "__main__":
    main()
