"""`beholder doctor` asks each base URL, and says where they do not serve the same model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from beholder.testing.__main__ import answer_by_schema
from beholder.testing.base import Fault, Received
from beholder.testing.server import JudgeServer

Serving = Callable[..., str]


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Starts a server that lists these models, as name and root, in vLLM's form; its base URL."""
    with ExitStack() as stack:

        def start(*models: tuple[str, str]) -> str:
            body = json.dumps({"object": "list", "data": [{"id": name, "root": root} for name, root in models]})

            class Lists(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    assert self.path == "/v1/models"
                    assert "Authorization" not in self.headers
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body.encode())

                def do_POST(self) -> None:
                    self.rfile.read(int(self.headers["Content-Length"]))
                    choice = {"message": {"content": '{"color": "red"}'}, "finish_reason": "stop"}
                    reply = json.dumps({"model": "m", "choices": [choice]})
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(reply)))
                    self.end_headers()
                    self.wfile.write(reply.encode())

                def log_message(self, *_: object) -> None:
                    """Nothing is logged."""

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Lists))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}/v1"

        yield start


@pytest.fixture
def doctor(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    return lambda *urls: run("doctor --judge openai:qwen3-vl " + " ".join(f"--base-url {url}" for url in urls))


def test_all_is_well_where_all_serve_the_model(doctor: Any, serving: Serving) -> None:
    first, second = (serving(("qwen3-vl", "Qwen/Qwen3-VL-8B-Instruct")) for _ in range(2))
    done = doctor(first, second)
    assert done.code == 0
    assert done.out.count("✓ server: ") == 2
    assert f"✓ model: qwen3-vl is listed by {first}/models, {second}/models" in done.out


def test_one_that_is_down_is_named(doctor: Any, serving: Serving) -> None:
    done = doctor(serving(("qwen3-vl", "")), "http://127.0.0.1:9/v1")
    assert done.code == 2
    assert "✗ server: http://127.0.0.1:9/v1/models cannot be reached" in done.out
    assert "✓ model: qwen3-vl is listed" in done.out


def test_one_that_serves_another_model_is_a_problem(doctor: Any, serving: Serving) -> None:
    other = serving(("qwen2-vl", ""))
    done = doctor(serving(("qwen3-vl", "")), other)
    assert done.code == 2
    assert f"✗ model: qwen3-vl is not listed everywhere: {other}/models lists qwen2-vl" in done.out


def test_a_name_that_nobody_lists_may_still_be_served(doctor: Any, serving: Serving) -> None:
    done = doctor(serving(("qwen3-vl:latest", "")))
    assert done.code == 0
    assert "· model: qwen3-vl is not listed everywhere" in done.out


def test_other_weights_under_one_name_are_noted(doctor: Any, serving: Serving) -> None:
    done = doctor(serving(("qwen3-vl", "models/8b")), serving(("qwen3-vl", "models/8b-awq")))
    assert done.code == 0
    assert "· model: qwen3-vl comes from different places: models/8b, models/8b-awq" in done.out


def test_it_says_what_works(doctor: Any, server: JudgeServer) -> None:
    def keep_to_schema(heard: Received) -> dict[str, object]:
        filled = answer_by_schema(heard)
        assert not isinstance(filled, str)
        return {**filled, "color": "Red"}

    server.say(keep_to_schema)
    done = doctor(server.openai_url)
    assert done.code == 0, done.out
    assert f"✓ answer: openai:qwen3-vl at {server.openai_url} answered as qwen3-vl-2025-08-07" in done.out
    assert "✓ images: it sees them" in done.out
    assert "✓ schema: structured output works" in done.out
    assert "✓ usage: 1117 tokens in, 46 out" in done.out
    (heard,) = server.received
    assert len(heard.images) == 1
    assert heard.schema is not None
    assert "sk-very-secret" not in done.out


def test_it_says_what_does_not(doctor: Any, serving: Serving, server: JudgeServer) -> None:
    def refuse(heard: Received) -> Fault | str:
        return Fault.no_structured_output() if heard.schema is not None else "A blue sky."

    server.default = refuse
    done = doctor(server.openai_url)
    assert done.code == 0
    assert "· images: it may not see them: a red square was called 'A blue sky.'" in done.out
    assert "· schema: no structured output" in done.out
    received = len(server.received)
    for own_form in (
        "It is red.",
        {"color": "red"},
        {"color": "red", "form": "JSON"},
        '```json\n{"color": "red"}\n```',
    ):
        server.default = own_form
        assert "· schema: structured output is accepted and ignored" in doctor(server.openai_url).out
    prompts = {" ".join((heard.system, *heard.texts)) for heard in server.received[received:]}
    assert not [prompt for prompt in prompts if "JSON" in prompt or "form" in prompt]  # only the schema says it
    assert "· usage: it does not say" in doctor(serving(("qwen3-vl", ""))).out


def test_a_judge_that_cannot_see_is_a_problem(doctor: Any, server: JudgeServer) -> None:
    server.default = Fault.status(500, "image input is not supported - hint: you may need to provide the mmproj")
    done = doctor(server.openai_url)
    assert done.code == 2
    assert "✗ answer: openai:qwen3-vl answered 500: image input is not supported" in done.out
    assert len(server.received) == 1
    server.default = Fault.refusal("I would rather not.")
    assert "✗ answer: openai:qwen3-vl" in doctor(server.openai_url).out
