from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer


@pytest.fixture
async def client() -> AsyncIterator[tuple[JudgeServer, openai.AsyncOpenAI]]:
    async with (
        JudgeServer() as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0) as one,
    ):
        yield server, one


async def test_an_answer(client: tuple[JudgeServer, openai.AsyncOpenAI]) -> None:
    server, one = client
    server.say("hello", Fault.refusal("no"), Fault.truncated("he"), Fault.filtered())
    replies = [
        await one.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "hi"}])
        for _ in range(4)
    ]
    assert [reply.choices[0].message.content for reply in replies] == ["hello", None, "he", None]
    assert [reply.choices[0].finish_reason for reply in replies] == ["stop", "stop", "length", "content_filter"]
    assert replies[1].choices[0].message.refusal == "no"
    assert replies[0].model == "gpt-5-mini-2025-08-07"
    assert replies[0].usage is not None
    assert replies[0].usage.total_tokens == replies[0].usage.prompt_tokens + replies[0].usage.completion_tokens


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.status(429), openai.RateLimitError),
        (Fault.status(500), openai.InternalServerError),
        (Fault.bad_key(), openai.AuthenticationError),
        (Fault.unknown_model(), openai.NotFoundError),
        (Fault.no_structured_output(), openai.BadRequestError),
        (Fault.drop(), openai.APIConnectionError),
    ],
)
async def test_a_fault(
    client: tuple[JudgeServer, openai.AsyncOpenAI], fault: Fault, error: type[openai.APIError]
) -> None:
    server, one = client
    server.say(fault)
    with pytest.raises(error):
        await one.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "hi"}])
