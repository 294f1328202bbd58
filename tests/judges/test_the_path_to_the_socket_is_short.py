"""From a judge's `answer` to the HTTP client there are five of our functions, so that a reader can follow them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from support.frames import our_frames
from support.judges import brief, judge

from beholder.testing.base import Received
from beholder.testing.server import JudgeServer


async def test_five_functions_from_the_judge_to_the_socket(server: JudgeServer) -> None:
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
    assert seen.result() == [
        "ModelJudge.answer",
        "SchemaSupport.ask",
        "Retrier.call",
        "ModelJudge._send_once",
        "HttpClient.post",
    ]
