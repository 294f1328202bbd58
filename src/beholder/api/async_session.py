"""`AsyncSession`: many calls on one event loop that share connections, answer cache, budget, rate limits and ledger.

    judge ──► look in the ledger ──► `runs.case.CaseJudge` ──► write (calls of many tasks together) ──► verdict

With a ledger, the verdicts of a session are one run. Each process that uses the session is a worker on that run
(`runs.session_run`): the budget is granted, and the rate limits are shared, through the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
    Sized,
)
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self, TypeVar

from beholder.api.case_feed import CaseFeed, OnBadCase, finish_tasks, retrieve_error, take_next_case, take_result
from beholder.api.loop import CLOSED
from beholder.api.options import (
    Judges,
    Options,
    OptionsLike,
    RubricLike,
    SessionSetup,
    as_judges,
    compute_session_key,
    make_case,
    make_session_judges,
    make_settings,
)
from beholder.cases.case import Case
from beholder.cases.sources import CaseSource, iter_async_cases, iter_cases
from beholder.errors import LedgerError, UsageError
from beholder.judges.base import capabilities_of, check_judges
from beholder.rubrics.brief import Composer
from beholder.rubrics.rubric import Rubric
from beholder.runs.cache import MEMORY_ANSWERS, MemoryAnswerCache, call_is_stopped
from beholder.runs.case import CaseJudge, calibrate_case
from beholder.runs.image_pool import ImagePool
from beholder.runs.limits import Budget, RunLimits
from beholder.runs.session_run import SessionRun, find_or_create_session_run
from beholder.runs.suite import derive_case_schema
from beholder.verdicts.calibration import load_calibration
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    from beholder.api.run import Run
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import Entry, VerdictKey


_log = logging.getLogger(__name__)

T = TypeVar("T")

IsStopped = Callable[[], bool]


def _is_never_stopped() -> bool:
    return False


PREPARE_AHEAD = 0.25  # cases beyond the concurrency, as a share of it: their briefs are made while others wait


class AsyncSession:
    """Judges many cases on the caller's own event loop; see `Session`, which is the same for other code.

    Args:
        judge: A name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, which then form a jury. By default
            the instruments, which measure offline.
        ledger: Where verdicts are stored; `None` stores nothing.
        name: What the run is called. A session with the same name, judge, samples and options continues its run.
        budget: US dollars that are never passed.
        concurrency: How many cases are asked at once.
        samples: How often each judge is asked.
        options: See `Options`.

    Raises:
        UsageError: A value is wrong.
        SetupError: A judge cannot be asked: its key is missing, say.
        LedgerError: The ledger cannot be opened.
    """

    def __init__(
        self,
        judge: Judges = None,
        *,
        ledger: str | os.PathLike[str] | Ledger | None = None,
        name: str | None = None,
        budget: float | Decimal | None = None,
        concurrency: int = 32,
        samples: int = 1,
        options: OptionsLike = None,
    ) -> None:
        self._set_up(SessionSetup(judge, ledger, name, budget, concurrency, samples, Options.of(options)), "", None)

    @classmethod
    def _of(cls, setup: SessionSetup, run_id: str = "", *, workers: int | None = None) -> AsyncSession:
        """Return a session by its setup.

        Args:
            setup: Its arguments.
            run_id: The run that it goes on with; empty if that is to be found.
            workers: How many processes decode images; see `ImagePool`.
        """
        session = cls.__new__(cls)
        session._set_up(setup, run_id, workers)
        return session

    def _set_up(self, setup: SessionSetup, run_id: str, workers: int | None) -> None:
        if setup.name and setup.ledger is None:
            raise UsageError(f'A session has a name in a ledger: Session(name={setup.name!r}, ledger="beholder.db").')
        options = self._options = setup.options
        named = as_judges(setup.judge)
        budget = None if setup.budget is None else Decimal(str(setup.budget))
        settings = make_settings(named, options, setup.samples, setup.concurrency, budget)
        limits = RunLimits(Budget(budget))
        self._judges, self._own_judges = make_session_judges(named, settings, limits, options)
        self._calibration = load_calibration(options.calibration) if options.calibration else None
        self._images = ImagePool(allow_remote=options.allow_remote, workers=workers)
        self._own_ledger: Ledger | None = None
        self._run: SessionRun | None = None
        if setup.ledger is not None:
            key = compute_session_key(self._judges, setup.samples, options, self._calibration)
            ledger = self._open_ledger(setup.ledger, create=not run_id)
            try:
                if not run_id:
                    run_id = find_or_create_session_run(
                        ledger, setup.name or "", settings, options.prompt_text, key, sole=setup.sole
                    ).id
            except BaseException:
                if self._own_ledger is not None:
                    self._own_ledger.close()
                raise
            self._run = SessionRun(ledger, run_id, limits, options.total_timeout_s)
        self._memory = MemoryAnswerCache()
        self._case_judge = CaseJudge(
            self._judges,
            self._images,
            setup.samples,
            look_up=(self._run or self._memory).look_up if options.cache else None,
            slots=asyncio.Semaphore(setup.concurrency),
            timeout_s=options.total_timeout_s,
            audit=options.audit,
            thumbnails=self._run.thumbnails if self._run is not None and options.thumbnails else None,
            calibration=self._calibration,
            reserve=limits.reserve,
            release=self._run.release if self._run is not None and options.cache else None,
            run_id=run_id if self._run is not None else "",
            note=self._memory.note if self._run is None else None,  # else a known verdict is found in the run
        )
        self._window = setup.concurrency + math.ceil(setup.concurrency * PREPARE_AHEAD)
        self._slots = asyncio.Semaphore(self._window)
        self._composers: dict[str, tuple[Composer, ...]] = {}
        self._applying = asyncio.Lock()
        self._under_way: set[asyncio.Task[Verdict]] = set()
        self._calls: dict[VerdictKey, list[_Call]] = {}  # several of a key where one id has several contents
        self._unwritten: dict[VerdictKey, Entry] = {}  # verdicts that the ledger could not take
        self._cannot_write = False  # the last write failed
        self._joining: asyncio.Task[None] | None = None
        self._spent = Decimal(0)
        self._closed = False

    def _open_ledger(self, ledger: str | os.PathLike[str] | Ledger, *, create: bool) -> Ledger:
        from beholder.ledger.ledger import Ledger

        if not isinstance(ledger, Ledger | str | os.PathLike):
            raise UsageError(f"ledger is a path, a URL or an open Ledger, and {type(ledger).__name__} is none of them.")
        if not isinstance(ledger, Ledger):
            ledger = self._own_ledger = Ledger.open(ledger, create=create)
        return ledger

    async def __aenter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "AsyncSession and the functions that end in _async need asyncio; beside another library, such as trio, "
                "call a Session in a thread."
            ) from None
        return self

    def __repr__(self) -> str:
        return f"<AsyncSession, {f'run {self.run_id}' if self.run_id else 'without a ledger'}>"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def run_id(self) -> str | None:
        """The id of the session's run; `None` without a ledger."""
        return None if self._run is None else self._run.id

    @property
    def spent_usd(self) -> Decimal:
        """What is known to have been spent, in US dollars: by the run, in all its processes; or by this session."""
        if self._run is None or self._closed:
            return self._spent
        return self._run.ledger.run(self._run.id).spent_usd or Decimal(0)

    @property
    def run(self) -> Run:
        """The session's run, as it is in the ledger now. Raises `UsageError` without a ledger."""
        from beholder.api.run import load_session_run

        if self._run is None:
            raise UsageError('A session without a ledger has no run: AsyncSession(ledger="beholder.db").')
        return load_session_run(self._run.id, self._run.ledger.address, closed=self._closed)

    async def judge(self, rubric: RubricLike, case: Case | None = None, /, **inputs: object) -> Verdict:
        """Judge one case by one rubric. With a ledger, a call that is canceled is finished and stored nevertheless.

        The same case, asked for again while it is judged, is judged once.

        Args:
            rubric: A rubric, or its name, folder or YAML file.
            case: What is judged; or
            **inputs: its images and fields, by the names that the rubric declares.

        Returns:
            The verdict, which is stored by then. Whatever goes wrong with images or judges is its outcome.

        Raises:
            UsageError: Wrong use: an unknown rubric or input, a case that does not fit the rubric, a closed session.
            Waiting: The session was closed while another one, or another process, asked for the same answer.
        """
        composer = self._single_composer(rubric)
        return await self._judge_composed(composer, await _make_case([composer], case, inputs))

    async def judge_rubrics(
        self, rubrics: RubricLike | Sequence[RubricLike], case: Case | None = None, /, **inputs: object
    ) -> dict[str, Verdict]:
        """Judge one case by several rubrics; see `judge`. Returns the verdicts by the names of the rubrics."""
        composers = self._make_composers(rubrics)
        return await self._judge_by_all(composers, await _make_case(composers, case, inputs))

    async def _judge_by_all(
        self, composers: Sequence[Composer], made: Case, is_stopped: IsStopped = _is_never_stopped
    ) -> dict[str, Verdict]:
        """Judge a case by the rubrics of several composers; see `judge_rubrics`."""
        for composer in composers:
            await self._apply_rubric(composer, made)  # a case that does not fit is found before anything is paid for
        verdicts = await asyncio.gather(*(self._judge_composed(composer, made, is_stopped) for composer in composers))
        if self._calibration is not None and len(composers) > 1:
            # An aspect may be computed from numbers of several rubrics, which each verdict by itself lacks.
            verdicts = await calibrate_case(self._calibration, verdicts, made, self._images)
        return {composer.rubric.name: verdict for composer, verdict in zip(composers, verdicts, strict=True)}

    def judge_many(
        self,
        rubric: RubricLike,
        cases: CaseSource | AsyncIterable[object],
        /,
        *,
        ordered: bool = True,
        on_bad_case: OnBadCase = "raise",
        progress: bool = False,
    ) -> AsyncIterator[Verdict]:
        """Judge many cases by one rubric; see `Session.judge_many`. `cases` are iterated over on the event loop.

        They may also be an asynchronous iterable: while it waits for the next case, verdicts come as they are finished.
        """
        feed = self._make_feed(rubric, cases, on_bad_case, progress)
        return self._judge_live(feed, ordered) if feed.is_async else self._judge_feed(feed, ordered)

    def _make_feed(
        self, rubric: RubricLike, cases: CaseSource | AsyncIterable[object], on_bad_case: OnBadCase, progress: bool
    ) -> CaseFeed:
        """Return the cases of `judge_many`. Raises `UsageError`."""
        composer = self._single_composer(rubric)
        schema = derive_case_schema([composer.rubric], self._options.setting)
        if not any(capabilities_of(judge).needs_images(composer.rubric) for judge in self._judges):
            schema = replace(schema, roles=(*schema.roles, ()))
        total = len(cases) if isinstance(cases, Sized) and not isinstance(cases, str) else None
        rows = iter_async_cases(cases, schema) if isinstance(cases, AsyncIterable) else iter_cases(cases, schema)
        return CaseFeed(composer, rows, total, on_bad_case, progress)

    async def _judge_feed(self, feed: CaseFeed, ordered: bool) -> AsyncIterator[Verdict]:
        tasks: deque[asyncio.Task[Verdict]] = deque()
        with feed:
            try:
                async for case in feed:
                    tasks.append(asyncio.create_task(self._judge_composed(feed.composer, case)))
                    if len(tasks) >= self._window:
                        yield feed.count(await take_result(tasks, ordered))
                while tasks:
                    yield feed.count(await take_result(tasks, ordered))
            finally:
                await finish_tasks(tasks)

    async def _judge_live(self, feed: CaseFeed, ordered: bool) -> AsyncIterator[Verdict]:
        """Judge the cases of an asynchronous source, which may wait for verdicts before it goes on."""
        tasks: deque[asyncio.Task[Verdict]] = deque()
        cases = aiter(feed)
        following: asyncio.Task[Case | None] | None = asyncio.create_task(take_next_case(cases))
        with feed:
            try:
                while following is not None or tasks:
                    ready = list(tasks)[: 1 if ordered else None]
                    waiting: list[asyncio.Task[Any]] = [*ready]
                    if following is not None and len(tasks) < self._window:
                        waiting.append(following)
                    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    if following is not None and following in waiting and following.done():
                        case, following = following.result(), None
                        if case is not None:
                            tasks.append(asyncio.create_task(self._judge_composed(feed.composer, case)))
                            following = asyncio.create_task(take_next_case(cases))
                    for task in ready:
                        if task.done():
                            tasks.remove(task)
                            yield feed.count(await task)
            finally:
                if following is not None:
                    following.cancel()
                await finish_tasks([*tasks, *([following] if following is not None else [])])

    async def close(self) -> None:
        """Wait for the calls under way, and close connections and ledger. What was handed in stays open.

        A case that waits for an answer that another session or process asks for is not waited for: its `judge` raises
        `Waiting`.

        Raises:
            LedgerError: The ledger still cannot take some verdicts; it says in which other file they are.
        """
        if self._closed:
            return
        self._closed = True
        self._stop_waiting()
        while self._under_way:
            await asyncio.wait(self._under_way)
        try:
            if self._run is not None:
                for key in list(self._unwritten):
                    try:
                        await self._write(self._run, key, self._unwritten.pop(key))
                    except LedgerError:  # it takes none; they are rescued
                        break
                    except Exception as error:  # it cannot take this one
                        _log.warning("beholder: The verdict on %r cannot be written: %s", key[0], error)
                rescued = await self._run.rescue(list(self._unwritten.values())) if self._unwritten else None
                with suppress(LedgerError):
                    self._spent = self._run.ledger.run(self._run.id).spent_usd or Decimal(0)
                with nullcontext() if rescued is None else suppress(LedgerError):  # where they are matters more
                    await self._run.leave()
                if rescued is not None:
                    raise rescued
        finally:
            for judge in self._own_judges:
                await judge.aclose()
            self._images.close()
            if self._own_ledger is not None:
                self._own_ledger.close()

    def _stop_waiting(self) -> None:
        """Let no case begin a call that waits for an answer that somebody else asks for."""
        if self._run is not None:
            self._run.stop.set()

    def _make_composers(self, rubrics: RubricLike | Sequence[RubricLike]) -> tuple[Composer, ...]:
        """Return what makes the briefs of rubrics, loaded once for the session. Raises `UsageError`."""
        if isinstance(rubrics, str) and rubrics in self._composers:
            return self._composers[rubrics]
        loaded = self._options.load_rubrics(rubrics)
        check_judges(self._judges, loaded)
        composers = tuple(self._options.make_composer(rubric) for rubric in loaded)
        if isinstance(rubrics, str):
            self._composers[rubrics] = composers
        return composers

    def _single_composer(self, rubric: RubricLike) -> Composer:
        """Return what makes the briefs of one rubric. Raises `UsageError` for a name of several."""
        composers = self._make_composers(rubric)
        if len(composers) > 1:
            parts = ", ".join(composer.rubric.name for composer in composers)
            raise UsageError(
                f"{str(rubric)!r} stands for several rubrics ({parts}); use one of them, or judge_rubrics."
            )
        return composers[0]

    async def _apply_rubric(self, composer: Composer, case: Case) -> None:
        """Make the rubric of a case, in a thread: the template of a stranger may take seconds, which the loop has not.

        Raises:
            CaseError: The case does not fit.
            RubricError: The template cannot be rendered.
        """
        if not composer.is_ready_for(case):
            async with self._applying:  # once for all cases that wait for it
                await asyncio.to_thread(composer.check, case)

    async def _judge_composed(
        self, composer: Composer, case: Case, is_stopped: IsStopped = _is_never_stopped
    ) -> Verdict:
        """Judge a case by the rubric of a composer; see `judge`. Once `is_stopped`, it does not wait for others."""
        await self._apply_rubric(composer, case)
        if self._closed:
            raise UsageError(CLOSED)
        key = (case.id, composer.rubric.name)
        same = [call for call in self._calls.get(key, ()) if call.is_for(composer.rubric, case)]
        call = same[0] if same and self._options.cache else self._start_call(composer, case, is_stopped)
        call.waiting += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiting -= 1
            if self._run is None and not call.waiting:  # nobody would get the verdict
                call.task.cancel()
                self._forget_call(call)

    def _start_call(self, composer: Composer, case: Case, is_stopped: IsStopped) -> _Call:
        context = copy_context()
        context.run(call_is_stopped.set, is_stopped)
        work = (
            self._judge_case(composer, case) if self._run is None else self._judge_and_store(self._run, composer, case)
        )
        call = _Call(composer.rubric, case, asyncio.create_task(work, context=context))
        self._under_way.add(call.task)
        call.task.add_done_callback(self._under_way.discard)
        call.task.add_done_callback(retrieve_error)
        call.task.add_done_callback(lambda _: self._forget_call(call))
        self._calls.setdefault(call.key, []).append(call)
        return call

    def _forget_call(self, call: _Call) -> None:
        """Let no other caller wait for a call; does nothing the second time."""
        others = [other for other in self._calls.pop(call.key, ()) if other is not call]
        if others:
            self._calls[call.key] = others

    async def _judge_case(self, composer: Composer, case: Case) -> Verdict:
        async with self._slots:
            entry = await self._case_judge.judge(composer, case)
            self._memory.add(entry.answers)
            self._spent += entry.spent_usd or Decimal(0)
            return _verdict_of(entry)

    async def _judge_and_store(self, run: SessionRun, composer: Composer, case: Case) -> Verdict:
        async with self._slots:
            await run.check_file()
            if self._joining is None or (self._joining.done() and not run.joined):  # the ledger could not be reached
                self._joining = asyncio.create_task(run.join())
            await self._joining
            await run.add_rubric(composer.rubric)
            if self._options.cache and (verdict := await run.find_verdict(case, composer.rubric_for(case))):
                return verdict
            key = (case.id, composer.rubric.name)
            entry = self._unwritten.pop(key, None)
            if entry is not None and (entry.case != case or entry.failure is not None or not self._options.cache):
                await self._write(run, key, entry)  # it is paid for, and no verdict for this call
                entry = None
            if entry is None:
                if self._cannot_write and self._unwritten:  # by a disk quota, say: then nothing is asked
                    await self._write(run, *self._unwritten.popitem())
                entry = await self._case_judge.judge(composer, case)
            await self._write(run, key, entry)
            return _verdict_of(entry)

    async def _write(self, run: SessionRun, key: VerdictKey, entry: Entry) -> None:
        """Store a verdict. One that cannot be stored is kept, since it was paid for: a later call only writes it."""
        try:
            await run.write(entry)
        except Exception as error:
            self._cannot_write = isinstance(error, LedgerError)
            self._unwritten[key] = entry
            if len(self._unwritten) > MEMORY_ANSWERS:
                del self._unwritten[next(iter(self._unwritten))]
            raise
        self._cannot_write = False


@dataclass(slots=True, eq=False)
class _Call:
    """A case that is being judged, and how many callers wait for its verdict."""

    rubric: Rubric
    case: Case
    task: asyncio.Task[Verdict]
    waiting: int = 0

    @property
    def key(self) -> VerdictKey:
        return self.case.id, self.rubric.name

    def is_for(self, rubric: Rubric, case: Case) -> bool:
        return self.rubric == rubric and self.case == case


def _verdict_of(entry: Entry) -> Verdict:
    """Return the verdict of an entry that is stored, or raise why a judge failed for good."""
    if entry.failure is not None:
        raise entry.failure
    return entry.verdict


async def _make_case(composers: Sequence[Composer], case: Case | None, inputs: Mapping[str, object]) -> Case:
    """Return the case of a call. Images of inputs are read and encoded in a thread: the loop has other calls to do."""
    rubrics = [composer.rubric for composer in composers]
    if case is not None:
        return make_case(rubrics, case, inputs)
    return await asyncio.to_thread(make_case, rubrics, None, inputs)
