"""The loopback server: a real aiohttp server on 127.0.0.1, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Mapping
from typing import Self

from aiohttp import web

from beholder.testing.anthropic import Anthropic
from beholder.testing.batches import BatchCounter
from beholder.testing.dialects import Dialect, Rejection, hang_up, headers_of
from beholder.testing.google import Google
from beholder.testing.openai import OpenAI
from beholder.testing.replies import Fault, Kind, Received, Reply

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (OpenAI(), Anthropic(), Google())}
# As Cloudflare and nginx answer while a backend is away, sometimes with status 200.
PAGE = "<!DOCTYPE html><html><head><title>Just a moment…</title></head><body>Please wait.</body></html>"
MAX_REQUEST_BYTES = 256 * 1024 * 1024


class JudgeServer:
    """Speaks OpenAI's, Anthropic's and Google's protocols on a free port of 127.0.0.1.

    A context manager in plain and in async code. `say` queues what the next requests get; when the queue is empty,
    `default` is repeated. `received` lists the requests that were understood, oldest first; a request that the
    provider would refuse is refused, and takes nothing from the queue. With `keyless` no key is asked for. What a
    queued function raises is answered with 500 and raised again when the server closes. `batches` are its batch APIs,
    whose requests are answered from the same queue.
    """

    def __init__(self, default: Reply = "{}", *, keyless: bool = False) -> None:
        self.default = default
        self.keyless = keyless
        self.received: list[Received] = []
        self.batches = BatchCounter(self._next, DIALECTS, keyless)
        self._queue: deque[Reply] = deque()
        self._port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._mistakes: list[Exception] = []

    @property
    def url(self) -> str:
        """The server's own address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/openai/v1"

    @property
    def anthropic_url(self) -> str:
        return f"{self.url}/anthropic"

    @property
    def google_url(self) -> str:
        return f"{self.url}/google"

    def say(self, *replies: Reply) -> None:
        """Queues replies: text or an object to answer, a `Fault`, or a function of the request that gives either."""
        self._queue.extend(replies)

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="JudgeServer", daemon=True)
        self._thread.start()
        ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if self._loop is not None and self._closing is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
        if self._thread is not None:
            self._thread.join()
        if kind is None and self._mistakes:
            raise self._mistakes[0]

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: object = None, *_: object) -> None:
        await asyncio.to_thread(self.__exit__, kind)

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as failure:
            self._failure = failure
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._port = runner.addresses[0][1]
            ready.set()
            await self._closing.wait()
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if (answered := await self.batches.handle(request)) is not None:
            return answered
        dialect = DIALECTS.get(request.path.split("/")[1])
        if dialect is None or request.method != "POST":
            return web.Response(status=404, text="404 page not found")
        try:
            heard = await self._hear(dialect, request)
            reply = self._next(heard)
            said = reply(heard) if callable(reply) else reply
            if isinstance(said, Fault) and (broken := await self._broken(said, request)) is not None:
                return broken
            status, body = dialect.reply(said, heard)
        except ConnectionError:  # who asked went away, which is no mistake of the test's
            raise
        except Exception as mistake:
            rejection = mistake if isinstance(mistake, Rejection) else Rejection(500, f"The test itself: {mistake!r}")
            if rejection is not mistake:
                self._mistakes.append(mistake)
            error = dialect.error(rejection.status, rejection.message, rejection.parameter)
            return web.json_response(error, status=rejection.status)
        more = dict(said.headers) if isinstance(said, Fault) else {}
        return web.json_response(body, status=status, headers=more)

    def _next(self, heard: Received) -> Reply:
        self.received.append(heard)
        return self._queue.popleft() if self._queue else self.default

    async def _hear(self, dialect: Dialect, request: web.Request) -> Received:
        try:
            body = json.loads(await request.read())
        except ValueError:
            raise Rejection(400, "We could not parse the JSON body of your request.") from None
        if not isinstance(body, dict):
            raise Rejection(400, "The body of your request is no JSON object.")
        return dialect.read(request.rel_url.raw_path, headers_of(request), body, self.keyless)

    async def _broken(self, fault: Fault, request: web.Request) -> web.StreamResponse | None:
        """What is said instead of a reply that the provider would give."""
        match fault.kind:
            case Kind.HTML:
                return web.Response(text=PAGE, content_type="text/html")
            case Kind.REDIRECT:
                return web.Response(status=fault.code, headers=dict(fault.headers))
            case Kind.DROP | Kind.CUT | Kind.HANG:
                return await self._break_off(fault.kind, request)
            case _:
                return None

    async def _break_off(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "4096"})
        if kind is not Kind.DROP:
            await response.prepare(request)
        if kind is Kind.CUT:
            await response.write(b'{"id": "chatcmpl-B9')
        if kind is Kind.HANG and self._closing is not None:
            await self._closing.wait()
        hang_up(request)
        return response
