"""One case before its judges: its brief, their answers (new, or from the ledger), one verdict."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from beholder.cases import Case
from beholder.errors import AnswerError, CaseError, ImageError, SetupError, Waiting
from beholder.images import Sizing
from beholder.judges.asking import Asked, about, ask
from beholder.judges.audit import Evidence, audited, order_for
from beholder.judges.protocol import Judge, answers_later, identity_for, may_abstain, needs_images
from beholder.ledger.model import AnswerKey, StoredAnswer
from beholder.rubrics.brief import Brief
from beholder.rubrics.composing import Composer
from beholder.rubrics.model import Rubric
from beholder.runs.pictures import Pictures
from beholder.verdicts.combining import agreement, combine, spread
from beholder.verdicts.judging import Head, read_answer, scored_verdict
from beholder.verdicts.model import Flag, Juror, Jury, Outcome, Verdict, known_sum

if TYPE_CHECKING:
    from beholder.verdicts.calibrating import Calibration

T = TypeVar("T")

Recall = Callable[[Sequence[AnswerKey]], Awaitable[Mapping[AnswerKey, StoredAnswer]]]


@dataclass(frozen=True, slots=True)
class Judged:
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
    pictures: Pictures,
    *,
    recall: Recall | None = None,
    slots: asyncio.Semaphore | None = None,
    timeout_s: float | None = None,
    audit: bool = False,
    calibration: Calibration | None = None,
) -> Judged:
    """Judges a case. `recall` finds answers that were paid for already; `slots` limits how many cases are asked at
    once; `timeout_s` is for each judge; with `audit` a pair of images is measured while models look at it; with a
    `calibration` the verdict also says what people would.

    Raises `CaseError` and `SetupError` (wrong use), and `Waiting` where an answer comes later, once all judges were
    asked; every other failure is an outcome.
    """
    rubric = composer.rubric_for(case)
    head = Head(case.id, rubric, names_of(judges, samples))
    sizings = [one.sizing if needs_images(one, rubric) else None for one in judges]
    try:
        briefs = {sizing: await brief_of(composer, case, sizing, pictures) for sizing in dict.fromkeys(sizings)}
    except ImageError as error:
        return Judged(head.verdict(Outcome.UNREADABLE, str(error)))
    seats = [
        _Seat(one, sample, briefs[sizing], Head(case.id, rubric, one.name))
        for one, sizing in zip(judges, sizings, strict=True)
        for sample in range(samples)
    ]
    found = await recall([seat.key for seat in seats]) if recall else {}
    later = any(answers_later(one) for one in judges)
    measuring = _measuring(rubric, seats, pictures) if audit and not later else None
    try:
        async with slots or nullcontext():
            heard = await _together(
                [seat.hear(found.get(seat.key), alone=len(seats) == 1, timeout_s=timeout_s) for seat in seats]
            )
        results = [one for one in heard if not isinstance(one, Waiting)]
        if len(results) < len(heard):
            raise Waiting(f"{len(heard) - len(results)} answers are still to come")
        if audit and later:
            measuring = _measuring(rubric, seats, pictures)
        asked = [result for result, _ in results]
        verdict = asked[0].verdict if len(asked) == 1 else _jury(head, asked, [seat.sample for seat in seats])
        if measuring is not None and verdict.scored:
            looked = [
                (f"juror {place}: ", one.verdict)
                for place, (seat, one) in enumerate(zip(seats, asked, strict=True), 1)
                if not may_abstain(seat.judge)
            ]
            verdict = audited(verdict, await measuring, looked if len(asked) > 1 else ())
    finally:
        if measuring is not None:
            measuring.cancel()
    if calibration is not None:
        [verdict] = await with_people(calibration, [verdict], case, pictures)
    new = [(seat, result) for seat, (result, fresh) in zip(seats, results, strict=True) if fresh]
    return Judged(
        verdict,
        answers=tuple(_stored(seat.key, result) for seat, result in new if result.verdict.scored),
        spent_usd=_spent([result.verdict for _, result in new]),
        asked=len(new),
        used=tuple(seat.key for seat, (_, fresh) in zip(seats, results, strict=True) if not fresh),
    )


def _measuring(rubric: Rubric, seats: Sequence[_Seat], pictures: Pictures) -> asyncio.Task[Evidence] | None:
    """The audit of what models will say about a pair of images, begun before they have said it."""
    order = order_for(rubric)
    seen = next((seat.brief for seat in seats if not may_abstain(seat.judge)), None)
    if order is None or seen is None or len(seen.pictures) != 2:
        return None
    before, after = (picture.image.data for picture in seen.pictures)
    return asyncio.create_task(pictures.measured(order, before, after))


async def with_people(
    calibration: Calibration, verdicts: Sequence[Verdict], case: Case, pictures: Pictures
) -> list[Verdict]:
    """The verdicts on a case with what people would say; what the calibration needs to know of the pixels is measured
    where something was scored."""
    from beholder.instruments.pixels import pair_of
    from beholder.verdicts.calibrating import calibrated

    extra: dict[str, float] = {}
    roles = pair_of(case.images)
    if calibration.pixels and roles and any(one.scored for one in verdicts):
        extra, _ = await pictures.pixels((case.images[roles[0]], case.images[roles[1]]), calibration.pixels)
    return calibrated(calibration, verdicts, extra)


def _spent(verdicts: Sequence[Verdict]) -> Decimal | None:
    """What is known to have been paid; `None` where something was paid and nobody knows how much of it."""
    costs = [one.cost_usd for one in verdicts if one.attempts]
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known or not costs else None


async def brief_of(composer: Composer, case: Case, sizing: Sizing | None, pictures: Pictures) -> Brief:
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
class _Seat:
    """One judge, asked once."""

    judge: Judge
    sample: int
    brief: Brief
    head: Head

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.brief.digest, short(identity_for(self.judge, self.brief)), self.sample)

    async def hear(
        self, stored: StoredAnswer | None, *, alone: bool, timeout_s: float | None
    ) -> tuple[Asked, bool] | Waiting:
        """As `sit`, but an answer that comes later keeps no other judge from being asked."""
        try:
            return await self.sit(stored, alone=alone, timeout_s=timeout_s)
        except Waiting as waiting:
            return waiting

    async def sit(self, stored: StoredAnswer | None, *, alone: bool, timeout_s: float | None) -> tuple[Asked, bool]:
        """The verdict, and whether the judge was asked for it. A juror that is set up wrongly is one that failed."""
        if stored is not None:
            recalled = _recalled(stored, self.brief, self.head, may_abstain(self.judge))
            if recalled is not None:
                return recalled, False
        try:
            asked = await ask(self.judge, self.brief, self.head, sample=self.sample, timeout_s=timeout_s)
            return asked, True
        except SetupError as error:
            if alone:
                raise
            return Asked(about(self.head.verdict(Outcome.UNREACHABLE, str(error)), self.brief)), True


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them at once. When one raises, the others are cancelled before it is raised here."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def short(identity: str) -> str:
    """What tells a judge with its parameters from every other, in short."""
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _recalled(stored: StoredAnswer, brief: Brief, head: Head, abstains: bool) -> Asked | None:
    """A stored answer, checked and scored anew; `None` where it does not pass any more (stricter scoring)."""
    try:
        observed = read_answer(head.rubric, stored.text, label=brief.label, may_abstain=abstains)
    except AnswerError:
        return None
    verdict = about(scored_verdict(head, observed), brief)
    verdict = replace(
        verdict,
        flags=(*stored.flags, *verdict.flags),
        finish="complete",
        model=stored.model,
        usage=stored.usage,
        cost_usd=stored.cost_usd,
        latency_s=stored.latency_s,
        attempts=stored.attempts,
        answer=stored.text,
    )
    return Asked(verdict, observed, stored.flags)


def _stored(key: AnswerKey, asked: Asked) -> StoredAnswer:
    verdict = asked.verdict
    return StoredAnswer(
        key,
        text=verdict.answer,
        model=verdict.model,
        usage=verdict.usage,
        cost_usd=verdict.cost_usd,
        latency_s=verdict.latency_s,
        attempts=verdict.attempts,
        flags=asked.flags,
    )


def _jury(head: Head, asked: Sequence[Asked], samples: Sequence[int]) -> Verdict:
    """One verdict from many. A juror without a score is counted, and takes no part in any number."""
    verdicts = [one.verdict for one in asked]
    jurors = [one.observed for one in asked]
    answers = [one for one in jurors if one is not None]
    failed = Counter(verdict.outcome for verdict in verdicts if not verdict.scored)
    said = ", ".join(f"{count} {outcome}" for outcome, count in failed.items())
    if Outcome.OVER_BUDGET in failed:  # not a juror that failed, but one that is yet to be asked
        verdict = head.verdict(Outcome.OVER_BUDGET, f"not all jurors could be asked: {said}")
    elif answers:
        flags = _carried(asked)
        if failed:
            flags += (Flag("jurors_failed", said=said, why="they take no part in the scores"),)
        verdict = scored_verdict(head, combine(head.rubric, jurors), flags=flags)
    else:
        verdict = head.verdict(failed.most_common(1)[0][0], f"no juror has a score: {said}")
    scored = [one for one in verdicts if one.scored]
    models = {one.model for one in scored}
    return replace(
        verdict,
        model=models.pop() if len(models) == 1 else None,
        jury=Jury(
            answered=len(scored),
            failed=len(verdicts) - len(scored),
            spread=spread(head.rubric, scored),
            agreement=agreement(answers),
            jurors=tuple(_juror(one, sample) for one, sample in zip(verdicts, samples, strict=True)),
        ),
        images=next((one.images for one in verdicts if one.images), ()),
        usage={name: known_sum([one.usage.get(name) for one in verdicts]) for name in verdicts[0].usage},
        cost_usd=known_sum([one.cost_usd for one in verdicts]),
        latency_s=max((one.latency_s for one in verdicts if one.latency_s is not None), default=None),
        attempts=sum(one.attempts for one in verdicts),
        brief_digest=verdicts[0].brief_digest,
    )


def _carried(asked: Sequence[Asked]) -> tuple[Flag, ...]:
    """Flags about what jurors were sent and how they were asked; those about what they said come with `combine`."""
    return tuple(
        replace(flag, at=f"juror {place}: {flag.at}")
        for place, one in enumerate(asked, 1)
        for flag in one.verdict.flags
        if flag in one.flags or flag.at in {image.role for image in one.verdict.images}
    )


def _juror(verdict: Verdict, sample: int) -> Juror:
    return Juror(
        judge=verdict.judge,
        sample=sample,
        outcome=verdict.outcome,
        score=verdict.score,
        criteria={key: result.score for key, result in verdict.criteria.items()},
        detail=verdict.detail,
        model=verdict.model,
        flags=verdict.flags,
        corrections=verdict.corrections,
        images=verdict.images,
        brief_digest=verdict.brief_digest,
    )


def names_of(judges: Sequence[Judge], samples: int) -> str:
    names = " + ".join(one.name for one in judges)
    return f"{names} ×{samples}" if samples > 1 else names
