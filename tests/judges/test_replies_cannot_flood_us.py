from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
from aiohttp import web
from support.judges import KEY, WIRES, Waits, brief

from beholder.errors import Unreachable
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings
from beholder.providers.http import MAX_REPLY_BYTES
from beholder.providers.payload import MAX_MESSAGE_CHARACTERS, redact
from beholder.providers.retry import parse_error_body, read_error_body

ANSWER = b'{"model": "m", "choices": [{"message": {"content": "fine"}, "finish_reason": "stop"}]}'


@asynccontextmanager
async def saying(body: bytes, encoding: str | None = None, status: int = 200) -> AsyncIterator[ModelJudge]:
    """A judge whose server always says the same, packed or not, whatever it was asked to accept."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.headers["Accept-Encoding"])
        headers = {"Content-Type": "application/json"} | ({"Content-Encoding": encoding} if encoding else {})
        return web.Response(body=body, headers=headers, status=status)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    async with aclosing(
        ModelJudge(WIRES["openai"], "m", JudgeSettings(base_url=url, sleep=Waits().sleep), key=KEY)
    ) as judge:
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


MANY = 10 * 1024 * 1024
# Each of them would keep the event loop for minutes or hours, were all of it searched as the beginning is.
ECHOES = {
    "base64 in a message": b'{"error": {"message": "Invalid image: %s"}}' % (b"A" * MANY),
    "base64 in a list": b'{"detail": [{"msg": "Invalid image", "input": "%s"}]}' % (b"A" * MANY),
    "a code": b'{"error": {"message": "Invalid image", "code": "%s", "param": "%s"}}' % (b"A" * MANY, b"B" * 99999),
    "a page": b"Invalid image" + b"<" * MANY,
    "scripts": b"Invalid image" + b"<script " * (MANY // 8),
    "stars": b"Invalid image " + b"a*" * (MANY // 2),
    "bearers": b"Invalid image " + b"Bearer sk-" * (MANY // 10),
}


@pytest.mark.parametrize("body", ECHOES.values(), ids=ECHOES)
async def test_an_error_that_echoes_megabytes_is_read_at_its_beginning(body: bytes) -> None:
    async with saying(body, status=422) as judge:
        with pytest.raises(Unreachable) as error:
            await judge.answer(brief())
    assert str(error.value).startswith("openai:m answered 422: ")
    assert "Invalid image" in str(error.value)
    assert len(str(error.value)) < 400


async def test_an_error_inside_a_reply_is_read_at_its_beginning() -> None:
    async with saying(b'{"error": {"message": "Invalid image: %s"}}' % (b"A" * MANY)) as judge:
        with pytest.raises(Unreachable, match=r"not of its form \(Invalid image: A+…\)"):
            await judge.answer(brief())


@pytest.mark.parametrize("status", [200, 422])
async def test_brackets_without_end_are_no_answer(status: int) -> None:
    async with saying(b"[" * 100_000, status=status) as judge:
        with pytest.raises(Unreachable, match="answered 422" if status == 422 else "the reply is no JSON"):
            await judge.answer(brief())


@pytest.mark.parametrize("before", range(MAX_MESSAGE_CHARACTERS - len(KEY) - 1, MAX_MESSAGE_CHARACTERS + 1))
def test_no_key_is_cut_in_half_before_it_is_found(before: int) -> None:
    said = "y" * before + KEY
    for complaint in (
        parse_error_body(said.encode(), (KEY,)),
        read_error_body({"error": {"message": said, "code": said, "param": said}}, (KEY,)),
    ):
        assert KEY[:3] not in complaint.message + complaint.code + complaint.parameter
    assert KEY[:3] not in redact(said, (KEY,))


@pytest.mark.parametrize("body", ECHOES.values(), ids=ECHOES)
def test_only_the_beginning_is_ever_searched(body: bytes) -> None:
    complaint = parse_error_body(body)
    for said in (complaint.message, complaint.code, complaint.parameter, redact(body.decode())):
        assert len(said) <= MAX_MESSAGE_CHARACTERS
