"""How long statistics take on a large run, and how much memory: `make bench`, or alone

    python benchmarks/statistics_speed.py [--quick] [--json]

Three runs of 100,000 verdicts on twelve criteria lie in a real ledger, built once; three made-up raters rate every
case. Each part runs in a process of its own, which says how long reading and computing took and how large it grew. The
way that people write it (a Python loop that draws and calls `scipy.stats.spearmanr`) runs beside it in the same go, for
a few draws, and is extrapolated. `--quick`: 10,000 verdicts.

`agree` runs also with a judge who gives any number, and with raters who do so too, since then no two cases are alike.
`calibrate` learns one criterion, from the first 1,000 cases, since people seldom rate more than that, and from all.

(Not called `statistics.py`: beside the other benchmarks it would hide Python's own module of that name.)
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from material import FOLDER
from measuring import measure

if TYPE_CHECKING:  # nothing heavy in the measuring process: a child's peak counts what its parent had
    import numpy as np

    from beholder.ledger.types import Entry
    from beholder.statistics.data import Floats, Ratings, Scores

T = TypeVar("T")

VERDICTS = 100_000
QUICK = 10_000
CRITERIA = tuple(f"criterion_{number:02}" for number in range(1, 13))
RATERS = ("ada", "ben", "cleo")
DRAWS = 2000
BY_GROUP = 4  # cases to a photograph
RATED = 1000  # what `estimate` and `calibrate` are given of the ratings
NAIVE_DRAWS = 20
BATCH = 1000
GOAL_S, GOAL_MB = 60, 2048
CALM = 2.5  # as in `run.py`
RUNS = BEFORE, AFTER, LATEST = "before", "after", "latest"
VERSION = 3  # of the ledger: another number builds it anew

TOGETHER = ("agree", "compare", "estimate", "history")  # what one run is asked: all of it within the goal
ALONE = ("any-judge", "any-rating", "calibrate", "calibrate-all")  # each within the goal
PARTS = TOGETHER + ALONE
TOLD = {
    "any-judge": "agree, any score",
    "any-rating": "agree, any rating too",
    "calibrate": f"calibrate, {RATED:,} cases",
    "calibrate-all": "calibrate, all cases",
}
GOALS_S = {"calibrate": 5}  # of the parts with another goal than `GOAL_S`


@dataclass(frozen=True, slots=True)
class Part:
    """One process: seconds for reading from the ledger and for computing, CPU seconds of computing (on a busy machine
    the ones to look at), and its largest size. Negative where it failed."""

    name: str
    read_s: float
    compute_s: float
    compute_cpu_s: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} verdicts")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    parser.add_argument("--verdicts", type=int, help="how many verdicts a run has")
    parser.add_argument("--part", choices=["build", "naive", "file", *PARTS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    count = given.verdicts or (QUICK if given.quick else VERDICTS)
    if given.part:
        print(json.dumps(_CHILDREN[given.part](count)))
        return
    built = None if ledger_at(count).exists() else _child("build", count)
    parts = [_part(name, count) for name in PARTS]
    ratings = _child("file", count)
    naive = _child("naive", count)
    if given.json:
        said = {"verdicts": count, "built": built, "parts": [asdict(one) for one in parts], "naive": naive}
        print(json.dumps({**said, "ratings_file": ratings}, indent=2))
        return
    _show(count, parts, ratings, naive)


def _show(count: int, parts: list[Part], ratings: Mapping[str, float], naive: Mapping[str, float]) -> None:
    known = [one for one in parts if one.compute_s >= 0]
    shared = [one for one in known if one.name in TOGETHER]
    together = Part(
        "together",
        sum(one.read_s for one in shared),
        sum(one.compute_s for one in shared),
        sum(one.compute_cpu_s for one in shared),
        max((one.peak_mb for one in shared), default=float("nan")),
    )
    alone = [one for one in known if one.name in ALONE]
    print(f"Statistics: {count:,} verdicts × {len(CRITERIA)} criteria, {len(RATERS)} raters, {DRAWS:,} draws")
    print(f"{'':24} {'reading s':>10} {'computing s':>12} {'of CPU':>8} {'peak MB':>8}")
    for one in (*shared, together, *alone):
        numbers = f"{one.read_s:10.1f} {one.compute_s:12.1f} {one.compute_cpu_s:8.1f} {one.peak_mb:8.0f}"
        print(f"{TOLD.get(one.name, one.name):24} {numbers}")
    missing = [one.name for one in parts if one.compute_s < 0]
    if missing:
        print(f"failed: {', '.join(missing)}")
    if ratings:
        print(
            f"A file of {ratings['rows']:,.0f} ratings is read in {ratings['read_s']:.1f} s "
            f"({ratings['peak_mb']:.0f} MB). Reading is of one run; `compare` reads two, `history` three."
        )
    if naive:
        print(
            f"The usual loop over scipy.stats.spearmanr, that coefficient alone: {naive['draws']:.0f} draws in "
            f"{naive['seconds']:.1f} s, so {naive['extrapolated_s']:,.0f} s for {DRAWS:,}."
        )
    if os.getloadavg()[0] > CALM:
        print(f"The load is {os.getloadavg()[0]:.1f}: other programs were running, and all times are too long.")
    for what, limit, seen in (
        (f"computing {', '.join(TOGETHER)}, s", GOAL_S, together.compute_s),
        *((f"computing {TOLD[one.name]}, s", GOALS_S.get(one.name, GOAL_S), one.compute_s) for one in alone),
        ("peak memory, MB", GOAL_MB, max((one.peak_mb for one in known), default=float("nan"))),
    ):
        reached = "reached" if not missing and seen < limit else "missed"
        print(f"  {what:74} {f'< {limit}':>6} {seen:8.1f}  {reached}")


def _part(name: str, count: int) -> Part:
    found = _child(name, count)
    return Part(name, *(found.get(what, -1.0) for what in ("read_s", "compute_s", "compute_cpu_s", "peak_mb")))


def _child(part: str, count: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--part", part, "--verdicts", str(count)]
    sample = measure(command)
    return {} if sample.code else {**json.loads(sample.out), "peak_mb": sample.peak_mb}


def ledger_at(count: int) -> Path:
    return FOLDER / f"statistics-{VERSION}-{count}.db"


def build(count: int) -> dict[str, float]:
    """Writes the runs, each a little worse than the last; under another name first, so that no half ledger is used."""
    import numpy as np

    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord

    place = ledger_at(count)
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_suffix(".part")
    for old in place.parent.glob(half.name + "*"):
        old.unlink()
    started = time.monotonic()
    rng = np.random.default_rng(0)
    scores = _scores(rng, count)
    now = datetime.now(UTC)
    with Ledger.open(half, create=True) as book:
        for name in RUNS:
            book.start(RunRecord(name, name, name, "running", now, now, count))
            for first in range(0, count, BATCH):
                rows = range(first, min(first + BATCH, count))
                book.write(name, [_entry(row, scores[row]) for row in rows])
            book.update(name, state="finished")
            scores = np.clip(scores - (rng.random(scores.shape) < 0.02), 1, 7)
    half.rename(place)
    for rest in place.parent.glob(half.name + "-*"):
        rest.rename(place.with_name(rest.name.replace(half.name, place.name)))
    return {"seconds": time.monotonic() - started}


def _scores(rng: np.random.Generator, count: int) -> Floats:
    """Scores 1–7, cases × criteria: what a case is like, what a photograph is like, and noise."""
    import numpy as np

    photo = rng.normal(size=(count // BY_GROUP + 1, 1))[np.arange(count) // BY_GROUP]
    case = rng.normal(size=(count, 1))
    return np.clip(np.rint(4.5 + 0.8 * photo + 0.8 * case + 0.8 * rng.normal(size=(count, len(CRITERIA)))), 1, 7)


def _entry(row: int, scores: Floats) -> Entry:
    from beholder.cases.case import Case
    from beholder.ledger.types import Entry
    from beholder.verdicts.verdict import CriterionResult, Outcome, Verdict

    words = "the brick wall behind the parked car shows the same mortar lines and shading as it did before"
    case = Case(f"case-{row:06}", groups={"source": f"photo-{row // BY_GROUP:05}", "model": f"model-{row % BY_GROUP}"})
    results = {
        key: CriterionResult(int(score), int(score), (1, 7), 1, words)
        for key, score in zip(CRITERIA, scores, strict=True)
    }
    mean = float(scores.mean() - 1) / 6
    verdict = Verdict(
        case.id,
        "bench",
        "1.0",
        "openai:bench",
        Outcome.SCORED,
        model="bench-2025",
        criteria=results,
        score=mean,
        passed=mean >= 0.5,
        usage={"input_tokens": 2310, "output_tokens": 640},
        latency_s=3.1,
        attempts=1,
        brief_digest=f"{row:064x}",
    )
    return Entry(row, case, verdict, reused=True)


def _read(count: int, run: str) -> Scores:
    from beholder.ledger.ledger import Ledger
    from beholder.statistics.data import load_run_scores

    with Ledger.open(ledger_at(count), read_only=True) as book:
        return load_run_scores(book, run)


def _ratings(scores: Scores) -> dict[str, Ratings]:
    """Three people, whole points 1–7, who go along with the judge and with each other; one in twenty was not given."""
    import numpy as np

    from beholder.statistics.data import Ratings

    rng = np.random.default_rng(1)
    found = {}
    for name in CRITERIA:
        truth = 0.6 * scores.columns[name].values + 2 + rng.normal(size=len(scores))
        values = np.clip(np.rint(truth[:, None] + 0.7 * rng.normal(size=(len(scores), len(RATERS)))), 1, 7)
        values[rng.random(values.shape) < 0.05] = np.nan
        found[name] = Ratings(name, scores.cases, RATERS, values)
    return found


def _agree(count: int) -> dict[str, float]:
    from beholder.statistics.agreement import AgreementOptions, agree

    read_s, scores = _timed(lambda: _read(count, BEFORE))
    ratings = _ratings(scores)
    return {"read_s": read_s, **_computed(lambda: agree(scores, ratings, AgreementOptions(draw_count=DRAWS)))}


def _any_judge(count: int) -> dict[str, float]:
    return _agree_on_any(count, raters=False)


def _any_rating(count: int) -> dict[str, float]:
    return _agree_on_any(count, raters=True)


def _agree_on_any(count: int, *, raters: bool) -> dict[str, float]:
    """`agree` where every score is a number of its own, and with `raters` every rating too."""
    from dataclasses import replace

    import numpy as np

    from beholder.statistics.agreement import AgreementOptions, agree

    rng = np.random.default_rng(3)
    read_s, scores = _timed(lambda: _read(count, BEFORE))
    ratings = _ratings(scores)

    def any_number(values: Floats) -> Floats:
        return np.clip(values + rng.uniform(-0.5, 0.5, values.shape), 1, 7)

    columns = {name: replace(scores.columns[name], values=any_number(scores.columns[name].values)) for name in CRITERIA}
    if raters:
        ratings = {name: replace(one, values=any_number(one.values)) for name, one in ratings.items()}
    scores = replace(scores, columns=columns)
    return {"read_s": read_s, **_computed(lambda: agree(scores, ratings, AgreementOptions(draw_count=DRAWS)))}


def _history(count: int) -> dict[str, float]:
    from beholder.statistics.history import analyze_history

    read_s, before = _timed(lambda: _read(count, BEFORE))
    runs = [before, *(_read(count, name) for name in (AFTER, LATEST))]
    return {"read_s": read_s, **_computed(lambda: analyze_history(runs, ("score", *CRITERIA), draw_count=DRAWS))}


def _calibrate(count: int, rated_count: int = RATED) -> dict[str, float]:
    import numpy as np

    from beholder.statistics.calibration import calibrate
    from beholder.statistics.calibration_task import TaskOptions, build_task

    read_s, scores = _timed(lambda: _read(count, BEFORE))
    name = CRITERIA[0]
    rated = scores.select(np.arange(min(rated_count, count)))

    def learned() -> None:
        task = build_task(rated, _ratings(scores)[name], rated.columns[name], TaskOptions(scale=(1, 7)))
        calibrate(task, draw_count=DRAWS)

    return {"read_s": read_s, **_computed(learned)}


def _compare(count: int) -> dict[str, float]:
    from beholder.statistics.comparison import ComparisonOptions, compare

    read_s, before = _timed(lambda: _read(count, BEFORE))
    after = _read(count, AFTER)
    return {"read_s": read_s, **_computed(lambda: compare(before, after, ComparisonOptions(draw_count=DRAWS)))}


def _estimate(count: int) -> dict[str, float]:
    import numpy as np

    from beholder.statistics.data import select_group
    from beholder.statistics.estimation import estimate_human_mean

    read_s, scores = _timed(lambda: _read(count, BEFORE))
    rated = np.random.default_rng(2).choice(len(scores), RATED, replace=False)
    ratings = _ratings(scores)

    def estimate() -> None:
        groups = select_group(scores, None)
        for name in CRITERIA:
            human = np.full(len(scores), np.nan)
            human[rated] = ratings[name].mean()[rated]
            values = scores.columns[name].values
            estimate_human_mean(human, values, groups, judge_rescaled=values, width=0.1)

    return {"read_s": read_s, **_computed(estimate)}


def _file(count: int) -> dict[str, float]:
    """Reading ratings of a tenth of the cases from a CSV file."""
    from tempfile import TemporaryDirectory

    from beholder.statistics.data import read_ratings

    rows = 0
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        with path.open("w") as out:
            out.write("case,rater,aspect,score\n")
            for case in range(count // 10):
                for name in CRITERIA:
                    for rater in RATERS:
                        out.write(f"case-{case:06},{rater},{name},{1 + (case * 7 + len(rater)) % 7}\n")
                        rows += 1
        return {"rows": rows, "read_s": _timed(lambda: read_ratings(path))[0]}


def _naive(count: int) -> dict[str, float]:
    import numpy as np
    from scipy.stats import spearmanr

    scores = _read(count, BEFORE)
    means = {name: one.mean() for name, one in _ratings(scores).items()}
    groups = np.unique(np.asarray(scores.groups["source"]), return_inverse=True)[1]
    rows = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    rng = np.random.default_rng(0)

    def loop() -> None:
        for _ in range(NAIVE_DRAWS):
            drawn = np.concatenate([rows[number] for number in rng.integers(0, len(rows), len(rows))])
            for name in CRITERIA:
                judge, people = scores.columns[name].values[drawn], means[name][drawn]
                there = ~np.isnan(people)
                spearmanr(judge[there], people[there])

    seconds = _timed(loop)[0]
    return {"draws": NAIVE_DRAWS, "seconds": seconds, "extrapolated_s": seconds / NAIVE_DRAWS * DRAWS}


def _computed(work: Callable[[], object]) -> dict[str, float]:
    before = time.process_time()
    seconds, _ = _timed(work)
    return {"compute_s": seconds, "compute_cpu_s": time.process_time() - before}


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.monotonic()
    made = work()
    return time.monotonic() - started, made


_CHILDREN: dict[str, Callable[[int], dict[str, float]]] = {
    "build": build,
    "agree": _agree,
    "any-judge": _any_judge,
    "any-rating": _any_rating,
    "history": _history,
    "calibrate": _calibrate,
    "calibrate-all": lambda count: _calibrate(count, count),
    "compare": _compare,
    "estimate": _estimate,
    "file": _file,
    "naive": _naive,
}


if __name__ == "__main__":
    main()
