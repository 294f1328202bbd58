from __future__ import annotations

from contextlib import aclosing

import pytest
from support.judges import JPEG, PNG, PROTOCOLS, brief, judge

from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Turn

ROLES = {"openai": "messages", "anthropic": "messages", "google": "contents"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_earlier_turns_follow_the_brief_and_images_stay_in_the_first_message(
    server: JudgeServer, protocol: str
) -> None:
    earlier = (Turn('{"a_score": 9}', "a_score is 9; at most 5."), Turn("", "That was empty."))
    async with aclosing(judge(server, protocol)) as one:
        await one.answer(brief(), earlier=earlier)
    (heard,) = server.received
    assert heard.images == (JPEG, PNG)
    assert heard.texts[-5:] == (
        "Style: anime. Judge.",
        '{"a_score": 9}',
        "a_score is 9; at most 5.",
        "(empty answer)",
        "That was empty.",
    )
    roles = [message["role"] for message in heard.body[ROLES[protocol]]]
    said = "model" if protocol == "google" else "assistant"
    assert roles[-5:] == ["user", said, "user", said, "user"]
    assert heard.schema is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_many_answers_share_one_judge(server: JudgeServer, protocol: str) -> None:
    import asyncio

    server.default = lambda heard: heard.texts[-1]
    from beholder.rubrics.brief import TextBlock

    async with aclosing(judge(server, protocol)) as one:
        answers = await asyncio.gather(*(one.answer(brief(TextBlock(f"case {number}"))) for number in range(40)))
    assert [answer.text for answer in answers] == [f"case {number}" for number in range(40)]
