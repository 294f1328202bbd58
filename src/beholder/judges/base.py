"""The one door to whoever answers a brief."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Protocol, runtime_checkable

from beholder.errors import SetupError
from beholder.images.image import Sizing
from beholder.rubrics.brief import Brief
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.answer import Answer, Turn

INSTRUMENTS = "instruments"  # the one judge that is no model, and the one that is asked where none is named
MEASURED_NOT_SEEN = "measured_not_seen"  # the flag of an answer that nobody gave who can see


@runtime_checkable
class Judge(Protocol):
    """Answers briefs. Raises `SetupError` when it can never answer, `Unreachable` when it could not this time, and
    `ImageError` for a picture that it cannot read.

    A judge that is no model may have three things more, which the functions below ask for: `abstains` (True: it may
    answer "abstain" in place of a score or an answer, and give `measurements`), `objection(rubric)` (why it cannot
    answer a rubric at all; empty where it can) and `needs_images(rubric)` (False: it takes a brief without pictures).
    """

    @property
    def name(self) -> str:
        """As the user named it: `openai:gpt-5-mini`."""

    @property
    def identity(self) -> str:
        """What an answer depends on besides the brief: name, base URL, parameters. Never a key."""

    @property
    def sizing(self) -> Sizing:
        """How it wants its pictures."""

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """One request. `earlier` turns follow the brief; `max_tokens` overrides the judge's own limit."""

    async def aclose(self) -> None:
        """Lets go of connections; a judge that is asked again afterwards makes new ones."""


# What one call (a brief, earlier turns, a limit of tokens) may cost at most, and the limit under which that is true.
CostBound = Callable[[Brief, Sequence[Turn], int | None], tuple[Decimal, int | None]]


def may_abstain(judge: Judge) -> bool:
    """Whether "abstain" is an answer of this judge. A model's never is: it must look, and say Yes or No."""
    return bool(getattr(judge, "abstains", False))


def answers_later(judge: Judge) -> bool:
    """Whether this judge is asked by batch, so that most answers are not there yet when it is asked."""
    return bool(getattr(judge, "answers_later", False))


def needs_images(judge: Judge, rubric: Rubric) -> bool:
    """Whether a case of this rubric must have its images for this judge; of a model always."""
    says = getattr(judge, "needs_images", None)
    return bool(says(rubric)) if callable(says) else True


def check_judges(judges: Sequence[Judge], rubrics: Sequence[Rubric]) -> None:
    """Raises `SetupError` for a judge that can answer none of the rubrics. Of several (those of `edit`), the ones that
    it cannot answer get verdicts in which all is left open."""
    for judge in judges:
        says = getattr(judge, "objection", None)
        objections = [says(rubric) for rubric in rubrics] if callable(says) else [""]
        if objections and all(objections):
            raise SetupError(str(objections[0]))


def identity_for_brief(judge: Judge, brief: Brief) -> str:
    """What an answer to this brief depends on besides its digest: the judge's identity, and for one that measures also
    how the assertions are measured, which the digest leaves out."""
    if not may_abstain(judge):
        return judge.identity
    measured = [one.measured for criterion in brief.criteria for one in criterion.assertions]
    return f"{judge.identity} {measured}" if any(measured) else judge.identity
