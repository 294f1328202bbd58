from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal

import pytest
from support.judges import MODELS, PROTOCOLS, WIRES, base_url, brief, judge

from beholder.judges.base import Judge
from beholder.providers import google, openai
from beholder.providers.payload import MalformedReplyError
from beholder.providers.prices import Price
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Finish, Usage

USAGE = {
    "openai": Usage(1117, 46, 1024),
    "anthropic": Usage(286 + 500 + 1524, 640, 1524, 500),
    "google": Usage(1200, 80 + 120, 1024),
}
RETURNED = {
    "openai": "gpt-5-mini-2025-08-07",
    "anthropic": "claude-haiku-4-5-20251001",
    "google": "gemini-2.5-flash-001",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_usage_the_returned_model_and_the_finish_are_kept(server: JudgeServer, protocol: str) -> None:
    server.say({"score": 4})
    async with aclosing(judge(server, protocol)) as one:
        assert isinstance(one, Judge)
        assert one.name == f"{protocol}:{MODELS[protocol]}"
        answer = await one.answer(brief())
    assert answer.text == '{"score": 4}'
    assert answer.usage == USAGE[protocol]
    assert answer.model == RETURNED[protocol]
    assert answer.finish is Finish.COMPLETE
    assert (answer.attempts, answer.flags, answer.detail) == (1, (), "")
    assert answer.latency_s > 0


# By the price list: input, cached input, cache writes (Anthropic), output; dollars for a million tokens.
COSTS = {
    "openai": (93 * Decimal("0.25") + 1024 * Decimal("0.025") + 46 * Decimal(2)) / 1_000_000,
    "anthropic": (286 * Decimal(1) + 1524 * Decimal("0.1") + 500 * Decimal("1.25") + 640 * Decimal(5)) / 1_000_000,
    "google": (176 * Decimal("0.3") + 1024 * Decimal("0.03") + 200 * Decimal("2.5")) / 1_000_000,
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_cost_counts_cached_tokens_as_cached(server: JudgeServer, protocol: str) -> None:
    as_if_official = replace(WIRES[protocol], base_url=base_url(server, protocol))
    async with aclosing(judge(server, protocol, wire=as_if_official)) as one:
        answer = await one.answer(brief())
    assert answer.cost_usd == COSTS[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_cost_that_is_not_known_is_none_and_never_zero(server: JudgeServer, protocol: str) -> None:
    as_if_official = replace(WIRES[protocol], base_url=base_url(server, protocol))
    for options in ({"wire": as_if_official, "model": "nobody-knows-this"}, {}):
        async with aclosing(judge(server, protocol, **options)) as one:  # type: ignore[arg-type]
            assert (await one.answer(brief())).cost_usd is None
    tier = {"service_tier": "auto"} if protocol != "google" else {"serviceTier": "flex"}
    async with aclosing(judge(server, protocol, wire=as_if_official, params=tier)) as one:
        assert (await one.answer(brief())).cost_usd is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_price_that_was_given_goes_before_everything(server: JudgeServer, protocol: str) -> None:
    price = Price(Decimal(2), Decimal(10), cached=Decimal(1), written=Decimal(3))
    async with aclosing(judge(server, protocol, price=price)) as one:
        answer = await one.answer(brief())
    used, written = answer.usage, 500 if protocol == "anthropic" else 0
    assert used.input_tokens is not None
    assert used.output_tokens is not None
    assert used.cached_tokens is not None
    fresh = used.input_tokens - used.cached_tokens - written
    dollars = fresh * 2 + used.cached_tokens * 1 + written * 3 + used.output_tokens * 10
    assert answer.cost_usd == Decimal(dollars) / 1_000_000


def test_content_in_parts_is_joined() -> None:
    reply = openai.parse_reply(
        b'{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": '
        b'[{"type": "text", "text": "{\\"a\\""}, {"type": "text", "text": ": 1}"}]}}]}'
    )
    assert (reply.text, reply.usage) == ('{"a": 1}', Usage())


def test_a_prompt_that_google_blocks_is_filtered() -> None:
    reply = google.parse_reply(b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "g"}')
    assert (reply.finish, reply.detail, reply.text, reply.model) == (Finish.FILTERED, "PROHIBITED_CONTENT", "", "g")


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("SAFETY", Finish.FILTERED),
        ("RECITATION", Finish.FILTERED),
        ("SPII", Finish.FILTERED),
        ("MAX_TOKENS", Finish.LENGTH),
        ("OTHER", Finish.COMPLETE),
    ],
)
def test_googles_reasons_to_stop(reason: str, finish: Finish) -> None:
    reply = google.parse_reply(b'{"candidates": [{"finishReason": "%s"}]}' % reason.encode())
    assert (reply.finish, reply.text) == (finish, "")


def test_a_refusal_is_found_where_litellm_puts_it() -> None:
    """As its proxy, version 1.100, answers."""
    fields = b'{"content": null, "role": "assistant", "provider_specific_fields": {"refusal": "I would rather not."}}'
    reply = openai.parse_reply(b'{"choices": [{"finish_reason": "stop", "message": ' + fields + b"}]}")
    assert (reply.finish, reply.detail) == (Finish.REFUSED, "I would rather not.")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "payload",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"choices": []}', b'{"error": {"message": "no"}}', b"\xff\xfe", b'{"a"'],
)
def test_a_body_of_another_form_is_told_apart(protocol: str, payload: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        WIRES[protocol].parse_reply(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices": [{"message": 3}], "usage": 7, "model": []}',
        b'{"choices": [{"message": {"content": 5, "refusal": {}}, "finish_reason": 9}], "usage": {"prompt_tokens": -1}}'
        b"\n",
    ],
)
def test_odd_values_become_unknown(payload: bytes) -> None:
    reply = openai.parse_reply(payload)
    assert (reply.text, reply.model, reply.usage) == ("", None, Usage())
