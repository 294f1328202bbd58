"""Runs that people can rate: real rubrics, small pictures, ids that name the model under test."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import structs
from PIL import Image

from beholder.cases.case import Case
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reviews.sheet import assertion_name, score_name
from beholder.rubrics.load import find_style, load_rubric, load_rubrics
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.score import VerdictHeader, score_answer
from beholder.verdicts.verdict import Flag, Juror, Jury, Outcome, Verdict
from support.ledger import KEYS, case, entry, hexed, run_record, verdict

RUN = "r1"
EDIT = "edit-preservation"
SECRETS = ("model-a", "model-b", "photo-000", ".png", ".jpg", "openai", "gpt-5", "nightly")
"""What nobody who has yet to rate may read in a page."""


def picture(number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (48, 32), (40 * number % 255, 90, 160)).save(out, "WEBP")
    return out.getvalue()


def told(number: int, of: Verdict, **groups: str) -> Entry:
    first, second = (
        replace(image, digest=hexed(name), source_digest=hexed(name))
        for image, name in zip(of.images, (f"source {number}", f"made {number}"), strict=True)
    )
    of = replace(of, images=(first, second))
    shots = ((first.source_digest, picture(number)), (second.source_digest, picture(number + 3)))
    known = {"source": f"photo {number}", "model": ("model-a", "model-b")[number % 2]} | groups
    return entry(number, of, case=case(of, groups=known), thumbnails=shots)


def edits(path: Path | str, count: int = 12) -> Ledger:
    """A run of edits: one refused, one with jurors who differ, one that the pixels contradict."""
    verdicts = [verdict(number) for number in range(count)]
    verdicts[3] = replace(verdicts[3], outcome=Outcome.REFUSED, criteria={}, score=None, detail="It would not look.")
    spread = {**dict.fromkeys(KEYS, 3), "score": 0.5}
    jurors = (Juror("a", 0, Outcome.SCORED, 0.2), Juror("b", 0, Outcome.SCORED, 0.7))
    verdicts[5] = replace(verdicts[5], jury=Jury(2, 0, spread, None, jurors))
    verdicts[7] = replace(verdicts[7], flags=(Flag("pixels_disagree", "unchanged_regions", 7, "much was changed"),))
    return kept(path, (load_rubric(EDIT),), [told(number, one) for number, one in enumerate(verdicts)])


def kept(path: Path | str, rubrics: tuple[Rubric, ...], entries: list[Entry]) -> Ledger:
    ledger = Ledger.open(path, create=True)
    kept_as = tuple(msgspec.to_builtins(rubric) for rubric in rubrics)
    ledger.start(run_record(RUN, total=len(entries), rubrics=kept_as))
    ledger.write(RUN, entries)
    return ledger


def styled(style: str = "Anime") -> Rubric:
    return load_rubric("restyle").with_style(find_style(style))


def restyles(path: Path | str, *styles: str) -> Ledger:
    """A case for each style, judged Yes throughout."""
    entries = []
    for number, style in enumerate(styles):
        rubric = styled(style)
        document: dict[str, object] = {
            "criteria": {
                criterion.key: {
                    "assertions": {one.id: {"answer": "Yes", "evidence": "seen"} for one in criterion.assertions},
                    "score": 5,
                    "reason": "good",
                }
                for criterion in rubric.criteria
            },
            "assessment": "fine",
        }
        found = score_answer(VerdictHeader(f"photo-{number:05d}/model-a", rubric, "openai:gpt-5-mini"), document)
        shown = zip(verdict(number).images, ("original", "restyled"), strict=True)
        found = replace(found, images=tuple(replace(image, role=role) for image, role in shown))
        entries.append(replace(told(number, found), case=_case(found, style)))
    return kept(path, (load_rubric("restyle"),), entries)


def families(path: Path) -> Ledger:
    """A case that was judged by three rubrics, as `edit` does."""
    rubrics = load_rubrics("edit")
    entries = [told(0, replace(verdict(0), rubric=rubric.name)) for rubric in rubrics]
    return kept(path, rubrics, entries)


def alike(path: Path) -> Ledger:
    """A case that was judged by two rubrics which have their criteria in common."""
    rubrics = (load_rubric(EDIT), structs.replace(load_rubric(EDIT), rubric="second-look"))
    return kept(path, rubrics, [told(0, replace(verdict(0), rubric=rubric.name)) for rubric in rubrics])


def answers(score: int = 5, rubric: Rubric | None = None, answer: str = "yes") -> dict[str, str]:
    """Everything answered alike."""
    rubric = rubric or load_rubric(EDIT)
    found = {score_name(rubric, one): str(score) for one in rubric.criteria}
    for criterion in rubric.criteria:
        found |= {assertion_name(rubric, criterion, one): answer for one in criterion.assertions}
    return found


def _case(of: Verdict, style: str) -> Case:
    images = {"original": "/data/photos/1.jpg", "restyled": "/data/out/1.png"}
    return Case(of.case, images, {"style": style}, {"model": "model-a"})
