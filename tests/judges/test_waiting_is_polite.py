from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime

import pytest
from support.judges import Waits, brief, judge

from beholder.errors import Unreachable
from beholder.providers.retry import (
    CallTarget,
    ErrorBody,
    PermanentError,
    RetryableError,
    classify_error,
    parse_retry_after,
    read_error_body,
)
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

NOON = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


async def waited(server: JudgeServer, *faults: Fault, random: float = 0.5, retries: int = 5) -> list[float]:
    server.say(*faults)
    waits = Waits()
    async with aclosing(judge(server, waits=waits, random=random, retries=retries)) as one:
        await one.answer(brief())
    return waits.slept


async def test_waits_double_and_are_drawn_from_the_whole_range(server: JudgeServer) -> None:
    faults = [Fault.status(500)] * 5
    assert await waited(server, *faults, random=1.0) == [1, 2, 4, 8, 16]
    assert await waited(server, *faults, random=0.5) == [0.5, 1, 2, 4, 8]
    assert await waited(server, *faults, random=0.0) == [0, 0, 0, 0, 0]


async def test_waits_do_not_grow_for_ever(server: JudgeServer) -> None:
    assert (await waited(server, *[Fault.status(500)] * 9, random=1.0, retries=9))[-1] == 30


async def test_the_providers_wait_is_obeyed_and_never_undercut(server: JudgeServer) -> None:
    assert await waited(server, Fault.status(429, retry_after=7), random=0.0) == [7]
    assert await waited(server, Fault.status(429, retry_after=8), random=1.0) == [10]
    assert await waited(server, Fault.status(429, headers={"retry-after-ms": "1500"}), random=0.0) == [1.5]


async def test_a_wait_beyond_the_cap_is_not_waited_for(server: JudgeServer) -> None:
    waits = Waits()
    server.say(Fault.status(429, retry_after=3600))
    async with aclosing(judge(server, waits=waits)) as one:
        with pytest.raises(Unreachable) as error:
            await one.answer(brief())
    assert "asks to wait 3600 s, longer than the 120 s allowed" in str(error.value)
    assert (error.value.attempts, waits.slept) == (1, [])


def test_an_account_without_money_is_not_asked_again() -> None:
    # https://developers.openai.com/api/docs/guides/error-codes#api-errors: the same status as a rate limit
    target = CallTarget("openai:m", "m", "http://127.0.0.1", "KEY", ("KEY",))
    for code, kind in (("insufficient_quota", PermanentError), ("rate_limit_exceeded", RetryableError)):
        complaint = read_error_body({"error": {"message": "You exceeded your current quota.", "code": code}})
        assert isinstance(classify_error(429, complaint, target, structured=True, retry_after=None), kind)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_every_way_to_say_how_long(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, now=lambda: NOON) == seconds


def test_google_says_how_long_in_the_body() -> None:
    # https://ai.google.dev/gemini-api/docs/rate-limits; google.rpc.RetryInfo
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}
    assert read_error_body({"error": {"code": 429, "message": "quota", "details": [info]}}).retry_after == 36.5
    assert read_error_body({"error": {"message": "quota", "details": [{"retryDelay": "soon"}]}}).retry_after is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "as OpenAI"}}, "as OpenAI"),
        ({"error": "as LM Studio"}, "as LM Studio"),
        ({"object": "error", "message": "as vLLM", "code": 400}, "as vLLM"),
        ({"detail": "as FastAPI"}, "as FastAPI"),
        ([{"error": {"message": "as Google, in a list"}}], "as Google, in a list"),
        ("plain text", "plain text"),
        (None, ""),
        ([], ""),
    ],
)
def test_a_complaint_is_found_whoever_wrote_it(body: object, message: str) -> None:
    assert read_error_body(body).message == message


def test_an_answer_that_llama_cpp_cannot_read_is_asked_for_once_more_only() -> None:
    message = "The model produced output that does not match the expected peg-native format"
    target = CallTarget("openai:tiny", "tiny", "http://127.0.0.1:8080/v1", "", ())
    found = classify_error(500, ErrorBody(message, "server_error"), target, structured=True, retry_after=None)
    assert isinstance(found, RetryableError)
    assert found.retries == 1
    other = classify_error(500, ErrorBody("overloaded"), target, structured=True, retry_after=None)
    assert isinstance(other, RetryableError)
    assert other.retries is None
