from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
from support.judges import PROTOCOLS, SCHEMA, brief, judge

from beholder.providers.payload import narrow_schema, word_set
from beholder.testing.server import JudgeServer


async def sent(server: JudgeServer, protocol: str, schema: dict[str, Any] = SCHEMA) -> dict[str, Any]:
    async with aclosing(judge(server, protocol)) as one:
        answer = await one.answer(brief(schema=schema))
    assert answer.flags == ()
    heard = server.received[-1].schema
    assert heard is not None
    return dict(heard)


def order(schema: dict[str, Any]) -> list[str]:
    found: list[str] = []
    for name, part in schema.get("properties", {}).items():
        found += [name, *order(part)]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_properties_keep_their_order_evidence_before_score(server: JudgeServer, protocol: str) -> None:
    schema = await sent(server, protocol)
    assert order(schema) == [
        *("zeal", "assertions", "A1", "reason", "a_score", "share", "findings", "assessment"),
    ]


async def test_google_is_told_the_order_at_every_level(server: JudgeServer) -> None:
    schema = await sent(server, "google")
    zeal = schema["properties"]["zeal"]
    assert schema["propertyOrdering"] == ["zeal", "share", "findings", "assessment"]
    assert zeal["propertyOrdering"] == ["assertions", "reason", "a_score"]
    assert zeal["properties"]["a_score"] == {"type": "INTEGER", "minimum": 1, "maximum": 5}
    assert schema["properties"]["findings"] == {"type": "ARRAY", "items": {"type": "STRING"}}
    assert "additionalProperties" not in str(schema)


async def test_openai_gets_the_schema_as_it_is(server: JudgeServer) -> None:
    assert await sent(server, "openai") == SCHEMA
    form = server.received[0].body["response_format"]
    assert (form["type"], form["json_schema"]["name"], form["json_schema"]["strict"]) == ("json_schema", "answer", True)


async def test_anthropic_gets_small_ranges_as_choices_and_others_in_words(server: JudgeServer) -> None:
    properties = (await sent(server, "anthropic"))["properties"]
    assert properties["zeal"]["properties"]["a_score"] == {"type": "integer", "enum": [1, 2, 3, 4, 5]}
    assert properties["share"] == {"type": "number", "description": "how much of it (minimum: 0, maximum: 1)"}
    assert properties["zeal"]["additionalProperties"] is False


async def test_anthropic_can_cache_the_rubric(server: JudgeServer) -> None:
    await sent(server, "anthropic")
    (block,) = server.received[0].body["system"]
    assert block == {"type": "text", "text": brief().system, "cache_control": {"type": "ephemeral"}}


async def test_google_is_told_numbers_to_choose_from_in_words(server: JudgeServer) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "enum": [1, 3, 5], "description": "odd"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert (await sent(server, "google", schema))["properties"]["n"] == {
        "type": "INTEGER",
        "description": "odd (one of: 1, 3, 5)",
    }


def test_a_wide_range_stays_words_and_the_original_is_untouched() -> None:
    original = {"type": "integer", "minimum": 0, "maximum": 100}
    assert narrow_schema(original, word_set("type enum description")) == {
        "type": "integer",
        "description": "(minimum: 0, maximum: 100)",
    }
    assert original == {"type": "integer", "minimum": 0, "maximum": 100}
