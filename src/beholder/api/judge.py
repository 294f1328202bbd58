"""One case from beginning to end, for programs: `judge` and its twins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from beholder.cases.case import Case
from beholder.errors import UsageError
from beholder.judges.base import INSTRUMENTS, Judge, check_judges
from beholder.judges.model import judge_from
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubric, load_rubrics
from beholder.rubrics.rubric import Rubric
from beholder.runs.case import CaseJudge, apply_calibration
from beholder.runs.image_pool import ImagePool
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


T = TypeVar("T")
RubricLike = Rubric | str | os.PathLike[str]
JudgeLike = Judge | str


class JudgeOptions(TypedDict, total=False):
    """How a case is judged, beyond rubric and judges.

    `samples`: how often each judge is asked (above 1 it is a jury). `prompt`: the text of a prompt of your own.
    `setting`: one of the rubric's settings; without it the images decide. `style_folders`: where your own styles are.
    `allow_remote`: whether remote images (https, s3, gs) are fetched. `audit`: whether the pixels of a pair are
    measured beside what a model says of them (unless said, they are). `calibration`: a file of `beholder calibrate`;
    verdicts then also say what people would.
    """

    samples: int
    prompt: str | None
    setting: str
    style_folders: Sequence[str | os.PathLike[str]]
    allow_remote: bool
    audit: bool
    calibration: str | os.PathLike[str] | None


def judge(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> Verdict:
    """Judges one case by one rubric.

    `judge` is a name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, who then form a jury; unless one is
    given, it is `"instruments"`, which measures offline and leaves open what cannot be measured. Whatever goes wrong
    with images or judges is an outcome of the verdict; only wrong use raises (`UsageError`). For `options` see
    `Options`. Inside a running event loop use `judge_async`.
    """
    return _run_in_new_loop(judge_async(rubric, case, judge, **options), judge)


async def judge_async(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> Verdict:
    """`judge`, for code that is asynchronous itself."""
    one = rubric if isinstance(rubric, Rubric) else load_rubric(rubric)
    [(verdict, _)] = await judge_by_rubrics([one], case, judge, options)
    return verdict


def judge_all(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> tuple[Verdict, ...]:
    """Judges one case by every rubric that a name stands for: one verdict each, three for `edit`."""
    return _run_in_new_loop(judge_all_async(rubric, case, judge, **options), judge)


async def judge_all_async(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> tuple[Verdict, ...]:
    """`judge_all`, for code that is asynchronous itself."""
    rubrics = (rubric,) if isinstance(rubric, Rubric) else load_rubrics(rubric)
    return tuple(verdict for verdict, _ in await judge_by_rubrics(rubrics, case, judge, options))


async def judge_by_rubrics(
    rubrics: Sequence[Rubric], case: Case, judge: JudgeLike | Sequence[JudgeLike], options: JudgeOptions
) -> list[tuple[Verdict, Rubric]]:
    """A verdict by each rubric, and the rubric as the case met it. All wrong use is found before anybody is asked."""
    if unknown := set(options) - set(JudgeOptions.__annotations__):
        raise UsageError(
            f"There is no option {', '.join(sorted(unknown))}; there are {', '.join(JudgeOptions.__annotations__)}."
        )
    if not isinstance(case, Case):
        raise UsageError(f"One case is judged at a time, and this is a {type(case).__name__}; for many: beholder run.")
    samples = options.get("samples", 1)
    if samples < 1:
        raise UsageError(f"A case is judged at least once: samples is {samples} and should be 1 or more.")
    named = _as_list(judge)
    if not named:
        raise UsageError("At least one judge is needed.")
    calibration = _load_calibration(options.get("calibration"))
    composers = [make_composer(one, options) for one in rubrics]
    settled = [one.rubric_for(case) for one in composers]
    pictures = ImagePool(allow_remote=options.get("allow_remote", False), workers=0)
    async with _open_judges(named) as judges:
        check_judges(judges, rubrics)
        case_judge = CaseJudge(judges, pictures, samples, audit=options.get("audit", True))
        judged = [await case_judge.judge(one, case) for one in composers]
    found = [one.verdict for one in judged]
    if calibration is not None:
        found = await apply_calibration(calibration, found, case, pictures)
    return list(zip(found, settled, strict=True))


def make_composer(rubric: Rubric, options: JudgeOptions) -> Composer:
    """The composer of the briefs that these options ask for."""
    return Composer(
        rubric,
        prompt=options.get("prompt"),
        setting=options.get("setting", ""),
        style_folders=[Path(folder) for folder in options.get("style_folders", ())],
    )


def _load_calibration(path: str | os.PathLike[str] | None) -> Calibration | None:
    if path is None:
        return None
    from beholder.verdicts.calibration import load_calibration

    return load_calibration(path)


@asynccontextmanager
async def _open_judges(named: Sequence[JudgeLike]) -> AsyncIterator[list[Judge]]:
    """Judges by name are made and closed here; a judge that was handed in stays its owner's."""
    made: list[Judge] = []
    seated: list[Judge] = []
    try:
        for one in named:
            if isinstance(one, str):
                made.append(judge_from(one))
            seated.append(made[-1] if isinstance(one, str) else one)
        yield seated
    finally:
        for one in made:
            await one.aclose()


def _as_list(judge: JudgeLike | Sequence[JudgeLike]) -> list[JudgeLike]:
    return [judge] if isinstance(judge, str | Judge) else list(judge)


def _run_in_new_loop(work: Coroutine[Any, Any, T], judge: JudgeLike | Sequence[JudgeLike]) -> T:
    """Runs `work` in an event loop of its own. Judges let go of their connections, which would outlive that loop."""

    async def and_let_go() -> T:
        try:
            return await work
        finally:
            for one in _as_list(judge):
                if not isinstance(one, str):
                    await one.aclose()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(and_let_go())
    work.close()
    raise UsageError("An event loop is running already: await judge_async (or judge_all_async) instead.")
