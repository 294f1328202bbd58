from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

JPEG = b"\xff\xd8\xff\xe0 a picture"
STRICT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer() as running:
        yield running


def post(url: str, body: object, headers: dict[str, str]) -> tuple[int, dict[str, object]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def openai(server: JudgeServer, path: str = "/chat/completions", key: str = "k", **changes: object) -> tuple[int, str]:
    body = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}], **changes}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    status, reply = post(server.openai_url + path, body, headers)
    return status, str(reply)


def anthropic(
    server: JudgeServer, drop: str = "", headers: dict[str, str] | None = None, **changes: object
) -> tuple[int, str]:
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **changes}
    body.pop(drop, None)
    given = {"x-api-key": "k", "anthropic-version": "2026-10-21"} if headers is None else headers
    status, reply = post(f"{server.anthropic_url}/v1/messages", body, given)
    return status, str(reply)


def google(server: JudgeServer, version: str = "v1beta", key: str = "k", **changes: object) -> tuple[int, str]:
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **changes}
    headers = {"x-goog-api-key": key} if key else {}
    status, reply = post(f"{server.google_url}/{version}/models/gemini-2.5-flash:generateContent", body, headers)
    return status, str(reply)


def refused(answer: tuple[int, str], status: int, sentence: str) -> None:
    assert answer[0] == status
    assert sentence in answer[1]


def test_proper_requests_are_answered(server: JudgeServer) -> None:
    server.say("one", "two", "three")
    assert "'content': 'one'" in openai(server)[1]
    assert "'text': 'two'" in anthropic(server)[1]
    assert google(server)[0] == 200
    assert [heard.protocol for heard in server.received] == ["openai", "anthropic", "google"]
    assert [heard.texts for heard in server.received] == [("hi",)] * 3


def test_openai_refuses_what_openai_refuses(server: JudgeServer) -> None:
    refused(openai(server, key=""), 401, "You didn't provide an API key")
    refused(openai(server, path="/completions"), 404, "Invalid URL")
    refused(openai(server, warmth=1), 400, "Unknown parameter: 'warmth'.")
    loose = {key: value for key, value in STRICT.items() if key != "additionalProperties"}
    for schema in (loose, {**STRICT, "required": []}, {**STRICT, "uniqueItems": True}):
        form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
        refused(openai(server, response_format=form), 400, "Invalid schema for response_format 'x'")
    png = "data:image/png;base64," + base64.b64encode(JPEG).decode()
    content = [{"type": "image_url", "image_url": {"url": png}}]
    refused(openai(server, messages=[{"role": "user", "content": content}]), 400, "unsupported image")
    assert server.received == []


def test_anthropic_refuses_what_anthropic_refuses(server: JudgeServer) -> None:
    refused(anthropic(server, headers={"anthropic-version": "2026-10-21"}), 401, "x-api-key header is required")
    refused(anthropic(server, headers={"x-api-key": "k"}), 400, "anthropic-version")
    refused(anthropic(server, drop="max_tokens"), 400, "max_tokens: Field required")
    refused(anthropic(server, seed=1), 400, "seed: Extra inputs are not permitted")
    refused(anthropic(server, temperature=0), 400, "temperature: Extra inputs are not permitted")
    old = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    assert anthropic(server, headers=old, temperature=0)[0] == 200
    ranged = {**STRICT, "properties": {"a": {"type": "integer", "minimum": 1}}}
    form = {"format": {"type": "json_schema", "schema": ranged}}
    refused(anthropic(server, output_config=form), 400, "properties minimum are not supported")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(JPEG).decode()}
    content = [{"type": "image", "source": source}]
    refused(anthropic(server, messages=[{"role": "user", "content": content}]), 400, "image/png media type")
    empty = [{"role": "user", "content": [{"type": "text", "text": ""}]}]
    refused(anthropic(server, messages=empty), 400, "must be non-empty")


def test_google_refuses_what_google_refuses(server: JudgeServer) -> None:
    refused(google(server, key=""), 403, "unregistered callers")
    refused(google(server, version="v9"), 404, "not found")
    refused(google(server, warmth=1), 400, 'Unknown name "warmth"')
    refused(google(server, generationConfig={"warmth": 1}), 400, "generation_config")
    for schema, sentence in (
        ({"type": "OBJECT", "additionalProperties": False}, 'Unknown name "additionalProperties"'),
        ({"type": "object"}, "response_schema.type"),
        ({"type": "INTEGER", "enum": [1, 2]}, "(TYPE_STRING)"),
    ):
        config = {"responseMimeType": "application/json", "responseSchema": schema}
        refused(google(server, generationConfig=config), 400, sentence)
    refused(google(server, generationConfig={"responseSchema": {"type": "OBJECT"}}), 400, "response mime type")
    inline = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(JPEG).decode()}}
    refused(google(server, contents=[{"role": "user", "parts": [inline]}]), 400, "Unable to process input image")
    assert google(server, generation_config={"max_output_tokens": 5})[0] == 200


def test_what_is_no_json_is_refused(server: JudgeServer) -> None:
    for body in (b"{", b"[]"):
        assert post(f"{server.openai_url}/chat/completions", body, {"Authorization": "Bearer k"})[0] == 400


def test_replies_are_taken_in_order_then_the_default_repeats(server: JudgeServer) -> None:
    server.default = "again"
    server.say("first", {"second": 2}, Fault.status(500), lambda heard: f"asked for {heard.model}")
    said = [openai(server) for _ in range(6)]
    assert [status for status, _ in said] == [200, 200, 500, 200, 200, 200]
    for (_, reply), wanted in zip(
        said, ("first", '{"second": 2}', "error", "asked for", "again", "again"), strict=True
    ):
        assert wanted in reply


def test_a_mistake_in_a_queued_function_is_raised_when_the_server_closes() -> None:
    def broken(_: object) -> str:
        raise AssertionError("my test is wrong")

    with pytest.raises(AssertionError, match="my test is wrong"), JudgeServer(broken) as server:
        assert openai(server)[0] == 500


async def test_it_serves_async_code_too() -> None:
    async with JudgeServer("hello") as server, JudgeServer() as another:
        assert server.url != another.url
    with pytest.raises(urllib.error.URLError):
        openai(server)


def test_it_closes_while_a_request_hangs() -> None:
    arrived, done = threading.Event(), threading.Event()

    def hang(_: object) -> Fault:
        arrived.set()
        return Fault.hang()

    with JudgeServer(hang) as server:

        def ask() -> None:
            with pytest.raises(Exception):  # noqa: B017, PT011  the connection ends in one of several ways
                openai(server)
            done.set()

        waiting = threading.Thread(target=ask)
        waiting.start()
        arrived.wait()
    waiting.join()
    assert done.is_set()
