"""The public functions that judge one case: `judge`, `judge_all`, and both for asynchronous code."""

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
from beholder.judges.factory import judge_from
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubric, load_rubrics
from beholder.rubrics.rubric import Rubric
from beholder.runs.case import CaseJudge, calibrate_case
from beholder.runs.image_pool import ImagePool
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


T = TypeVar("T")
RubricLike = Rubric | str | os.PathLike[str]
JudgeLike = Judge | str


class JudgeOptions(TypedDict, total=False):
    """How a case is judged, beyond rubric and judges. Everything is optional.

    Attributes:
        samples: How often each judge is asked; above 1 it is a jury.
        prompt: The text of a prompt of your own.
        setting: One of the rubric's settings; without it the images decide.
        style_folders: Folders with styles of your own.
        allow_remote: Fetch remote images (https, s3, gs).
        audit: Measure the pixels of a pair beside what a model says of them; by default it is done.
        calibration: A file of `beholder calibrate`: verdicts then also say how people would rate.
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
    """Judge one case by one rubric. Inside a running event loop use `judge_async`.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        case: What is judged.
        judge: A name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, which then form a jury. By default
            `"instruments"`, which measures offline and leaves out what cannot be measured.
        **options: See `JudgeOptions`.

    Returns:
        The verdict. Whatever goes wrong with images or judges is its outcome.

    Raises:
        UsageError: Wrong use: an unknown rubric, judge or option, or a case that does not fit the rubric.
    """
    return _run_in_new_loop(judge_async(rubric, case, judge, **options), judge)


async def judge_async(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> Verdict:
    """`judge`, for code that is asynchronous itself."""
    loaded = rubric if isinstance(rubric, Rubric) else load_rubric(rubric)
    [(verdict, _)] = await judge_by_rubrics([loaded], case, judge, options)
    return verdict


def judge_all(
    rubric: RubricLike,
    case: Case,
    judge: JudgeLike | Sequence[JudgeLike] = INSTRUMENTS,
    **options: Unpack[JudgeOptions],
) -> tuple[Verdict, ...]:
    """Judge one case by every rubric that a name stands for: one verdict each, three for `edit`. See `judge`."""
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
    """Judge one case by several rubrics.

    Returns:
        A verdict by each rubric, and the rubric with the setting and style of the case.

    Raises:
        UsageError: Wrong use; found before any judge is asked.
    """
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
    composers = [make_composer(rubric, options) for rubric in rubrics]
    case_rubrics = [composer.rubric_for(case) for composer in composers]
    images = ImagePool(allow_remote=options.get("allow_remote", False), workers=0)
    async with _open_judges(named) as judges:
        check_judges(judges, rubrics)
        case_judge = CaseJudge(judges, images, samples, audit=options.get("audit", True))
        verdicts = [(await case_judge.judge(composer, case)).verdict for composer in composers]
    if calibration is not None:
        verdicts = await calibrate_case(calibration, verdicts, case, images)
    return list(zip(verdicts, case_rubrics, strict=True))


def make_composer(rubric: Rubric, options: JudgeOptions) -> Composer:
    """Return the composer of the briefs of a rubric with these options."""
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
    """Make the judges that are given by name, and close them at the end; a given `Judge` is closed by its owner."""
    made: list[Judge] = []
    judges: list[Judge] = []
    try:
        for judge in named:
            if isinstance(judge, str):
                made.append(judge_from(judge))
            judges.append(made[-1] if isinstance(judge, str) else judge)
        yield judges
    finally:
        for judge in made:
            await judge.aclose()


def _as_list(judge: JudgeLike | Sequence[JudgeLike]) -> list[JudgeLike]:
    return [judge] if isinstance(judge, str | Judge) else list(judge)


def _run_in_new_loop(work: Coroutine[Any, Any, T], judge: JudgeLike | Sequence[JudgeLike]) -> T:
    """Run `work` in an event loop of its own. Given judges close their connections, which would outlive that loop."""

    async def run_and_close() -> T:
        try:
            return await work
        finally:
            for given in _as_list(judge):
                if not isinstance(given, str):
                    await given.aclose()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_and_close())
    work.close()
    raise UsageError("An event loop is running already: await judge_async (or judge_all_async) instead.")
