"""Results that pages need and that take long: computed in the background, cached until the run changes.

`BackgroundResults` computes one result after the other on a thread. Work on many verdicts runs in a process of its own
(`run_in_process`), since Python would else make requests wait for it. On top of it: the overview of a run, its counts,
the choices of the filters of its list, and the progress of all runs.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from typing import Annotated, Any, Generic, TypeVar

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, RUNNING, RunCounts, RunProgress, RunRecord
from beholder.reports.run_data import collect_run_data
from beholder.reports.summary import ReportSummary, count_states, grade_names, summarize_run
from beholder.runs.worker_processes import WorkerProcess, default_worker_count
from beholder.verdicts.verdict import ANSWERED_OUTCOMES
from beholder.web.responses import from_state

MAX_RESULTS = 32  # results, and runs whose pace is measured
REFRESH_S = 2  # between two updates of the page of a running run
PACE_SAMPLE_S, PACE_WINDOW_S = 1.0, 180.0  # between two looks at a run, and how long they count


def cached_overview(ledger: Ledger, background: BackgroundResults, record: RunRecord) -> CachedResult[ReportSummary]:
    """Return the summary of a run, if it is computed by now."""
    work = partial(compute_overview, ledger.address, record.id)
    many = record.total > MANY_VERDICTS
    return background.poll(
        ("overview", record.id), record.updated, partial(run_in_process, work) if many else work, patient=not many
    )


def compute_overview(address: str, run: str) -> ReportSummary:
    """Summarize a run; takes an address and an id, which can be sent to another process."""
    with Ledger.open(address, read_only=True) as ledger:
        return summarize_run(collect_run_data(ledger, ledger.run(run)))


def cached_counts(ledger: Ledger, background: BackgroundResults, record: RunRecord) -> RunCounts:
    return background.get_or_compute(("counts", record.id), record.updated, lambda: ledger.counts(record.id))


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """What the filters of a list offer. `assertions` are those that failed; `groups` have at least two values each."""

    states: tuple[str, ...]
    grades: tuple[str, ...]
    passed: bool
    rubrics: tuple[str, ...]
    criteria: tuple[str, ...]
    assertions: tuple[str, ...]
    flags: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    winners: tuple[str, ...] = ()


def cached_choices(ledger: Ledger, background: BackgroundResults, record: RunRecord) -> FilterChoices:
    """Return the choices of the filters of a run, loaded once as long as the run does not change."""
    return background.get_or_compute(
        ("choices", record.id),
        record.updated,
        lambda: load_choices(ledger, record, cached_counts(ledger, background, record)),
    )


def load_choices(ledger: Ledger, record: RunRecord, counts: RunCounts) -> FilterChoices:
    """Load the choices of the filters with database queries: a fraction of a second for 100,000 verdicts."""
    values = ledger.filter_values(record.id)
    listed = [str(rubric.get("rubric", "")) for rubric in record.rubrics]  # in the order of the suite
    rubrics = (*(name for name in listed if name in values.rubrics), *sorted(values.rubrics - set(listed)))
    return FilterChoices(
        tuple(state for state, many in count_states(counts.states) if many),
        tuple(name for name in grade_names(record.rubrics, counts.grades) if counts.grades[name]),
        bool(counts.passed or counts.failed),
        rubrics,
        tuple(dict.fromkeys(key for rubric in rubrics for key in _criteria(ledger, record, rubric))),
        values.failed,
        values.flags,
        values.styles,
        values.groups,
        values.winners,
    )


def _criteria(ledger: Ledger, record: RunRecord, rubric: str) -> Iterator[str]:
    """Yield the criteria of a rubric, from its first verdict with an answer."""
    answered = (ledger.stored_verdicts(record.id, outcome=outcome, rubric=rubric) for outcome in ANSWERED_OUTCOMES)
    for stored in islice(chain.from_iterable(answered), 1):
        yield from stored.verdict.criteria


@dataclass(frozen=True, slots=True)
class RunListProgress:
    """Progress of a run in the list; `rated` counts the cases of a review that are rated and saved."""

    progress: RunProgress
    rated: int


class RunProgressCache:
    """Progress of finished runs. Every write to a run changes its `updated`, so that it is counted again."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[datetime, RunListProgress]] = {}
        self._lock = threading.Lock()

    def load(self, ledger: Ledger, records: Sequence[RunRecord]) -> dict[str, RunListProgress]:
        """Return the progress of all runs of the ledger, as `Ledger.runs` lists them, by their ids."""
        with self._lock:  # a second request waits for the result of the first
            old = self._cached
            progress = {
                record.id: old[record.id][1]
                for record in records
                if record.id in old and old[record.id][0] == record.updated
            }
            progress |= _count_progress(ledger, [record for record in records if record.id not in progress])
            self._cached = {
                record.id: (record.updated, progress[record.id]) for record in records if record.state == FINISHED
            }
            return progress


def _count_progress(ledger: Ledger, records: Sequence[RunRecord]) -> dict[str, RunListProgress]:
    reviews = [record.id for record in records if record.is_review]
    progress, rated = ledger.progress([record.id for record in records]), ledger.rated_cases(reviews)
    return {
        record.id: RunListProgress(progress.get(record.id, RunProgress()), rated.get(record.id, 0))
        for record in records
    }


@dataclass(frozen=True, slots=True)
class RunPace:
    """How fast a run is under way: verdicts a minute, and the minutes that the rest takes at that rate."""

    per_minute: float
    minutes_left: float

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        return {"per_minute": round(self.per_minute, 2), "minutes_left": round(self.minutes_left, 2)}


