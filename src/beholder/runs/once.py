"""One case from beginning to end: its images, its brief, its judges, its verdict."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from beholder.cases import Case
from beholder.errors import CaseError, ImageError, UsageError
from beholder.images import PreparedImage, Sizing, obtain, prepare
from beholder.judges.asking import Asked, ask
from beholder.judges.model import judge_from
from beholder.judges.protocol import Judge
from beholder.rubrics.brief import Brief
from beholder.rubrics.composing import Composer
from beholder.rubrics.library import load_all
from beholder.rubrics.model import Rubric
from beholder.verdicts.combining import agreement, combine, spread
from beholder.verdicts.judging import Head, scored_verdict
from beholder.verdicts.model import Flag, Juror, Jury, Outcome, Verdict, known_sum

T = TypeVar("T")
RubricLike = Rubric | str | os.PathLike[str]
JudgeLike = Judge | str


class Options(TypedDict, total=False):
    """How a case is judged, beyond rubric and judges.

    `samples`: how often each judge is asked (above 1 it is a jury). `prompt`: the text of a prompt of your own.
    `setting`: one of the rubric's settings; without it the images decide. `style_folders`: where your own styles are.
    `allow_remote`: whether http(s) images are fetched.
    """

    samples: int
    prompt: str | None
    setting: str
    style_folders: Sequence[str | os.PathLike[str]]
    allow_remote: bool


def judge(
    rubric: RubricLike, case: Case, judge: JudgeLike | Sequence[JudgeLike], **options: Unpack[Options]
) -> Verdict:
    """Judges one case by one rubric.

    `judge` is a name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, who then form a jury. Whatever goes
    wrong with images or judges is an outcome of the verdict; only wrong use raises (`UsageError`). For `options` see
    `Options`. Inside a running event loop use `judge_async`.
    """
    return _run(judge_async(rubric, case, judge, **options), judge)


async def judge_async(
    rubric: RubricLike, case: Case, judge: JudgeLike | Sequence[JudgeLike], **options: Unpack[Options]
) -> Verdict:
    """`judge`, for code that is asynchronous itself."""
    verdicts = await judge_all_async(rubric, case, judge, **options)
    if len(verdicts) > 1:
        raise UsageError(f"{rubric!r} stands for {len(verdicts)} rubrics, one verdict each; use judge_all.")
    return verdicts[0]


def judge_all(
    rubric: RubricLike, case: Case, judge: JudgeLike | Sequence[JudgeLike], **options: Unpack[Options]
) -> tuple[Verdict, ...]:
    """Judges one case by every rubric that a name stands for: one verdict each, three for `edit`."""
    return _run(judge_all_async(rubric, case, judge, **options), judge)


async def judge_all_async(
    rubric: RubricLike, case: Case, judge: JudgeLike | Sequence[JudgeLike], **options: Unpack[Options]
) -> tuple[Verdict, ...]:
    """`judge_all`, for code that is asynchronous itself."""
    rubrics = (rubric,) if isinstance(rubric, Rubric) else load_all(rubric)
    named = _listed(judge)
    samples = options.get("samples", 1)
    if samples < 1:
        raise UsageError(f"A case is judged at least once: samples is {samples} and should be 1 or more.")
    if not named:
        raise UsageError("At least one judge is needed.")
    composers = [composer(one, options) for one in rubrics]
    allow_remote = options.get("allow_remote", False)
    async with _judges(named) as judges:
        return tuple([await _verdict(one, case, judges, samples, allow_remote) for one in composers])


def composer(rubric: Rubric, options: Options) -> Composer:
    """The composer of the briefs that these options ask for."""
    return Composer(
        rubric,
        prompt=options.get("prompt"),
        setting=options.get("setting", ""),
        style_folders=[Path(folder) for folder in options.get("style_folders", ())],
    )


async def brief_of(composer: Composer, case: Case, sizing: Sizing, *, allow_remote: bool = False) -> Brief:
    """The brief of a case, its images read and prepared. Raises `CaseError` or `ImageError`."""
    roles = composer.rubric_for(case).roles
    missing = [role for role in roles if role not in case.images]
    if missing:
        raise CaseError(f"The case {case.id!r} lacks the image {', '.join(map(repr, missing))}.")
    images = await asyncio.gather(*(_prepared(case, role, sizing, allow_remote) for role in roles))
    return composer.compose(case, dict(zip(roles, images, strict=True)))


async def _prepared(case: Case, role: str, sizing: Sizing, allow_remote: bool) -> PreparedImage:
    try:
        data = await obtain(case.images[role], allow_remote=allow_remote)
        return await asyncio.to_thread(prepare, data, sizing, name=role)
    except ImageError as error:
        raise ImageError(f"{role}: {error}") from None


async def _verdict(
    composer: Composer, case: Case, judges: Sequence[Judge], samples: int, allow_remote: bool
) -> Verdict:
    rubric = composer.rubric_for(case)
    briefs: dict[Sizing, Brief] = {}
    try:
        for one in judges:
            if one.sizing not in briefs:
                briefs[one.sizing] = await brief_of(composer, case, one.sizing, allow_remote=allow_remote)
    except ImageError as error:
        return Head(case.id, rubric, _names(judges, samples)).verdict(Outcome.UNREADABLE, str(error))
    jurors = [(one, sample) for one in judges for sample in range(samples)]
    asked = await asyncio.gather(
        *(ask(one, briefs[one.sizing], Head(case.id, rubric, one.name), sample=sample) for one, sample in jurors)
    )
    if len(asked) == 1:
        return asked[0].verdict
    return _jury(Head(case.id, rubric, _names(judges, samples)), asked, [sample for _, sample in jurors])


def _jury(head: Head, asked: Sequence[Asked], samples: Sequence[int]) -> Verdict:
    """One verdict from many. A juror without a score is counted, and takes no part in any number."""
    verdicts = [one.verdict for one in asked]
    answers = [one.observed for one in asked if one.observed is not None]
    failed = Counter(verdict.outcome for verdict in verdicts if not verdict.scored)
    said = ", ".join(f"{count} {outcome}" for outcome, count in failed.items())
    if answers:
        flags = (Flag("jurors_failed", said=said, why="they take no part in the scores"),) if failed else ()
        verdict = scored_verdict(head, combine(head.rubric, answers), flags=flags)
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
        images=verdicts[0].images,
        usage={name: known_sum([one.usage.get(name) for one in verdicts]) for name in verdicts[0].usage},
        cost_usd=known_sum([one.cost_usd for one in verdicts]),
        latency_s=max((one.latency_s for one in verdicts if one.latency_s is not None), default=None),
        attempts=sum(one.attempts for one in verdicts),
        brief_digest=verdicts[0].brief_digest,
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
    )


@asynccontextmanager
async def _judges(named: Sequence[JudgeLike]) -> AsyncIterator[list[Judge]]:
    """Judges by name are made and closed here; a judge that was handed in stays its owner's."""
    made = {position: judge_from(one) for position, one in enumerate(named) if isinstance(one, str)}
    try:
        yield [made.get(position) or one for position, one in enumerate(named)]  # type: ignore[misc]  # str are in made
    finally:
        for one in made.values():
            await one.aclose()


def _names(judges: Sequence[Judge], samples: int) -> str:
    names = " + ".join(one.name for one in judges)
    return f"{names} ×{samples}" if samples > 1 else names


def _listed(judge: JudgeLike | Sequence[JudgeLike]) -> list[JudgeLike]:
    return [judge] if isinstance(judge, str | Judge) else list(judge)


def _run(work: Coroutine[Any, Any, T], judge: JudgeLike | Sequence[JudgeLike]) -> T:
    """Runs `work` in an event loop of its own. Judges let go of their connections, which would outlive that loop."""

    async def and_let_go() -> T:
        try:
            return await work
        finally:
            for one in _listed(judge):
                if not isinstance(one, str):
                    await one.aclose()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(and_let_go())
    work.close()
    raise UsageError("An event loop is running already: await judge_async (or judge_all_async) instead.")
