from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from support.judges import PROTOCOLS, SCHEMA, brief, judge

from beholder.errors import SetupError, Unreachable
from beholder.providers.schema_support import fits_schema
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "sentence",
    [
        # llama-cpp-python 0.3: a schema that its grammar cannot express, and a type that it does not know.
        "Failed to parse grammar",
        "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or "
        "'json_object'\"}]",
    ],
)
async def test_some_say_it_with_500(server: JudgeServer, protocol: str, sentence: str) -> None:
    def refuse(heard: Received) -> Fault | str:
        return Fault.status(500, sentence) if heard.schema is not None else "{}"

    server.default = refuse
    async with aclosing(judge(server, protocol)) as one:
        answers = [await one.answer(brief()) for _ in range(2)]
    assert [answer.attempts for answer in answers] == [2, 1]
    assert [answer.flags for answer in answers] == [(FLAG,)] * 2


async def test_a_500_about_something_else_is_tried_again_with_the_schema(server: JudgeServer) -> None:
    server.say(Fault.status(500, "out of memory"), "{}")
    async with aclosing(judge(server)) as one:
        assert (await one.answer(brief())).flags == ()
    assert all(heard.schema is not None for heard in server.received)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_server_that_ignores_it_gets_the_schema_in_words_from_the_third_question_on(
    server: JudgeServer, protocol: str
) -> None:
    server.say("It looks fine.", '```json\n{"fine": true}\n```', '{"fine": true}')
    async with aclosing(judge(server, protocol)) as one:
        answers = [await one.answer(brief()) for _ in range(3)]
    assert [answer.flags for answer in answers] == [(), (), (FLAG,)]
    assert [answer.ignores_schema for answer in answers] == [False, True, False]
    assert [heard.schema is None for heard in server.received] == [False, False, True]
    assert "Answer with one JSON object of this JSON Schema" in server.received[-1].system


@pytest.mark.parametrize("thinking", ["<think>Is it {fine}?</think>\n\n", "It looks fine.</think>"])
async def test_one_that_thinks_first_does_not_ignore_it(
    server: JudgeServer, thinking: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.default = thinking + '{"share": 1}'
    async with aclosing(judge(server)) as one:
        answers = [await one.answer(brief()) for _ in range(4)]
    assert not any(answer.ignores_schema or answer.flags for answer in answers)
    assert all(heard.schema is not None for heard in server.received)
    assert "ignores the schema" not in caplog.text


async def test_so_does_one_whose_json_has_a_form_of_its_own(server: JudgeServer) -> None:
    server.say('{"rating": 5}', '{"share": "half"}', "{}")
    async with aclosing(judge(server)) as one:
        answers = [await one.answer(brief()) for _ in range(3)]
    assert [answer.ignores_schema for answer in answers] == [False, True, False]
    assert [heard.schema is None for heard in server.received] == [False, False, True]


async def test_what_was_under_way_is_known_to_be_ignored_too(server: JudgeServer) -> None:
    server.say('{"share": 1}')
    async with aclosing(judge(server)) as one:
        await one.answer(brief())  # which keeps to it, so that the others decide nothing
        server.default = "It looks fine."
        kept = await asyncio.gather(*(one.answer(brief()) for _ in range(4)))
    assert not any(answer.ignores_schema for answer in kept)
    async with aclosing(judge(server)) as other:
        await other.answer(brief())
        ignored = await asyncio.gather(*(other.answer(brief()) for _ in range(4)))
    assert all(answer.ignores_schema for answer in ignored)


@pytest.mark.parametrize("first", ["{}", Fault.refusal("I cannot."), Fault.truncated("It looks"), Fault.empty()])
async def test_one_that_keeps_to_it_is_not_taken_for_such_a_server(server: JudgeServer, first: Fault | str) -> None:
    server.say(first, "It looks fine.", "{}", "It looks fine.", "It looks fine.")
    async with aclosing(judge(server)) as one:
        assert [(await one.answer(brief())).flags for _ in range(6)] == [()] * 6


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_it_can_be_switched_off(server: JudgeServer, protocol: str) -> None:
    async with aclosing(judge(server, protocol, structured_output="off")) as one:
        answer = await one.answer(brief())
    (heard,) = server.received
    assert heard.schema is None
    assert "Answer with one JSON object of this JSON Schema" in heard.system
    assert (answer.flags, answer.attempts) == ((FLAG,), 1)
    with JudgeServer() as other:
        assert judge(other, protocol, structured_output="off").identity == judge(other, protocol).identity


async def test_another_rejection_is_not_taken_for_it(server: JudgeServer) -> None:
    server.say(Fault.status(400, "prompt is too long"))
    async with aclosing(judge(server)) as one:
        with pytest.raises(Unreachable, match="prompt is too long"):
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


SCORE: dict[str, object] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('{"score": 5}', True),
        ('\n {"score": 5}\n', True),
        ('{"score": 5.0}', True),
        ('{"score": 5.5}', False),
        ('{"score": "5"}', False),
        ('{"score": true}', False),
        ('{"score": 1e999999999}', False),  # at once: as a whole number it would fill the memory
        ('{"score": 5} That is why.', False),
        ('```json\n{"score": 5}\n```', False),
        ("[5]", False),
        ('<think>Four or five?</think>\n{"score": 5}', True),
        ('<think>Is {"score": 4} enough?</think>{"score": 5}', True),
        ('<think>A tag </think>{like this}?</think>{"score": 5}', True),
        ('<think>Four or five?</think>Five: {"score": 5}', False),
        ('<think>Four or five?</think>\n{"rating": 5}', False),
        ("<think>Five.</think>", False),
    ],
)
def test_an_answer_fits_its_schema_and_has_nothing_around_it(text: str, fits: bool) -> None:
    assert fits_schema(text, SCORE) is fits