class RunPaceMeter:
    """Measures the pace of runs under way between the requests of the pages that follow them: the ledger does not keep
    when a verdict was given, and a resumed run has stood still in between."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: OrderedDict[str, deque[tuple[float, int]]] = OrderedDict()
        self._lock = threading.Lock()

    def measure(self, record: RunRecord, done: int) -> RunPace | None:
        """Return the pace of a run that has `done` verdicts now, over the last minutes; `None` until it is known."""
        if record.state != RUNNING:
            return None
        with self._lock:
            seen = self._seen.setdefault(record.id, deque())
            self._seen.move_to_end(record.id)
            while len(self._seen) > MAX_RESULTS:
                self._seen.popitem(last=False)
            now = self._now()
            if not seen or now - seen[-1][0] >= PACE_SAMPLE_S:
                seen.append((now, done))
            while len(seen) > 2 and now - seen[1][0] > PACE_WINDOW_S:
                seen.popleft()
            since, before = seen[0]
        if now - since < PACE_SAMPLE_S or done <= before:
            return None
        per_minute = 60 * (done - before) / (now - since)
        return RunPace(per_minute, max(0, record.total - record.skipped - done) / per_minute)


PaceMeterDep = Annotated[RunPaceMeter, from_state("pace_meter")]
ProgressCacheDep = Annotated[RunProgressCache, from_state("progress_cache")]


T = TypeVar("T")

MANY_VERDICTS = 3000  # work on more is done in another process, which takes a second to start
WAIT_S = 0.1  # a page waits so long for a result before it is shown without


@dataclass(frozen=True, slots=True)
class CachedResult(Generic[T]):
    """A result; `value` is None if there is none yet, `fresh` False if it is of an earlier state of the ledger."""

    value: T | None
    fresh: bool


@dataclass(slots=True)
class _PendingResult:
    stamp: Hashable
    future: Future[Any]
    last: Any = None  # the result of an earlier stamp


class BackgroundResults:
    """Cache of results by key. A result belongs to a stamp, the state of the ledger that it was computed from; for
    another stamp it is computed again, and until then the last one is returned."""

    def __init__(self, max_results: int = MAX_RESULTS, wait_s: float = WAIT_S) -> None:
        self._max_results, self._wait_s = max_results, wait_s
        self._pending: OrderedDict[Hashable, _PendingResult] = OrderedDict()
        self._computed: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._key_locks: dict[Hashable, threading.Lock] = {}  # never removed: they are small
        self._lock = threading.Lock()
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # Not a ThreadPoolExecutor, which would keep the program from ending until its work is done.
        threading.Thread(target=self._work, name="beholder-background", daemon=True).start()

    def get_or_compute(self, key: Hashable, stamp: Hashable, work: Callable[[], T]) -> T:
        """Return the result, computed now on this thread if it is not cached; for quick work.

        A second request for the same key waits for the first.
        """
        with self._lock:
            key_lock = self._key_locks.setdefault(key, threading.Lock())
        with key_lock:
            with self._lock:
                if key in self._computed and self._computed[key][0] == stamp:
                    cached: T = self._computed[key][1]
                    return cached
            result = work()
            with self._lock:
                self._computed[key] = (stamp, result)
                self._computed.move_to_end(key)
                while len(self._computed) > self._max_results:
                    self._computed.popitem(last=False)
        return result

    def poll(self, key: Hashable, stamp: Hashable, work: Callable[[], T], *, patient: bool = True) -> CachedResult[T]:
        """Return the result if it is there, and submit `work` to the background thread if it is not.

        Args:
            key: Of the result.
            stamp: State of the ledger that the result must be of.
            work: Computes the result.
            patient: Wait a moment for it.

        Raises:
            BaseException: What `work` raised; the next call tries again.
        """
        with self._lock:
            pending = self._pending.get(key)
            if pending is None or (pending.stamp != stamp and pending.future.done()):
                last = None
                if pending is not None and not pending.future.cancelled() and pending.future.exception() is None:
                    last = pending.future.result()
                pending = self._pending[key] = _PendingResult(stamp, self._submit(work), last)
            self._pending.move_to_end(key)
            while len(self._pending) > self._max_results:
                self._pending.popitem(last=False)[1].future.cancel()
        if pending.stamp != stamp or not wait([pending.future], self._wait_s if patient else 0).done:
            return CachedResult(pending.last, fresh=False)
        try:
            return CachedResult(pending.future.result(), fresh=True)
        except BaseException:
            with self._lock:
                if self._pending.get(key) is pending:
                    del self._pending[key]
            raise

    def close(self) -> None:
        """Finish the work in progress and cancel what waits."""
        with self._lock:
            for pending in self._pending.values():
                pending.future.cancel()
        self._queue.put(None)

    def _submit(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._queue.put((future, work))
        return future

    def _work(self) -> None:
        while (submitted := self._queue.get()) is not None:
            future, work = submitted
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # `poll` raises it
                future.set_exception(error)


def run_in_process(work: Callable[[], T]) -> T:
    """Return what `work` returns, computed in a process of its own; raise what it raises.

    `work` and its result must be picklable. The process ends with this one.
    """
    if not default_worker_count():
        return work()
    worker = WorkerProcess()
    try:
        return worker.call(work)
    except BrokenExecutor as error:
        raise RuntimeError(f"This was not worked out: {error}.") from None
    finally:
        worker.close()


BackgroundDep = Annotated[BackgroundResults, from_state("background")]
