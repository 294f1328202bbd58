"""The cases of `judge_many`, read one by one as judges become free, and the verdicts on them as they come."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
)
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from beholder.cases.case import Case, CaseRow
from beholder.errors import CaseError, UsageError
from beholder.reports.progress import progress_bar
from beholder.rubrics.brief import Composer
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger(__name__)

T = TypeVar("T")
OnBadCase = Literal["raise", "skip"]


async def take_next_case(cases: AsyncIterator[Case]) -> Case | None:
    return await anext(cases, None)


async def finish_tasks(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Wait for what is under way when an iteration is left: calls are finished and stored."""
    if tasks:
        await asyncio.wait(tasks)
        for task in tasks:
            retrieve_error(task)


def retrieve_error(task: asyncio.Task[Any]) -> None:
    """Look at the error of a call that nobody waits for any more: it is not to be logged as lost."""
    if not task.cancelled():
        task.exception()


async def take_result(tasks: deque[asyncio.Task[T]], ordered: bool) -> T:
    """Take a result out of the tasks: the first one, or whichever is finished first."""
    if ordered:
        return await tasks.popleft()
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    task = done.pop()
    tasks.remove(task)
    return await task


class CaseFeed:
    """The cases of one `judge_many`, read and checked one by one as they are asked for, and its progress bar."""

    def __init__(
        self,
        composer: Composer,
        rows: Iterable[CaseRow] | AsyncIterable[CaseRow],
        total: int | None,
        on_bad_case: OnBadCase,
        progress: bool,
    ) -> None:
        if on_bad_case not in ("raise", "skip"):
            raise UsageError(f"on_bad_case is 'raise' or 'skip', not {on_bad_case!r}.")
        self.composer, self._rows, self._skip = composer, rows, on_bad_case == "skip"
        self._bar = progress_bar(composer.rubric.name, total, shown=progress)
        self._update: Callable[..., None]

    def __iter__(self) -> Iterator[Case]:
        """Return the cases that fit the rubric. Raises `CaseError` for one that does not, unless it is skipped."""
        assert isinstance(self._rows, Iterable)
        return (row.case for row in self._rows if self._fits(row) and row.case is not None)

    async def __aiter__(self) -> AsyncIterator[Case]:
        """Return the cases as `__iter__` does, on an event loop; the source may be an asynchronous one."""
        rows = self._rows if isinstance(self._rows, AsyncIterable) else _iterate_async(self._rows)
        async for row in rows:
            ready = row.case is None or self.composer.is_ready_for(row.case)
            if (self._fits(row) if ready else await asyncio.to_thread(self._fits, row)) and row.case is not None:
                yield row.case

    @property
    def is_async(self) -> bool:
        return isinstance(self._rows, AsyncIterable)

    def _fits(self, row: CaseRow) -> bool:
        try:
            if row.case is None:
                raise CaseError(f"{row.location}: {'; '.join(row.problems)}.")
            self.composer.check(row.case)
        except CaseError as error:
            if not self._skip:
                raise
            _log.warning("beholder: a case is skipped: %s", error)
            return False
        return True

    def count(self, verdict: Verdict) -> Verdict:
        """Count a verdict in the progress bar, and return it."""
        self._update(advance=1)
        return verdict

    def __enter__(self) -> Self:
        self._update = self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)


async def _iterate_async(values: Iterable[T]) -> AsyncIterator[T]:
    for value in values:
        yield value
