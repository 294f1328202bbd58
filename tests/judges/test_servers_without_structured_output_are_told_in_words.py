from __future__ import annotations

import json
from contextlib import aclosing

import pytest
from support.judges import PROTOCOLS, SCHEMA, brief, judge

from beholder.errors import SetupError, Unreachable
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer

FLAG = "structured_output_unavailable"


def without_structure(heard: Received) -> Fault | str:
    return Fault.no_structured_output() if heard.schema is not None else '{"fine": true}'


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_it_is_asked_once_more_with_the_schema_in_the_system_message(server: JudgeServer, protocol: str) -> None:
    server.default = without_structure
    async with aclosing(judge(server, protocol)) as one:
        answer = await one.answer(brief())
    assert (answer.text, answer.flags, answer.attempts) == ('{"fine": true}', (FLAG,), 2)
    first, second = server.received
    assert first.system == brief().system
    start, _, schema = second.system.partition("Answer with one JSON object of this JSON Schema, and nothing else:\n")
    assert start == brief().system + "\n\n"
    assert json.loads(schema) == SCHEMA
    assert second.schema is None
    assert second.images == first.images
    assert second.texts == first.texts


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_it_is_remembered_and_every_answer_is_flagged(server: JudgeServer, protocol: str) -> None:
    server.default = without_structure
    async with aclosing(judge(server, protocol)) as one:
        answers = [await one.answer(brief()) for _ in range(3)]
    assert [answer.attempts for answer in answers] == [2, 1, 1]
    assert [answer.flags for answer in answers] == [(FLAG,)] * 3
    assert len(server.received) == 4


async def test_a_brief_without_a_schema_neither_needs_nor_forgets_it(server: JudgeServer) -> None:
    server.default = without_structure
    async with aclosing(judge(server)) as one:
        assert (await one.answer(brief())).flags == (FLAG,)
        assert (await one.answer(brief(schema=None))).flags == ()
        assert (await one.answer(brief())).attempts == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "'response_format.type' must be 'text'",
        "This response_format type is unavailable now",
        "Failed to parse grammar",
        "guided decoding is not supported",
        "This model does not support structured outputs",
        "output_config.format: Extra inputs are not permitted",
        "The specified schema produces a constraint that has too many states for serving.",
    ],
)
async def test_the_ways_servers_say_it(server: JudgeServer, sentence: str) -> None:
    server.say(Fault.status(400, sentence), "{}")
    async with aclosing(judge(server)) as one:
        assert (await one.answer(brief())).flags == (FLAG,)


async def test_another_rejection_is_not_taken_for_it(server: JudgeServer) -> None:
    server.say(Fault.status(400, "image_url is only supported by certain models."))
    async with aclosing(judge(server)) as one:
        with pytest.raises(Unreachable, match="image_url is only supported by certain models"):
            await one.answer(brief())
    assert len(server.received) == 1


async def test_a_server_that_refuses_both_ways_ends(server: JudgeServer) -> None:
    server.default = Fault.status(400, "no response_format here")
    async with aclosing(judge(server)) as one:
        with pytest.raises(Unreachable) as error:
            await one.answer(brief())
    assert error.value.attempts == 2


async def test_a_filter_that_answers_400_is_a_filter(server: JudgeServer) -> None:
    # Azure's filter: https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-filter
    from beholder.providers.retry import CallTarget, FilteredRequestError, classify_error, read_error_body

    body = {"error": {"code": "content_filter", "message": "The response was filtered", "status": 400}}
    target = CallTarget("openai:m", "m", "http://127.0.0.1", "KEY", ("KEY",))
    found = classify_error(400, read_error_body(body), target, structured=True, retry_after=None)
    assert isinstance(found, FilteredRequestError)
    assert not isinstance(found, SetupError)
