"""Hosts that run in processes of their own, in a folder with the photographs of `host_scripts`: a server that judges
these, and the environment of the host."""

from __future__ import annotations

import os

from beholder.testing.base import Received, ReplyContent
from beholder.testing.server import JudgeServer
from support.host_scripts import REFUSAL, edit_answer


def reply_to(received: Received) -> ReplyContent:
    """Answer as the instruction says: `make it refused`, or `make it 4` for that score, 6 otherwise."""
    instruction = " ".join(received.texts).rpartition("make it ")[2]
    return REFUSAL if instruction.startswith("refused") else edit_answer(4 if instruction.startswith("4") else 6)


# Options with which a budget of 0.003 is enough for one case, and not for two.
PRICED = {
    "price": {"input": 1, "output": 1},
    "params": {"max_tokens": 100},
    "audit": False,
    "thumbnails": False,
}


def project_environment(server: JudgeServer, **more: str) -> dict[str, str]:
    """Return the environment of a host that asks this server, and has no settings of whoever runs the tests."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "BEHOLDER_", "INSPECT_", "PROMPTFOO_", "AGENTV_", "VIRTUAL_ENV"))
    }
    return {**inherited, "OPENAI_BASE_URL": server.openai_url, "COLUMNS": "160", "NO_COLOR": "1", **more}
