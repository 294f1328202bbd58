"""One case before its judges: its brief, their answers (new, or from the ledger), one verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from beholder.cases.case import Case
from beholder.errors import CaseError, ImageError, SetupError, Waiting
from beholder.images.image import Sizing
from beholder.judges.audit import AuditEvidence, apply_audit, plan_audit
from beholder.judges.base import Judge, capabilities_of, identity_for_brief
from beholder.judges.conversation import add_brief_details, ask_judge
from beholder.ledger.types import AnswerKey, Entry, StoredAnswer
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import AnswerLookup, digest_identity, make_stored_answer, rescore_stored_answer
from beholder.runs.image_pool import ImagePool
from beholder.verdicts.jury import ConversationResult, combine_verdicts
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A verdict; the scored answers that are new, and what they cost (`None`: unknown); the old ones that were used."""

    verdict: Verdict
    answers: tuple[StoredAnswer, ...] = ()
    spent_usd: Decimal | None = Decimal(0)
    asked: int = 0
    used: tuple[AnswerKey, ...] = ()


async def judge_case(
    composer: Composer,
    case: Case,
    judges: Sequence[Judge],
    samples: int,
    pictures: ImagePool,
    *,
    recall: AnswerLookup | None = None,
    slots: asyncio.Semaphore | None = None,
    timeout_s: float | None = None,
    audit: bool = False,
    calibration: Calibration | None = None,
) -> CaseResult:
    """Judges a case. `recall` finds answers that were paid for already; `slots` limits how many cases are asked at
    once; `timeout_s` is for each judge; with `audit` a pair of images is measured while models look at it; with a
    `calibration` the verdict also says what people would.

    Raises `CaseError` and `SetupError` (wrong use), and `Waiting` where an answer comes later, once all judges were
    asked; every other failure is an outcome.
    """
    rubric = composer.rubric_for(case)
    head = VerdictHeader(case.id, rubric, describe_judges(judges, samples))
    sizings = [one.sizing if capabilities_of(one).needs_images(rubric) else None for one in judges]
    try:
        briefs = {sizing: await make_brief(composer, case, sizing, pictures) for sizing in dict.fromkeys(sizings)}
    except ImageError as error:
        return CaseResult(head.make_verdict(Outcome.UNREADABLE, str(error)))
    seats = [
        _JudgeCall(one, sample, briefs[sizing], VerdictHeader(case.id, rubric, one.name))
        for one, sizing in zip(judges, sizings, strict=True)
        for sample in range(samples)
    ]
    found = await recall([seat.key for seat in seats]) if recall else {}
    later = any(capabilities_of(one).answers_later for one in judges)
    measuring = _start_audit(rubric, seats, pictures) if audit and not later else None
    try:
        async with slots or nullcontext():
            heard = await _gather_or_cancel(
                [seat.hear(found.get(seat.key), alone=len(seats) == 1, timeout_s=timeout_s) for seat in seats]
            )
        results = [one for one in heard if not isinstance(one, Waiting)]
        if len(results) < len(heard):
            raise Waiting(f"{len(heard) - len(results)} answers are still to come")
        if audit and later:
            measuring = _start_audit(rubric, seats, pictures)
        asked = [result for result, _ in results]
        verdict = (
            asked[0].verdict if len(asked) == 1 else combine_verdicts(head, asked, [seat.sample for seat in seats])
        )
        if measuring is not None and verdict.scored:
            looked = [
                (f"juror {place}: ", one.verdict)
                for place, (seat, one) in enumerate(zip(seats, asked, strict=True), 1)
                if not capabilities_of(seat.judge).abstains
            ]
            verdict = apply_audit(verdict, await measuring, looked if len(asked) > 1 else ())
    finally:
        if measuring is not None:
            measuring.cancel()
    if calibration is not None:
        [verdict] = await apply_calibration(calibration, [verdict], case, pictures)
    new = [(seat, result) for seat, (result, fresh) in zip(seats, results, strict=True) if fresh]
    return CaseResult(
        verdict,
        answers=tuple(make_stored_answer(seat.key, result) for seat, result in new if result.verdict.scored),
        spent_usd=_sum_new_costs([result.verdict for _, result in new]),
        asked=len(new),
        used=tuple(seat.key for seat, (_, fresh) in zip(seats, results, strict=True) if not fresh),
    )


