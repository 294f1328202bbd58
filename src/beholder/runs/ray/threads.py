"""Calls into Ray that block, from an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """What `work` returns or raises, from a thread of its own. Unlike those of `asyncio.to_thread` the thread is a
    daemon: one that hangs in Ray keeps neither the loop nor the process from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            settle(partial(future.set_exception, error))
        else:
            settle(lambda: future.set_result(result))

    def settle(how: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(lambda: None if future.done() else how())

    threading.Thread(target=run, name="ray", daemon=True).start()
    return future
