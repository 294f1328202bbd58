"""What a judge was told of a case. Briefs are not kept, their digests are: composed again from what the run keeps, a
brief is the one that was sent exactly if its digest is."""

from __future__ import annotations

from dataclasses import dataclass

from beholder.cases import Case
from beholder.errors import BeholderError
from beholder.images.model import PreparedImage
from beholder.judges.protocol import INSTRUMENTS
from beholder.ledger import RunRecord
from beholder.rubrics.brief import Text
from beholder.rubrics.composing import Composer
from beholder.runs.review_sheet import rubrics_of
from beholder.runs.reviewing import PERSON
from beholder.verdicts.model import Verdict


@dataclass(frozen=True, slots=True)
class Told:
    """`system` and `message` are what the judge read, an image as its label in brackets; empty where that cannot be
    said. `note` says why not, or what to know of it."""

    system: str = ""
    message: str = ""
    note: str = ""


def told_to_the_judge(record: RunRecord, case: Case, verdict: Verdict) -> Told:
    if verdict.judge.startswith(PERSON):
        return Told(note="A person rated: by the questions of the rubric, without this text.")
    if verdict.judge == INSTRUMENTS:
        return Told(note="The instruments measured: they read no text.")
    if not verdict.brief_digest:
        return Told(note="No judge was asked.")
    try:
        rubric = rubrics_of(record).get(verdict.rubric)
        if rubric is None:
            return Told(note="The run does not keep its rubric, so that the text cannot be put together again.")
        composer = Composer(rubric, prompt=record.prompt, setting=verdict.setting or "")
        brief = composer.compose(case, {image.role: _sent(image.digest) for image in verdict.images} or None)
    except BeholderError as error:
        return Told(note=f"The text cannot be put together again: {error}")
    message = "\n\n".join(part.text if isinstance(part, Text) else f"[{part.label}]" for part in brief.content)
    same = brief.digest == verdict.brief_digest
    return Told(
        brief.system,
        message,
        "This is the text that was sent, as its digest says."
        if same
        else "Put together again from what the run keeps. It is not quite the text that was sent, for its digest is "
        "another: the style is not one of ours, or another version of Beholder was at work.",
    )


def _sent(digest: str) -> PreparedImage:
    """An image of which only the digest matters."""
    return PreparedImage(b"", "", 0, 0, digest, "", 0, 0, "")
