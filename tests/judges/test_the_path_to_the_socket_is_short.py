"""From a judge's `answer` to the HTTP client there are at most four of our functions, so that a reader can follow them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from support.judges import brief, judge

import beholder
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

SOURCE = Path(beholder.__file__).parent


def our_frames(waiting: object) -> Iterator[str]:
    """The functions of ours on the await chain of a coroutine, outermost first."""
    while waiting is not None:
        code = getattr(waiting, "cr_code", None)
        if code is not None and Path(code.co_filename).is_relative_to(SOURCE):
            yield code.co_qualname
        waiting = getattr(waiting, "cr_await", None)


async def test_four_functions_from_the_judge_to_the_socket(server: JudgeServer) -> None:
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[list[str]] = loop.create_future()

    def look() -> None:
        seen.set_result(list(our_frames(asking.get_coro())))

    def reply(received: Received) -> str:
        loop.call_soon_threadsafe(look)  # the request has left, and the reply has not come
        asyncio.run_coroutine_threadsafe(asyncio.wait_for(asyncio.shield(seen), 10), loop).result()
        return "{}"

    server.default = reply
    async with aclosing(judge(server)) as one:
        asking = asyncio.create_task(one.answer(brief()))
        await asking
    assert seen.result() == ["ModelJudge.answer", "Retrier.call", "ModelJudge._send_once", "HttpClient.post"]
