"""The loopback server: a real aiohttp server on 127.0.0.1, in a thread of its own, with the providers' APIs.

`JudgeServer` has the live APIs, `BatchServer` the batch APIs; what differs between providers is in their dialects.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from aiohttp import web
from yarl import URL

from beholder.testing import base
from beholder.testing.anthropic import AnthropicBatchDialect, AnthropicDialect
from beholder.testing.google import GoogleBatchDialect, GoogleDialect
from beholder.testing.openai import OpenAIBatchDialect, OpenAIDialect


class BatchServer:
    """The batch APIs of one `JudgeServer`.

    Attributes:
        jobs: That were accepted, oldest first.
        courses: What happens to the next jobs.
        usual: What happens to all other jobs.
        refuse: Fault that every call gets, if it is set: a status, or `Fault.bad_key`.
        busy: No new job is accepted.
        upload_host: Host to which Google's clients are sent with their files.
        max_requests: Most requests in a job, by provider.
        files: Uploaded files by id.
    """

    def __init__(
        self, answer: Callable[[base.Received], base.Reply], dialects: Mapping[str, base.ProviderDialect], keyless: bool
    ) -> None:
        self.jobs: list[base.FakeBatchJob] = []
        self.courses: deque[base.Course] = deque()
        self.usual = base.Course()
        self.refuse: base.Fault | None = None
        self.busy = False
        self.upload_host = ""
        self.max_requests = {name: dialect.max_requests for name, dialect in BATCH_DIALECTS.items()}
        self.files: dict[str, bytes] = {}
        self._uploads = 0
        self._answer, self._dialects, self._keyless = answer, dialects, keyless

    async def handle(self, request: web.Request) -> web.StreamResponse | None:
        """Return the response to a call of a batch API; `None` for any other request."""
        dialect = BATCH_DIALECTS.get(request.path.split("/")[1])
        for name, route in dialect.routes if dialect else ():
            match = re.fullmatch(route, f"{request.method} {request.path}")
            if dialect is None or match is None:
                continue
            try:
                self._check(dialect, request)
                result = await getattr(self, name)(dialect, request, *match.groups())
            except base.Rejection as rejection:
                error = self._dialects[dialect.name].error(rejection.status, rejection.message)
                return web.json_response(error, status=rejection.status)
            return result if isinstance(result, web.StreamResponse) else web.json_response(result)
        return None

    async def begin_upload(self, dialect: base.BatchDialect, request: web.Request) -> web.StreamResponse:
        required = {"X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start"}
        if any(request.headers.get(name) != value for name, value in required.items()):
            raise base.Rejection(400, "An upload begins with X-Goog-Upload-Command: start.")
        self._uploads += 1
        size, host = request.headers["X-Goog-Upload-Header-Content-Length"], self.upload_host or request.host
        upload_url = f"http://{host}{request.path}/{self._uploads}?upload_id=x&size={size}"
        return web.json_response({}, headers={"X-Goog-Upload-URL": upload_url, "X-Goog-Upload-Status": "active"})

    async def upload(self, dialect: base.BatchDialect, request: web.Request, number: str = "") -> web.StreamResponse:
        self._uploads += not number
        id_, data, reply = await dialect.receive_file(request, number or str(self._uploads))
        self.files[id_] = data
        return web.json_response(reply, headers={"X-Goog-Upload-Status": "final"})

    async def delete_file(self, dialect: base.BatchDialect, request: web.Request, id_: str) -> base.JsonLine:
        self._file(id_)
        del self.files[id_]
        return {"id": id_, "object": "file", "deleted": True}

    async def create(
        self, dialect: base.BatchDialect, request: web.Request, model: str = ""
    ) -> base.JsonLine | web.StreamResponse:
        job = self._accept(dialect, dialect.parse_order(await request.json(), self._file), request, model)
        if not job.course.unheard:
            return dialect.describe(job)
        base.drop_connection(request)
        return web.Response()

    async def list_jobs(self, dialect: base.BatchDialect, request: web.Request) -> base.JsonLine:
        """List jobs, newest first, two a page, so that a client that reads only the first page fails its tests."""
        jobs = [job for job in reversed(self.jobs) if job.protocol == dialect.name and not job.course.forgotten]
        ids = [job.id for job in jobs]
        start = ids.index(request.query[dialect.page_parameter]) + 1 if dialect.page_parameter in request.query else 0
        return dialect.list_page(jobs[start : start + 2], len(jobs) > start + 2)

    async def get_job(self, dialect: base.BatchDialect, request: web.Request, id_: str) -> base.JsonLine:
        job = self._job(dialect, id_)
        job.looked += 1
        return dialect.describe(job)

    async def cancel(self, dialect: base.BatchDialect, request: web.Request, id_: str) -> base.JsonLine:
        job = self._job(dialect, id_)
        job.canceled = True
        return dialect.describe_canceled(job)

    async def results(self, dialect: base.BatchDialect, request: web.Request, name: str) -> web.StreamResponse:
        id_ = name.rpartition("of-")[2]
        job = self._job(dialect, id_ if id_.startswith(dialect.prefix) else dialect.prefix + id_)
        if not job.ended:
            raise base.Rejection(404, "The batch has no results yet.")
        body = "".join(json.dumps(line) + "\n" for line in dialect.results(job, name)).encode()
        if job.course.endless:
            return await self._send_endlessly(request, body, job.course.endless)
        if job.cuts >= job.course.cut or not body:
            return web.Response(body=body, content_type="application/jsonl")
        job.cuts += 1
        half = body[: len(body) * 3 // 5]
        if job.course.even:
            half = half[: half.rfind(b"\n") + 1]
        if job.course.short:
            return web.Response(body=half, content_type="application/jsonl")
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(half)
        base.drop_connection(request)
        return response

    async def _send_endlessly(self, request: web.Request, body: bytes, more: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(body)
        while request.transport is not None and not request.transport.is_closing():
            await response.write(more.encode() * 1000)
        return response

    def _check(self, dialect: base.BatchDialect, request: web.Request) -> None:
        if self.refuse is not None:
            if self.refuse.kind is base.FaultKind.STATUS:
                raise base.Rejection(self.refuse.code, self.refuse.text)
            received = base.Received(
                dialect.name, request.path, base.lowercase_headers(request), {}, "", (), (), None, ""
            )
            raise self._dialects[dialect.name].rejection(self.refuse, received)
        keyless = self._keyless or "upload_id" in request.query  # which is the secret of an upload that was begun
        if not keyless and not any(request.headers.get(name) for name in dialect.key_headers):
            raise base.Rejection(401, "No API key was provided.")
        if dialect.required_header and not request.headers.get(dialect.required_header):
            raise base.Rejection(400, f"{dialect.required_header}: header is required")

    def _file(self, id_: object) -> bytes:
        if (data := self.files.get(str(id_))) is None:
            raise base.Rejection(404, f"No such File object: {id_}")
        return data

    def _job(self, dialect: base.BatchDialect, id_: str) -> base.FakeBatchJob:
        for job in self.jobs:
            if (job.protocol, job.id) == (dialect.name, id_) and not job.course.forgotten:
                return job
        raise base.Rejection(404, f"No batch found with id '{id_}'.")

    def _accept(
        self, dialect: base.BatchDialect, order: base.SubmittedBatch, request: web.Request, model: str
    ) -> base.FakeBatchJob:
        requests, note, file = order
        keys = [key for key, _ in requests]
        if not 0 < len(keys) <= self.max_requests[dialect.name] or len(set(keys)) < len(keys):
            raise base.Rejection(400, "A batch has requests, not too many, and none with the same id.")
        if self.busy:
            raise base.Rejection(429, "Too many batches are under way.")
        course = self.courses.popleft() if self.courses else self.usual
        id_ = f"{dialect.prefix}{dialect.name}{len(self.jobs) + 1}"
        server_url = f"{request.scheme}://{request.host}"
        job = base.FakeBatchJob(id_, dialect.name, note, keys, course, file, server_url=server_url)
        self.jobs.append(job)
        path, headers = dialect.live_path.format(model=model), base.lowercase_headers(request)
        for key, body in requests[: len(keys) - course.expired] if not course.fails else ():
            job.lines.append(dialect.line(key, *self._reply(self._dialects[dialect.name], path, headers, body)))
        if course.backwards:
            job.lines.reverse()
        return job

    def _reply(
        self, dialect: base.ProviderDialect, path: str, headers: Mapping[str, str], body: Mapping[str, object]
    ) -> tuple[int, dict[str, object]]:
        """Return status and body that the live API would have replied to this request."""
        try:
            received = dialect.read(path, headers, body, self._keyless)
            reply = self._answer(received)
            return dialect.reply(reply(received) if callable(reply) else reply, received)
        except base.Rejection as rejection:
            return rejection.status, dialect.error(rejection.status, rejection.message, rejection.parameter)


DIALECTS: Mapping[str, base.ProviderDialect] = {
    dialect.name: dialect for dialect in (OpenAIDialect(), AnthropicDialect(), GoogleDialect())
}
# As Cloudflare and nginx reply while a backend is down, sometimes with status 200.
GATEWAY_PAGE = "<!DOCTYPE html><html><head><title>Just a moment…</title></head><body>Please wait.</body></html>"
MAX_REQUEST_BYTES = 256 * 1024 * 1024
MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}
_MODEL_LIST = re.compile(r"/(?:openai/v1|anthropic/v1|google/v1(?:beta)?)/models")


class JudgeServer:
    """A server with OpenAI's, Anthropic's and Google's protocols on a free port of 127.0.0.1.

    A context manager in plain and in async code. A request that the provider would reject is rejected, and takes no
    reply from the queue. What a queued function raises is answered with 500, and raised again when the server closes.

    Args:
        default: Reply when the queue is empty.
        keyless: No key is required.
        port: The port; 0 for a free one.

    Attributes:
        models: Names that each provider lists; any other is answered as well.
        received: Requests that were understood, oldest first.
        batches: The batch APIs, whose requests are answered from the same queue.
    """

    def __init__(self, default: base.Reply = "{}", *, keyless: bool = False, port: int = 0) -> None:
        self.default = default
        self.keyless = keyless
        self.models = {provider: [name] for provider, name in MODELS.items()}
        self.received: list[base.Received] = []
        self.batches = BatchServer(self._next, DIALECTS, keyless)
        self._queue: deque[base.Reply] = deque()
        self._port = port
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._mistakes: list[Exception] = []

    @property
    def url(self) -> str:
        """The server's address, without the path of a provider."""
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

    def say(self, *replies: base.Reply) -> None:
        """Queue replies: the text or JSON of an answer, a `Fault`, or a function of the request that returns either."""
        self._queue.extend(replies)

    def wait(self) -> None:
        """Block until the server ends, or until Ctrl-C."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(1.0)  # on Windows, Ctrl-C does not interrupt a wait without a limit

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
            site = web.TCPSite(runner, "127.0.0.1", self._port)
            await site.start()
            self._port = runner.addresses[0][1]
            ready.set()
            await self._closing.wait()
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if prefix := _find_prefix(request):
            request = request.clone(rel_url=URL(f"/{prefix}{request.rel_url.raw_path_qs}", encoded=True))
        if (response := await self.batches.handle(request)) is not None:
            return response
        dialect = DIALECTS.get(request.path.split("/")[1])
        if dialect is not None and request.method == "GET" and _MODEL_LIST.fullmatch(request.path):
            return web.json_response(dialect.list_models(self.models[dialect.name]))
        if dialect is None or request.method != "POST":
            return web.Response(status=404, text="404 page not found")
        try:
            received = await self._receive(dialect, request)
            reply = self._next(received)
            content = reply(received) if callable(reply) else reply
            if (
                isinstance(content, base.Fault)
                and (faulty := await self._faulty_response(content, request)) is not None
            ):
                return faulty
            status, body = dialect.reply(content, received)
        except ConnectionError:  # the client went away, which is no mistake of the test
            raise
        except Exception as mistake:
            rejection = (
                mistake if isinstance(mistake, base.Rejection) else base.Rejection(500, f"The test itself: {mistake!r}")
            )
            if rejection is not mistake:
                self._mistakes.append(mistake)
            error = dialect.error(rejection.status, rejection.message, rejection.parameter)
            return web.json_response(error, status=rejection.status)
        headers = {"x-request-id": f"req_{len(self.received)}"}
        if isinstance(content, base.Fault):
            headers |= content.headers
        if status == 200 and dialect.wants_stream(received):
            return await self._stream(dialect.events(body), request, headers)
        return web.json_response(body, status=status, headers=headers)

    async def _stream(
        self, events: Iterator[tuple[str, object]], request: web.Request, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Send server-sent events."""
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            await response.write(f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode())
        return response

    def _next(self, received: base.Received) -> base.Reply:
        self.received.append(received)
        return self._queue.popleft() if self._queue else self.default

    async def _receive(self, dialect: base.ProviderDialect, request: web.Request) -> base.Received:
        try:
            body = json.loads(await request.read())
        except ValueError:
            raise base.Rejection(400, "We could not parse the JSON body of your request.") from None
        if not isinstance(body, dict):
            raise base.Rejection(400, "The body of your request is no JSON object.")
        return dialect.read(request.rel_url.raw_path, base.lowercase_headers(request), body, self.keyless)

    async def _faulty_response(self, fault: base.Fault, request: web.Request) -> web.StreamResponse | None:
        """Return what comes in place of a reply of the provider; `None` for a fault that is such a reply."""
        match fault.kind:
            case base.FaultKind.HTML:
                return web.Response(text=GATEWAY_PAGE, content_type="text/html")
            case base.FaultKind.REDIRECT:
                return web.Response(status=fault.code, headers=dict(fault.headers))
            case base.FaultKind.DROP | base.FaultKind.CUT | base.FaultKind.HANG:
                return await self._break_off(fault.kind, request)
            case _:
                return None

    async def _break_off(self, kind: base.FaultKind, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "4096"})
        if kind is not base.FaultKind.DROP:
            await response.prepare(request)
        if kind is base.FaultKind.CUT:
            await response.write(b'{"id": "chatcmpl-B9')
        if kind is base.FaultKind.HANG and self._closing is not None:
            await self._closing.wait()
        base.drop_connection(request)
        return response


def _find_prefix(request: web.Request) -> str:
    """Return whose path this is, where it does not begin with the provider: clients may be sent to the bare address."""
    if not re.match(r"/((upload|download)/)?v1(beta)?/", request.path):
        return ""
    if "x-goog-api-key" in request.headers or re.match(r"/v1beta/|/upload/|/download/|/v1/models/.+:", request.path):
        return "google"
    return "anthropic" if "anthropic-version" in request.headers else "openai"


BATCH_DIALECTS: Mapping[str, base.BatchDialect] = {
    dialect.name: dialect for dialect in (OpenAIBatchDialect(), AnthropicBatchDialect(), GoogleBatchDialect())
}
