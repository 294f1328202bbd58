"""A server whose structured output does not work is asked in words (`--structured-output off`), and one that can never
judge ends the command with one sentence at its first case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder import Options, SetupError, UsageError, judge, judge_from
from beholder import run as run_suite
from beholder.runs.suite import load_suite
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer

COUNT = 8
FLAG = "structured_output_unavailable"
SUITE = """\
rubric: edit-preservation
cases: cases.jsonl
concurrency: 1
judges:
  - judge: openai:x
    base_url: {url}
    structured_output: {choice}
"""


@pytest.fixture
def suite(folder: Path, server: JudgeServer) -> Callable[..., str]:
    cases = [
        {"id": f"c{n}", "input": "before.png", "edited": "after.png", "instruction": f"make it {n}"}
        for n in range(COUNT)
    ]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), "utf-8")

    def write(choice: str = "auto") -> str:
        (folder / "suite.yaml").write_text(SUITE.format(url=server.openai_url, choice=choice), "utf-8")
        return "suite.yaml"

    return write


def schemas(server: JudgeServer) -> set[bool]:
    return {heard.schema is not None for heard in server.received}


@pytest.mark.parametrize("choice", ["off", "'off'", "false"])
def test_a_suite_switches_it_off(run: Any, suite: Any, server: JudgeServer, answer: Any, choice: str) -> None:
    server.default = answer()
    done = run(f"run {suite(choice)} --no-audit")
    assert done.code == 0, done.err
    assert schemas(server) == {False}
    assert all("Answer with one JSON object of this JSON Schema" in heard.system for heard in server.received)


def test_a_flag_takes_precedence(run: Any, suite: Any, server: JudgeServer, answer: Any) -> None:
    server.default = answer()
    assert run(f"run {suite('off')} --no-audit --structured-output auto").code == 0
    assert schemas(server) == {True}


def test_it_is_the_same_run(run: Any, suite: Any, server: JudgeServer, answer: Any) -> None:
    server.default = answer()
    assert run(f"run {suite()} --no-audit").code == 0
    assert run(f"run {suite('off')} --no-audit").code == 0
    assert len(server.received) == COUNT


def test_judge_and_python_have_it_too(
    run: Any, folder: Path, server: JudgeServer, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    server.default = answer()
    words = f"judge edit-preservation before.png after.png --set instruction=red --base-url {server.openai_url}"
    done = run(f"{words} --judge openai:x --structured-output off --json")
    assert [flag["flag"] for flag in json.loads(done.out)["flags"]].count(FLAG) == 1
    options = Options(base_url=server.openai_url, structured_output="off")
    verdict = judge(
        "edit-preservation",
        judge="openai:x",
        options=options,
        input="before.png",
        edited="after.png",
        instruction="blue",
    )
    assert verdict.criteria
    case = [{"id": "a", "input": "before.png", "edited": "after.png", "instruction": "green"}]
    run_suite(
        rubric="edit-preservation",
        cases=case,
        judge="openai:x",
        base_url=server.openai_url,
        structured_output="off",
        ledger="python.db",
    )
    assert len(server.received) == 3
    assert schemas(server) == {False}


def test_another_word_is_told(run: Any, suite: Any) -> None:
    sentence = "there is 'auto' and 'off'"
    done = run(f"run {suite()} --structured-output never")
    assert (done.code, done.err.count(f"--structured-output: {sentence}; 'never' is neither")) == (2, 1)
    for word in ("never", "on"):
        done = run(f"run {suite(word)}")
        assert done.code == 2
        assert done.err.count(f"line 7, judges[0].structured_output: {sentence}") == 1
        assert done.err.count("auto") == 1
    with pytest.raises(UsageError, match=f"^structured_output: {sentence}; 'never' is neither"):
        judge("edit-preservation", judge="openai:x", options={"structured_output": "never"}, instruction="red")
    with pytest.raises(SetupError, match=f"^structured_output: {sentence}; 'never' is neither"):
        judge_from("openai:x", base_url="http://127.0.0.1:1/v1", structured_output="never")  # type: ignore[arg-type]


def test_a_batch_is_asked_in_words_once(run: Any, suite: Any, server: JudgeServer, answer: Any) -> None:
    server.default = answer()
    assert load_suite(suite("off")).judges[0].structured_output == "off"
    done = run("run suite.yaml --no-audit --batch")
    assert done.code in (0, 3), done.err
    done = run("run suite.yaml --no-audit --batch")
    assert done.code == 0, done.err
    assert schemas(server) == {False}
    assert len(server.received) == COUNT


@pytest.mark.parametrize(
    ("status", "words", "sentence"),
    [
        (
            500,
            "image input is not supported - hint: you may need to provide the mmproj",
            "'x' at {url} takes no images",
        ),
        (404, "No endpoints found that support image input", "'x' at {url} takes no images"),
        (400, "Invalid model name passed in model=x. Call `/v1/models`", "There is no model 'x' at {url}"),
        (400, "x is not a valid model ID", "There is no model 'x' at {url}"),
        (500, "model x not found", "There is no model 'x' at {url}"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_can_never_work_ends_the_run_before_a_second_request(
    run: Any, suite: Any, server: JudgeServer, status: int, words: str, sentence: str, concurrency: int
) -> None:
    server.default = Fault.status(status, words)
    done = run(f"run {suite()} --no-audit --concurrency {concurrency}")
    assert done.code == 2
    assert sentence.format(url=server.openai_url) in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert len(server.received) == 1


@pytest.mark.parametrize("jury", ["--judge openai:good --judge openai:x", "--judge openai:x --samples 3"])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_juror_that_can_never_answer_ends_the_run_as_a_judge_does(
    run: Any, suite: Any, server: JudgeServer, answer: Any, jury: str, concurrency: int
) -> None:
    def refuse(heard: Received) -> Fault | dict[str, object]:
        good: dict[str, object] = answer()
        return good if heard.body["model"] == "good" else Fault.status(400, "x is not a valid model ID")

    server.default = refuse
    suite()
    words = "run --rubric edit-preservation --cases cases.jsonl --no-audit"
    done = run(f"{words} --base-url {server.openai_url} {jury} --concurrency {concurrency}")
    assert done.code == 2
    assert f"There is no model 'x' at {server.openai_url}" in " ".join(done.err.split())
    assert [heard.body["model"] for heard in server.received].count("x") == 1
    assert len(server.received) <= 1 + concurrency


def test_a_server_that_refuses_the_schema_with_500_works(
    run: Any, suite: Any, server: JudgeServer, answer: Any
) -> None:
    def refuse(heard: Received) -> Fault | dict[str, object]:
        words = "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}]"
        good: dict[str, object] = answer()
        return Fault.status(500, words) if heard.schema is not None else good

    server.default = refuse
    assert run(f"run {suite()} --no-audit").code == 0
    assert [heard.schema is not None for heard in server.received] == [True] + [False] * COUNT


def test_a_server_that_ignores_the_schema_loses_no_case(run: Any, suite: Any, server: JudgeServer, answer: Any) -> None:
    def chat(heard: Received) -> str | dict[str, object]:
        good: dict[str, object] = answer()
        return good if "JSON Schema" in heard.system else "It looks fine to me."

    server.default = chat
    done = run(f"run {suite()} --no-audit --json")
    assert done.code == 0, done.err
    # A question, its repair, and the same in words; then each case once.
    assert [heard.schema is not None for heard in server.received] == [True, True] + [False] * COUNT


@pytest.mark.parametrize("own_form", ["It looks fine to me.", '{"rating": 5, "comment": "It looks fine to me."}'])
def test_one_case_at_such_a_server_has_a_verdict(
    run: Any, folder: Path, server: JudgeServer, answer: Any, monkeypatch: pytest.MonkeyPatch, own_form: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    server.default = lambda heard: answer() if "JSON Schema" in heard.system else own_form
    words = f"judge edit-preservation before.png after.png --set instruction=red --base-url {server.openai_url}"
    done = run(f"{words} --judge openai:x --json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["outcome"], verdict["attempts"]) == (0, "scored", 3)
    assert {"repair_asked", "schema_ignored", FLAG} <= {flag["flag"] for flag in verdict["flags"]}
