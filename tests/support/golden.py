"""What the golden tests share: a comparison with stored values, the command line in this process, and a wiretap.

The golden tests promise that a restructuring changes nothing that is stored or sent. Their values, `values/*.json`,
were made on commit 4a0e41e. They are written anew, after a change that is meant, by

    GOLDEN_WRITE=1 python -m pytest tests/golden

and `git diff tests/golden/values` then says what changed. A long text is kept as its SHA-256, its length and its start.

These tests know of the package only `python -m beholder`, a few names of `beholder/__init__.py`, and the loopback judge
of `beholder.testing`, so that modules can be moved and classes renamed without touching them.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import http.client
import io
import json
import os
import re
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock
from urllib.parse import urlsplit

import pytest
import typer.main

import beholder as beholder_package
from beholder.testing import Course, Fault, JudgeServer

__all__ = ["Course", "Fault"]

HERE = Path(__file__).parents[1] / "golden"
FILES = HERE / "files"
ROOT = HERE.parent.parent
EXAMPLES = ROOT / "examples"

PHOTO, EDITED, TARGET, STYLED = (str(FILES / name) for name in ("photo.png", "edited.png", "target.jpg", "styled.webp"))

# Nobody answers there: requests go to the wiretap, as their proxy, so that identities are the same on any port.
PLACES = {
    "openai": "http://judge.invalid/openai/v1",
    "anthropic": "http://judge.invalid/anthropic",
    "google": "http://judge.invalid/google",
}
MODELS = {"openai": "openai:gpt-5-mini", "anthropic": "anthropic:claude-haiku-4-5", "google": "google:gemini-2.5-flash"}

# Encoders and numerical libraries: what depends on them is compared only where they are those of the stored values.
PIXELS = ("numpy", "opencv-python-headless", "pillow", "simplejpeg")

Json: TypeAlias = Any
Reply: TypeAlias = "str | Mapping[str, object] | Fault | Callable[..., str | Mapping[str, object] | Fault]"

LONGEST = 130


# --- stored values ---------------------------------------------------------------------------------------------------


def check(name: str, found: Mapping[str, Json], *, within: float = 0.0, made_with: Sequence[str] = ()) -> None:
    """Fails with the places that differ from `values/NAME.json`; writes that file instead when GOLDEN_WRITE is set.

    Args:
        name: The file, and what the values are about.
        found: JSON values.
        within: How far floats may be off; exact unless said.
        made_with: Packages whose versions the values depend on. With other versions the test is skipped.
    """
    path = HERE / "values" / f"{name}.json"
    found = json.loads(json.dumps(found))
    versions = {package: _version(package) for package in made_with}
    document = {**({"made_with": versions} if versions else {}), "values": found}
    if os.environ.get("GOLDEN_WRITE"):
        path.write_text(_written(document) + "\n", "utf-8")
        return
    stored = json.loads(path.read_text("utf-8"))
    if versions != stored.get("made_with", {}):
        pytest.skip(f"{name} was made with {stored['made_with']}, and here are {versions}")
    wrong = list(differences(stored["values"], found, within))
    if wrong:
        more = f"\n… and {len(wrong) - 40} more" if len(wrong) > 40 else ""
        pytest.fail(f"{name}: what is stored or sent has changed:\n" + "\n".join(wrong[:40]) + more, pytrace=False)


def differences(old: Json, new: Json, within: float = 0.0, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, one line each. The order of keys counts nowhere, except in texts that were sent."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in new:
                yield f"{place}/{key}: is gone; it was {_shown(old[key])}"
            elif key not in old:
                yield f"{place}/{key}: is new: {_shown(new[key])}"
            else:
                yield from differences(old[key], new[key], within, f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, within, f"{place}[{position}]")
    elif isinstance(old, float) and isinstance(new, float) and abs(old - new) <= within:
        return
    elif type(old) is not type(new) or old != new:
        yield f"{place}: was {_shown(old)}\n    and is {_shown(new)}"


def _written(value: Json, indent: str = "") -> str:
    """JSON with sorted keys, a value to a line as far as that is not too long."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(line) < 220:
        return line
    deeper = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + _written(one, deeper) for one in value) + f"\n{indent}]"
    entries = (
        f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_written(value[key], deeper)}" for key in sorted(value)
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:400]}…"


