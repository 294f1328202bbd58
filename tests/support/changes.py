"""Runs of the same cases that differ in a known way: some worse, some better, some without a score now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from beholder.ledger.types import Entry
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import Verdict
from support.ledger import hexed, run_record
from support.reports import ledger_with, picture, refused, restyle, told

BEFORE, AFTER = "r1", "r2"
CASES = 70
WORSE, BETTER, LOST, GAINED = range(40), range(40, 50), range(50, 55), range(55, 57)
PICTURED = 2  # the first cases have a new picture in the newer run, the others have none


def changed_runs(path: Path) -> Path:
    """Two runs of 70 cases, and a third that is like the second."""
    before = [told(number, _at(number, 0.75), pictures=number < PICTURED) for number in range(CASES)]
    before = [
        told(number, refused(number), pictures=False) if number in GAINED else one for number, one in enumerate(before)
    ]
    after = []
    for number in range(CASES):
        score = 0.75 - (number % 3 + 1) / 4 if number in WORSE else 1.0 if number in BETTER else 0.75
        one = told(number, refused(number) if number in LOST else _at(number, score), pictures=False)
        after.append(_with_new_picture(one, number) if number < PICTURED else one)
    rubrics = (msgspec.to_builtins(load_rubric("restyle")),)
    for run, name, entries in ((BEFORE, "nightly", before), (AFTER, "nightly", after), ("r3", "branch", after)):
        ledger = ledger_with(path, entries, run_record(run, name=name, total=CASES, rubrics=rubrics))
        ledger.update(run, state="finished")
        ledger.close()
    return path


def _at(number: int, score: float) -> Verdict:
    """A verdict of that score, whatever its criteria say; its case is the one of `refused`."""
    return replace(restyle(number), case=refused(number).case, score=score, flags=())


def _with_new_picture(entry: Entry, number: int) -> Entry:
    first, last = entry.verdict.images
    last = replace(last, digest=hexed(f"new {number}"), source_digest=hexed(f"new {number}"))
    verdict = replace(entry.verdict, images=(first, last))
    return replace(entry, verdict=verdict, thumbnails=((last.source_digest, picture(500 + number)),))