def _start_audit(
    rubric: Rubric, seats: Sequence[_JudgeCall], pictures: ImagePool
) -> asyncio.Task[AuditEvidence] | None:
    """The audit of what models will say about a pair of images, begun before they have said it."""
    order = plan_audit(rubric)
    seen = next((seat.brief for seat in seats if not capabilities_of(seat.judge).abstains), None)
    if order is None or seen is None or len(seen.images) != 2:
        return None
    before, after = (picture.image.data for picture in seen.images)
    return asyncio.create_task(pictures.measured(order, before, after))


async def apply_calibration(
    calibration: Calibration, verdicts: Sequence[Verdict], case: Case, pictures: ImagePool
) -> list[Verdict]:
    """The verdicts on a case with what people would say; what the calibration needs to know of the pixels is measured
    where something was scored."""
    from beholder.instruments.human_ratings import choose_pair_roles
    from beholder.verdicts.calibration import apply_calibration

    extra: dict[str, float] = {}
    roles = choose_pair_roles(case.images)
    if calibration.instrument_names and roles and any(one.scored for one in verdicts):
        extra, _ = await pictures.pixels((case.images[roles[0]], case.images[roles[1]]), calibration.instrument_names)
    return apply_calibration(calibration, verdicts, extra)


def _sum_new_costs(verdicts: Sequence[Verdict]) -> Decimal | None:
    """What is known to have been paid; `None` where something was paid and nobody knows how much of it."""
    costs = [one.cost_usd for one in verdicts if one.attempts]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known or not costs else None


async def make_brief(composer: Composer, case: Case, sizing: Sizing | None, pictures: ImagePool) -> Brief:
    """The brief of a case, its images read and prepared; without images where there is no sizing. Raises `CaseError` or
    `ImageError`."""
    if sizing is None:
        return composer.compose(case, None)
    roles = composer.rubric_for(case).roles
    missing = [role for role in roles if role not in case.images]
    if missing:
        raise CaseError(f"The case {case.id!r} lacks the image {', '.join(map(repr, missing))}.")
    images = {}
    for role in roles:
        try:
            images[role] = await pictures.get(case.images[role], sizing)
        except ImageError as error:
            raise ImageError(f"{role}: {error}") from None
    return composer.compose(case, images)


@dataclass(frozen=True, slots=True)
class _JudgeCall:
    """One judge, asked once."""

    judge: Judge
    sample: int
    brief: Brief
    head: VerdictHeader

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.brief.digest, digest_identity(identity_for_brief(self.judge, self.brief)), self.sample)

    async def hear(
        self, stored: StoredAnswer | None, *, alone: bool, timeout_s: float | None
    ) -> tuple[ConversationResult, bool] | Waiting:
        """As `sit`, but an answer that comes later keeps no other judge from being asked."""
        try:
            return await self.sit(stored, alone=alone, timeout_s=timeout_s)
        except Waiting as waiting:
            return waiting

    async def sit(
        self, stored: StoredAnswer | None, *, alone: bool, timeout_s: float | None
    ) -> tuple[ConversationResult, bool]:
        """The verdict, and whether the judge was asked for it. A juror that is set up wrongly is one that failed."""
        if stored is not None:
            recalled = rescore_stored_answer(stored, self.brief, self.head, capabilities_of(self.judge).abstains)
            if recalled is not None:
                return recalled, False
        try:
            asked = await ask_judge(self.judge, self.brief, self.head, sample=self.sample, timeout_s=timeout_s)
            return asked, True
        except SetupError as error:
            if alone:
                raise
            return ConversationResult(
                add_brief_details(self.head.make_verdict(Outcome.UNREACHABLE, str(error)), self.brief)
            ), True


async def _gather_or_cancel(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them at once. When one raises, the others are cancelled before it is raised here."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def describe_judges(judges: Sequence[Judge], samples: int) -> str:
    names = " + ".join(one.name for one in judges)
    return f"{names} ×{samples}" if samples > 1 else names


def make_entry(position: int, case: Case, judged: CaseResult, thumbnails: tuple[tuple[str, bytes], ...]) -> Entry:
    """A judged case as the ledger takes it."""
    return Entry(
        position=position,
        case=case,
        verdict=judged.verdict,
        answers=judged.answers,
        thumbnails=thumbnails,
        reused=not judged.asked and judged.verdict.scored,
        spent_usd=judged.spent_usd,
        used=judged.used,
    )
