"""One case before its judges: make its briefs, ask the judges (or reuse stored answers), return one verdict."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from beholder.cases.case import CANDIDATES, Case, find_pair
from beholder.errors import CaseError, ImageError, Unreachable, Waiting
from beholder.images.image import ImageSource, PreparedImage, Sizing
from beholder.judges.audit import AuditPlan, Examination, apply_audit, plan_audit
from beholder.judges.base import Judge, ReserveCall, capabilities_of, identity_for_brief, reserve_nothing
from beholder.judges.conversation import Conversation
from beholder.ledger.types import AnswerKey, Entry
from beholder.providers.base import in_case_context, notify_observers
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.rubric import PROBED_ROLES, Rubric
from beholder.runs.cache import AnswerLookup, digest_identity, make_stored_answer, restore_answer
from beholder.runs.image_pool import ImagePool, ThumbnailSelector, read_local_image
from beholder.verdicts.answer import Transcript
from beholder.verdicts.jury import JuryMember, combine_parts, combine_verdicts
from beholder.verdicts.probe import add_probe, flag_not_probed
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.verdict import Box, CasePicture, Outcome, Verdict

if TYPE_CHECKING:
    from beholder.instruments.edit_crop import EditCrop
    from beholder.verdicts.calibration import Calibration


_log = logging.getLogger(__name__)

VerdictNote = tuple[str, str, tuple[AnswerKey, ...]]


@dataclass(frozen=True, slots=True)
class CaseJudge:
    """Judges cases: everything that is the same for all cases of a run in one process.

    Attributes:
        judges: Who is asked; several form a jury.
        images: Reads and prepares images.
        samples: How often each judge is asked.
        look_up: Finds answers that were paid for already; without it every judge is asked.
        release: Called with the keys of answers that were looked up in vain and of which there is none to be stored.
        slots: Limits how many cases are asked at once.
        timeout_s: For each judge, over all of its turns.
        audit: Measure a pair of images while models look at it.
        thumbnails: Tells of which images to make a thumbnail, meanwhile; without it none is made.
        calibration: With it a verdict also says how people would rate.
        reserve: By `id` of a judge, what reserves the cost of each call; a judge that is not in it costs nothing.
        on_failure: Called as soon as a judge fails for good (see `judge`), while others may still be answering.
        run_id: For observers; empty without a ledger.
        note: Notes a verdict by its case, rubric and answers, and returns whether there was the same one before, of
            which the observers know; without it they are notified of each.
    """

    judges: Sequence[Judge]
    images: ImagePool
    samples: int = 1
    look_up: AnswerLookup | None = None
    slots: asyncio.Semaphore | None = None
    timeout_s: float | None = None
    audit: bool = False
    thumbnails: ThumbnailSelector | None = None
    calibration: Calibration | None = None
    reserve: Mapping[int, ReserveCall] = field(default_factory=dict)
    release: Callable[[Sequence[AnswerKey]], None] | None = None
    on_failure: Callable[[Exception], None] | None = None
    run_id: str = ""
    note: Callable[[VerdictNote], bool] | None = None

    async def judge(self, composer: Composer, case: Case) -> Entry:
        """Judge one case by one rubric, and notify the observers.

        When a judge can never answer, or the ledger fails, the others of a jury are not interrupted: what they answer
        is paid for. Then the entry has their answers, no score, and the error in `failure`, which is the caller's to
        raise once the entry is stored.

        Returns:
            The verdict with its new answers and thumbnails. The position is for the caller to fill in.

        Raises:
            CaseError: The case does not fit the rubric.
            SetupError: A judge can never answer, of a jury too, and none has answered.
            LedgerError: The ledger failed, and no judge has answered.
            Waiting: Some answers come later (by batch); all judges were asked. Or `look_up` was stopped, and none was.
                Every other failure is an outcome.
        """
        with in_case_context(case, self.run_id):
            rubric = composer.rubric_for(case)
            header = VerdictHeader(case.id, rubric, describe_judges(self.judges, self.samples))
            try:
                whole = await self._open_conversations(composer, case, rubric)
                probe = await self._open_probe(composer, case)
                conversations = [*whole, *probe.conversations]
                keys = [_make_key(conversation) for conversation in conversations]
                stored = await self.look_up(keys) if self.look_up is not None else {}
            except (ImageError, Unreachable) as error:
                outcome = Outcome.UNREADABLE if isinstance(error, ImageError) else Outcome.UNREACHABLE
                return _announce(Entry(0, case, header.make_verdict(outcome, str(error)), spent_usd=Decimal(0)))
            # By batch most cases have to wait for their answers: they are measured only once they have them.
            by_batch = any(capabilities_of(judge).answers_later for judge in self.judges)
            examining: asyncio.Task[tuple[Examination, tuple[CasePicture, ...]]] | None = None
            entry: Entry | None = None
            try:
                if not by_batch:
                    examining = self._start_examining(rubric, whole, case)
                for key, conversation in zip(keys, conversations, strict=True):
                    if key in stored:
                        restore_answer(conversation, stored[key])
                async with self.slots or nullcontext():
                    # Live, the whole comes first: where it has no answer, or takes the last of the budget, nothing is
                    # spent on the crop. By batch both go into one job.
                    _raise_first(await self._ask(conversations if by_batch else whole))
                    _check_waiting(conversations)
                    verdict = _combine(header, whole)
                    if verdict.answered:
                        _raise_first(await self._ask(probe.conversations))
                examining = examining or self._start_examining(rubric, whole, case)
                examined, pictures = await examining
                if verdict.answered and examined.evidence is not None:
                    verdict = apply_audit(verdict, examined.evidence, _list_audited_jurors(whole))
                verdict = probe.add_to(verdict)
                if self.calibration is not None:
                    [verdict] = await calibrate_case(self.calibration, [verdict], case, self.images)
                entry = _make_entry(case, replace(verdict, pictures=pictures or None), keys, conversations)
                entry = replace(entry, thumbnails=tuple(examined.thumbnails.items()))
            except Waiting:
                raise
            except Exception as error:
                if by_batch or not any(conversation.has_answers for conversation in conversations):
                    raise
                verdict = header.make_verdict(Outcome.UNREACHABLE, str(error))
                entry = replace(_make_entry(case, verdict, keys, conversations), failure=error)
            finally:
                if examining is not None:
                    examining.cancel()
                if self.release is not None:
                    new = {answer.key for answer in entry.answers} if entry is not None else set()
                    self.release([key for key in keys if key not in stored and key not in new])
            is_known = self.note is not None and self.note((case.id, rubric.name, tuple(keys))) and entry.reused
            return entry if is_known else _announce(entry)

    def _ask(self, conversations: Sequence[Conversation]) -> asyncio.Future[list[BaseException | None]]:
        """Ask all judges that have not answered yet, at once. Returns their failures once all have ended."""
        # One task each: a judge by batch tells conversations apart by their tasks.
        asking = [asyncio.create_task(one.run(self.timeout_s)) for one in conversations if one.is_open]
        for task in asking:
            task.add_done_callback(self._report_failure)
        return asyncio.gather(*asking, return_exceptions=True)

    def _report_failure(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if isinstance(failure, Exception) and self.on_failure is not None:
            self.on_failure(failure)

    async def _open_conversations(self, composer: Composer, case: Case, rubric: Rubric) -> list[Conversation]:
        """Return one conversation for each judge, sample and part. Raises `CaseError` or `ImageError`."""
        sizings = [judge.sizing if capabilities_of(judge).needs_images(rubric) else None for judge in self.judges]
        briefs = {sizing: await make_briefs(composer, case, sizing, self.images) for sizing in dict.fromkeys(sizings)}
        return [
            Conversation(
                judge,
                brief,
                VerdictHeader(case.id, rubric, judge.name, brief.part),
                sample,
                reserve=self.reserve.get(id(judge), reserve_nothing),
            )
            for judge, sizing in zip(self.judges, sizings, strict=True)
            for sample in range(self.samples)
            for brief in briefs[sizing]
        ]

    async def _open_probe(self, composer: Composer, case: Case) -> _Probe:
        """Return the conversations about crops of the edit, one for each judge that sees images and sample."""
        probe_rubric = composer.probe_rubric
        if probe_rubric is None:
            return _Probe()
        judges = [judge for judge in self.judges if capabilities_of(judge).sees_images]
        if not judges:
            return _Probe(why_not="no judge looks at the images")
        sizings = dict.fromkeys(judge.sizing for judge in judges)
        made = {sizing: await make_probe_brief(composer, case, sizing, self.images) for sizing in sizings}
        crop, _ = next(iter(made.values()))
        conversations = [
            Conversation(
                judge,
                brief,
                VerdictHeader(case.id, probe_rubric, judge.name, brief.part),
                sample,
                reserve=self.reserve.get(id(judge), reserve_nothing),
            )
            for judge in judges
            for brief in [made[judge.sizing][1]]
            if brief is not None
            for sample in range(self.samples)
        ]
        boxes = dict(zip(PROBED_ROLES, crop.boxes, strict=False))
        return _Probe(probe_rubric, conversations, (crop.share, crop.sentence), crop.why_not, boxes)

    def _start_examining(
        self, rubric: Rubric, conversations: Sequence[Conversation], case: Case
    ) -> asyncio.Task[tuple[Examination, tuple[CasePicture, ...]]]:
        """Start what is done with the pixels of images that judges are asked about, before they have answered; where
        they are sent none, of the images of the case, which are to be shown."""
        briefs = [one.brief for one in conversations if one.brief.images]
        seen = [one.brief for one in conversations if capabilities_of(one.judge).sees_images and one.brief.images]
        is_pair = bool(seen) and len(seen[0].images) == 2 and not rubric.is_preference
        plan = plan_audit(rubric) if self.audit and is_pair else None
        images = [block.image for block in (seen or briefs)[0].images] if briefs else []
        return asyncio.create_task(self._examine(plan, images, () if briefs else tuple(case.list_images())))

    async def _examine(
        self, plan: AuditPlan | None, images: Sequence[PreparedImage], unsent: Sequence[tuple[str, ImageSource]]
    ) -> tuple[Examination, tuple[CasePicture, ...]]:
        if self.thumbnails is None:
            return await self.images.examine(plan, images), ()
        read = [(role, found) for role, source in unsent if (found := read_local_image(source)) is not None]
        digests = [image.source_digest for image in images] + [digest for _, (_, digest) in read]
        made: Collection[str] = ()
        wanted = await _select_thumbnails(self.thumbnails, digests)
        try:
            examined = await self.images.examine(plan, images, wanted, {digest: data for _, (data, digest) in read})
            made = examined.thumbnails
            return examined, tuple(CasePicture(role, digest) for role, (_, digest) in read)
        finally:
            self.thumbnails.forget(set(wanted).difference(made))


@dataclass(frozen=True, slots=True)
class _Probe:
    """The question about a crop of the edit that is asked beside the whole: who is asked, or why nobody is."""

    rubric: Rubric | None = None
    conversations: Sequence[Conversation] = ()
    region: tuple[float, str] = (0.0, "")
    why_not: str = ""
    boxes: Mapping[str, Box] = field(default_factory=dict)

    def add_to(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the whole with what was said about the crop."""
        if self.why_not:
            return flag_not_probed(verdict, self.why_not)
        ended = [conversation for conversation in self.conversations if not conversation.is_open]
        return add_probe(verdict, self.rubric, ended, self.region, self.boxes) if self.rubric else verdict


