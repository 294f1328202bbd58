"""How long the server takes for each page of the app, with 100,000 verdicts in the ledger: `make bench`, or alone

    python benchmarks/web.py [--quick] [--json]

The ledger is a real one, built once; the app answers on a real port. Of each page the first visit, the median and the
longest of several are shown, against a goal of 300 ms; CPU is the median of what the process used, on a busy machine
the one to look at. A page about numbers that take longer says so and shows them when they are there: the rows "while …"
and "meanwhile" are visits during that work, which a process of its own does.

Then, with 20,000 verdicts in a run: how long the first visit of a comparison takes until its numbers are there, and the
HTML report, of which each case has pictures of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from material import FOLDER

if TYPE_CHECKING:
    import httpx

    from beholder.ledger.types import Entry, RunRecord

VERDICTS, QUICK = 100_000, 10_000
LARGE = 20_000  # verdicts of the run that is compared and reported on
GOAL_COMPARE_S, GOAL_REPORT_S = 2, 30
VISITS = 7
GOAL_MS = 300
BATCH = 1000
SHOTS = 200  # pictures that the cases share
VERSION = 2  # of the ledger: another number builds it anew
RUN, OLDER = "newer", "older"
RATERS, RATED = 12, 300  # people who reviewed the run, and how many cases each of them rated


@dataclass(frozen=True, slots=True)
class Visit:
    """A page: milliseconds from the request to the last byte, and of CPU."""

    page: str
    first: float
    median: float
    longest: float
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} verdicts")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    given = parser.parse_args()
    count = QUICK if given.quick else VERDICTS
    place = FOLDER / f"web-{VERSION}-{count}.db"
    if not place.exists():
        build(place, count)
    visits = list(measured(place, count))
    if given.json:
        print(json.dumps([asdict(one) for one in visits]))
        return
    print(f"The web app with {count:,} verdicts in a run, twice as many in all: server time in ms, goal {GOAL_MS}\n")
    print(f"{'page':44} {'first':>8} {'median':>8} {'longest':>8} {'CPU':>8}")
    for one in visits:
        over = "" if one.median <= GOAL_MS else "  over the goal"
        print(f"{one.page:44} {one.first:8.0f} {one.median:8.0f} {one.longest:8.0f} {one.cpu:8.0f}{over}")
    large = FOLDER / f"web-{VERSION}-{LARGE}-pictures.db"
    if not large.exists():
        build(large, LARGE, own_pictures=True)
    print(f"\n{LARGE:,} verdicts in a run: seconds")
    seconds = _first_comparison(large)
    print(f"{'first visit of a comparison':44} {seconds:8.1f}  {_judge(seconds, GOAL_COMPARE_S)}")
    seconds, cpu, size = _report(large)
    told = f"{cpu:.1f} of CPU, {size / 1e6:.1f} MB"
    print(f"{'report':44} {seconds:8.1f}  {_judge(seconds, GOAL_REPORT_S)}; {told}")


def _judge(seconds: float, goal: float) -> str:
    return f"≤ {goal}: {'reached' if seconds <= goal else 'missed'}, {seconds / goal:.2f} times the goal"


def measured(place: Path, count: int) -> Iterator[Visit]:
    import httpx

    from beholder.web.server import create_app, serve_in_thread

    cases = f"/runs/{RUN}/cases"
    app = create_app(place)
    with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False, timeout=120) as client:

        def visit(name: str, path: str, visits: int = VISITS) -> Visit:
            times, cpu = [], []
            for _ in range(visits):
                start, used = time.perf_counter(), time.process_time()
                answer = client.get(path)
                times.append(1000 * (time.perf_counter() - start))
                cpu.append(1000 * (time.process_time() - used))
                if answer.status_code != 200:
                    sys.exit(f"{path} is answered with {answer.status_code}")
            return Visit(name, times[0], median(times), max(times), median(cpu))

        yield visit("runs", "/")
        yield visit("run, while its numbers are worked out", f"/runs/{RUN}", 3)
        yield visit("cases, worst first, meanwhile", cases, 3)
        _wait(client, f"/runs/{RUN}")
        yield visit("run", f"/runs/{RUN}")
        for name, asked in (
            ("cases, worst first", {}),
            ("cases, the last page", {"at": count // 48}),
            ("cases, best by a criterion", {"sort": "best", "criterion": "accuracy"}),
            ("cases by outcome", {"outcome": "refused"}),
            ("cases by grade", {"grade": "F"}),
            ("cases by a criterion's range", {"criterion": "accuracy", "least": 2, "most": 3}),
            ("cases by a failed assertion", {"assertion": "A2"}),
            ("cases by flag", {"flag": "pixels_disagree"}),
            ("cases by group", {"group": "model=model-2"}),
            ("cases by text", {"q": "9999"}),
            (
                "cases by all of it",
                {"q": "1", "grade": "C", "criterion": "accuracy", "most": 4, "group": "model=model-1"},
            ),
        ):
            yield visit(name, f"{cases}?{urlencode(asked)}")
        case = urlencode({"id": _name(count // 2), "place": count // 2})
        yield visit("a case in the middle of the list", f"/runs/{RUN}/case?{case}")
        yield visit("a picture", f"/pictures/{_digest(1)}.webp")
        yield visit("verdicts as JSON", f"/api/runs/{RUN}/verdicts")
        compare = f"/compare?before={OLDER}&after={RUN}"
        yield visit("compare, while it is worked out", compare, 3)
        yield visit("cases, worst first, meanwhile", cases, 3)
        _wait(client, compare)
        yield visit("compare", compare)
        yield visit("compare, a page of the worse cases", f"{compare}&show=worse&at=20")
        for name, path in (
            ("matrix of models", f"/matrix?run={RUN}"),
            ("matrix of runs", f"/matrix?run={OLDER}&run={RUN}&only=differ"),
            ("history", f"/history?name={RUN}"),
        ):
            yield visit(f"{name}, while it is worked out", path, 3)
            _wait(client, path)
            yield visit(name, path)
        for name in ("agreement", "calibration"):
            yield visit(f"{name}, while it is worked out", f"/{name}", 3)
            _wait(client, f"/{name}")
            yield visit(name, f"/{name}")
        yield visit("review, to choose a run", "/review")
        yield visit(f"review, to begin, {RATERS} raters", f"/review/run/{RUN}")
    app.state.background.close()


def _first_comparison(place: Path) -> float:
    import httpx

    from beholder.web.server import create_app, serve_in_thread

    app = create_app(place)
    with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False, timeout=120) as client:
        started = time.perf_counter()
        _wait(client, f"/compare?before={OLDER}&after={RUN}", 0.05)
        seconds = time.perf_counter() - started
    app.state.background.close()
    return seconds


def _report(place: Path) -> tuple[float, float, int]:
    """Seconds, seconds of CPU, and bytes of the report."""
    import tempfile

    from beholder.ledger.ledger import Ledger
    from beholder.reports.html_report import write_report

    started, used = time.perf_counter(), time.process_time()
    with Ledger.open(place, read_only=True) as ledger, tempfile.TemporaryFile() as out:
        size = write_report(ledger, ledger.run(RUN), out).size
    return time.perf_counter() - started, time.process_time() - used, size


def _wait(client: httpx.Client, path: str, every_s: float = 0.5) -> None:
    while "being worked out" in client.get(path).text:
        time.sleep(every_s)


def build(place: Path, count: int, *, own_pictures: bool = False) -> None:
    """Two runs of as many verdicts, which differ a little; the newer one was reviewed. With `own_pictures` no two cases
    share a picture."""
    from beholder.ledger.ledger import Ledger
    from beholder.reviews.review import find_or_start_review

    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".part")
    for file in place.parent.glob(f"{draft.name}*"):
        file.unlink()
    with Ledger.open(draft, create=True) as ledger:
        for run, shift in ((OLDER, 0), (RUN, 1)):
            ledger.start(_record(run, count))
            for start in range(0, count, BATCH):
                entries = [_entry(number, shift) for number in range(start, min(count, start + BATCH))]
                ledger.write(run, [_with_own_pictures(one) for one in entries] if own_pictures else entries)
            ledger.update(run, state="finished")
        for rater in range(RATERS):
            review = find_or_start_review(ledger, RUN, f"rater {rater + 1}")
            ledger.write(review.id, [_rating(number, rater, review.judge) for number in range(min(RATED, count))])
    draft.rename(place)


def _record(run: str, count: int) -> RunRecord:
    import msgspec

    from beholder.ledger.types import RunRecord
    from beholder.rubrics.load import load_rubric

    now = datetime(2026, 3, 14, tzinfo=UTC)
    rubrics = (msgspec.to_builtins(load_rubric("restyle")),)
    return RunRecord(run, run, f"bench {run}", "running", now, now, count, {"judges": ["bench"]}, rubrics)


def _entry(number: int, shift: int) -> Entry:
    from beholder.cases.case import Case
    from beholder.ledger.types import Entry
    from beholder.verdicts.verdict import (
        AssertionResult,
        Correction,
        CriterionResult,
        Flag,
        Outcome,
        SentImage,
        Verdict,
    )

    fails = (number * 7 + shift * (number % 3)) % 4
    assertions = tuple(
        AssertionResult(
            f"A{at}", f"Does part {at} of the style hold?", "no" if at <= fails else "yes", f"Seen at {at}."
        )
        for at in range(1, 5)
    )
    result = CriterionResult(5 - fails, 5, (1, 5), 1.0, "The outlines hold.", 4 - fails, fails, 0, assertions)
    keys = ("accuracy", "completeness", "relevance", "usefulness", "exceptional")
    shots = (_digest(number % SHOTS), _digest((number + 1) % SHOTS))
    images = tuple(
        SentImage(role, shot, 640, 480, 50_000, False, "image/webp", shot, 640, 480, "webp")
        for role, shot in zip(("original", "restyled"), shots, strict=True)
    )
    share = (4 - fails) / 4
    verdict = Verdict(
        case=_name(number),
        rubric="restyle",
        rubric_version="2.0",
        judge="bench",
        outcome=Outcome.SCORED,
        style=("Anime", "Pop Art")[number % 2],
        criteria={key: replace(result, score=max(1, 5 - fails - place % 2)) for place, key in enumerate(keys)},
        total=share * 25,
        max_total=25.0,
        percentage=share * 100,
        grade="ABCF"[fails],
        score=share,
        passed=fails < 2,
        findings={"strengths": ("clear lines",), "improvements": (f"mend the hand of {number}",)},
        flags=(Flag("pixels_disagree"),) if number % 50 == 0 else (),
        corrections=(Correction("accuracy.score", 5, 5 - fails, f"{fails} No"),) if fails else (),
        images=images,
        brief_digest=sha256(f"brief {number}".encode()).hexdigest(),
    )
    if number % 100 == 7:
        verdict = replace(verdict, outcome=Outcome.REFUSED, criteria={}, score=None, grade=None, passed=None)
    case = Case(
        verdict.case,
        {"original": f"/nowhere/{number}.jpg", "restyled": f"/nowhere/{number}-made.jpg"},
        {"style": verdict.style or ""},
        {"source": f"photo-{number // 4}", "model": f"model-{number % 4}"},
    )
    thumbnails = ((shots[0], _picture(number % SHOTS)),) if number < SHOTS and not shift else ()
    return Entry(number, case, verdict, thumbnails=thumbnails)


def _with_own_pictures(entry: Entry) -> Entry:
    """The entry with pictures under digests of its own."""
    number = entry.position
    shots = tuple(sha256(f"{number} {image.role}".encode()).hexdigest() for image in entry.verdict.images)
    images = tuple(
        replace(image, digest=shot, source_digest=shot) for image, shot in zip(entry.verdict.images, shots, strict=True)
    )
    pictures = tuple((shot, _picture((number + at) % SHOTS)) for at, shot in enumerate(shots))
    return replace(entry, verdict=replace(entry.verdict, images=images), thumbnails=pictures)


def _rating(number: int, rater: int, judge: str) -> Entry:
    """What a person says of a case: about what the judge says, a little higher or lower."""
    from beholder.verdicts.verdict import Outcome

    one = _entry(number, 1)
    criteria = {
        key: replace(result, score=min(5, max(1, (result.score or 3) + (number + rater) % 3 - 1)))
        for key, result in one.verdict.criteria.items()
    }
    said = replace(one.verdict, judge=judge, criteria=criteria, flags=(), findings={}, corrections=())
    if said.outcome is not Outcome.SCORED:
        said = replace(_entry(number + 1, 1).verdict, case=said.case, judge=judge, images=said.images)
    return replace(one, verdict=said, thumbnails=())


def _name(number: int) -> str:
    return f"photo-{number // 4:06d}/model-{number % 4}"


def _digest(shot: int) -> str:
    return sha256(f"shot {shot}".encode()).hexdigest()


@cache
def _picture(shot: int) -> bytes:
    import io

    import numpy as np
    from PIL import Image

    coarse = np.random.default_rng(shot).integers(0, 255, (48, 64, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((512, 384), Image.Resampling.BICUBIC).save(out, "WEBP", quality=75, method=0)
    return out.getvalue()


if __name__ == "__main__":
    main()
