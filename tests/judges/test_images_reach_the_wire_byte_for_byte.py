from __future__ import annotations

import base64
import json
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.judges import JPEG, PNG, PROTOCOLS, WEBP, brief, judge, picture

from beholder.providers.payload import SLICE_BYTES, ImageSplicer
from beholder.rubrics.brief import TextBlock
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Finish


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_byte_of_every_format_arrives_after_its_label(server: JudgeServer, protocol: str) -> None:
    asked = brief(
        TextBlock("First."),
        picture("original", JPEG),
        picture("restyled", PNG, "image/png"),
        picture("target", WEBP, "image/webp"),
        TextBlock("Style: «Пиксель-арт» \N{ARTIST PALETTE}. Judge."),
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


@pytest.mark.parametrize("extra", [-1, 0, 1, 2, 3])
async def test_pictures_around_the_size_of_a_slice_arrive_also_when_sent_again(server: JudgeServer, extra: int) -> None:
    data = (b"\xff\xd8\xff\xe0" + bytes(range(256)) * 2000)[: 2 * SLICE_BYTES + extra]
    server.say(Fault.status(500), Fault.drop(), "{}")
    async with aclosing(judge(server)) as one:
        await one.answer(
            brief(picture("original", data), TextBlock("and"), picture("restyled", data[: SLICE_BYTES + extra]))
        )
    assert [heard.images for heard in server.received] == [(data, data[: SLICE_BYTES + extra])] * 3


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.integers(-3, 3).map(lambda more: b"p" * (SLICE_BYTES + more)), max_size=4))
def test_a_body_is_as_long_as_it_says_and_no_piece_is_long(pictures: list[bytes]) -> None:
    splicer = ImageSplicer()
    body = splicer.encode({"before": 1, "pictures": [splicer.add_image(data) for data in pictures], "after": "ü"})
    pieces = list(body.chunks())
    whole = b"".join(pieces)
    assert len(body) == len(whole)
    assert max(map(len, pieces)) <= SLICE_BYTES * 4 // 3
    said = json.loads(whole)
    assert [base64.b64decode(data, validate=True) for data in said["pictures"]] == pictures
    assert whole == b"".join(body.chunks())


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_brief_without_system_or_schema_is_sent_as_it_is(server: JudgeServer, protocol: str) -> None:
    server.say("prose is fine")
    async with aclosing(judge(server, protocol)) as one:
        answer = await one.answer(brief(system="", schema=None))
    (heard,) = server.received
    assert (heard.system, heard.schema, answer.text, answer.flags) == ("", None, "prose is fine", ())


async def test_half_a_surrogate_pair_does_not_stop_a_request(server: JudgeServer) -> None:
    async with aclosing(judge(server)) as one:
        await one.answer(brief(TextBlock("broken \ud83d emoji")))
    assert server.received[0].texts == ("broken ? emoji",)
