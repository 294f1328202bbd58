"""A loopback server that speaks OpenAI's chat completions, and is too fast to be what a benchmark measures.

    python benchmarks/server.py [--latency SECONDS] [--too-many RATE] [--broken RATE] [--invalid RATE] [--seed N]
                                [--varied]

It runs in a process of its own, prints its port on the first line, and ends when its standard input does. Bodies are
counted, not kept: only the last kilobytes, where the case's label stands. Which request meets which fault follows from
the seed and the request's number. A repair turn is never answered with the same fault again: a model that was told
what is wrong mends it. Every answer says the same, unless they are `--varied`: then each has words and scores of its
own, which compress as prose does.

`GET /stats` gives what was asked so far, the moments of the first and the last request on the system's monotonic clock,
and the CPU time of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import repeat

SCORES = {"unchanged_regions": 6, "global_consistency": 5, "identity_preservation": 7}
WORDS = (
    "the brick wall behind the parked car shows exactly the same mortar lines, window reflections and soft "
    "afternoon shading as it did before, from the left edge to the lamp post"
)
VOCABULARY = (
    "the a and of in on with is are as before after behind beside under above between left right edge corner centre "
    "wall window door roof street lamp tree branch leaf grass sky cloud water river bridge car wheel mirror bonnet "
    "paint red blue green grey pale dark bright soft sharp blurred shadow highlight reflection gradient texture grain "
    "brick mortar stone wood metal glass fabric hair skin face hand sleeve collar button background foreground crop "
    "scale angle perspective horizon light exposure contrast colour temperature noise halo seam outline same exactly "
    "slightly clearly barely unchanged shifted missing doubled smeared consistent plausible natural original edit"
)
SENTENCES = 4096  # of which three make an answer

INVALID = json.dumps({"criteria": {"unchanged_regions": {"justification": WORDS, "score": 9}}})

TAIL_BYTES = 8 * 1024
BUFFER_BYTES = 512 * 1024
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_LABEL = re.compile(rb"case-[0-9a-f]{8}")
_REPAIR = re.compile(rb'"role": ?"assistant"')


def answer(label: str) -> str:
    """A valid compact answer to `edit-preservation`."""
    factors = {key: {"justification": WORDS, "score": score} for key, score in SCORES.items()}
    return json.dumps({"image_id": label, "criteria": factors})


def varied_answers(seed: int) -> Iterator[tuple[bytes, bytes]]:
    """What stands before and after the label in one completion after another."""
    chance = random.Random(seed)
    words = VOCABULARY.split()
    sentences = [" ".join(chance.choices(words, k=chance.randint(15, 30))) for _ in range(SENTENCES)]
    body = json.loads(completion("").partition(b"\r\n\r\n")[2])
    while True:
        factors = {key: {"justification": chance.choice(sentences), "score": chance.randint(4, 7)} for key in SCORES}
        body["choices"][0]["message"]["content"] = json.dumps({"image_id": "case-00000000", "criteria": factors})
        before, after = _http(200, "OK", json.dumps(body).encode()).split(b"case-00000000")
        yield before, after


def completion(content: str) -> bytes:
    body = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "bench-2026-01-01",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 3100, "completion_tokens": 190, "total_tokens": 3290},
    }
    return _http(200, "OK", json.dumps(body).encode())


def _http(status: int, reason: str, body: bytes, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", "Content-Type: application/json", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "bench", "code": None}}).encode()


class Replies:
    """What is answered to whom, and how often it was."""

    def __init__(self, latency: float, rates: dict[str, float], retry_after: str, seed: int, varied: bool) -> None:
        self.latency = latency
        self._rates = rates
        self._random = random.Random(seed)
        self._counts: Counter[str] = Counter()
        self._bytes = 0
        self._first: float | None = None
        self._last: float | None = None
        before, after = completion(answer("case-00000000")).split(b"case-00000000")
        self._valid = varied_answers(seed) if varied else repeat((before, after))
        self._faults = {
            "too_many": _http(429, "Too Many Requests", _error("slow down"), f"Retry-After: {retry_after}"),
            "broken": _http(500, "Internal Server Error", _error("the server had an error")),
            "invalid": completion(INVALID),
        }

    def arrived(self) -> None:
        self._last = time.monotonic()
        if self._first is None:
            self._first = self._last

    def to(self, tail: bytes, length: int) -> bytes:
        self._bytes += length
        kind = self._fault()
        if kind == "invalid" and _REPAIR.search(tail):
            kind = ""
        self._counts[kind or "valid"] += 1
        if kind:
            return self._faults[kind]
        label = _LABEL.search(tail)
        return (label[0] if label else b"case-00000000").join(next(self._valid))

    def _fault(self) -> str:
        drawn = self._random.random()
        for kind, rate in self._rates.items():
            if drawn < rate:
                return kind
            drawn -= rate
        return ""

    def stats(self) -> bytes:
        used = resource.getrusage(resource.RUSAGE_SELF)
        said = {
            "requests": sum(self._counts.values()),
            "answers": dict(self._counts),
            "bytes": self._bytes,
            "first_request": self._first,
            "last_request": self._last,
            "cpu_s": used.ru_utime + used.ru_stime,
        }
        return _http(200, "OK", json.dumps(said).encode())


class Connection(asyncio.BufferedProtocol):
    """One keep-alive connection. All share one buffer, since each empties it before the loop turns to the next."""

    buffer = memoryview(bytearray(BUFFER_BYTES))

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._head = b""
        self._tail = bytearray()
        self._length = 0
        self._missing = -1  # bytes of the body still to come; below 0 while the head is read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._missing < 0:
            head, blank, body = (self._head + self.buffer[:nbytes].tobytes()).partition(b"\r\n\r\n")
            if not blank:
                self._head = head
                return
            self._head = b""
            self._begin(head)
            if self._missing >= 0:
                self._take(body)
        else:
            self._take(self.buffer[:nbytes])

    def _begin(self, head: bytes) -> None:
        if head.startswith(b"GET /stats"):
            self._transport.write(self._replies.stats())
            return
        self._replies.arrived()
        length = _LENGTH.search(head)
        if not head.startswith(b"POST /v1/chat/completions ") or length is None:
            self._transport.write(_http(404, "Not Found", _error("only POST /v1/chat/completions with a length")))
            self._transport.close()
            return
        self._length = self._missing = int(length[1])

    def _take(self, piece: bytes | memoryview) -> None:
        self._missing -= len(piece)
        if self._missing < TAIL_BYTES:
            self._tail += piece[-TAIL_BYTES:]
        if self._missing > 0:
            return
        reply = self._replies.to(bytes(self._tail[-TAIL_BYTES:]), self._length)
        self._tail.clear()
        self._missing = -1
        if self._replies.latency:
            asyncio.get_running_loop().call_later(self._replies.latency, self._transport.write, reply)
        else:
            self._transport.write(reply)


async def serve(replies: Replies) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(replies), "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds from a request's end to its answer")
    parser.add_argument("--too-many", type=float, default=0.0, help="share of requests answered 429")
    parser.add_argument("--broken", type=float, default=0.0, help="share of requests answered 500")
    parser.add_argument("--invalid", type=float, default=0.0, help="share of requests answered off the rubric's scale")
    parser.add_argument("--retry-after", default="0", help="what a 429 says")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--varied", action="store_true", help="words and scores that differ from answer to answer")
    given = parser.parse_args()
    rates = {"too_many": given.too_many, "broken": given.broken, "invalid": given.invalid}
    asyncio.run(serve(Replies(given.latency, rates, given.retry_after, given.seed, given.varied)))


if __name__ == "__main__":
    main()
