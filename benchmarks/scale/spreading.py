"""The same cases by one local engine and by Ray on two nodes of this machine: what Ray takes, and where nothing.

On two cores both have the same processors, so that without latency Ray can only lose: what it takes a case is what is
shown. With latency the waiting is spread, and nothing may be lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from measuring import measure, server, stats

from scale.cases import write_cases
from scale.lines import BEHOLDER, RUN, Line, scored, suite_of

COUNT = 6000
LATENCY_S = 0.2
DRIVER_MB = 500


@dataclass(frozen=True, slots=True)
class Spent:
    """A run: seconds from the start of the command to the first request, from there to the last, and the whole."""

    first_s: float
    judging_s: float
    wall_s: float
    peak_mb: float
    scored: int
    requests: int


def spread(folder: Path, pictures: int) -> list[Line]:
    """Uses the pictures in `folder`, of which there are so many."""
    if find_spec("ray") is None or find_spec("pyarrow") is None:
        return [Line("not measured: Ray is not installed; run", "pip install 'beholder[ray]'")]
    count = min(COUNT, pictures)
    cases = write_cases(folder / "pictures" / "spread.jsonl", count, pictures)
    with cluster() as address:
        ray = ("--engine", "ray", "--address", address)
        runs = {
            (who, latency): _run(folder / f"{who}-{latency}.db", cases, latency, more)
            for latency in (0.0, LATENCY_S)
            for who, more in (("local", ()), ("ray", ray))
        }
    local, spread, slow, slow_spread = runs.values()
    over_ms = 1000 * (spread.judging_s - local.judging_s) / count
    kept = slow.judging_s / slow_spread.judging_s
    whole = all(one.scored == one.requests == count for one in runs.values())
    least = f"{min(one.scored for one in runs.values()):,} of {count:,}"
    latency = f"at {1000 * LATENCY_S:.0f} ms"
    return [
        Line("no latency, one engine: cases a second", f"{count / local.judging_s:.0f}"),
        Line("no latency, Ray: cases a second", f"{count / spread.judging_s:.0f}"),
        Line("what Ray takes a case more, ms", f"{over_ms:.2f}"),
        Line(f"{latency}, one engine: cases a second", f"{count / slow.judging_s:.0f}"),
        Line(f"{latency}, Ray: cases a second", f"{count / slow_spread.judging_s:.0f}"),
        Line(f"{latency}, Ray against one engine", f"{kept:.2f}", "≥ 0.95", kept >= 0.95),
        Line("start to first request, one engine and Ray, s", f"{slow.first_s:.1f} / {slow_spread.first_s:.1f}"),
        Line("last request to end, one engine and Ray, s", f"{_end(slow):.1f} / {_end(slow_spread):.1f}"),
        Line(
            "driver of the Ray run, MB at most", f"{spread.peak_mb:.0f}", f"< {DRIVER_MB}", spread.peak_mb < DRIVER_MB
        ),
        Line("scored once each, the fewest of the runs", least, f"{count:,} of {count:,}", whole),
    ]


def _end(run: Spent) -> float:
    return run.wall_s - run.first_s - run.judging_s


def _run(ledger: Path, cases: Path, latency: float, more: Sequence[str]) -> Spent:
    with server("--varied", "--latency", str(latency)) as url:
        command = [*BEHOLDER, "run", *suite_of(cases, url), *RUN, "--ledger", str(ledger), "--quiet", *more]
        sample = measure(command, url=url)
        seen = stats(url)
    if sample.code:
        sys.exit(f"{' '.join(command)} ended with {sample.code}")
    first, last = float(str(seen["first_request"])), float(str(seen["last_request"]))
    return Spent(sample.first_s or 0, last - first, sample.wall_s, sample.peak_mb, scored(ledger), sample.requests)


@contextmanager
def cluster() -> Iterator[str]:
    """Two nodes in processes of their own; their address."""
    command = [sys.executable, "-m", "scale.cluster"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                sys.exit("The Ray cluster could not be started.")
            yield address
        finally:
            process.stdin.close()
