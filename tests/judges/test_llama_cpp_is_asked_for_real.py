"""llama.cpp's own server with a tiny random vision model: real grammars made of our schemas, real error bodies.

What a random model says is nonsense in the form of the schema, so it is never known which score comes; only that the
checks decide, and nothing crashes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.hosts import python_host
from support.images import blocks, photo, saved

import beholder
from beholder import Outcome, SetupError, Verdict

pytestmark = pytest.mark.slow

SERVER = Path(__file__).parents[1] / "support" / "llama_server.py"
Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server and returns its base URL."""
    python = python_host("llama", "xllamacpp", "gguf>=0.17")
    with ExitStack() as stack:

        def start(context: int = 32768, *, sees: str = "images", key: str = "", writes: str = "words") -> str:
            folder = tmp_path / f"{context}-{sees}-{writes}"
            folder.mkdir()
            log = stack.enter_context((folder / "log").open("w"))
            process = stack.enter_context(
                subprocess.Popen(
                    [python, SERVER, str(folder), str(context), sees, key, writes],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            )
            stack.callback(process.terminate)
            assert process.stdout
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), (folder / "log").read_text()
            return f"{address}/v1"

        yield start


def judge(url: str, rubric: str = "edit-preservation", max_tokens: int = 600, **options: Any) -> Verdict:
    images: dict[str, Any] = {"input": saved(photo(), "PNG"), "edited": saved(blocks(), "PNG")}
    if rubric == "restyle":
        images = {"original": images["input"], "restyled": images["edited"]}
    field: dict[str, Any] = {"style": "Anime"} if rubric == "restyle" else {"instruction": "make it red"}
    given = {"base_url": url, "params": {"max_tokens": max_tokens, "temperature": 0}, "timeout_s": 100.0, **options}
    return beholder.judge(rubric, judge="openai:tiny", options=given, **images, **field)


@pytest.mark.parametrize("rubric", ["edit-preservation", "restyle"])
def test_a_grammar_of_our_schema_is_kept_and_the_checks_decide(start: Start, rubric: str) -> None:
    verdict = judge(start(), rubric, max_tokens=4000)
    assert verdict.outcome in (Outcome.SCORED, Outcome.INVALID), verdict.detail
    assert (verdict.score is None) == (verdict.outcome is Outcome.INVALID)
    flags = {flag.flag for flag in verdict.flags}
    assert "empty_reason" in flags or verdict.outcome is Outcome.INVALID  # it ends each text at once
    assert "structured_output_unavailable" not in flags
    assert verdict.model  # the file, as the server calls it
    assert verdict.finish == "complete"
    assert (verdict.usage["input_tokens"] or 0) > 1000
    assert (verdict.usage["output_tokens"] or 0) > 50


def test_without_its_image_part_it_is_said_what_to_start_it_with(start: Start) -> None:
    with pytest.raises(SetupError, match=r"image input is not supported.*--mmproj"):
        judge(start(sees="text"))


def test_a_context_that_is_too_small_is_no_score_and_is_asked_once(start: Start) -> None:
    verdict = judge(start(2048))
    assert (verdict.outcome, verdict.score, verdict.attempts) == (Outcome.UNREACHABLE, None, 1)
    assert "exceeds the available context size (2048 tokens)" in verdict.detail


def test_a_wrong_key_is_said(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    url = start(key="sk-right")
    monkeypatch.setenv("LLAMA_KEY", "sk-wrong")
    with pytest.raises(SetupError, match=r"401.*Invalid API Key.*LLAMA_KEY"):
        judge(url, key_variable="LLAMA_KEY")
    monkeypatch.setenv("LLAMA_KEY", "sk-right")
    assert judge(url, key_variable="LLAMA_KEY").answered


def test_bytes_that_are_no_text_are_no_score(start: Start) -> None:
    verdict = judge(start(writes="bytes"), max_tokens=300)
    assert verdict.score is None
    assert verdict.outcome in (Outcome.UNREACHABLE, Outcome.TRUNCATED, Outcome.INVALID), verdict.detail


def test_doctor_says_what_works(start: Start, tmp_path: Path) -> None:
    found = beholder.doctor(judge="openai:tiny", base_url=start(), ledger=tmp_path / "ledger.db")
    checks = {check.about: check for check in found}
    assert not [check for check in checks.values() if check.state == "problem" and "tiny" in check.said]
