"""A run in numbers: what its report says of it, worked out aside; and what the ledger counts at once.

What the filters of a list can be set to: everything that a run has, told by the database without unpacking it.

How far each run is. The list of runs says so of all of them, and most have long been finished: such a run is counted
once, and again only when it has changed.

What takes longer than a page may: worked out aside, one thing after the other, and kept for whoever asks next.

Much of it is done in a process of its own, or the pages that are asked for meanwhile would wait for their turn.
"""

from __future__ import annotations

import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Request

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, RunCounts, RunProgress, RunRecord
from beholder.reports.run_data import collect_run_data
from beholder.reports.summary import ReportSummary, count_states, grade_names, summarize_run


def cached_overview(book: Ledger, shop: BackgroundResults, record: RunRecord) -> CachedResult[ReportSummary]:
    """What the run came to, if that is known by now."""
    work = partial(compute_overview, book.address, record.id)
    many = record.total > MANY_VERDICTS
    return shop.get(
        ("overview", record.id), record.updated, partial(run_in_process, work) if many else work, patient=not many
    )


def compute_overview(address: str, run: str) -> ReportSummary:
    """What a run of the ledger at an address came to: what another process can be sent."""
    with Ledger.open(address, read_only=True) as book:
        return summarize_run(collect_run_data(book, book.run(run)))


def cached_counts(book: Ledger, shop: BackgroundResults, record: RunRecord) -> RunCounts:
    return shop.now(("counts", record.id), record.updated, lambda: book.counts(record.id))


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """`assertions` are those that failed; `groups` have those values each that cases belong to, two at least."""

    states: tuple[str, ...]
    grades: tuple[str, ...]
    passed: bool
    rubrics: tuple[str, ...]
    criteria: tuple[str, ...]
    assertions: tuple[str, ...]
    flags: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]


def cached_choices(book: Ledger, shop: BackgroundResults, record: RunRecord) -> FilterChoices:
    """What there is to choose among in a run, looked up once as long as the run does not change."""
    return shop.now(
        ("choices", record.id), record.updated, lambda: load_choices(book, record, cached_counts(book, shop, record))
    )


def load_choices(book: Ledger, record: RunRecord, counts: RunCounts) -> FilterChoices:
    """What there is to choose among in a run; of 100,000 verdicts in a fraction of a second."""
    values = book.filter_values(record.id)
    listed = [str(rubric.get("rubric", "")) for rubric in record.rubrics]  # in the order of the suite
    rubrics = (*(name for name in listed if name in values.rubrics), *sorted(values.rubrics - set(listed)))
    return FilterChoices(
        tuple(state for state, many in count_states(counts.states) if many),
        tuple(name for name in grade_names(record.rubrics, counts.grades) if counts.grades[name]),
        bool(counts.passed or counts.failed),
        rubrics,
        tuple(dict.fromkeys(key for rubric in rubrics for key in _criteria(book, record, rubric))),
        values.failed,
        values.flags,
        values.styles,
        values.groups,
    )


def _criteria(book: Ledger, record: RunRecord, rubric: str) -> Iterator[str]:
    """As a verdict by the rubric has them."""
    for one in islice(book.stored_verdicts(record.id, outcome="scored", rubric=rubric), 1):
        yield from one.verdict.criteria


@dataclass(frozen=True, slots=True)
class RunListProgress:
    """`rated` counts the cases of a review that are rated and saved."""

    far: RunProgress
    rated: int


