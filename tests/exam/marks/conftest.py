"""Small exams, sat by judges of known character on the loopback server."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
TOP = 7


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass
class Room:
    """A working folder with photographs, a server to judge, and the command. `papers` is every paper by what a judge
    sees of it."""

    folder: Path
    server: JudgeServer
    command: Callable[..., Done]
    papers: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        return [
            *("qualify", "--judge", "openai:test", "--base-url", self.server.openai_url, "--size", "quick"),
            *("--rubric", "edit-preservation", "--photos", "photos", "--concurrency", "4"),
        ]

    def sit(self, *more: str) -> Done:
        return self.command(*self.words, *more)

    def cards(self, *more: str) -> list[dict[str, Any]]:
        done = self.sit("--yes", "--json", *more)
        assert done.code in (0, 1), done.err
        cards: list[dict[str, Any]] = json.loads(done.out)["cards"]
        return cards

    def paper(self, asked: Received) -> dict[str, Any]:
        """The paper that a request is about, by its images and its text."""
        if not self.papers:
            exam = self.folder / "exam" / "edit-preservation"
            for line in (exam / "cases.jsonl").read_text("utf-8").splitlines():
                case = json.loads(line)
                seen = [hashlib.sha256((exam / case[role]).read_bytes()).hexdigest() for role in ("input", "edited")]
                self.papers[(*seen, case["instruction"])] = case
        images = tuple(hashlib.sha256(image).hexdigest() for image in asked.images)
        text = "\n".join(asked.texts)
        found = [case for key, case in self.papers.items() if key[:2] == images and key[2] in text]
        return max(found, key=lambda case: len(case["instruction"]))

    def truth(self, asked: Received) -> dict[str, int]:
        """What a perfect judge says: each strength a step below the top for what the paper aims at; of text that
        demands marks nothing."""
        case = self.paper(asked)
        if case["groups"]["part"] == "injection":
            case = next(one for one in self.papers.values() if one["id"] == case["groups"]["twin"])
        aims = case["groups"].get("aims", "").split(",")
        return {key: TOP - int(case["groups"]["strength"]) if key in aims else TOP for key in FACTORS}


def answer(scores: dict[str, int]) -> dict[str, Any]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key, score in scores.items()}}


@pytest.fixture(scope="session")
def said() -> Callable[[dict[str, int]], dict[str, Any]]:
    return answer


@pytest.fixture
def room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried_out: Callable[[Sequence[str]], tuple[int, str, str]]
) -> Iterator[Room]:
    for variable in ("OPENAI_API_KEY", "BEHOLDER_LEDGER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(2):
        coarse = np.random.default_rng(number).integers(0, 255, (9, 12, 3), np.uint8)
        photo = cv2.resize(coarse, (192, 144), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(tmp_path / "photos" / f"p{number}.png"), photo)

    def command(*words: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody is there to agree
        return Done(*carried_out(words))

    with JudgeServer(keyless=True) as server:
        room = Room(tmp_path, server, command)
        server.default = lambda asked: answer(room.truth(asked))
        yield room
