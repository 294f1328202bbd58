"""Scripts that run in the environment of a host (`support.hosts`), and the examples of the docs as such scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

DOCS = Path(__file__).parents[2] / "docs"
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
PAIR = {"input": "before.png", "edited": "after.png"}
REFUSAL = "I'm sorry, I can't help with that."
# Hosts must not reach beyond this machine; whatever else tries gets an error at once.
OFFLINE = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1",
}


def edit_answer(score: int) -> dict[str, object]:
    """An answer to `edit-preservation` with this score, of 7, for everything."""
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


def answer_or_refuse(asked: Received) -> str | dict[str, object]:
    """Answer with a 6 for everything, but refuse an instruction with REFUSE in it."""
    return REFUSAL if any("REFUSE" in text for text in asked.texts) else edit_answer(6)


def write_pair(folder: Path) -> None:
    """Write the images of `PAIR`."""
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    cv2.imwrite(str(folder / "before.png"), pixels)
    cv2.imwrite(str(folder / "after.png"), cv2.rotate(pixels, cv2.ROTATE_180))


def host_environment(server: JudgeServer, **more: str) -> dict[str, str]:
    """The environment of a script, in which `openai:m` is the loopback server."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return {**kept, **OFFLINE, "OPENAI_BASE_URL": server.openai_url, "PYTHONWARNINGS": "ignore", **more}


def run_script(python: Path, code: str, folder: Path, server: JudgeServer, **more: str) -> Any:
    """Run a script and return what the last line that it prints says as JSON; fail with its stderr if it fails."""
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env=host_environment(server, **more), capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def doc_example(page: str, containing: str) -> str:
    """The `py` example of a page of the docs that has this text in it."""
    blocks = re.findall(r"^```py\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if containing in block]
    return str(found)
