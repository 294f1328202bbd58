from __future__ import annotations

import socket
from contextlib import aclosing

import pytest
from support.judges import KEY, PROTOCOLS, WIRES, Waits, brief

from beholder.errors import Unreachable
from beholder.judges.model import ModelJudge
from beholder.providers.base import JudgeSettings

HOSTS = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "google": "generativelanguage.googleapis.com",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_judge_reaches_for_the_host_that_was_named_and_no_other(protocol: str, tried_hosts: list[str]) -> None:
    async with aclosing(ModelJudge(WIRES[protocol], "m", JudgeSettings(sleep=Waits().sleep), key=KEY)) as one:
        with pytest.raises(Unreachable):
            await one.answer(brief())
    assert set(tried_hosts) == {HOSTS[protocol]}
    tried_hosts.clear()


def test_the_test_session_refuses_the_network(tried_hosts: list[str]) -> None:
    with pytest.raises(OSError, match="refuses the network"):
        socket.getaddrinfo("example.com", 443)
    with socket.socket() as outward, pytest.raises(OSError, match="refuses the network"):
        outward.connect(("192.0.2.1", 9))
    assert tried_hosts == ["example.com", "192.0.2.1"]
    tried_hosts.clear()
