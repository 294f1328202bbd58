"""`restyle`, and any rubric of two images whose assertions say how they are measured: Yes, No, or left open."""

from __future__ import annotations

from collections import Counter

from beholder.images.model import PreparedImage
from beholder.instruments.pair import Pair
from beholder.judges.measured.answering import Document
from beholder.judges.measured.checks import Findings
from beholder.rubrics.brief import Brief
from beholder.rubrics.model import Assertion, Measured
from beholder.rubrics.schema import NO, YES
from beholder.verdicts.observing import ABSTAIN

_NOT_MEASURED = "Left open: no measurement of the pixels answers this."


def restyle(brief: Brief) -> Document:
    """The answers; what a criterion scores is left to them. Raises `ImageError`.

    The first image is taken for the photo, the second for what became of it.
    """
    findings = Findings(loaded(brief), brief.pictures[1].image.data)
    counts: Counter[str] = Counter()
    criteria: Document = {}
    for criterion in brief.criteria:
        answers = {one.id: _answered(one, findings) for one in criterion.assertions}
        said = Counter(answer for answer, _ in answers.values())
        counts += said
        criteria[criterion.key] = {
            "assertions": {id_: {"answer": answer, "evidence": why} for id_, (answer, why) in answers.items()},
            "score": ABSTAIN,
            "reason": f"Measured, not seen: {said[YES]} Yes, {said[NO]} No, {said[ABSTAIN]} left open.",
        }
    assessment = f"{counts[YES] + counts[NO]} of {counts.total()} assertions measured, the others left open."
    return {"criteria": criteria, "assessment": assessment, "measurements": findings.measurements}


def loaded(brief: Brief) -> Pair:
    """The two images of a brief. Raises `ImageError` with the role of the one that cannot be read."""
    before, after = brief.pictures
    pair = Pair.load(before.image.data, after.image.data, names=(before.role, after.role, ""))
    pair.sizes = _file_size(before.image), _file_size(after.image)
    return pair


def _file_size(image: PreparedImage) -> tuple[int, int]:
    """Width and height of the file, upright; a judge may have got a smaller picture."""
    width, height = image.source_width, image.source_height
    turned = (width > height) != (image.width > image.height) and width != height
    return (height, width) if turned else (width, height)


def _answered(assertion: Assertion, findings: Findings) -> tuple[str, str]:
    """Yes, No or abstain, and the evidence."""
    how = Measured.of(assertion.measured)
    if how is None:
        return ABSTAIN, _NOT_MEASURED
    if assertion.applies:
        return ABSTAIN, f"Left open: whether there is something to ask about ({assertion.applies}) cannot be measured."
    found = findings.check(*how.checks)
    if found.holds and how.yes:
        return YES, found.says
    if found.holds is False and how.no:
        return NO, found.says
    if found.holds:
        return ABSTAIN, f"Left open: nothing measured speaks against it. {found.says}"
    if found.holds is False:
        return ABSTAIN, f"Left open: nothing measured speaks for it. {found.says}"
    return ABSTAIN, f"Left open. {found.says}"
