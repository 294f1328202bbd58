"""Promise: whatever status, headers and body a server sends, live or for a batch, the end is an answer or one of the
errors that become an outcome; never another exception, and no value that the ledger cannot hold."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.judges import KEY, MODELS, PROTOCOLS, WIRES, Waits, brief

from beholder.errors import SetupError, Unreachable
from beholder.judges.model import ModelJudge
from beholder.providers import anthropic, google, openai
from beholder.providers.base import JudgeSettings
from beholder.providers.batch import BatchApi, BatchClient, BatchNotFoundError, UnconfirmedBatch
from beholder.providers.retry import PermanentError, RetryableError, parse_retry_after
from beholder.testing.base import Course, FakeBatchJob, Received
from beholder.testing.server import BATCH_DIALECTS, DIALECTS
from beholder.verdicts.answer import Answer

NAMED = (Unreachable, SetupError)
NAMED_OF_BATCHES = (*NAMED, RetryableError, PermanentError, BatchNotFoundError)

WAITS = [
    *("-1", "-0", "nan", "inf", "-inf", "1e400", "1e-400", "9" * 400, "1_0", "٣", "", " ", "soon", "0x10"),
    *("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 9999 07:28:00 -9999", "Wed, 21 Oct 99999 07:28:00 GMT"),
    *("Fri, 31 Dec 9999 23:59:59 -2359", "Sat, 01 Jan 0001 00:00:00 +2359", "1 Jan 2020 00:00 +99999999999999999"),
    *("Mon, 32 Foo 2020 25:61:61 GMT", "0 0 0 0 0", "1 Jan 20 00:00:00 -0000", ", , ,"),
]
PLACES = [
    *("http://[", "http://[::1", "http://]", "//[x]", "http://[v1.x]/", "http://a:b", "http://a:99999", "javascript:1"),
    *("http://\u2100.com", "http://xn--/", "/", "", "?", "http://user:secret@other.example/path?key=1", "http://%5b"),
]
NASTY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
    st.sampled_from([10**30, -1, 2**63, "9" * 5000, "", [], {}, [None], "error", "2026-11-18T02:00:00", "0001-01-01"]),
)  # fmt: skip


class Say(BaseHTTPRequestHandler):
    """Answers every request with `server.reply`, to the byte."""

    def do_POST(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_DELETE(self) -> None:
        self.answer()

    def answer(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.wfile.write(self.server.reply)  # type: ignore[attr-defined]
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def raw() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Say) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def model_judge(raw: Any, protocol: str) -> ModelJudge:
    url = f"http://127.0.0.1:{raw.server_port}"
    how = JudgeSettings(base_url=url, sleep=Waits().sleep, retries=1, timeout_s=30)
    return ModelJudge(WIRES[protocol], MODELS[protocol], how, key=KEY)


def good_reply(protocol: str) -> dict[str, object]:
    received = Received(protocol, "", {}, {}, "", (), (), None, MODELS[protocol])
    return DIALECTS[protocol].answer('{"score": 4}', received)


def good_batches(protocol: str) -> list[object]:
    """What the calls of a batch API are answered with: a file, a job, a list of jobs, lines of results."""
    dialect = BATCH_DIALECTS[protocol]
    job = FakeBatchJob(f"{dialect.prefix}1", protocol, "note", ["00" * 16], Course(), "files/1", looked=1)
    job.lines.append(dialect.line(job.keys[0], 200, good_reply(protocol)))
    return [
        {"id": "file-1", "file": {"name": "files/1"}},
        dialect.describe(job),
        dialect.list_page([job], True),
        dialect.line(job.keys[0], 200, good_reply(protocol)),
        dialect.line(job.keys[0], 500, DIALECTS[protocol].error(500, "broken")),
    ]


@st.composite
def mutated(draw: st.DrawFn, values: list[Any]) -> bytes:
    """JSON of one of the values in which some parts are something else; now and then not JSON at all."""
    value: Any = json.loads(json.dumps(draw(st.sampled_from(values))))
    for _ in range(draw(st.integers(0, 3))):
        node: Any = value
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(list(node) if isinstance(node, dict) else list(range(len(node)))))
            if not isinstance(node[key], dict | list) or not node[key] or draw(st.booleans()):
                node[key] = copy.deepcopy(draw(NASTY))  # a list may be changed below
                break
            node = node[key]
    text = json.dumps(value).encode()
    if draw(st.integers(0, 5)) == 0:
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.binary(max_size=6)) + text[draw(st.integers(place, len(text))) :]
    return text


@st.composite
def replies(draw: st.DrawFn, values: list[Any], url: str) -> bytes:
    """A whole response, as bytes."""
    status = draw(st.sampled_from([200, 200, 200, 201, 204, 206, 302, 307, 400, 404, 413, 429, 500, 503, 529, 999]))
    text = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=10)
    headers = {
        "Location": st.sampled_from(PLACES) | text,
        "Retry-After": st.sampled_from(WAITS) | text,
        "retry-after-ms": st.sampled_from(WAITS) | text,
        "X-Goog-Upload-URL": st.sampled_from([*PLACES, f"{url}/up"]) | text,
        "Content-Encoding": st.sampled_from(["gzip", "br", "deflate", "?"]),
        "x-request-id": text,
        "Content-Type": st.sampled_from(["application/json; charset=no-such", "text/html", ";;;"]),
        "Content-Length": st.sampled_from(["0", "5", "99999", "-1", "x"]),
        "Set-Cookie": text,
    }
    chosen = draw(st.sets(st.sampled_from(list(headers)), max_size=4))
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {draw(headers[name])}" for name in sorted(chosen))]
    body = draw(mutated(values))
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\nConnection: close\r\n\r\n" + body


bounded = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def check_sentence(sentence: str) -> None:
    assert 0 < len(sentence) < 1500
    assert "secret" not in sentence


def check_answer(answer: Answer) -> None:
    used = answer.usage
    for number in (used.input_tokens, used.output_tokens, used.cached_tokens, used.cache_write_tokens):
        assert number is None or 0 <= number < 2**53
    for text in (answer.text, answer.model or "", answer.detail):
        text.encode()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_live(raw: Any, protocol: str) -> None:
    async def ask() -> None:
        async with aclosing(model_judge(raw, protocol)) as one:
            try:
                check_answer(await one.answer(brief()))
            except NAMED as error:
                check_sentence(str(error))

    @bounded
    @given(replies([good_reply(protocol), DIALECTS[protocol].error(400, "no")], ""))
    def every_reply(reply: bytes) -> None:
        raw.reply = reply
        asyncio.run(ask())

    every_reply()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_batches(raw: Any, protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (openai, anthropic, google):
        monkeypatch.setattr(module, "MAX_PAGES", 3)
    file = tmp_path / "requests.jsonl"
    file.write_text("{}\n", "utf-8")
    api = WIRES[protocol].batch
    assert api is not None

    @bounded
    @given(
        replies(good_batches(protocol), f"http://127.0.0.1:{raw.server_port}"),
        st.sampled_from(["submit", "find", "get_status", "results", "cancel", "delete_files"]),
    )
    def every_reply(reply: bytes, call: str) -> None:
        raw.reply = reply
        asyncio.run(batch_call(model_judge(raw, protocol), api, call, file))

    every_reply()


async def batch_call(judge: ModelJudge, api: BatchApi, call: str, file: Path) -> None:
    handle = {"id": "batches/1", "file": "files/1"}
    async with aclosing(judge), aclosing(BatchClient(judge)) as client:
        try:
            if call == "submit":
                assert (await api.submit(client, file, "note"))["id"]
            elif call == "find":
                await api.find(client, UnconfirmedBatch("note", datetime(2026, 11, 18, tzinfo=UTC), 1))
            elif call == "results":
                async for result in api.results(client, handle):
                    assert 100 <= result.status < 600
                    result.key.encode()
            else:
                done = await getattr(api, call)(client, handle)
                assert done is None or 0 <= done.answered + done.failed < 2**53
        except NAMED_OF_BATCHES as error:
            check_sentence(str(error))


@given(st.sampled_from(WAITS) | st.text(max_size=30), st.sampled_from(["retry-after", "retry-after-ms"]))
@settings(max_examples=300, deadline=None)
def test_a_wait_is_a_number_of_seconds_or_unknown(value: str, name: str) -> None:
    seconds = parse_retry_after({name: value})
    assert seconds is None or 0 <= seconds <= 366 * 86_400


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("status", "header", "sentence"),
    [
        (307, "Location: http://[", "redirects to an address that is none"),
        (429, "Retry-After: " + "9" * 400, "It asks to wait 31536000 s, longer than the 120 s allowed"),
        (429, "Retry-After: 1 Jan 2020 00:00 +99999999999999999", "answered 429"),
        (503, "Retry-After: -5", "answered 503"),
    ],
)
async def test_the_headers_that_ended_whole_runs(
    raw: Any, protocol: str, status: int, header: str, sentence: str
) -> None:
    raw.reply = f"HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
    async with aclosing(model_judge(raw, protocol)) as one:
        with pytest.raises(NAMED, match=sentence):
            await one.answer(brief())
