"""Helpers for tasks of one event loop: coalesced calls, batches from a queue, early ends, first failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

COALESCE_S = 0.002  # how long a call waits for others

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class CallCoalescer(Generic[A, R]):
    """Sends the calls of many tasks together: to another process or a ledger, fifty cost about as much as one.

    `send` takes the arguments of all calls and returns their results in the same order.
    """

    def __init__(self, send: Callable[[Sequence[A]], Awaitable[Sequence[R]]]) -> None:
        self._send = send
        self._arguments: list[A] = []
        self._sending: asyncio.Task[Sequence[R]] | None = None

    async def call(self, argument: A) -> R:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_soon())
        place = len(self._arguments)
        self._arguments.append(argument)
        # Shielded: a task that is canceled must not cancel the call of all others.
        return (await asyncio.shield(self._sending))[place]

    async def _send_soon(self) -> Sequence[R]:
        await asyncio.sleep(COALESCE_S)
        arguments, self._arguments, self._sending = self._arguments, [], None
        return await self._send(arguments)


async def take_batch(queue: asyncio.Queue[T | None], size: int, linger_s: float) -> tuple[list[T], bool]:
    """Take items from a queue: at most `size`, waiting `linger_s` for more after the first.

    Returns:
        The items, and whether there may be more: `None` in the queue is its end.
    """
    items: list[T] = []
    try:
        async with asyncio.timeout(None) as timeout:
            while len(items) < size:
                item = await queue.get()
                if item is None:
                    return items, False
                items.append(item)
                if len(items) == 1:
                    timeout.reschedule(asyncio.get_running_loop().time() + linger_s)
    except TimeoutError:
        pass
    return items, True


async def wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    """Wait for so many seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def find_first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception that came first; the others may be its consequences."""
    inner = failures.exceptions[0]
    return find_first_failure(inner) if isinstance(inner, BaseExceptionGroup) else inner
