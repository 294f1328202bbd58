"""Ctrl-C, for commands that should finish what is under way."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def listening(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Works, and listens: the first Ctrl-C (or SIGTERM) sets the event that `work` was given, the second cancels it.
    Raises `KeyboardInterrupt` then."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(work(stop))

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        else:
            stop.set()
            print("\nstopping: what is under way is finished; Ctrl-C again stops at once", file=sys.stderr)

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupted)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
