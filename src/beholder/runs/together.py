"""Many small questions, asked together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

LINGER_S = 0.002  # how long a question waits for others

A = TypeVar("A")
R = TypeVar("R")


class Together(Generic[A, R]):
    """Questions of many tasks, sent as one: to another process or a ledger, one costs about as much as fifty. `send`
    returns as many answers, in the order of the questions."""

    def __init__(self, send: Callable[[Sequence[A]], Awaitable[Sequence[R]]]) -> None:
        self._send = send
        self._wanted: list[A] = []
        self._asking: asyncio.Task[Sequence[R]] | None = None

    async def ask(self, one: A) -> R:
        if self._asking is None:
            self._asking = asyncio.create_task(self._soon())
        place = len(self._wanted)
        self._wanted.append(one)
        return (await asyncio.shield(self._asking))[place]

    async def _soon(self) -> Sequence[R]:
        await asyncio.sleep(LINGER_S)
        wanted, self._wanted, self._asking = self._wanted, [], None
        return await self._send(wanted)
