"""`Session`: many calls, from any thread, that share connections, answer cache, budget, rate limits and ledger.

A `Session` runs an `AsyncSession` on an event loop in a daemon thread. So it can be used from several threads, inside a
running event loop (a notebook) and beside other async libraries. A process that got it by fork or by pickling opens
connections of its own, and continues the same run.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from decimal import Decimal
from functools import partial
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, Self, TypeVar

from beholder.api.arguments import check_stop
from beholder.api.async_session import AsyncSession
from beholder.api.case_feed import CaseFeed, OnBadCase
from beholder.api.loop import CLOSED, LoopThread, main_was_interrupted, wait_for, wait_until_done
from beholder.api.options import Judges, Options, OptionsLike, RubricLike, SessionSetup, as_judges, make_case
from beholder.cases.case import Case
from beholder.cases.sources import CaseSource
from beholder.errors import UsageError, Waiting
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    from beholder.api.run import Run
    from beholder.ledger.ledger import Ledger


T = TypeVar("T")

EXIT_S = 60.0  # how long the end of the process waits for calls under way of sessions that were left open


class SessionWorker:
    """A session in one process: an `AsyncSession` and the event loop on which it works.

    Args:
        setup: The arguments of the session.
        run_id: The run that it goes on with; empty if that is to be found.
        key: Which session it is; copies of it in this process use the same worker.
    """

    def __init__(self, setup: SessionSetup, run_id: str, key: str) -> None:
        self.pid = os.getpid()
        self.key = key
        self.users: weakref.WeakSet[Session] = weakref.WeakSet()
        self.session = AsyncSession._of(setup, run_id)
        self.loop = LoopThread("beholder-session")
        self._calls: set[Future[Any]] = set()
        self._closing: Future[None] | None = None
        self._guard = threading.RLock()  # a finalizer may come in the same thread
        _open_workers.add(self)
        if parent_process() is not None:
            # A child of `multiprocessing` runs no `atexit` functions.
            Finalize(None, _close_at_exit, exitpriority=100)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a call on the loop.

        Raises:
            UsageError: This is the loop's own thread, or the session is closed.
            KeyboardInterrupt: Ctrl-C has ended the program: no new call begins.
        """
        if main_was_interrupted():
            work.close()
            raise KeyboardInterrupt
        with self._guard:
            if self._closing is not None:
                work.close()
                raise UsageError(CLOSED)
            call = self.loop.submit(work)
            self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return call

    def run(self, judge: Callable[[Callable[[], bool]], Coroutine[Any, Any, T]]) -> T:
        """Run a call on the loop and return its result. Ctrl-C waits for its end; a second one does not.

        `judge` gets what tells whether there was a Ctrl-C: then no new call begins.
        """
        interrupted = threading.Event()
        return wait_for(self.submit(judge(interrupted.is_set)), interrupted)

    def release(self) -> None:
        """Begin to close the session if no copy of it in this process is in use any more."""
        if self.pid == os.getpid() and not list(self.users):
            self.begin_close()

    @property
    def closing(self) -> bool:
        return self._closing is not None

    def begin_close(self) -> Future[None]:
        """Begin to close the session, unless that was done; its loop ends after it."""
        with self._guard:
            if self._closing is None:
                self._closing = self.loop.start(self._close())
            return self._closing

    async def _close(self) -> None:
        try:
            self.session._stop_waiting()
            while calls := [asyncio.wrap_future(call) for call in self._calls.copy()]:
                await asyncio.wait(calls)
                for call in calls:
                    if not call.cancelled():
                        call.exception()  # its caller gets it
            await self.session.close()
        finally:
            _open_workers.discard(self)
            self.loop.stop()


_open_workers: set[SessionWorker] = set()
_inherited: list[SessionWorker] = []
_opening = threading.Lock()


@atexit.register
def _close_at_exit() -> None:
    """Close the sessions that were left open: calls under way are finished, within `EXIT_S`."""
    workers = [worker for worker in _open_workers if worker.pid == os.getpid()]
    closing = {worker.begin_close(): worker for worker in workers}
    for closed in wait(closing, timeout=EXIT_S).done:
        closing[closed].loop.join(EXIT_S)  # a thread that still works while the interpreter ends may crash it


