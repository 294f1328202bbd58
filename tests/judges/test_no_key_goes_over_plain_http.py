"""A key goes over plain http only on this machine and in private networks, unless its user allows more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.judges import KEY, PROTOCOLS

import beholder
from beholder.errors import SetupError
from beholder.judges.factory import judge_from
from beholder.runs.limits import RunLimits
from beholder.runs.suite import load_suite
from beholder.runs.suite_judges import make_judges

PUBLIC = [
    "http://models.example/v1",
    "http://8.8.8.8/v1",
    "http://134744072/v1",  # 8.8.8.8 in another form
    "http://0x8080808/v1",
    "http://[2001:4860:4860::8888]/v1",
    "http://localhost.example/v1",
    "http://127.0.0.1.example/v1",
]
NEAR = [
    "http://localhost:8000/v1",
    "http://127.0.0.1:8000/v1",
    "http://[::1]:8000/v1",
    "http://10.1.2.3/v1",
    "http://192.168.0.9/v1",
    "http://100.64.0.1/v1",
    "http://[fd00::1]/v1",
    "http://gpu1:8000/v1",
    "http://vllm.models.svc.cluster.local/v1",
    "http://gpu.internal/v1",
    "https://models.example/v1",
]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("url", PUBLIC)
def test_not_to_a_server_in_public(provider: str, url: str) -> None:
    with pytest.raises(SetupError, match=r"over plain http, .* use https, or allow it \(--allow-http-key or") as error:
        judge_from(f"{provider}:m", base_url=url)
    assert url in str(error.value)
    assert judge_from(f"{provider}:m", base_url=url, allow_http_key=True).name == f"{provider}:m"


@pytest.mark.parametrize("url", NEAR)
def test_nearby_and_by_https_it_goes(url: str) -> None:
    judge_from("openai:m", base_url=url)


def test_one_public_server_of_several_is_enough() -> None:
    with pytest.raises(SetupError, match=r"http://models\.example/v1 over plain http"):
        judge_from("openai:m", base_urls=["http://gpu1/v1", "http://models.example/v1"])


@pytest.mark.parametrize("key", ["", "EMPTY"])
def test_a_server_that_needs_no_key_may_be_anywhere(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    judge_from("openai:m", base_url=PUBLIC[0])


def test_nor_by_the_environments_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", PUBLIC[0])
    with pytest.raises(SetupError, match="over plain http"):
        judge_from("openai:m")


def test_nor_through_pydantic_ai() -> None:
    pytest.importorskip("pydantic_ai")
    with pytest.raises(SetupError, match="over plain http"):
        judge_from("ollama:m", base_url=PUBLIC[0])
    judge_from("ollama:m", base_url=PUBLIC[0], allow_http_key=True)


def test_a_suite_a_session_and_the_commands_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried_out: Callable[[Sequence[str]], tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "image": "a.png", "input": "?", "output": "!"}\n')
    flags = {"rubric": "description", "cases": "cases.jsonl", "judges": ["openai:m"], "base_url": PUBLIC[0]}
    with pytest.raises(SetupError, match="over plain http"):
        make_judges(load_suite(None, flags), RunLimits())
    make_judges(load_suite(None, {**flags, "allow_http_key": True}), RunLimits())
    with pytest.raises(SetupError, match="over plain http"):
        beholder.Session("openai:m", options={"base_url": PUBLIC[0]})
    beholder.Session("openai:m", options={"base_url": PUBLIC[0], "allow_http_key": True}).close()
    words = ["run", "--rubric", "description", "--cases", "cases.jsonl", "--judge", "openai:m", "--base-url", PUBLIC[0]]
    code, _, said = carried_out(words)
    assert (code, said.count("\n"), "--allow-http-key" in said) == (2, 1, True)
