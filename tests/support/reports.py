"""Ledgers with runs to report on, pictures included."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunRecord
from beholder.reports.html_report import write_report
from beholder.verdicts.verdict import (
    AssertionResult,
    CalibratedRating,
    Correction,
    Coverage,
    CriterionResult,
    Flag,
    Outcome,
    Verdict,
)
from support.ledger import case, entry, hexed, run_record, unscored, verdict

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = "r1"

Opened = Callable[..., "Page"]


def picture(number: int, side: int = 512) -> bytes:
    """A WebP of about the size that a photograph has in a ledger: some 25 kB."""
    random = np.random.default_rng(number)
    coarse = Image.fromarray(random.integers(0, 255, (side // 8, side * 3 // 32, 3), np.uint8))
    fine = random.normal(0, 6, (side * 3 // 4, side, 3))
    pixels = np.asarray(coarse.resize((side, side * 3 // 4), Image.Resampling.BICUBIC), np.float64) + fine
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "WEBP", quality=75, method=0)
    return out.getvalue()


def restyle(number: int, **changes: object) -> Verdict:
    """A verdict with everything in it: grades, assertions, findings, flags, corrections, measurements."""
    fails = number % 4
    answers = ["no"] * fails + ["yes"] * (4 - fails)
    assertions = tuple(
        AssertionResult(f"A{at}", f"Does part {at} of the style hold?", answer, f"Seen at place {at} of {number}.")
        for at, answer in enumerate(answers, start=1)
    )
    score = 5 - fails
    criteria = {
        "accuracy": CriterionResult(score, 5, (1, 5), 1.0, "The outlines hold.", 4 - fails, fails, 0, assertions),
        "exceptional": CriterionResult(score, score, (1, 5), 2.0, "One would frame it."),
    }
    share = (score - 1) / 4
    flag = Flag("pixels_disagree", "accuracy.score", 5, "5 of 5, but nothing was changed")
    correction = Correction("accuracy.score", 5, score, f"{fails} failed assertions allow at most {score}")
    made = replace(
        verdict(number),
        case=f"photo-{number:05d}/anime",
        rubric="restyle",
        style=("Anime", "Pop Art")[number % 2],
        criteria=criteria,
        total=share * 25,
        max_total=25.0,
        percentage=share * 100,
        grade="ABCF"[fails],
        score=share,
        score_derived=False,
        passed=share >= 0.5,
        findings={"strengths": ("clear lines",), "improvements": (f"mend the hand of {number}",)},
        flags=(flag,) if number % 5 == 0 else (),
        corrections=(correction,) if fails else (),
        calibrated={"liked": CalibratedRating(3.2, 2.6, 3.8, (1, 5), 4, "0123abcd")},
        measurements={"restyle.change": {"value": 0.36, "unit": "share", "sentence": "36 % of the photo was changed."}},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def in_part(number: int, most: float = 22.5) -> Verdict:
    """A verdict of which 7 of 23 assertions were measured: one criterion lies between 1 and 3, the other anywhere."""
    whole = restyle(number)
    answers = ["no"] * 3 + ["yes"] * 4 + ["abstained"] * 15
    asked = tuple(AssertionResult(f"A{at}", f"Does part {at} hold?", one) for at, one in enumerate(answers, start=1))
    criteria = {
        "accuracy": CriterionResult(
            None, None, (1, 5), 1.0, yes=4, no=3, assertions=asked, abstained=15, score_range=(1, 3)
        ),
        "exceptional": CriterionResult(None, None, (1, 5), 2.0, abstained=1, score_range=(1, 5)),
    }
    coverage = Coverage(7, 23)
    return replace(
        whole,
        outcome=Outcome.UNMEASURED,
        detail=coverage.sentence,
        criteria=criteria,
        score=None,
        total=None,
        percentage=None,
        grade=None,
        passed=None,
        corrections=(),
        coverage=coverage,
        total_range=(5.0, most),
    )


def refused(number: int) -> Verdict:
    return unscored(number, Outcome.REFUSED, rubric="restyle", detail="The judge would not look at faces.")


def told(number: int, of: Verdict, *, pictures: bool = True) -> Entry:
    """An entry with its pictures; four cases share an original."""
    first, second = (
        replace(image, digest=hexed(name), source_digest=hexed(name))
        for image, name in zip(of.images, (f"source {number // 4}", f"made {number}"), strict=True)
    )
    of = replace(of, images=(first, second))
    shots = [] if not pictures else [(second.source_digest, picture(number))]
    if pictures and number % 4 == 0:
        shots.append((first.source_digest, picture(1_000_000 + number)))
    groups = {"source": f"photo {number // 4}", "model": ("model-a", "model-b")[number % 2]}
    return entry(number, of, case=case(of, groups=groups), thumbnails=tuple(shots))


def ledger_with(
    place: str | Path, entries: list[Entry], record: RunRecord | None = None, *, batch: int = 200
) -> Ledger:
    """A ledger that holds one more run."""
    ledger = Ledger.open(place, create=True)
    record = record or run_record(RUN, total=len(entries))
    ledger.start(record)
    for start in range(0, len(entries), batch):
        ledger.write(record.id, entries[start : start + batch])
    return ledger


def usual_run(path: Path, count: int = 24) -> Ledger:
    """Some good ones, some bad ones, two refusals."""
    verdicts = [refused(number) if number in (3, 7) else restyle(number) for number in range(count)]
    return ledger_with(path, [told(number, one) for number, one in enumerate(verdicts)])


def written(ledger: Ledger, to: Path, run: str = RUN, **options: object) -> Path:
    with to.open("wb") as file:
        write_report(ledger, ledger.run(run), file, **options)  # type: ignore[arg-type]
    return to