async def _select_thumbnails(thumbnails: ThumbnailSelector, digests: Sequence[str]) -> Collection[str]:
    """Return which images need a thumbnail; none if the ledger cannot tell."""
    try:
        return await thumbnails.select_new(digests)
    except BaseException as error:
        thumbnails.forget(digests)
        if not isinstance(error, Exception):
            raise
        # An answer that was paid for is worth more than a thumbnail.
        _log.warning("a case has no thumbnails: the ledger could not be asked for them", exc_info=True)
        return ()


def _raise_first(failures: Sequence[BaseException | None]) -> None:
    for failure in filter(None, failures):
        raise failure


def _check_waiting(conversations: Sequence[Conversation]) -> None:
    """Raise `Waiting` where answers come later."""
    if waiting := sum(conversation.is_waiting for conversation in conversations):
        raise Waiting(f"{waiting} answers are still to come")


def _combine(header: VerdictHeader, conversations: Sequence[Conversation]) -> Verdict:
    """Return the verdict of all conversations about the whole case."""
    jurors: Sequence[JuryMember] = conversations
    if header.rubric.is_preference:
        parts = len(dict.fromkeys(conversation.part for conversation in conversations))
        jurors = [
            combine_parts(replace(conversations[at].header, part=""), conversations[at : at + parts])
            for at in range(0, len(conversations), parts)
        ]
    return combine_verdicts(header, jurors) if len(jurors) > 1 else jurors[0].verdict


