"""The clients are imported where they are used: all three take seconds, in every process that collects tests."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

if TYPE_CHECKING:
    import openai


@pytest.fixture
async def client() -> AsyncIterator[tuple[JudgeServer, openai.AsyncOpenAI]]:
    import openai

    async with (
        JudgeServer() as server,
        openai.AsyncOpenAI(base_url=server.openai_url, api_key="k", max_retries=0) as one,
    ):
        yield server, one


async def test_an_answer(client: tuple[JudgeServer, openai.AsyncOpenAI]) -> None:
    server, one = client
    server.say("hello", Fault.refusal("no"), Fault.truncated("he"), Fault.filtered())
    replies = [
        await one.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "hi"}])
        for _ in range(4)
    ]
    assert [reply.choices[0].message.content for reply in replies] == ["hello", None, "he", None]
    assert [reply.choices[0].finish_reason for reply in replies] == ["stop", "stop", "length", "content_filter"]
    assert replies[1].choices[0].message.refusal == "no"
    assert replies[0].model == "gpt-5-mini-2025-08-07"
    assert replies[0].usage is not None
    assert replies[0].usage.total_tokens == replies[0].usage.prompt_tokens + replies[0].usage.completion_tokens


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.status(429), "RateLimitError"),
        (Fault.status(500), "InternalServerError"),
        (Fault.bad_key(), "AuthenticationError"),
        (Fault.unknown_model(), "NotFoundError"),
        (Fault.no_structured_output(), "BadRequestError"),
        (Fault.drop(), "APIConnectionError"),
    ],
)
async def test_a_fault(client: tuple[JudgeServer, openai.AsyncOpenAI], fault: Fault, error: str) -> None:
    import openai

    server, one = client
    server.say(fault)
    with pytest.raises(getattr(openai, error)):
        await one.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "hi"}])


@pytest.fixture(params=["its own path", "the bare address"])
def bare(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "the bare address")


STREAMED = "an answer that is long enough for several pieces"


def test_openais_client_streams_lists_models_and_submits_batches(bare: bool) -> None:
    import openai

    with (
        JudgeServer(STREAMED) as server,
        openai.OpenAI(base_url=f"{server.url}/v1" if bare else server.openai_url, api_key="k", max_retries=0) as one,
    ):
        assert [model.id for model in one.models.list()] == ["gpt-5-mini"]
        chunks = list(one.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == STREAMED
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
        file = one.files.create(file=("requests.jsonl", json.dumps(line).encode()), purpose="batch")
        made = one.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        job = one.batches.retrieve(made.id)
        assert (job.status, [other.id for other in one.batches.list()]) == ("completed", [made.id])
        assert job.output_file_id is not None
        assert STREAMED in one.files.content(job.output_file_id).text
        assert one.batches.cancel(made.id).status == "cancelling"
        assert one.files.delete(file.id).deleted


def test_anthropics_client_streams_lists_models_and_submits_batches(bare: bool) -> None:
    import anthropic

    with (
        JudgeServer(STREAMED) as server,
        anthropic.Anthropic(base_url=server.url if bare else server.anthropic_url, api_key="k", max_retries=0) as one,
    ):
        assert [model.id for model in one.models.list()] == ["claude-haiku-4-5"]
        question: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        assert [block.type for block in one.messages.create(**question).content] == ["text"]
        question |= {"max_tokens": 2048, "thinking": {"type": "enabled", "budget_tokens": 1024}}
        assert [block.type for block in one.messages.create(**question).content] == ["thinking", "text"]
        with one.messages.stream(**question) as stream:
            assert "".join(stream.text_stream) == STREAMED
            final = stream.get_final_message()
        assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 640)
        made = one.messages.batches.create(requests=[{"custom_id": "a", "params": question}])
        assert one.messages.batches.retrieve(made.id).processing_status == "ended"
        assert [line.result.type for line in one.messages.batches.results(made.id)] == ["succeeded"]
        assert [other.id for other in one.messages.batches.list()] == [made.id]
        assert one.messages.batches.cancel(made.id).processing_status == "canceling"


def test_googles_client_streams_lists_models_and_submits_batches(bare: bool) -> None:
    from google import genai
    from google.genai import types

    with JudgeServer(STREAMED) as server:
        options = types.HttpOptions(base_url=server.url if bare else server.google_url)
        with genai.Client(api_key="k", http_options=options) as one:
            assert [model.name for model in one.models.list()] == ["models/gemini-2.5-flash"]
            assert one.models.generate_content(model="m", contents="hi").text == STREAMED
            pieces = one.models.generate_content_stream(model="m", contents="hi")
            assert "".join(piece.text or "" for piece in pieces) == STREAMED
            line = {"key": "a", "request": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}}
            how = types.UploadFileConfig(display_name="x", mime_type="application/jsonl")
            file = one.files.upload(file=io.BytesIO(json.dumps(line).encode()), config=how)
            assert file.name is not None
            made = one.batches.create(model="m", src=file.name, config={"display_name": "n"})
            assert made.name is not None
            job = one.batches.get(name=made.name)
            assert job.state is types.JobState.JOB_STATE_SUCCEEDED
            assert job.dest is not None
            assert job.dest.file_name is not None
            (result,) = one.files.download(file=job.dest.file_name).splitlines()
            assert json.loads(result)["key"] == "a"
            assert [other.name for other in one.batches.list()] == [made.name]
            one.batches.cancel(name=made.name)
            one.files.delete(name=file.name)


def test_without_a_key_no_batch_is_taken() -> None:
    with JudgeServer() as server:
        request = urllib.request.Request(f"{server.openai_url}/batches")
        with pytest.raises(urllib.error.HTTPError, match="401") as error:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
        error.value.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a process is ended by a signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_shell_starts_it(number: signal.Signals) -> None:
    import openai

    words = [sys.executable, "-m", "beholder.testing", "--keyless"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(4)]
        urls = {line.split()[0]: line.split()[1] for line in lines[:3]}
        assert list(urls) == ["openai", "anthropic", "google"]
        assert "Ctrl-C" in lines[3]
        schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2}}, "required": ["a"]}
        wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        with openai.OpenAI(base_url=urls["openai"], api_key="k", max_retries=0) as one:
            reply = one.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], response_format=wanted
            )
        assert json.loads(reply.choices[0].message.content or "") == {"a": 2}
        process.send_signal(number)
        assert process.wait() == 0
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_told() -> None:
    with JudgeServer() as server:
        words = [sys.executable, "-m", "beholder.testing", "--port", server.url.rpartition(":")[2]]
        done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
