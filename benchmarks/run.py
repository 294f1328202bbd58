"""Beholder beside what people write today, on the same cases and the same server: `make bench`.

    python benchmarks/run.py [--rounds 3] [--quick] [--json]

Every command runs in a fresh process with a fresh server in another, all of them in turn, round after round, so that
whatever else the machine does meets them alike. Medians are shown. "Beyond start-up" is a run less the same command's
run with a single case in the same round. Nothing here fails because a time is long.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from material import CASES, MANY, Material, material
from measuring import HERE, Sample, capacity, measure, middle, server

BIN = Path(sys.executable).parent
OURS = f"{BIN / 'beholder'} run --rubric edit-preservation --judge openai:bench --concurrency 64 --quiet".split()
LEAN = ("--no-thumbnails", "--no-audit")
CONCURRENCY = 64
LATENCY_S = 0.2
SLOW = ("--latency", str(LATENCY_S))
FAULTY = ("--too-many", "0.025", "--broken", "0.025", "--invalid", "0.02")
SCALED = ("--max-side", "1024")
PATIENT = ("--latency", "3")
PATIENT_CASES = 192
CALM = 2.5  # ours and the server make a load of about 2


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is run."""

    rounds: int
    cases: int = CASES
    scaled: int = CASES // 2  # the usual script takes a tenth of a second for each
    many: int = MANY


@dataclass(frozen=True, slots=True)
class Entry:
    """One command in one situation. `who` is `beholder` (without audit and thumbnails), `default` (ours, with both, as
    users run it) or a peer; `edits`: of edits of one picture, instead of unrelated pairs (see `material`)."""

    situation: str
    who: str
    cases: int
    server: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    once: bool = False
    codes: tuple[int, ...] = (0,)  # with which ours may end
    edits: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    wanted: str
    seen: str
    reached: bool | None  # None: not measured


Results = dict[tuple[str, str], list[Sample]]


def entries(scale: Scale) -> list[Entry]:
    """What is run in a round, in order."""
    count, few = scale.cases, scale.scaled
    return [
        Entry("start", "beholder", 1),
        Entry("start", "default", 1),
        Entry("start", "bare", 1),
        Entry("start", "async-openai", 1),
        Entry("start", "pydantic-ai", 1),
        Entry("through", "beholder", count),
        Entry("through", "default", count),
        Entry("through", "bare", count),
        Entry("through", "async-openai", count),
        Entry("through", "pydantic-ai", count),
        Entry("latency", "beholder", count, SLOW),
        Entry("latency", "default", count, SLOW),
        Entry("latency", "async-openai", count, SLOW),
        Entry("edits", "default", count, edits=True),
        Entry("edits latency", "default", count, SLOW, edits=True),
        Entry("start scaled", "beholder", 1, more=SCALED),
        Entry("start scaled", "usual-script", 1),
        Entry("scaled", "beholder", few, more=SCALED),
        Entry("scaled", "usual-script", few),
        Entry("faults", "beholder", count, FAULTY, codes=(0, 3)),
        Entry("faults", "async-openai", count, FAULTY),
        Entry("patient", "beholder", PATIENT_CASES, PATIENT, once=True),
        Entry("patient", "default", PATIENT_CASES, PATIENT, once=True),
        Entry("many", "beholder", scale.many, once=True),
    ]


TITLES = {
    "through": "no latency, originals passed through",
    "latency": f"{LATENCY_S * 1000:.0f} ms latency",
    "edits": "no latency, edits of one picture",
    "edits latency": f"{LATENCY_S * 1000:.0f} ms latency, edits of one picture",
    "scaled": "scaled to 1024 px",
    "faults": "2.5 % 429, 2.5 % 500, 2 % invalid answers",
    "patient": "3 s latency",
    "many": "many cases, no latency",
}
STARTS = {"scaled": "start scaled"}
OURSELVES = ("beholder", "default")


