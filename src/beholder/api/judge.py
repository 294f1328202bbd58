"""The public functions that judge one case: `judge`, `judge_rubrics`, both for asynchronous code, and `make_briefs`."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from beholder.api.async_session import AsyncSession
from beholder.api.loop import LoopThread, wait_until_done
from beholder.api.options import (
    Judges,
    Options,
    OptionsLike,
    RubricLike,
    SessionSetup,
    as_judges,
    make_case,
    make_settings,
)
from beholder.api.session import EXIT_S
from beholder.cases.case import Case
from beholder.judges.base import INSTRUMENTS
from beholder.judges.factory import judge_sizing
from beholder.rubrics.brief import Brief
from beholder.runs.case import make_brief, make_probe_brief
from beholder.runs.image_pool import ImagePool
from beholder.verdicts.verdict import Verdict

T = TypeVar("T")


def judge(
    rubric: RubricLike,
    case: Case | None = None,
    /,
    *,
    judge: Judges = None,
    samples: int = 1,
    options: OptionsLike = None,
    **inputs: object,
) -> Verdict:
    """Judge one case by one rubric. For many cases use a `Session`.

    It blocks, and may be called from any thread, also inside a running event loop.

    Args:
        rubric: A rubric, or its name, folder or YAML file.
        case: What is judged; or
        judge: A name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, which then form a jury. By default
            the instruments, which measure offline and leave out what cannot be measured.
        samples: How often each judge is asked; above 1 it is a jury.
        options: See `Options`; a mapping with the same keys will do.
        **inputs: In place of `case`, its images and fields, by the names that the rubric declares.

    Returns:
        The verdict. Whatever goes wrong with images or judges is its outcome.

    Raises:
        UsageError: Wrong use: an unknown rubric, judge, option or input, or a case that does not fit the rubric.
    """
    return _run(judge_async(rubric, case, judge=judge, samples=samples, options=options, **inputs))


def judge_rubrics(
    rubrics: RubricLike | Sequence[RubricLike],
    case: Case | None = None,
    /,
    *,
    judge: Judges = None,
    samples: int = 1,
    options: OptionsLike = None,
    **inputs: object,
) -> dict[str, Verdict]:
    """Judge one case by several rubrics: a family such as `"edit"`, or a list. See `judge`.

    Returns:
        The verdicts by the names of the rubrics, in their order.
    """
    return _run(judge_rubrics_async(rubrics, case, judge=judge, samples=samples, options=options, **inputs))


async def judge_async(
    rubric: RubricLike,
    case: Case | None = None,
    /,
    *,
    judge: Judges = None,
    samples: int = 1,
    options: OptionsLike = None,
    **inputs: object,
) -> Verdict:
    """`judge`, for code that is asynchronous itself: on the caller's own event loop."""
    async with _open_session(judge, samples, options) as session:
        return await session.judge(rubric, case, **inputs)


async def judge_rubrics_async(
    rubrics: RubricLike | Sequence[RubricLike],
    case: Case | None = None,
    /,
    *,
    judge: Judges = None,
    samples: int = 1,
    options: OptionsLike = None,
    **inputs: object,
) -> dict[str, Verdict]:
    """`judge_rubrics`, for code that is asynchronous itself: on the caller's own event loop."""
    async with _open_session(judge, samples, options) as session:
        return await session.judge_rubrics(rubrics, case, **inputs)


def _open_session(judge: Judges, samples: int, options: OptionsLike) -> AsyncSession:
    """Return a session for one case, which starts no process for its few images."""
    setup = SessionSetup(judge, concurrency=1, samples=samples, options=Options.of(options))
    return AsyncSession._of(setup, workers=0)


def make_briefs(
    rubrics: RubricLike | Sequence[RubricLike],
    case: Case | None = None,
    /,
    *,
    judge: Judges = None,
    options: OptionsLike = None,
    **inputs: object,
) -> dict[str, Brief]:
    """Return what a judge would be asked, without asking it. See `judge_rubrics`.

    Args:
        rubrics: A rubric or several.
        case: What is judged; or
        judge: Whose images the briefs have; no key is needed. Of several it is the first.
        options: See `Options`.
        **inputs: In place of `case`, its images and fields.

    Returns:
        The briefs by the names of the rubrics; of a preference, which is asked in two orders, the first one. With
        `probe` also the one about the crop, where there is one to show, by the name of its rubric: `RUBRIC-probe`.

    Raises:
        UsageError: Wrong use, as with `judge`.
        ImageError: An image cannot be read.
    """
    chosen = Options.of(options).read_prompt()
    first = as_judges(judge)[0]
    settings = make_settings([INSTRUMENTS], chosen.without_model())
    composers = [chosen.make_composer(rubric) for rubric in chosen.load_rubrics(rubrics)]
    made = make_case([composer.rubric for composer in composers], case, inputs)
    if isinstance(first, str):
        params = {**settings.image_params(), **chosen.params}
        sizing = judge_sizing("openai:any" if judge is None else first, params)
    else:
        sizing = first.sizing
    images = ImagePool(allow_remote=chosen.allow_remote, workers=0)

    async def compose() -> dict[str, Brief]:
        briefs: dict[str, Brief] = {}
        for one in composers:
            briefs[one.rubric.name] = await make_brief(one, made, sizing, images)
            if one.probe_rubric is not None:
                _, probe = await make_probe_brief(one, made, sizing, images)
                briefs |= {probe.rubric: probe} if probe is not None else {}
        return briefs

    return _run(compose())


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run work on the event loop of this process. Ctrl-C cancels it: there is no ledger to store a verdict in."""
    future = _process_loop().submit(work)
    try:
        wait_until_done([future])
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


_lock = threading.Lock()
_loop: LoopThread | None = None


def _process_loop() -> LoopThread:
    """Return the event loop of this process on which `judge` works; started by the first call."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = LoopThread("beholder-judge")
        return _loop


@atexit.register
def _stop_at_exit() -> None:
    """Close the connections that judges have on the loop."""
    if _loop is not None:
        _loop.stop()
        _loop.join(EXIT_S)


def _start_anew_in_child() -> None:
    """Forget the loop of the parent process, whose thread does not run here."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