def _announce(entry: Entry) -> Entry:
    """Log a verdict, notify the observers, and return its entry."""
    verdict = entry.verdict
    _log.debug("case %s by %s: %s, %d requests", entry.case.id, verdict.judge, verdict.outcome, verdict.attempts)
    notify_observers(lambda observer: observer.on_verdict(verdict))
    return entry


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
    pairs = [(key, one) for key, one in zip(keys, conversations, strict=True) if not one.is_open]
    asked = [(key, conversation) for key, conversation in pairs if conversation.was_asked]
    return Entry(
        position=0,
        case=case,
        verdict=verdict,
        answers=tuple(make_stored_answer(key, one) for key, one in asked if one.verdict.answered),
        reused=not asked and verdict.answered,
        spent_usd=_sum_new_costs([one.verdict for _, one in asked]),
        used=tuple(key for key, one in pairs if not one.was_asked),
        transcripts=_collect_transcripts([one for _, one in asked], is_jury=len(pairs) > 1),
    )


def _collect_transcripts(asked: Sequence[Conversation], *, is_jury: bool) -> tuple[Transcript, ...]:
    """Return the conversations of more than one turn, and of a jury also those whose answer is stored nowhere else."""
    pairs = [(one, one.transcript) for one in asked]
    return tuple(
        transcript
        for one, transcript in pairs
        if len(transcript.turns) > 1 or (is_jury and transcript.turns and not one.verdict.answered)
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
    measured if anything was answered."""
    from beholder.verdicts.calibration import apply_calibration

    features: dict[str, float] = {}
    pair = find_pair(case)
    if calibration.instrument_names and pair and any(verdict.answered for verdict in verdicts):
        features, _ = await images.measure(pair, calibration.instrument_names)
    return apply_calibration(calibration, verdicts, features)


async def make_briefs(composer: Composer, case: Case, sizing: Sizing | None, images: ImagePool) -> tuple[Brief, ...]:
    """Read and prepare the images of a case and compose its briefs, one for each of its parts.

    Args:
        composer: Makes the briefs of one rubric.
        case: What is judged.
        sizing: How the judge wants its images; `None` for a brief without images.
        images: Reads and prepares images.

    Raises:
        CaseError: The case lacks an image.
        ImageError: An image cannot be read, or both candidates of a preference are the same one.
    """
    parts = composer.list_parts(case)
    if sizing is None:
        return tuple(composer.compose(case, None, part) for part in parts)
    roles = composer.rubric_for(case).roles
    missing = [role for role in roles if role not in case.images]
    if missing:
        raise CaseError(f"The case {case.id!r} lacks the image {', '.join(map(repr, missing))}.")
    prepared: dict[str, list[PreparedImage]] = {role: [] for role in roles}
    for role in roles:
        for number, source in enumerate(sources := case.sources(role), start=1):
            try:
                prepared[role].append(await images.prepare(source, sizing))
            except ImageError as error:
                name = role if len(sources) == 1 else f"{role} {number} of {len(sources)}"
                raise ImageError(f"{name}: {error}") from None
    candidates = [image.source_digest for role in CANDIDATES for image in prepared.get(role, ())]
    if composer.rubric.is_preference and len(candidates) == 2 and candidates[0] == candidates[1]:
        raise ImageError("first and second are the same image; there is nothing to compare")
    return tuple(composer.compose(case, prepared, part) for part in parts)


async def make_brief(composer: Composer, case: Case, sizing: Sizing | None, images: ImagePool) -> Brief:
    """Read and prepare the images of a case and compose its brief, of several the first; see `make_briefs`."""
    return (await make_briefs(composer, case, sizing, images))[0]


async def make_probe_brief(
    composer: Composer, case: Case, sizing: Sizing, images: ImagePool
) -> tuple[EditCrop, Brief | None]:
    """Crop the region of the edit and compose the brief with the questions of the probe.

    Args:
        composer: Makes the briefs of a rubric with a probe.
        case: A case that fits it.
        sizing: How the judge wants its images.
        images: Reads and crops images.

    Returns:
        The crops and the brief; without crops `None`, and `EditCrop.why_not` says why.
    """
    from beholder.instruments.edit_crop import EditCrop

    roles = composer.rubric_for(case).roles
    if missing := [role for role in PROBED_ROLES if role not in roles or role not in case.images]:
        return EditCrop(why_not=f"there is no image {', '.join(map(repr, missing))}"), None
    before, after = (case.sources(role)[0] for role in PROBED_ROLES)
    crop = await images.crop_edit_region((before, after), sizing)
    if crop.before is None or crop.after is None:
        return crop, None
    crops = dict(zip(PROBED_ROLES, (crop.before, crop.after), strict=True))
    return crop, composer.compose_probe(case, crops)


def describe_judges(judges: Sequence[Judge], samples: int) -> str:
    """Return the names of the judges as a verdict has them: `a + b ×3`."""
    names = " + ".join(judge.name for judge in judges)
    return f"{names} ×{samples}" if samples > 1 else names
