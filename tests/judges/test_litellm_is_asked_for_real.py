"""A LiteLLM proxy between us and the judge server: what it makes of questions, answers and errors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hosts import python_host
from support.images import blocks, photo, saved

import beholder
from beholder import Outcome, SetupError, Verdict
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

pytestmark = pytest.mark.slow

# What the proxy imports at its start. Its extra [proxy] has twice as much, for clouds and databases.
PROXY = (
    *(
        "litellm>=1.100",
        "fastapi",
        "uvicorn",
        "uvloop",
        "orjson",
        "python-multipart",
        "backoff",
        "apscheduler",
        "PyJWT",
    ),
    *("cryptography", "websockets", "redis", "mcp", "expression", "fastapi-sso", "soundfile"),
)
KEY = "sk-of-the-proxy"
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
ANSWER = {"criteria": {key: {"justification": WORDS, "score": 6} for key in KEYS}}


@pytest.fixture(scope="module")
def upstream() -> Iterator[JudgeServer]:
    with JudgeServer(ANSWER) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(upstream: JudgeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy whose models are the judge server's."""
    program = python_host("litellm", *PROXY).parent / "litellm"
    folder = tmp_path_factory.mktemp("litellm")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    models = {
        "gpt": {"model": "openai/gpt-5-mini", "api_base": upstream.openai_url, "api_key": "sk-upstream"},
        "claude": {"model": "anthropic/claude-haiku-4-5", "api_base": upstream.anthropic_url, "api_key": "sk-upstream"},
        "down": {"model": "openai/gpt-5-mini", "api_base": "http://127.0.0.1:1/v1", "api_key": "sk-upstream"},
    }
    config = {
        "model_list": [{"model_name": name, "litellm_params": values} for name, values in models.items()],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    command = [program, "--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(list(map(str, command)), env=env, stdout=log, stderr=subprocess.STDOUT, cwd=folder) as process,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until_up(address, process, folder / "log")
            yield address
        finally:
            process.terminate()


def wait_until_up(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/health/liveliness", timeout=10).read()
        except OSError:
            time.sleep(0.5)  # there is nothing else to wait for: it prints nothing when it listens
        else:
            return
    pytest.fail(f"LiteLLM does not start: {log.read_text()[-2000:]}")


@pytest.fixture
def ask(proxy: str, upstream: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PROXY_KEY", KEY)
    images: dict[str, Any] = {"input": saved(photo(), "PNG"), "edited": saved(blocks(), "PNG")}

    def ask(judge: str, **options: Any) -> Verdict:
        url = proxy if judge.startswith("anthropic") else f"{proxy}/v1"
        given = {"base_url": url, "key_variable": "PROXY_KEY", **options}
        return beholder.judge("edit-preservation", judge=judge, options=given, instruction="make it red", **images)

    upstream.received.clear()
    yield ask
    upstream.default = ANSWER


@pytest.mark.parametrize("judge", ["openai:gpt", "openai:claude", "anthropic:claude"])
def test_a_whole_verdict_comes_through(ask: Any, upstream: JudgeServer, judge: str) -> None:
    verdict = ask(judge)
    assert verdict.outcome is Outcome.SCORED, verdict.detail
    assert verdict.score == pytest.approx(5 / 6)
    assert verdict.usage["input_tokens"]
    assert len(upstream.received[-1].images) == 2  # as the provider behind it reads them


def test_a_wrong_key_is_the_users_to_set_right(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_KEY", "sk-wrong")  # LiteLLM without a database says "No connected db."
    for judge in ("openai:gpt", "anthropic:claude"):
        with pytest.raises(SetupError, match="PROXY_KEY"):
            ask(judge)


def test_a_refusal_is_no_score_after_one_call(ask: Any, upstream: JudgeServer) -> None:
    upstream.default = Fault.refusal("I would rather not.")
    verdict = ask("openai:gpt")
    assert (verdict.outcome, verdict.detail) == (Outcome.REFUSED, "I would rather not.")
    assert len(upstream.received) == 1


def test_the_doctor_finds_it_well(proxy: str, upstream: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    checks = beholder.doctor(judge="openai:gpt", base_url=f"{proxy}/v1")
    assert [check.said for check in checks if check.about in ("server", "answer") and check.state == "problem"] == []


@pytest.mark.parametrize("judge", ["openai:nowhere", "anthropic:nowhere"])
def test_an_unknown_model_is_said(ask: Any, judge: str) -> None:
    with pytest.raises(SetupError, match="There is no model 'nowhere'"):
        ask(judge)


def test_a_wrong_key_behind_the_proxy_is_said(ask: Any, upstream: JudgeServer) -> None:
    upstream.default = Fault.bad_key()
    with pytest.raises(SetupError, match="AuthenticationError"):
        ask("openai:gpt")


def test_a_context_that_is_too_long_is_no_score(ask: Any, upstream: JudgeServer) -> None:
    upstream.default = Fault.status(400, "This model's maximum context length is 128000 tokens.")
    verdict = ask("openai:gpt")
    assert (verdict.outcome, verdict.score) == (Outcome.UNREACHABLE, None)
    assert verdict.attempts <= 2
    assert "ContextWindowExceededError" in verdict.detail


@pytest.mark.parametrize("judge", ["openai:gpt", "openai:down"])
def test_what_may_pass_is_no_score(ask: Any, upstream: JudgeServer, judge: str) -> None:
    upstream.default = Fault.status(429, "Rate limit reached")
    verdict = ask(judge, total_timeout_s=5.0)
    assert (verdict.outcome, verdict.score) == (Outcome.UNREACHABLE, None)
