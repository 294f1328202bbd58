"""Runs to compare and ratings to learn from, in a real ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import CriterionResult, Outcome
from support.ledger import KEYS, case, entry, run_record, unscored, verdict

COUNT = 24
SCORES = [0.7 + 0.01 * (at % 5) for at in range(12)]


def write_build(ledger: Ledger, name: str, scores: Sequence[float | None], *, cases: Sequence[str] = ()) -> None:
    """Write a finished run; None is a case that was refused."""
    ledger.start(run_record(name, name=name, total=len(scores), state="finished"))
    ids = cases or [f"p{at}" for at in range(len(scores))]
    said = [
        unscored(at, Outcome.REFUSED, case=ids[at], detail="I cannot")
        if score is None
        else replace(verdict(at, case=ids[at]), score=score)
        for at, score in enumerate(scores)
    ]
    ledger.write(name, [entry(at, one, case=replace(case(one), groups={})) for at, one in enumerate(said)])


def write_builds(path: Path) -> Path:
    """Write `whole` and, the same, `again`; `lower`, worse on every case; `none` and `nothing` without a score; `few`
    of three cases, lower in `fewer`."""
    with Ledger.open(path, create=True) as ledger:
        write_build(ledger, "whole", SCORES)
        write_build(ledger, "again", SCORES)
        write_build(ledger, "nothing", [None] * len(SCORES))
        write_build(ledger, "lower", [score - 0.2 for score in SCORES])
        write_build(ledger, "none", [None] * len(SCORES))
        write_build(ledger, "few", [0.8, 0.7, 0.9])
        write_build(ledger, "fewer", [0.65, 0.55, 0.75])
    return path


def write_rated_run(path: Path) -> Path:
    """Write the run `kind`, of a judge that is too kind by two points, and beside it `ratings.csv` by three people."""
    rng = np.random.default_rng(0)
    rated = ["case,rater,aspect,score"]
    with Ledger.open(path, create=True) as ledger:
        ledger.start(run_record("kind", name="kind", total=COUNT, state="finished"))
        entries = []
        for number in range(COUNT):
            true = 1 + 5 * (number * 37 % 100) / 100
            said = {key: float(np.clip(round(true + 2 + rng.normal(0, 0.5)), 1, 7)) for key in KEYS}
            made = verdict(number, criteria={key: CriterionResult(one, one, (1, 7), 1) for key, one in said.items()})
            groups = {"model": f"model {number % 3}", "source": f"photo {number // 2}"}
            entries.append(entry(number, made, case=case(made, groups=groups)))
            rated += [
                f"{made.case},{rater},Unchanged regions,{int(np.clip(round(true + rng.normal(0, 0.4)), 1, 7))}"
                for rater in "abc"
            ]
        ledger.write("kind", entries)
    (path.parent / "ratings.csv").write_text("\n".join(rated) + "\n", "utf-8")
    return path