class RunProgressCache:
    """What is known of finished runs, by their ids. Whoever writes to a run changes the time of its last change."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[datetime, RunListProgress]] = {}
        self._lock = threading.Lock()

    def of(self, book: Ledger, records: Sequence[RunRecord]) -> dict[str, RunListProgress]:
        """The standings of all runs of the ledger, as `Ledger.runs` lists them, by their ids."""
        with self._lock:  # who comes while they are counted waits for that
            kept = self._kept
            found = {one.id: kept[one.id][1] for one in records if one.id in kept and kept[one.id][0] == one.updated}
            found |= _count_progress(book, [one for one in records if one.id not in found])
            self._kept = {one.id: (one.updated, found[one.id]) for one in records if one.state == FINISHED}
            return found


def _count_progress(book: Ledger, records: Sequence[RunRecord]) -> dict[str, RunListProgress]:
    reviews = [one.id for one in records if one.is_review]
    far, rated = book.progress([one.id for one in records]), book.rated_cases(reviews)
    return {one.id: RunListProgress(far.get(one.id, RunProgress()), rated.get(one.id, 0)) for one in records}


def _get_progress_cache(request: Request) -> RunProgressCache:
    found = request.app.state.standings
    assert isinstance(found, RunProgressCache)
    return found


ProgressCacheDep = Annotated[RunProgressCache, Depends(_get_progress_cache)]


T = TypeVar("T")

MAX_RESULTS = 32
MANY_VERDICTS = 3000  # verdicts: work on more is done in another process, which takes a second to start
WAIT_S = 0.1  # that a page waits for a result before it says that there is none yet


@dataclass(frozen=True, slots=True)
class CachedResult(Generic[T]):
    """`value` is None where there is none yet; `fresh` is False where it is of an earlier state of the ledger."""

    value: T | None
    fresh: bool


@dataclass(slots=True)
class _PendingResult:
    stamp: Hashable
    future: Future[Any]
    last: Any = None  # of an earlier stamp


class BackgroundResults:
    """Results by key. A result belongs to a stamp, the state of the ledger that it was made from: for another stamp it
    is made again, and until then the last one is given."""

    def __init__(self, kept: int = MAX_RESULTS, wait_s: float = WAIT_S) -> None:
        self._kept, self._wait_s = kept, wait_s
        self._works: OrderedDict[Hashable, _PendingResult] = OrderedDict()
        self._quick: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._turns: dict[Hashable, threading.Lock] = {}  # by key, as many as there ever were: they are small
        self._lock = threading.Lock()
        self._orders: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        # A pool of the standard library would keep the program from ending until its work is done.
        threading.Thread(target=self._do, name="beholder-workshop", daemon=True).start()

    def now(self, key: Hashable, stamp: Hashable, work: Callable[[], T]) -> T:
        """What `work` makes, made at once where it is not kept: for what is quick, and yet not worth doing twice. Who
        comes while it is being made waits for that."""
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                if key in self._quick and self._quick[key][0] == stamp:
                    found: T = self._quick[key][1]
                    return found
            made = work()
            with self._lock:
                self._quick[key] = (stamp, made)
                self._quick.move_to_end(key)
                while len(self._quick) > self._kept:
                    self._quick.popitem(last=False)
        return made

    def get(self, key: Hashable, stamp: Hashable, work: Callable[[], T], *, patient: bool = True) -> CachedResult[T]:
        """What `work` makes, if that is there within a moment (at once, if not `patient`). Raises what it raised."""
        with self._lock:
            found = self._works.get(key)
            if found is None or (found.stamp != stamp and found.future.done()):
                last = None
                if found is not None and not found.future.cancelled() and found.future.exception() is None:
                    last = found.future.result()
                found = self._works[key] = _PendingResult(stamp, self._order(work), last)
            self._works.move_to_end(key)
            while len(self._works) > self._kept:
                self._works.popitem(last=False)[1].future.cancel()
        if found.stamp != stamp or not wait([found.future], self._wait_s if patient else 0).done:
            return CachedResult(found.last, fresh=False)
        try:
            return CachedResult(found.future.result(), fresh=True)
        except BaseException:  # who asks again may have better luck
            with self._lock:
                if self._works.get(key) is found:
                    del self._works[key]
            raise

    def close(self) -> None:
        """What was begun is finished, what waits is not begun."""
        with self._lock:
            for work in self._works.values():
                work.future.cancel()
        self._orders.put(None)

    def _order(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._orders.put((future, work))
        return future

    def _do(self) -> None:
        while (order := self._orders.get()) is not None:
            future, work = order
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # whoever asked hears of it
                future.set_exception(error)


def run_in_process(work: Callable[[], T]) -> T:
    """What `work` makes, in a process of its own; `work` and what it makes must be such that they can be sent there.
    Raises what it raised. The process ends with this one."""
    context = get_context("spawn")  # not forked: a forked child would share our sockets and the ledger's file
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(sending, work), daemon=True)
    process.start()
    sending.close()
    try:
        value, error = receiving.recv()
    except EOFError:
        raise RuntimeError(f"the process that worked this out ended by itself ({process.exitcode})") from None
    finally:
        process.join()
        receiving.close()
    if error is not None:
        raise error
    found: T = value
    return found


def _send_result(sending: Connection, work: Callable[[], object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the one that began it to hear
    try:
        sending.send((work(), None))
    except Exception as error:
        sending.send((None, error))


def _get_background(request: Request) -> BackgroundResults:
    found = request.app.state.workshop
    assert isinstance(found, BackgroundResults)
    return found


BackgroundDep = Annotated[BackgroundResults, Depends(_get_background)]
