"""Whether a change of the audit changes what it flags: the flags of many pairs, stored and compared.

    python benchmarks/audit_flags.py --write before.json       # with the code as it was
    python benchmarks/audit_flags.py --against before.json     # with the changed code

Audited are the demo, and every pair of ImagenHub (`--data`), once as it is (512 px) and once enlarged to 1600 px and
saved as JPEG, so that a file is decoded at a fraction of its size. Nobody is asked: each pair gets the verdict that
praises everything and the one that praises nothing, so that whatever the audit can contradict is contradicted. A flag
that is in only one of the two is printed with what was measured, then and now.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from beholder.demo.suite import build_demo
from beholder.judges.audit import DISAGREE, apply_audit, measure_evidence, plan_audit
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubric
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.score import VerdictHeader, score_answer

DATA = Path(__file__).parents[2] / "shared" / "data"
LARGE_SIDE, LARGE_QUALITY = 1600, 88
EDIT_RUBRICS, RESTYLE_RUBRIC, STYLE = ("edit-preservation", "edit-quality"), "restyle", "Anime"
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"

Result = dict[str, Any]  # `flags`: what is flagged; `values`: what was measured


@dataclass(frozen=True, slots=True)
class Pair:
    """Two image files and the rubric by which they are audited; `large`: enlarged before that."""

    name: str
    rubric: str
    style: str
    before: Path
    after: Path
    large: bool = False


def list_pairs(data: Path, demo: Path) -> Iterator[Pair]:
    build_demo(demo)
    for row in _rows(demo / "edits.jsonl"):
        for rubric in EDIT_RUBRICS:
            yield Pair(f"demo/{row['id']}", rubric, "", demo / row["input"], demo / row["edited"])
    for row in _rows(demo / "restyles.jsonl"):
        before, after = demo / row["original"], demo / row["restyled"]
        yield Pair(f"demo/{row['id']}", RESTYLE_RUBRIC, row["style"], before, after)
    folder = data / "imagenhub"
    if not (folder / "cases.jsonl").is_file():
        print(f"No ImagenHub in {data}: only the demo is audited.", file=sys.stderr)
        return
    for large in (False, True):
        for row in _rows(folder / "cases.jsonl"):
            name = f"imagenhub{' at 1600 px' if large else ''}/{row['id']}"
            for rubric in (*EDIT_RUBRICS, RESTYLE_RUBRIC):
                yield Pair(name, rubric, STYLE, folder / row["input"], folder / row["edited"], large)


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def audit(pair: Pair) -> Result:
    """Return the flags of both verdicts on a pair, and the measured values."""
    cv2.setNumThreads(1)
    rubric = Composer(load_rubric(pair.rubric)).rubric_for_style(pair.style)
    plan = plan_audit(rubric)
    assert plan is not None
    evidence = measure_evidence(plan, *(_read(path, pair.large) for path in (pair.before, pair.after)))
    flags = [
        f"{'praised' if praise else 'blamed'}: {flag.at or flag.flag}"
        for praise in (True, False)
        for flag in apply_audit(score_answer(VerdictHeader("c", rubric, "m"), _answer(rubric, praise)), evidence).flags
        if flag.flag == DISAGREE or evidence.failed
    ]
    return {"flags": sorted(flags), "values": {name: one.value for name, one in evidence.readings.items()}}


def _read(path: Path, large: bool) -> bytes:
    data = path.read_bytes()
    if not large:
        return data
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    scale = LARGE_SIDE / max(pixels.shape[:2])
    pixels = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    return bytes(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, LARGE_QUALITY])[1])


def _answer(rubric: Rubric, praise: bool) -> dict[str, Any]:
    criteria: dict[str, Any] = {}
    for criterion in rubric.criteria:
        score = criterion.scale[1 if praise else 0]
        if criterion.assertions:
            said = {"answer": "Yes" if praise else "No", "evidence": WORDS}
            criteria[criterion.key] = {"assertions": {one.id: said for one in criterion.assertions}, "score": score}
        else:
            criteria[criterion.key] = {"justification": WORDS, "score": score}
    return {"criteria": criteria}


def compare(before: dict[str, Result], now: dict[str, Result]) -> None:
    pairs: Counter[str] = Counter()
    differ: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    for name, result in now.items():
        group = name.partition("/")[0]
        then = before[name]
        pairs[group] += 1
        flags[group] += len(result["flags"])
        changed = sorted(set(result["flags"]) ^ set(then["flags"]))
        if changed:
            differ[group] += 1
            values = {
                key: (then["values"].get(key), value)
                for key, value in result["values"].items()
                if then["values"].get(key) != value
            }
            print(f"{name}: {'; '.join(('+ ' if one in result['flags'] else '- ') + one for one in changed)}")
            print("    " + ", ".join(f"{key} {old} → {new}" for key, (old, new) in values.items()))
    for group, count in pairs.items():
        print(f"{group}: {differ[group]} of {count} audits differ in a flag ({flags[group]} flags)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="the folder with imagenhub/")
    parser.add_argument("--write", type=Path, metavar="FILE", help="store the flags")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with stored flags")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        listed = list(list_pairs(given.data, Path(folder)))
        results = pool.map(audit, listed, chunksize=16)
        found = {f"{pair.name} ({pair.rubric})": result for pair, result in zip(listed, results, strict=True)}
    if given.write:
        given.write.write_text(json.dumps(found, indent=1))
    if given.against:
        compare(json.loads(given.against.read_text()), found)


if __name__ == "__main__":
    main()
