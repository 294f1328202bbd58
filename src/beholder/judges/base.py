"""The protocol of judges, and what a judge can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, runtime_checkable

from beholder.errors import SetupError
from beholder.images.image import Sizing
from beholder.rubrics.brief import Brief
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.answer import Answer, Turn

INSTRUMENTS = "instruments"  # the one judge of ours that is no model, and the default
MEASURED_NOT_SEEN = "measured_not_seen"  # flag of answers that were measured, by a judge that cannot see

CostBound = Callable[[Brief, Sequence[Turn], int | None], tuple[Decimal, int | None]]
"""Returns what a call (brief, earlier turns, limit of tokens) costs at most, and the limit for which that is true."""


@runtime_checkable
class Judge(Protocol):
    """Answers briefs. A judge that is no model may also have `capabilities`; see `capabilities_of`."""

    @property
    def name(self) -> str:
        """The name by which the user chose it: `openai:gpt-5-mini`."""

    @property
    def identity(self) -> str:
        """What an answer depends on besides the brief: name, base URL, parameters. Never a key."""

    @property
    def sizing(self) -> Sizing:
        """How large its images may be."""

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Answer a brief.

        Args:
            brief: the question.
            sample: number of the sample, from 0, where a brief is asked several times.
            earlier: earlier turns of the conversation, which follow the brief.
            max_tokens: limit for the answer; takes precedence over the judge's own.

        Raises:
            SetupError: it can never answer.
            Unreachable: it could not answer this time.
            ImageError: it cannot read an image.
        """

    async def aclose(self) -> None:
        """Close connections; a judge that is asked again opens new ones."""


@dataclass(slots=True)
class ReservedCall:
    """A call whose highest cost is reserved in a budget.

    Attributes:
        max_tokens: must be sent: without a limit an answer has no highest cost.
        cost_usd: set by the caller once there is an answer. `None` is unknown: all of the reservation counts. A call
            without an answer is free.
    """

    max_tokens: int | None
    cost_usd: Decimal | None = Decimal(0)


ReserveCall = Callable[[Brief, Sequence[Turn], int | None], AbstractAsyncContextManager[ReservedCall]]
"""Reserves what a call (brief, earlier turns, limit of tokens) may cost, and settles it when the context ends. Raises
`OverBudget`."""


@asynccontextmanager
async def reserve_nothing(brief: Brief, earlier: Sequence[Turn], max_tokens: int | None) -> AsyncIterator[ReservedCall]:
    """Let every call through: for a judge without a budget."""
    yield ReservedCall(max_tokens)


def _needs_images(rubric: Rubric) -> bool:
    return True


def _has_no_objection(rubric: Rubric) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a judge can do; the defaults are those of a model.

    Attributes:
        abstains: it may answer "abstain" in place of a score or an answer, and give `measurements`. A model never may:
            it must look, and say Yes or No.
        answers_later: it is asked by batch, so that most answers are not there yet when it is asked.
        needs_images: returns whether a case of a rubric must have its images.
        objection: returns why it cannot answer a rubric at all; empty where it can.
    """

    abstains: bool = False
    answers_later: bool = False
    needs_images: Callable[[Rubric], bool] = _needs_images
    objection: Callable[[Rubric], str] = _has_no_objection

    @property
    def sees_images(self) -> bool:
        """Whether it looks at images, so that what it says of them can be audited. A judge that abstains measures."""
        return not self.abstains


def capabilities_of(judge: Judge) -> Capabilities:
    """Return the judge's `capabilities`; without them, those of the attributes that plug-ins may have instead.

    These are `abstains`, `answers_later`, `needs_images(rubric)` and `objection(rubric)`.
    """
    own = getattr(judge, "capabilities", None)
    if isinstance(own, Capabilities):
        return own
    needs_images, objection = getattr(judge, "needs_images", None), getattr(judge, "objection", None)
    return Capabilities(
        abstains=bool(getattr(judge, "abstains", False)),
        answers_later=bool(getattr(judge, "answers_later", False)),
        needs_images=needs_images if callable(needs_images) else _needs_images,
        objection=objection if callable(objection) else _has_no_objection,
    )


def check_judges(judges: Sequence[Judge], rubrics: Sequence[Rubric]) -> None:
    """Raise `SetupError` for a judge that can answer none of the rubrics.

    Of several (those of `edit`), the ones that it cannot answer get verdicts in which nothing is measured.
    """
    for judge in judges:
        objections = [capabilities_of(judge).objection(rubric) for rubric in rubrics]
        if objections and all(objections):
            raise SetupError(str(objections[0]))


def identity_for_brief(judge: Judge, brief: Brief) -> str:
    """Return what an answer to this brief depends on besides its digest.

    That is the judge's identity, and for a judge that measures also how the assertions are measured, which the digest
    does not include.
    """
    if capabilities_of(judge).sees_images:
        return judge.identity
    measured = [assertion.measured for criterion in brief.criteria for assertion in criterion.assertions]
    return f"{judge.identity} {measured}" if any(measured) else judge.identity