def digest(data: str | bytes) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def short(value: Json) -> Json:
    """JSON values with every long text as its digest, its length and its start."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"sha256 {digest(value)[:24]}, {len(value)} long: {value[:80]}…"
    if isinstance(value, Mapping):
        return {key: short(one) for key, one in value.items()}
    return [short(one) for one in value] if isinstance(value, list | tuple) else value


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


# --- the command line ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Json]:
        """The lines of JSON that were printed."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith(("{", "["))]


def beholder(*words: str | Path, code: int | None = 0) -> Done:
    """Carries out `python -m beholder WORDS` in this process; fails where the exit code is another than expected."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    argv = ["beholder", *map(str, words)]
    ended = 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(typer.main, "get_command", _command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            # Not `run_module`: pytest imports the package of a plug-in in its own way, which `runpy` cannot follow.
            runpy.run_path(str(Path(beholder_package.__file__).parent / "__main__.py"), run_name="__main__")
        except SystemExit as stop:
            ended = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    done = Done(ended, *(stream.buffer.getvalue().decode() for stream in (out, err)))
    assert code is None or ended == code, f"beholder {' '.join(argv[1:])}: exit code {ended}\n{done.err}\n{done.out}"
    return done


_command = functools.cache(typer.main.get_command)  # making them anew for each command would take most of the time


def brief(*words: str | Path) -> Json:
    """The brief that `beholder judge WORDS --plan` prints."""
    [one] = beholder("judge", *words, "--plan", "--json").lines
    return one


# --- judges ----------------------------------------------------------------------------------------------------------

WORDS = "the red wall on the left is as it was, the lamp and the sky are so too"


def answer_to(schema: Json, turn: int = 0) -> Json:
    """An answer of the form that a schema asks for; `turn` varies what it says."""
    counted = iter(range(turn, turn + 100_000))

    def made(part: Json) -> Json:
        number = next(counted)
        match part.get("type"):
            case "object":
                return {key: made(one) for key, one in part["properties"].items()}
            case "array":
                return ["a lamp that is not there"] if number % 4 == 0 else []
            case "integer":
                low, high = part["minimum"], part["maximum"]
                return low + (number * 3 + number // 4) % (high - low + 1)
            case "number":
                return round(part["minimum"] + (part["maximum"] - part["minimum"]) * (number * 37 % 101) / 100, 2)
            case "string" if "enum" in part:
                return part["enum"][-1] if number % 9 == 5 else part["enum"][number % 5 == 3]
        return f"{WORDS}, {number}"

    return made(schema)


@dataclass(frozen=True)
class Exchange:
    """A request as it came, byte for byte, and the status of what was answered."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0

    def told(self, *headers: str) -> Json:
        """The request as it is stored: these headers, the body's digest, and where it is JSON its values."""
        body: Json = None
        if self.body:
            with contextlib.suppress(ValueError):
                body = short(json.loads(self.body))
        return {
            "request": f"{self.method} {self.url}",
            "headers": {name: self.headers[name] for name in headers if name in self.headers},
            "bytes": len(self.body),
            "sha256": digest(self.body),
            "body": body,
            "status": self.status,
        }


HEADERS = (
    *("accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "transfer-encoding"),
    *("user-agent", "x-api-key", "anthropic-version", "x-goog-api-key", "x-goog-upload-command"),
    *("x-goog-upload-header-content-length", "x-goog-upload-header-content-type", "x-goog-upload-offset"),
    "x-goog-upload-protocol",
)


@dataclass
class Wiretap:
    """A loopback judge behind a proxy that writes every request down. `exchanges` are in the order of their ends."""

    judge: JudgeServer
    exchanges: list[Exchange] = field(default_factory=list)

    def say(self, *replies: Reply) -> None:
        """Queues what the next requests are answered; a text, JSON, a `Fault`, or a function of the request."""
        self.judge.say(*replies)

    def always(self, reply: Reply) -> None:
        """What is answered where nothing is queued."""
        self.judge.default = reply

    def batch_goes(self, course: Course) -> None:
        """How the next batch goes."""
        self.judge.batches.courses.append(course)

    @property
    def asked(self) -> int:
        """How many questions the judge heard, live or in a batch."""
        return len(self.judge.received)

    def clear(self) -> None:
        self.exchanges.clear()
        self.judge.received.clear()

    def told(self, *headers: str) -> list[Json]:
        return [one.told(*(headers or HEADERS)) for one in self.exchanges]


@contextmanager
def wiretap() -> Iterator[Wiretap]:
    """A `Wiretap` that `http_proxy` names while it is open."""
    with JudgeServer(keyless=True) as judge:
        tap = Wiretap(judge)
        with _proxy(urlsplit(judge.url).netloc, tap.exchanges):
            yield tap


Response: TypeAlias = tuple[int, Sequence[tuple[str, str]], bytes]


@contextmanager
def _proxy(server: str, exchanges: list[Exchange]) -> Iterator[None]:
    """Passes requests on to a server, whatever host they were meant for."""

    def passed(request: Exchange) -> Response:
        place = urlsplit(request.url)
        onward = http.client.HTTPConnection(server, timeout=60)
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        path = f"{place.path}?{place.query}" if place.query else place.path
        onward.request(request.method, path, body=request.body, headers=headers)
        response = onward.getresponse()
        data = response.read()
        onward.close()
        return response.status, response.getheaders(), data

    with _answering(passed, exchanges):
        yield


@contextmanager
def replay(replies: Mapping[str, Json]) -> Iterator[list[Exchange]]:
    """A server that has these answers, a text or JSON by "METHOD URL", and 404 for everything else. Gives the requests
    that came."""

    def answer(request: Exchange) -> Response:
        said = replies.get(f"{request.method} {request.url}")
        text = said if isinstance(said, str) else json.dumps(said)
        return 404 if said is None else 200, [("Content-Type", "application/json")], text.encode()

    exchanges: list[Exchange] = []
    with _answering(answer, exchanges):
        yield exchanges


@contextmanager
def _answering(answer: Callable[[Exchange], Response], exchanges: list[Exchange]) -> Iterator[None]:
    """An HTTP proxy on loopback that `http_proxy` names while it is open."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Exchange(self.command, self.path, headers, self._body(headers))
            status, said, data = answer(request)
            exchanges.append(replace(request, status=status))
            self.send_response(status)
            for name, value in said:
                if name.lower() not in {*_HOP, "content-length", "date", "server"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_one  # noqa: N815  # the names that http.server calls

        def _body(self, headers: Mapping[str, str]) -> bytes:
            if headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(headers.get("content-length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        with mock.patch.dict(os.environ, {"http_proxy": f"http://127.0.0.1:{proxy.server_port}"}):
            yield
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "proxy-authorization", "transfer-encoding", "te"})


def data_uri(path: str | Path) -> str:
    """An image that is the same case in any folder: a run knows a file by its absolute path and its time of change."""
    kind = {".png": "png", ".jpg": "jpeg", ".webp": "webp"}[Path(path).suffix]
    return f"data:image/{kind};base64,{base64.b64encode(Path(path).read_bytes()).decode()}"


RUN_ID = re.compile(r"\b\d{6}-[0-9a-f]{6}\b")


def steady(verdict: Json) -> Json:
    """A verdict, or a summary, without what is another each time: seconds, and the name of the run."""
    if isinstance(verdict, dict):
        return {
            key: "SECONDS" if key == "latency_s" and one is not None else steady(one) for key, one in verdict.items()
        }
    if isinstance(verdict, list):
        return [steady(one) for one in verdict]
    return RUN_ID.sub("RUN", verdict) if isinstance(verdict, str) else verdict