def _renew_lock_in_child() -> None:
    global _opening
    _opening = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_in_child)


class Session:
    """Judges many cases, from any thread: connections, answer cache, budget, rate limits and ledger are shared.

    Args:
        judge: A name such as `"openai:gpt-5-mini"`, a `Judge`, or several of them, which then form a jury. By default
            the instruments, which measure offline. A `Judge` that is handed in is closed by its owner.
        ledger: Where verdicts are stored, as one run: a path, a `postgresql://` URL or an open `Ledger`. `None` stores
            nothing.
        name: What the run is called. A session with the same name, judge, samples and options continues its run.
        budget: US dollars that are never passed: by all processes that work on the run together, or, without a ledger,
            by this session.
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
        self._begin(SessionSetup(judge, ledger, name, budget, concurrency, samples, Options.of(options)))

    @classmethod
    def _of(cls, setup: SessionSetup) -> Self:
        """Return a session by its setup."""
        session = cls.__new__(cls)
        session._begin(setup)
        return session

    def _begin(self, setup: SessionSetup) -> None:
        self._setup = setup
        self._key = secrets.token_hex(8)
        self._run_id = ""
        self._closed = False
        self._worker: SessionWorker | None = None
        self._was_sent = False
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> tuple[SessionSetup, str, str, bool]:
        """Another process opens the session again, with connections of its own, and continues the same run."""
        judges = as_judges(self._setup.judge)
        if foreign := next((judge for judge in judges if not isinstance(judge, str)), None):
            raise UsageError(
                f"A session with a judge that was handed in ({foreign.name}) cannot go to another process: name it."
            )
        return self._setup.for_other_process(), self._key, self._run_id, self._closed

    def __setstate__(self, state: tuple[SessionSetup, str, str, bool]) -> None:
        self._setup, self._key, self._run_id, self._closed = state
        self._worker = None
        self._was_sent = True

    def _open(self) -> SessionWorker:
        """Return the session at work in this process; a child process opens its own. Raises `UsageError`."""
        if self._closed:
            raise UsageError(CLOSED)
        worker = self._worker
        if worker is not None and worker.pid == os.getpid():
            return worker  # without the lock: another session may be waiting for its ledger's server
        with _opening:
            worker = self._worker
            if worker is None or worker.pid != os.getpid():
                if worker is not None:
                    # Never closed here: that would end the parent's locks on the ledger's file, and its connections.
                    _inherited.append(worker)
                    self._setup = self._setup.for_other_process()
                worker = self._worker = self._find_worker() or SessionWorker(self._setup, self._run_id, self._key)
                worker.users.add(self)
                self._run_id = worker.session.run_id or ""
                if not self._was_sent:
                    weakref.finalize(self, worker.release).atexit = False
            return worker

    def _find_worker(self) -> SessionWorker | None:
        """Return what another copy of this session opened in this process: each task of a pool gets one of its own."""
        if not self._was_sent:
            return None
        mine = (worker for worker in _open_workers.copy() if worker.pid == os.getpid() and not worker.closing)
        return next((worker for worker in mine if worker.key == self._key), None)

    def __repr__(self) -> str:
        return f"<Session, {f'run {self.run_id}' if self.run_id else 'without a ledger'}>"

    @property
    def run_id(self) -> str | None:
        """The id of the session's run; `None` without a ledger."""
        return self._run_id or None

    @property
    def spent_usd(self) -> Decimal:
        """What is known to have been spent, in US dollars: by the run, in all its processes; or by this session."""
        return (self._worker if self._closed and self._worker else self._open()).session.spent_usd

    @property
    def run(self) -> Run:
        """The session's run, as it is in the ledger now. Raises `UsageError` without a ledger."""
        from beholder.api.run import load_session_run

        if self._setup.ledger is None:
            raise UsageError('A session without a ledger has no run: Session(ledger="beholder.db").')
        return load_session_run(self._run_id, self._setup.ledger, closed=self._closed)

    def judge(self, rubric: RubricLike, case: Case | None = None, /, **inputs: object) -> Verdict:
        """Judge one case by one rubric.

        Args:
            rubric: A rubric, or its name, folder or YAML file.
            case: What is judged; or
            **inputs: its images and fields, by the names that the rubric declares.

        Returns:
            The verdict, which is stored by then. Whatever goes wrong with images or judges is its outcome.

        Raises:
            UsageError: Wrong use: an unknown rubric or input, a case that does not fit the rubric, a closed session.
        """
        worker = self._open()
        composer = worker.session._single_composer(rubric)
        # In this thread, since it reads and encodes images: the loop has the calls of other threads to do.
        made = make_case([composer.rubric], case, inputs)
        return worker.run(partial(worker.session._judge_composed, composer, made))

    def judge_rubrics(
        self, rubrics: RubricLike | Sequence[RubricLike], case: Case | None = None, /, **inputs: object
    ) -> dict[str, Verdict]:
        """Judge one case by several rubrics; see `judge`. Returns the verdicts by the names of the rubrics."""
        worker = self._open()
        composers = worker.session._make_composers(rubrics)
        made = make_case([composer.rubric for composer in composers], case, inputs)
        return worker.run(partial(worker.session._judge_by_all, composers, made))

    def judge_many(
        self,
        rubric: RubricLike,
        cases: CaseSource,
        /,
        *,
        ordered: bool = True,
        on_bad_case: OnBadCase = "raise",
        progress: bool = False,
        stop: threading.Event | None = None,
    ) -> Iterator[Verdict]:
        """Judge many cases by one rubric.

        Cases are taken as judges become free, in the caller's thread, so that memory does not grow with their number.
        Calls under way when the iteration is left are finished and stored.

        Args:
            rubric: A rubric, or its name, folder or YAML file.
            cases: A case file, an iterable of `Case`s or mappings, a `datasets.Dataset`, a pandas or Polars frame.
            ordered: Verdicts come in the order of the cases; otherwise as they are finished.
            on_bad_case: What happens to a case that does not fit the rubric: `"raise"` a `CaseError`, or `"skip"` it.
            progress: Show a progress bar on stderr.
            stop: Once it is set, by another thread say, no further case is taken, and the iterator ends with the
                verdicts of those that were; but for those that wait for an answer that somebody else asks for.

        Returns:
            An iterator over the verdicts.
        """
        check_stop(stop)
        if isinstance(cases, AsyncIterable):
            raise UsageError("These cases are an asynchronous iterable; give them to an AsyncSession.")
        worker = self._open()
        feed = worker.session._make_feed(rubric, cases, on_bad_case, progress)
        return self._judge_feed(worker, feed, ordered, stop)

    def close(self) -> None:
        """Wait for the calls under way, and close connections and ledger. What was handed in stays open.

        Copies of the session in the same process, which were unpickled there, stay open.
        """
        worker = self._worker
        if worker is None or worker.pid != os.getpid():
            self._closed = True
            return
        worker.loop.check_thread()
        self._closed = True
        worker.users.discard(self)
        if not list(worker.users):
            wait_for(worker.begin_close())
            worker.loop.join()

    # A method, so that the session is not closed for want of references while this goes on.
    def _judge_feed(
        self, worker: SessionWorker, feed: CaseFeed, ordered: bool, stop: threading.Event | None
    ) -> Iterator[Verdict]:
        futures: deque[Future[Verdict]] = deque()
        left = threading.Event()

        def is_stopped() -> bool:
            return left.is_set() or (stop is not None and stop.is_set())

        def take() -> Iterator[Verdict]:
            try:
                yield feed.count(_take(futures, ordered, left))
            except Waiting:  # somebody else asks for its answer
                if not is_stopped():
                    raise

        with feed:
            try:
                cases = iter(feed)
                while not is_stopped() and (case := next(cases, None)) is not None:
                    futures.append(worker.submit(worker.session._judge_composed(feed.composer, case, is_stopped)))
                    if len(futures) >= worker.session._window:
                        yield from take()
                while futures:
                    yield from take()
            finally:
                left.set()
                wait_until_done(futures)  # the calls under way are finished and stored


def _take(futures: deque[Future[T]], ordered: bool, interrupted: threading.Event) -> T:
    """Take a result out of the futures: the first one, or whichever is finished first."""
    if ordered:
        return wait_for(futures.popleft(), interrupted)
    future = wait_until_done(futures, FIRST_COMPLETED).pop()
    futures.remove(future)
    return wait_for(future, interrupted)
