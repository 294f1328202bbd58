"""How a worker keeps its share of the cases under way, and lets a case be alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

# Cases under way beyond those that are asked: more than in a local engine, for the office is heard before and after.
AHEAD = 0.5


class Slots(asyncio.Semaphore):
    """A semaphore whose size may change. Made smaller, it lets those who are inside finish."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size
        self.inside = 0
        self._owed = 0

    def resize(self, size: int) -> None:
        change, self.size = size - self.size, size
        forgiven = min(max(change, 0), self._owed)
        self._owed -= forgiven
        for _ in range(max(change, 0) - forgiven):
            super().release()
        for _ in range(max(-change, 0)):
            if self._value > 0:
                self._value -= 1
            else:
                self._owed += 1

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.inside += 1
        return True

    def release(self) -> None:
        self.inside -= 1
        if self._owed:
            self._owed -= 1
        else:
            super().release()


class Room:
    """Many may be in it together, or one alone. Who waits to be alone goes before those who come later."""

    def __init__(self) -> None:
        self._change = asyncio.Condition()
        self._together = 0
        self._waiting = 0
        self._taken = False

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        async with self._change:
            await self._change.wait_for(lambda: not self._taken and not self._waiting)
            self._together += 1
        try:
            yield
        finally:
            async with self._change:
                self._together -= 1
                self._change.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._change:
            self._waiting += 1
            try:
                await self._change.wait_for(lambda: not self._taken and not self._together)
                self._taken = True
            finally:
                self._waiting -= 1
                self._change.notify_all()
        try:
            yield
        finally:
            async with self._change:
                self._taken = False
                self._change.notify_all()
