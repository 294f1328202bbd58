"""What takes longer than a page may: worked out aside, one thing after the other, and kept for whoever asks next.

Much of it is done in a process of its own, or the pages that are asked for meanwhile would wait for their turn.
"""

from __future__ import annotations

import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Request

T = TypeVar("T")

KEPT = 32
MANY = 3000  # verdicts: work on more is done in another process, which takes a second to start
WAIT_S = 0.1  # that a page waits for a result before it says that there is none yet


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """`value` is None where there is none yet; `fresh` is False where it is of an earlier state of the ledger."""

    value: T | None
    fresh: bool


@dataclass(slots=True)
class _Work:
    stamp: Hashable
    future: Future[Any]
    last: Any = None  # of an earlier stamp


class Workshop:
    """Results by key. A result belongs to a stamp, the state of the ledger that it was made from: for another stamp it
    is made again, and until then the last one is given."""

    def __init__(self, kept: int = KEPT, wait_s: float = WAIT_S) -> None:
        self._kept, self._wait_s = kept, wait_s
        self._works: OrderedDict[Hashable, _Work] = OrderedDict()
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

    def get(self, key: Hashable, stamp: Hashable, work: Callable[[], T], *, patient: bool = True) -> Result[T]:
        """What `work` makes, if that is there within a moment (at once, if not `patient`). Raises what it raised."""
        with self._lock:
            found = self._works.get(key)
            if found is None or (found.stamp != stamp and found.future.done()):
                last = None
                if found is not None and not found.future.cancelled() and found.future.exception() is None:
                    last = found.future.result()
                found = self._works[key] = _Work(stamp, self._order(work), last)
            self._works.move_to_end(key)
            while len(self._works) > self._kept:
                self._works.popitem(last=False)[1].future.cancel()
        if found.stamp != stamp or not wait([found.future], self._wait_s if patient else 0).done:
            return Result(found.last, fresh=False)
        try:
            return Result(found.future.result(), fresh=True)
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


def apart(work: Callable[[], T]) -> T:
    """What `work` makes, in a process of its own; `work` and what it makes must be such that they can be sent there.
    Raises what it raised. The process ends with this one."""
    context = get_context("spawn")  # not forked: a forked child would share our sockets and the ledger's file
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, work), daemon=True)
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


def _send(sending: Connection, work: Callable[[], object]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the one that began it to hear
    try:
        sending.send((work(), None))
    except Exception as error:
        sending.send((None, error))


def _workshop(request: Request) -> Workshop:
    found = request.app.state.workshop
    assert isinstance(found, Workshop)
    return found


Shop = Annotated[Workshop, Depends(_workshop)]
