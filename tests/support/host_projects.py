"""A folder with two photographs, and a server that judges them, for hosts that run in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np

from beholder.testing.base import Received, ReplyContent
from beholder.testing.server import JudgeServer

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
REFUSAL = "I'm sorry, I can't help with that."


def answer(score: int) -> dict[str, object]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


def reply_to(received: Received) -> ReplyContent:
    """Answer as the instruction says: `make it refused`, or `make it 4` for that score, 6 otherwise."""
    instruction = " ".join(received.texts).rpartition("make it ")[2]
    return REFUSAL if instruction.startswith("refused") else answer(4 if instruction.startswith("4") else 6)


def draw_photos(folder: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    cv2.imwrite(str(folder / "before.png"), pixels)
    cv2.imwrite(str(folder / "after.png"), cv2.rotate(pixels, cv2.ROTATE_180))


def host_environment(server: JudgeServer, **more: str) -> dict[str, str]:
    """Return the environment of a host that asks this server, and has no settings of whoever runs the tests."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "BEHOLDER_", "INSPECT_", "PROMPTFOO_", "AGENTV_", "VIRTUAL_ENV"))
    }
    return {**inherited, "OPENAI_BASE_URL": server.openai_url, "COLUMNS": "160", "NO_COLOR": "1", **more}
