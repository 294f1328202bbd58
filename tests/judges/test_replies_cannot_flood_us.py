from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web
from judging_helpers import KEY, WIRES, Waits, brief

from beholder.errors import Unreachable
from beholder.judges.model import ModelJudge
from beholder.judges.wires.transport import MAX_REPLY_BYTES

ANSWER = b'{"model": "m", "choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}'


@asynccontextmanager
async def saying(body: bytes, encoding: str | None = None) -> AsyncIterator[ModelJudge]:
    """A judge whose server always says the same, packed or not, whatever it was asked to accept."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.headers["Accept-Encoding"])
        headers = {"Content-Type": "application/json"} | ({"Content-Encoding": encoding} if encoding else {})
        return web.Response(body=body, headers=headers)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    async with aclosing(ModelJudge(WIRES["openai"], "m", base_url=url, key=KEY, sleep=Waits().sleep)) as judge:
        yield judge
    await runner.cleanup()
    assert set(asked) == {"identity"}


async def test_a_reply_that_was_packed_all_the_same_is_read() -> None:
    async with saying(gzip.compress(ANSWER), "gzip") as judge:
        assert (await judge.answer(brief())).text == "fine"


async def test_a_reply_beyond_the_limit_is_not_read_to_its_end() -> None:
    async with saying(b" " * (MAX_REPLY_BYTES + 1)) as judge:
        with pytest.raises(Unreachable, match="sent more than 16 MB"):
            await judge.answer(brief())


async def test_a_packed_bomb_is_not_unfolded() -> None:
    async with saying(gzip.compress(b" " * (MAX_REPLY_BYTES * 4)), "gzip") as judge:
        with pytest.raises(Unreachable, match="unfolded to more than 16 MB"):
            await judge.answer(brief())


async def test_a_broken_packing_is_no_answer() -> None:
    async with saying(b"not gzip at all", "gzip") as judge:
        with pytest.raises(Unreachable, match="not of its form"):
            await judge.answer(brief())