class Bench:
    """The commands, and what was measured of them."""

    def __init__(self, made: Material, folder: Path, with_ours: bool) -> None:
        self._made = made
        self._folder = folder
        self._with_ours = with_ours
        self._prompt, self._schema = folder / "prompt.txt", folder / "schema.json"
        self.results: Results = defaultdict(list)
        self.counted: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.plain: dict[str, list[float]] = defaultdict(list)

    def prepare(self) -> bytes:
        """Writes prompt and schema for the peers, as our rubric has them; a request's body for the capacity."""
        script = HERE / "rubric.py"
        command = [sys.executable, str(script), str(self._prompt), str(self._schema)]
        subprocess.run(command, check=True)
        pictures = sum(path.stat().st_size for path in sorted((self._made.folder / "images").iterdir())[:2])
        return b"x" * (pictures * 4 // 3 + len(self._prompt.read_bytes()))

    def run(self, entry: Entry) -> None:
        ours = entry.who in OURSELVES
        if ours and not self._with_ours:
            return
        ledger = self._folder / f"ledger-{entry.situation.replace(' ', '-')}.db"
        for old in self._folder.glob(ledger.name + "*"):
            old.unlink()
        with server(*entry.server) as url:
            sample = measure(self._command(entry, url, ledger), url=url)
        if sample.code not in (entry.codes if ours else (0,)):
            return  # `measure` has said so; what failed fast is not fast
        key = entry.situation, entry.who
        self.results[key].append(sample)
        self.counted[key].append(self._scored(ledger) if ours else int(sample.out))

    def _command(self, entry: Entry, url: str, ledger: Path) -> list[str]:
        cases = str(self._made.cases(entry.cases, edits=entry.edits))
        if entry.who in OURSELVES:
            lean = LEAN if entry.who == "beholder" else ()
            return [*OURS, *lean, "--cases", cases, "--base-url", url, "--ledger", str(ledger), *entry.more]
        peer = [sys.executable, str(HERE / "peers.py"), entry.who, cases]
        return [*peer, str(self._prompt), str(self._schema), url]

    def _scored(self, ledger: Path) -> int:
        """How many scored verdicts the ledger holds, as its own reader tells."""
        command = [str(BIN / "beholder"), "export", "latest", "--to", "jsonl", "--ledger", str(ledger)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 0
        return sum(json.loads(line)["outcome"] == "scored" for line in done.stdout.splitlines())

    def starts(self, times: int) -> None:
        """`python -c pass` and `beholder --help`, in turn."""
        for _ in range(times):
            self.plain["python -c pass"].append(measure([sys.executable, "-c", "pass"]).wall_s)
            self.plain["beholder --help"].append(measure([str(BIN / "beholder"), "--help"]).wall_s)


@dataclass(frozen=True, slots=True)
class Line:
    """The medians of one command in one situation; times in seconds, CPU in milliseconds a case beyond start-up."""

    situation: str
    who: str
    cases: int
    wall_s: float
    cases_per_s: float
    cases_per_s_beyond: float
    wall_beyond_s: float
    cpu_ms: float
    peak_mb: float
    total_mb: float
    first_s: float
    fewest_scored: int


def lines(bench: Bench, scale: Scale) -> list[Line]:
    found = []
    for entry in entries(scale):
        key = entry.situation, entry.who
        samples = bench.results.get(key)
        if not samples or entry.situation.startswith("start"):
            continue
        start = bench.results.get((STARTS.get(entry.situation, "start"), entry.who), [])
        wall = middle(samples, "wall_s")
        beyond = _less(samples, start, "wall_s")
        cpu = _less(samples, start, "cpu_s")
        found.append(
            Line(
                situation=entry.situation,
                who=entry.who,
                cases=entry.cases,
                wall_s=wall,
                cases_per_s=entry.cases / wall,
                cases_per_s_beyond=entry.cases / beyond,
                wall_beyond_s=beyond,
                cpu_ms=cpu / entry.cases * 1000,
                peak_mb=middle(samples, "peak_mb"),
                total_mb=middle(samples, "total_mb"),
                first_s=middle(samples, "first_s"),
                fewest_scored=min(bench.counted[key]),
            )
        )
    return found


def _less(samples: Sequence[Sample], start: Sequence[Sample], field: str) -> float:
    """The median of a run less the start-up of the same round, which met the same load."""
    pairs = zip(samples, start, strict=False)
    return median([getattr(one, field) - getattr(other, field) for one, other in pairs] or [float("nan")])


def targets(bench: Bench, found: Sequence[Line], scale: Scale) -> list[Target]:
    """The issue's targets beside what was seen."""
    by = {(line.situation, line.who): line for line in found}
    python, usage = (median(bench.plain[name]) for name in ("python -c pass", "beholder --help"))
    through, many = by.get(("through", "beholder")), by.get(("many", "beholder"))
    slow, faulty = by.get(("latency", "beholder")), by.get(("faults", "beholder"))
    small = by.get(("scaled", "beholder"))
    script, bare = by.get(("scaled", "usual-script")), by.get(("through", "bare"))
    default, slow_default = by.get(("through", "default")), by.get(("latency", "default"))
    edits, slow_edits = by.get(("edits", "default")), by.get(("edits latency", "default"))
    ideal = scale.cases * LATENCY_S / CONCURRENCY
    made: list[Target] = []

    def add(what: str, wanted: str, seen: Callable[[], float], holds: Callable[[float], bool], form: str) -> None:
        try:
            value = seen()
        except AttributeError:  # a line that was not measured
            made.append(Target(what, wanted, "–", None))
        else:
            made.append(Target(what, wanted, form.format(value), holds(value)))

    def ratio(one: Line | None, other: Line | None, field: str) -> Callable[[], float]:
        return lambda: getattr(one, field) / getattr(other, field)

    def at_least(limit: float) -> Callable[[float], bool]:
        return lambda value: value >= limit

    def at_most(limit: float) -> Callable[[float], bool]:
        return lambda value: value <= limit

    for what, quick, slow_one in (("edits", edits, slow_edits), ("unrelated pairs", default, slow_default)):
        cpu = f"default, {what}: CPU a case beyond start-up, ms"
        add(cpu, "≤ 15", partial(getattr, quick, "cpu_ms"), at_most(15), "{:.1f}")
        seconds = f"default, {what}: wall of the whole command at {LATENCY_S * 1000:.0f} ms, s"
        add(seconds, "≤ 5", partial(getattr, slow_one, "wall_s"), at_most(5), "{:.1f}")
        memory = f"default, {what}: memory of all processes, MB"
        add(memory, "≤ 250", partial(getattr, slow_one, "total_mb"), at_most(250), "{:.0f}")
    add("CPU a case against the bare loop", "≤ 1.5", ratio(through, bare, "cpu_ms"), at_most(1.5), "{:.2f}")
    add("peak memory, MB", "< 160", lambda: through.peak_mb, lambda value: value < 160, "{:.0f}")
    limit = 160.0 if through is None else max(160.0, through.peak_mb)
    add(f"peak memory with {scale.many:,} cases, MB", f"< {limit:.0f}", lambda: many.peak_mb, at_most(limit), "{:.0f}")
    wall = f"wall beyond start-up at {LATENCY_S * 1000:.0f} ms, against the ideal {ideal:.2f} s"
    add(wall, "≤ 1.25", lambda: slow.wall_beyond_s / ideal, at_most(1.25), "{:.2f}")
    scaled = "scaled: cases/s against the usual script"
    add(f"{scaled}, beyond start-up", "≥ 3", ratio(small, script, "cases_per_s_beyond"), at_least(3), "{:.1f}")
    add(f"{scaled}, whole command", "≥ 3", ratio(small, script, "cases_per_s"), at_least(3), "{:.1f}")
    pass_ms = f"against python -c pass ({python * 1000:.0f} ms)"
    add(f"beholder --help {pass_ms}", "≤ 16", lambda: usage / python, at_most(16), "{:.1f}")
    add(f"first request {pass_ms}", "≤ 60", lambda: through.first_s / python, at_most(60), "{:.1f}")
    with_it, without = by.get(("patient", "default")), by.get(("patient", "beholder"))
    add(
        "default: wall against without audit and thumbnails, 3 s latency",
        "≤ 1.05",
        ratio(with_it, without, "wall_s"),
        at_most(1.05),
        "{:.2f}",
    )
    scored = f"scored of {scale.cases} in spite of faults"
    add(scored, f"{scale.cases}", lambda: faulty.fewest_scored, at_least(scale.cases), "{:.0f}")
    return made


def print_lines(found: Sequence[Line]) -> None:
    widths = {
        "cases": 6,
        "wall s": 7,
        "cases/s": 8,
        "beyond": 7,
        "CPU ms": 7,
        "MB": 5,
        "all MB": 6,
        "1st s": 6,
        "read": 6,
    }
    head = " " * 14 + "".join(f" {name:>{width}}" for name, width in widths.items())
    for situation, title in TITLES.items():
        rows = [line for line in found if line.situation == situation]
        if not rows:
            continue
        print(f"\n{title}\n{head}")
        for row in rows:
            print(
                f"{row.who:14} {row.cases:6} {row.wall_s:7.2f} {row.cases_per_s:8.1f} {row.cases_per_s_beyond:7.1f} "
                f"{row.cpu_ms:7.2f} {row.peak_mb:5.0f} {row.total_mb:6.0f} {row.first_s:6.2f} {row.fewest_scored:6}"
            )
    print(
        "\ndefault: with audit and thumbnails; beyond: cases/s beyond start-up; CPU ms: a case, beyond start-up;\n"
        "MB: peak of the largest process; all MB: peak of all processes together, what they share counted once;\n"
        "1st s: from the start to the first request; read: answers scored (peers: parsed), the fewest of all rounds"
    )


def print_targets(found: Sequence[Target]) -> None:
    words = {True: "reached", False: "missed", None: "not measured"}
    print("\nTargets")
    for target in found:
        print(f"  {target.what:74} {target.wanted:>6} {target.seen:>8}  {words[target.reached]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="how often everything is run; 3 unless told")
    parser.add_argument("--quick", action="store_true", help="one round, fewer scaled cases, 2,000 instead of 10,000")
    parser.add_argument("--json", action="store_true", help="print everything that was measured as JSON")
    given = parser.parse_args()
    scale = Scale(given.rounds or 3)
    if given.quick:
        scale = replace(scale, rounds=given.rounds or 1, scaled=60, many=2_000)
    subprocess.run([sys.executable, str(HERE / "material.py")], check=True, stdout=subprocess.DEVNULL)
    made = material()
    _warm(made)
    with_ours = not subprocess.run([*OURS[:2], "--help"], capture_output=True).returncode
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(made, Path(folder), with_ours)
        body = bench.prepare()
        per_second, each_s = capacity(body, 1000)
        if not given.json:
            load = os.getloadavg()[0]
            print(f"{os.cpu_count()} cores, load {load:.1f} before; medians of {scale.rounds} rounds")
            print(
                f"server: {per_second:,.0f} requests/s of {len(body):,} bytes, {each_s * 1000:.2f} ms of its CPU each"
            )
            if not with_ours:
                print("`beholder run` is not there yet; the peers run alone")
            sys.stdout.flush()
        for number in range(scale.rounds):
            bench.starts(5)
            for entry in entries(scale):
                if not (entry.once and number):
                    bench.run(entry)
    found = lines(bench, scale)
    reached = targets(bench, found, scale)
    parts = subprocess.run(
        [sys.executable, str(HERE / "parts.py"), *(["--json"] if given.json else [])], stdout=subprocess.PIPE, text=True
    )
    pixels = subprocess.run(
        [sys.executable, str(HERE / "pixels.py"), *(["--json"] if given.json else [])],
        stdout=subprocess.PIPE,
        text=True,
    )
    flags = [flag for flag, wanted in (("--quick", given.quick), ("--json", given.json)) if wanted]
    numbers = subprocess.run(
        [sys.executable, str(HERE / "statistics_speed.py"), *flags], stdout=subprocess.PIPE, text=True
    )
    pages = subprocess.run([sys.executable, str(HERE / "web.py"), *flags], stdout=subprocess.PIPE, text=True)
    if given.json:
        said = {
            "server": {"requests_per_s": per_second, "cpu_s_each": each_s},
            "lines": [asdict(line) for line in found],
            "targets": [asdict(target) for target in reached],
            "starts_s": {name: median(times) for name, times in bench.plain.items()},
            "parts_ms": json.loads(parts.stdout or "{}"),
            "pixels_ms": json.loads(pixels.stdout or "{}"),
            "statistics": json.loads(numbers.stdout or "{}"),
            "pages_ms": json.loads(pages.stdout or "[]"),
        }
        print(json.dumps(said, indent=2))
        return
    print_lines(found)
    if os.getloadavg()[0] > CALM:
        print(f"\nThe load is {os.getloadavg()[0]:.1f}: other programs were running, and all times are too long.")
    print_targets(reached)
    print(f"\n{parts.stdout}", end="")
    print(f"\n{pixels.stdout}", end="")
    print(f"\n{numbers.stdout}", end="")
    print(f"\n{pages.stdout}", end="")


def _warm(made: Material) -> None:
    """Reads every picture once, so that no round pays for a cold disk."""
    for path in (made.folder / "images").iterdir():
        path.read_bytes()


if __name__ == "__main__":
    main()
