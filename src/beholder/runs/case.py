"""One case before its judges: make its briefs, ask the judges (or reuse stored answers), return one verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from beholder.cases.case import Case, choose_pair_roles
from beholder.errors import CaseError, ImageError, Waiting
from beholder.images.image import Sizing
from beholder.judges.audit import AuditEvidence, apply_audit, plan_audit
from beholder.judges.base import (
    Judge,
    ReserveCall,
    capabilities_of,
    identity_for_brief,
    reserve_nothing,
)
from beholder.judges.conversation import Conversation
from beholder.ledger.types import AnswerKey, Entry
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import AnswerLookup, digest_identity, make_stored_answer, restore_answer
from beholder.runs.image_pool import ImagePool
from beholder.verdicts.jury import combine_verdicts
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


@dataclass(frozen=True, slots=True)
class CaseJudge:
    """Judges cases: everything that is the same for all cases of a run in one process.

    Args:
        judges: Who is asked; several form a jury.
        images: Reads and prepares images.
        samples: How often each judge is asked.
        look_up: Finds answers that were paid for already; without it every judge is asked.
        slots: Limits how many cases are asked at once.
        timeout_s: For each judge, over all of its turns.
        audit: Measure a pair of images while models look at it.
        calibration: With it a verdict also says how people would rate.
        reserve: By `id` of a judge, what reserves the cost of each call; a judge that is not in it costs nothing.
    """

    judges: Sequence[Judge]
    images: ImagePool
    samples: int = 1
    look_up: AnswerLookup | None = None
    slots: asyncio.Semaphore | None = None
    timeout_s: float | None = None
    audit: bool = False
    calibration: Calibration | None = None
    reserve: Mapping[int, ReserveCall] = field(default_factory=dict)

    async def judge(self, composer: Composer, case: Case) -> Entry:
        """Judge one case by one rubric.

        Returns:
            The verdict with its new answers. Position and thumbnails are for the caller to fill in.

        Raises:
            CaseError: The case does not fit the rubric.
            SetupError: The only judge can never answer.
            Waiting: Some answers come later (by batch); all judges were asked. Every other failure is an outcome.
        """
        rubric = composer.rubric_for(case)
        header = VerdictHeader(case.id, rubric, describe_judges(self.judges, self.samples))
        try:
            conversations = await self._open_conversations(composer, case, rubric)
        except ImageError as error:
            return Entry(0, case, header.make_verdict(Outcome.UNREADABLE, str(error)), spent_usd=Decimal(0))
        keys = [_make_key(conversation) for conversation in conversations]
        stored = await self.look_up(keys) if self.look_up is not None else {}
        for key, conversation in zip(keys, conversations, strict=True):
            if key in stored:
                restore_answer(conversation, stored[key])
        # By batch most cases have to wait for their answers: they are measured only once they have them.
        by_batch = any(capabilities_of(judge).answers_later for judge in self.judges)
        audit = self._start_audit(rubric, conversations) if self.audit and not by_batch else None
        try:
            async with self.slots or nullcontext(), asyncio.TaskGroup() as group:
                for conversation in conversations:
                    if conversation.is_open:
                        # One task each: a judge by batch tells conversations apart by their tasks.
                        group.create_task(conversation.run(self.timeout_s))
            if waiting := sum(conversation.is_waiting for conversation in conversations):
                raise Waiting(f"{waiting} answers are still to come")
            if self.audit and by_batch:
                audit = self._start_audit(rubric, conversations)
            is_jury = len(conversations) > 1
            verdict = combine_verdicts(header, conversations) if is_jury else conversations[0].verdict
            if audit is not None and verdict.scored:
                verdict = apply_audit(verdict, await audit, _list_audited_jurors(conversations))
        except BaseExceptionGroup as failures:  # of the task group, which has canceled the other conversations
            raise failures.exceptions[0] from None
        finally:
            if audit is not None:
                audit.cancel()
        if self.calibration is not None:
            [verdict] = await calibrate_case(self.calibration, [verdict], case, self.images)
        return _make_entry(case, verdict, keys, conversations)

    async def _open_conversations(self, composer: Composer, case: Case, rubric: Rubric) -> list[Conversation]:
        """Return one conversation for each judge and sample. Raises `CaseError` or `ImageError`."""
        sizings = [judge.sizing if capabilities_of(judge).needs_images(rubric) else None for judge in self.judges]
        briefs = {sizing: await make_brief(composer, case, sizing, self.images) for sizing in dict.fromkeys(sizings)}
        return [
            Conversation(
                judge,
                briefs[sizing],
                VerdictHeader(case.id, rubric, judge.name),
                sample,
                is_juror=len(self.judges) * self.samples > 1,
                reserve=self.reserve.get(id(judge), reserve_nothing),
            )
            for judge, sizing in zip(self.judges, sizings, strict=True)
            for sample in range(self.samples)
        ]

    def _start_audit(self, rubric: Rubric, conversations: Sequence[Conversation]) -> asyncio.Task[AuditEvidence] | None:
        """Start measuring a pair of images that models are asked about, before they have answered."""
        plan = plan_audit(rubric)
        brief = next((one.brief for one in conversations if capabilities_of(one.judge).sees_images), None)
        if plan is None or brief is None or len(brief.images) != 2:
            return None
        before, after = (picture.image.data for picture in brief.images)
        return asyncio.create_task(self.images.audit(plan, before, after))


def _make_key(conversation: Conversation) -> AnswerKey:
    identity = identity_for_brief(conversation.judge, conversation.brief)
    return AnswerKey(conversation.brief.digest, digest_identity(identity), conversation.sample)


def _list_audited_jurors(conversations: Sequence[Conversation]) -> list[tuple[str, Verdict]]:
    """Return the verdicts of those jurors who look at the images, each with the name it goes by."""
    if len(conversations) == 1:
        return []
    return [
        (f"juror {place}: ", juror.verdict)
        for place, juror in enumerate(conversations, 1)
        if capabilities_of(juror.judge).sees_images
    ]


def _make_entry(
    case: Case, verdict: Verdict, keys: Sequence[AnswerKey], conversations: Sequence[Conversation]
) -> Entry:
    pairs = list(zip(keys, conversations, strict=True))
    asked = [(key, conversation) for key, conversation in pairs if conversation.was_asked]
    return Entry(
        position=0,
        case=case,
        verdict=verdict,
        answers=tuple(make_stored_answer(key, one) for key, one in asked if one.verdict.scored),
        reused=not asked and verdict.scored,
        spent_usd=_sum_new_costs([one.verdict for _, one in asked]),
        used=tuple(key for key, one in pairs if not one.was_asked),
    )


def _sum_new_costs(verdicts: Sequence[Verdict]) -> Decimal | None:
    """Return what is known to have been paid; `None` where something was paid and no amount is known."""
    costs = [verdict.cost_usd for verdict in verdicts if verdict.attempts]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known or not costs else None


async def calibrate_case(
    calibration: Calibration, verdicts: Sequence[Verdict], case: Case, images: ImagePool
) -> list[Verdict]:
    """Return the verdicts on a case with how people would rate it. Pixel features that the calibration needs are
    measured if anything was scored."""
    from beholder.verdicts.calibration import apply_calibration

    features: dict[str, float] = {}
    roles = choose_pair_roles(case.images)
    if calibration.instrument_names and roles and any(verdict.scored for verdict in verdicts):
        features, _ = await images.measure((case.images[roles[0]], case.images[roles[1]]), calibration.instrument_names)
    return apply_calibration(calibration, verdicts, features)


async def make_brief(composer: Composer, case: Case, sizing: Sizing | None, images: ImagePool) -> Brief:
    """Read and prepare the images of a case and compose its brief.

    Args:
        composer: Makes the briefs of one rubric.
        case: What is judged.
        sizing: How the judge wants its images; `None` for a brief without images.
        images: Reads and prepares images.

    Raises:
        CaseError: The case lacks an image.
        ImageError: An image cannot be read.
    """
    if sizing is None:
        return composer.compose(case, None)
    roles = composer.rubric_for(case).roles
    missing = [role for role in roles if role not in case.images]
    if missing:
        raise CaseError(f"The case {case.id!r} lacks the image {', '.join(map(repr, missing))}.")
    prepared = {}
    for role in roles:
        try:
            prepared[role] = await images.prepare(case.images[role], sizing)
        except ImageError as error:
            raise ImageError(f"{role}: {error}") from None
    return composer.compose(case, prepared)


def describe_judges(judges: Sequence[Judge], samples: int) -> str:
    """Return the names of the judges as a verdict has them: `a + b ×3`."""
    names = " + ".join(judge.name for judge in judges)
    return f"{names} ×{samples}" if samples > 1 else names
