from __future__ import annotations

from contextlib import aclosing

import pytest
from judging_helpers import JPEG, PNG, PROTOCOLS, WEBP, brief, judge, picture

from beholder.judges.protocol import Finish
from beholder.rubrics.brief import Text
from beholder.testing import JudgeServer


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_byte_of_every_format_arrives_after_its_label(server: JudgeServer, protocol: str) -> None:
    asked = brief(
        Text("First."),
        picture("original", JPEG),
        picture("restyled", PNG, "image/png"),
        picture("target", WEBP, "image/webp"),
        Text("Style: «Пиксель-арт» \N{ARTIST PALETTE}. Judge."),
    )
    async with aclosing(judge(server, protocol)) as one:
        answer = await one.answer(asked)
    (heard,) = server.received
    assert answer.finish is Finish.COMPLETE
    assert answer.flags == ()
    assert heard.images == (JPEG, PNG, WEBP)
    assert heard.system == asked.system
    assert heard.texts == (
        "First.",
        "Image `original`:",
        "Image `restyled`:",
        "Image `target`:",
        "Style: «Пиксель-арт» \N{ARTIST PALETTE}. Judge.",
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_pictures_of_megabytes_arrive(server: JudgeServer, protocol: str) -> None:
    large = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 12_000
    async with aclosing(judge(server, protocol)) as one:
        await one.answer(brief(picture("original", large), picture("restyled", large)))
    assert server.received[0].images == (large, large)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_brief_without_system_or_schema_is_sent_as_it_is(server: JudgeServer, protocol: str) -> None:
    server.say("prose is fine")
    async with aclosing(judge(server, protocol)) as one:
        answer = await one.answer(brief(system="", schema=None))
    (heard,) = server.received
    assert (heard.system, heard.schema, answer.text, answer.flags) == ("", None, "prose is fine", ())


async def test_half_a_surrogate_pair_does_not_stop_a_request(server: JudgeServer) -> None:
    async with aclosing(judge(server)) as one:
        await one.answer(brief(Text("broken \ud83d emoji")))
    assert server.received[0].texts == ("broken ? emoji",)
