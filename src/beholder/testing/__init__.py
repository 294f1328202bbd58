"""For tests of code that asks judges: a real HTTP server on loopback with the protocols of the providers.

    with JudgeServer() as server:
        server.say({"score": 4}, Fault.status(429, retry_after=0), "not JSON")
        judge = judge_from("openai:gpt-5-mini", base_url=server.openai_url, key_variable="MY_TEST_KEY")
        ...
        assert server.received[0].images == (picture,)

It checks requests as the providers do (key, parameters, schema dialect, image types), so that they would accept a
request that it accepts.
"""

from __future__ import annotations

from beholder.testing.base import Course, Fault, Received, Reply
from beholder.testing.server import JudgeServer

__all__ = ["Course", "Fault", "JudgeServer", "Received", "Reply"]
