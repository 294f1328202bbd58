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
