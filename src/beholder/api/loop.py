"""Event loops in background threads, on which `Session`, `run` and others work; how Ctrl-C and the end stop them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
)
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from beholder.errors import UsageError
from beholder.providers.http import close_loop_connections
from beholder.runs.worker_processes import DaemonThreadPool

T = TypeVar("T")

# How long one wait lasts at most. Ctrl-C does not interrupt a wait without a timeout on Windows; elsewhere it does not
# if the signal comes just before the wait begins, or to another thread.
POLL_S = 0.2


class LoopThread:
    """An event loop in a daemon thread, on which other threads run coroutines."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        # Not the loop's own, which takes no more work once the main thread has ended.
        self._loop.set_default_executor(DaemonThreadPool(min(32, (os.cpu_count() or 1) + 4), f"{name}-pool"))
        self._ending = False
        # So that nothing is submitted to a loop that will not come to it; again by a finalizer in the same thread.
        self._guard = threading.RLock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop.

        Raises:
            UsageError: The loop has ended; or this is its own thread, which would wait for itself.
        """
        try:
            self.check_thread()
        except UsageError:
            work.close()
            raise
        return self.start(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine that the calling thread does not wait for, which may be the loop's own.

        Raises:
            UsageError: The loop has ended.
        """
        with self._guard:
            if not self._ending:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise UsageError(CLOSED)

    def check_thread(self) -> None:
        """Raise `UsageError` on the loop's own thread, which would wait for itself."""
        if threading.current_thread() is self._thread:
            raise UsageError("This is the event loop of the session itself: await an AsyncSession instead.")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result. Ctrl-C waits for its end; a second one does not."""
        return wait_for(self.submit(work))

    def stop(self) -> None:
        """End the loop, and close the connections that were opened on it."""
        with self._guard:
            if not self._ending:
                self._ending = True
                self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the end of the thread."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels what is left, and closes the loop
            runner.run(close_loop_connections())


def wait_for(future: Future[T], interrupted: threading.Event | None = None) -> T:
    """Return the result of a future. Ctrl-C sets the event and waits all the same, and a second Ctrl-C does not."""
    try:
        wait_until_done([future])
        return future.result()
    except KeyboardInterrupt:
        if interrupted is not None:
            interrupted.set()
        wait_until_done([future])
        raise
    except CancelledError:  # another thread closed the session just now
        raise UsageError(CLOSED) from None


def main_was_interrupted() -> bool:
    """Return whether Ctrl-C has ended the main thread and so the program, of which other threads do not hear."""
    ending = bool(getattr(threading, "_SHUTTING_DOWN", False))
    return ending and getattr(sys, "last_type", None) is KeyboardInterrupt


def wait_until_done(futures: Collection[Future[T]], return_when: str = ALL_COMPLETED) -> set[Future[T]]:
    """Wait for all futures, or for the first of them, and return those that are done. Ctrl-C interrupts it."""
    while True:
        done, others = wait(futures, POLL_S, return_when)
        if not others or (done and return_when == FIRST_COMPLETED):
            return done


CLOSED = "This session (or run) is closed; open a new one."


Work = Callable[[asyncio.Event], Awaitable[T]]


STOP_POLL_S = 0.1  # how often a run looks whether it should stop: no event of a thread can be awaited


async def stop_early(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, and cancel it as soon as `stop` is set: there is nothing to finish or to store."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if stop.is_set():
        task.cancel()
    return await task


@dataclass(frozen=True, slots=True)
class _BackgroundWork:
    """Work under way on an event loop in a background thread."""

    loop: LoopThread
    stop: asyncio.Event
    result: Future[Any]

    def ask_to_stop(self) -> None:
        async def set_event() -> None:
            self.stop.set()

        self.loop.submit(set_event())


_under_way: set[_BackgroundWork] = set()


def run_in_background(work: Work[T], stop: threading.Event | None = None) -> T:
    """Run asynchronous work on an event loop in a background thread, and return its result.

    Args:
        work: It is asked to end early by its event.
        stop: When it is set, `work` is asked to end early.

    Raises:
        KeyboardInterrupt: On Ctrl-C, once `work` has ended: the first one asks it to stop, the second cancels it.
    """
    asked, loop = asyncio.Event(), LoopThread("beholder-run")
    if stop is not None and stop.is_set():
        asked.set()

    async def start() -> T:
        return await work(asked)

    result = loop.submit(start())
    background = _BackgroundWork(loop, asked, result)
    _under_way.add(background)
    try:
        if stop is not None:
            while not wait([result], STOP_POLL_S).done and not stop.is_set():
                pass
            if stop.is_set():
                background.ask_to_stop()
        if main_was_interrupted():
            background.ask_to_stop()
        wait_until_done([result])
        if main_was_interrupted():
            raise KeyboardInterrupt
        return result.result()
    except KeyboardInterrupt:
        background.ask_to_stop()
        try:
            wait_until_done([result])
        except KeyboardInterrupt:
            result.cancel()
        raise
    finally:
        loop.stop()
        loop.join()
        _under_way.discard(background)


def _finish_at_exit() -> None:
    """Wait for runs in other threads when the main thread has ended; ask them to stop if that was by Ctrl-C."""
    for background in list(_under_way):
        if main_was_interrupted():
            background.ask_to_stop()
        wait_until_done([background.result])


# As `concurrent.futures` does. `atexit` would be too late: the main thread waits for all other threads before it.
if register := getattr(threading, "_register_atexit", None):
    with suppress(RuntimeError):  # this module is loaded while the program ends
        register(_finish_at_exit)
