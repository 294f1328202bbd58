"""The providers' batch APIs, from the server's side. How the next jobs go is said by a `Course`.

OpenAI: https://developers.openai.com/api/docs/guides/batch and …/api-reference/batch
Anthropic: https://platform.claude.com/docs/en/build-with-claude/batch-processing and …/api/messages/batches
Google: https://ai.google.dev/gemini-api/docs/batch-api, https://ai.google.dev/api/batch-api and …/api/files
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from beholder.testing.dialects import Dialect, Rejection, mapping, objects
from beholder.testing.replies import Fault, Kind, Received, Reply

if TYPE_CHECKING:
    from aiohttp import web

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RPC = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}
LIVE = {"openai": "/openai/v1/chat/completions", "anthropic": "/anthropic/v1/messages"}
BATCHES = "/anthropic/v1/messages/batches"


@dataclass(frozen=True, slots=True)
class Course:
    """How a job goes. It is in progress for so many `looks`; then its last `expired` requests have not been run, the
    others were answered by what `say` queued (a `Fault.status` is a request that failed).

    `backwards`: results come in another order than requests. `cut`: so many times the results break off in the middle,
    by a dropped connection, or with `short` by a file that is too short, with `even` at the end of a line. `fails`: the
    job as a whole is refused after it was taken, for this reason (`full`: too much is waiting). `forgotten`: nobody
    knows the job any more. `unheard`: the job is taken, and the connection drops before the answer.
    """

    looks: int = 0
    expired: int = 0
    backwards: bool = False
    cut: int = 0
    short: bool = False
    even: bool = False
    fails: str = ""
    full: bool = False
    forgotten: bool = False
    unheard: bool = False


@dataclass
class Job:
    """A job as the server keeps it. `lines` are the results of those requests that were run."""

    id: str
    protocol: str
    note: str
    keys: list[str]
    course: Course
    lines: list[dict[str, Any]] = field(default_factory=list)
    looked: int = 0
    cuts: int = 0
    canceled: bool = False
    file: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def ended(self) -> bool:
        return self.canceled or self.looked > self.course.looks


class BatchCounter:
    """The batch APIs of one `JudgeServer`. `courses` are those of the next jobs, `usual` of all others; `jobs` are the
    jobs that were taken, oldest first; `files` were uploaded. `refuse` is what every call gets, if it is set: a status,
    or `Fault.bad_key`; `busy` says that no new job is taken; `upload_host` is where Google wants its files."""

    def __init__(self, answer: Callable[[Received], Reply], dialects: Mapping[str, Dialect], keyless: bool) -> None:
        self.jobs: list[Job] = []
        self.courses: deque[Course] = deque()
        self.usual = Course()
        self.refuse: Fault | None = None
        self.busy = False
        self.upload_host = ""
        self.most_requests = {"openai": 50_000, "anthropic": 100_000, "google": 1_000_000}
        self.files: dict[str, bytes] = {}
        self._uploads = 0
        self._answer = answer
        self._dialects = dialects
        self._keyless = keyless

    async def handle(self, request: web.Request) -> web.StreamResponse | None:
        """The answer, if it is a call of a batch API."""
        from aiohttp import web

        path, method = request.path, request.method
        protocol = path.split("/")[1]
        dialect = self._dialects.get(protocol)
        for verb, pattern, act in _ROUTES:
            match = re.fullmatch(pattern, path)
            if dialect is None or verb != method or match is None:
                continue
            try:
                self._check(dialect, request)
                said = await act(self, request, *match.groups())
            except Rejection as rejection:
                return web.json_response(dialect.error(rejection.status, rejection.message), status=rejection.status)
            return said if isinstance(said, web.StreamResponse) else web.json_response(said)
        return None

    def _check(self, dialect: Dialect, request: web.Request) -> None:
        if self.refuse is not None:
            headers = {name.lower(): value for name, value in request.headers.items()}
            if self.refuse.kind is Kind.STATUS:
                raise Rejection(self.refuse.code, self.refuse.text)
            raise dialect.rejection(
                self.refuse, Received(dialect.name, request.path, headers, {}, "", (), (), None, "")
            )
        names = {"openai": "authorization", "anthropic": "x-api-key", "google": "x-goog-api-key"}
        if not self._keyless and not request.headers.get(names[dialect.name]):
            raise Rejection(401, "No API key was provided.")
        if dialect.name == "anthropic" and not request.headers.get("anthropic-version"):
            raise Rejection(400, "anthropic-version: header is required")

    async def delete_file(self, request: web.Request, id_: str) -> dict[str, Any]:
        self._file(id_)
        del self.files[id_]
        return {"id": id_, "object": "file", "deleted": True}

    # OpenAI

    async def openai_upload(self, request: web.Request) -> dict[str, Any]:
        form = await request.post()
        file = form.get("file")
        if form.get("purpose") != "batch" or file is None or isinstance(file, str | bytes | bytearray):
            raise Rejection(400, "'purpose' and 'file' are required")
        self._uploads += 1
        id_ = f"file-{self._uploads}"
        self.files[id_] = file.file.read()
        return {"id": id_, "object": "file", "bytes": len(self.files[id_]), "purpose": "batch"}

    async def openai_create(self, request: web.Request) -> dict[str, Any] | web.StreamResponse:
        wanted = await request.json()
        if wanted.get("endpoint") != "/v1/chat/completions" or wanted.get("completion_window") != "24h":
            raise Rejection(400, "Invalid value: 'endpoint' or 'completion_window'.")
        if len(self.files.get(wanted.get("input_file_id", ""), b"")) > 200_000_000:
            raise Rejection(400, "The file is larger than 200 MB.")
        lines = [json.loads(line) for line in self._file(wanted["input_file_id"]).splitlines()]
        if any((line["method"], line["url"]) != ("POST", "/v1/chat/completions") for line in lines):
            raise Rejection(400, "The 'url' of a line is not the endpoint of the batch.")
        if len({line["body"]["model"] for line in lines}) > 1:
            raise Rejection(400, "All requests of a batch must be of one model.")
        requests = [(line["custom_id"], line["body"]) for line in lines]
        job = self._take("openai", "batch_", requests, request, mapping(wanted.get("metadata")).get("beholder", ""))
        job.file = wanted["input_file_id"]
        return self._taken(job, request, self._openai(job))

    async def openai_list(self, request: web.Request) -> dict[str, Any]:
        page, more = self._page("openai", request, "after")
        return {"object": "list", "data": [self._openai(job) for job in page], "has_more": more}

    async def openai_get(self, request: web.Request, id_: str) -> dict[str, Any]:
        return self._openai(self._look("openai", id_))

    async def openai_cancel(self, request: web.Request, id_: str) -> dict[str, Any]:
        job = self._job("openai", id_)
        job.canceled = True
        return {**self._openai(job), "status": "cancelling"}

    async def openai_content(self, request: web.Request, id_: str) -> web.StreamResponse:
        kind, _, name = id_.partition("-of-")
        job = self._job("openai", name)
        failed = [line for line in job.lines if line["response"] is None or line["response"]["status_code"] >= 400]
        wanted = failed if kind == "errors" else [line for line in job.lines if line not in failed]
        return await self._send(job, wanted, request)

    def _openai(self, job: Job) -> dict[str, Any]:
        expired = len(job.keys) - len(job.lines)
        ok = [line for line in job.lines if line["response"] and line["response"]["status_code"] < 400]
        done = "failed" if job.course.fails else "cancelled" if job.canceled else "expired" if expired else "completed"
        files = job.ended and not job.course.fails
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": _openai_errors(job.course) if job.ended and job.course.fails else None,
            "input_file_id": job.file,
            "completion_window": "24h",
            "status": done if job.ended else "in_progress",
            "output_file_id": f"output-of-{job.id}" if files and ok else None,
            "error_file_id": f"errors-of-{job.id}" if files and len(ok) < len(job.lines) else None,
            "created_at": int(job.created.timestamp()),
            "request_counts": {
                "total": len(job.keys),
                "completed": len(ok) if job.ended else 0,
                "failed": len(job.lines) - len(ok) if job.ended else 0,
            },
            "metadata": {"beholder": job.note},
        }

    # Anthropic

    async def anthropic_create(self, request: web.Request) -> dict[str, Any] | web.StreamResponse:
        wanted = await request.json()
        requests = [(str(one["custom_id"]), mapping(one["params"])) for one in objects(wanted.get("requests"))]
        if wrong := [key for key, _ in requests if not _CUSTOM_ID.fullmatch(key)]:
            raise Rejection(400, f"requests.custom_id: {wrong[0]!r} should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        job = self._take("anthropic", "msgbatch_", requests, request)
        return self._taken(job, request, self._anthropic(job))

    async def anthropic_list(self, request: web.Request) -> dict[str, Any]:
        page, more = self._page("anthropic", request, "after_id")
        return {"data": [self._anthropic(job) for job in page], "has_more": more}

    async def anthropic_get(self, request: web.Request, id_: str) -> dict[str, Any]:
        return self._anthropic(self._look("anthropic", id_))

    async def anthropic_cancel(self, request: web.Request, id_: str) -> dict[str, Any]:
        job = self._job("anthropic", id_)
        job.canceled = True
        return {**self._anthropic(job), "processing_status": "canceling"}

    async def anthropic_results(self, request: web.Request, id_: str) -> web.StreamResponse:
        job = self._job("anthropic", id_)
        ran = {line["custom_id"] for line in job.lines}
        ending = "canceled" if job.canceled else "expired"
        rest = [{"custom_id": key, "result": {"type": ending}} for key in job.keys if key not in ran]
        return await self._send(job, job.lines + rest, request)

    def _anthropic(self, job: Job) -> dict[str, Any]:
        rest = len(job.keys) - len(job.lines)
        ok = sum(line["result"]["type"] == "succeeded" for line in job.lines)
        counts = {"succeeded": ok, "errored": len(job.lines) - ok, "processing": 0}
        counts |= {"canceled": rest * job.canceled, "expired": rest * (not job.canceled)}
        waiting = {"succeeded": 0, "errored": 0, "processing": len(job.keys), "canceled": 0, "expired": 0}
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if job.ended else "in_progress",
            "request_counts": counts if job.ended else waiting,
            "created_at": job.created.isoformat(),
            "results_url": f"https://api.anthropic.com/v1/messages/batches/{job.id}/results" if job.ended else None,
        }

    # Google

    async def google_start(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        needed = {"X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start"}
        if any(request.headers.get(name) != value for name, value in needed.items()):
            raise Rejection(400, "An upload begins with X-Goog-Upload-Command: start.")
        size = request.headers["X-Goog-Upload-Header-Content-Length"]
        self._uploads += 1
        host = self.upload_host or request.host
        place = f"http://{host}/google/upload/v1beta/files/{self._uploads}?upload_id=x&size={size}"
        return web.json_response({}, headers={"X-Goog-Upload-URL": place, "X-Goog-Upload-Status": "active"})

    async def google_upload(self, request: web.Request, number: str) -> dict[str, Any]:
        data = await request.read()
        if request.headers.get("X-Goog-Upload-Command") != "upload, finalize" or len(data) != int(
            request.query["size"]
        ):
            raise Rejection(400, "The upload is not whole.")
        self.files[f"files/{number}"] = data
        return {"file": {"name": f"files/{number}", "mimeType": "application/jsonl", "state": "ACTIVE"}}

    async def google_create(self, request: web.Request, model: str) -> dict[str, Any] | web.StreamResponse:
        wanted = mapping((await request.json()).get("batch"))
        config = mapping(wanted.get("input_config") or wanted.get("inputConfig"))
        lines = [json.loads(line) for line in self._file(str(config["file_name"])).splitlines()]
        requests = [(line["key"], line["request"]) for line in lines]
        note = str(wanted.get("display_name") or wanted.get("displayName") or "")
        job = self._take("google", "batches/", requests, request, note, model)
        job.file = str(config["file_name"])
        return self._taken(job, request, self._google(job))

    async def google_list(self, request: web.Request) -> dict[str, Any]:
        page, more = self._page("google", request, "pageToken")
        token = {"nextPageToken": page[-1].id} if more else {}
        return {"operations": [self._google(job) for job in page], **token}

    async def google_get(self, request: web.Request, id_: str) -> dict[str, Any]:
        return self._google(self._look("google", id_))

    async def google_cancel(self, request: web.Request, id_: str) -> dict[str, Any]:
        self._job("google", id_).canceled = True
        return {}

    async def google_download(self, request: web.Request, id_: str) -> web.StreamResponse:
        job = self._job("google", f"batches/{id_}")
        return await self._send(job, job.lines, request)

    def _google(self, job: Job) -> dict[str, Any]:
        rest = len(job.keys) - len(job.lines)
        done = "FAILED" if job.course.fails else "CANCELLED" if job.canceled else "EXPIRED" if rest else "SUCCEEDED"
        failed = sum("error" in line for line in job.lines)
        about: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "displayName": job.note,
            "inputConfig": {"fileName": job.file},
            "state": f"BATCH_STATE_{done if job.ended else 'RUNNING'}",
            "batchStats": {"requestCount": str(len(job.keys))},
        }
        said: dict[str, Any] = {"name": job.id, "metadata": about}
        if not job.ended:
            return said
        if job.course.fails:
            error = {"code": 8 if job.course.full else 3, "message": job.course.fails}
            return {**said, "done": True, "error": error}
        about["batchStats"] |= {
            "successfulRequestCount": str(len(job.lines) - failed),
            "failedRequestCount": str(failed),
        }
        file = {"responsesFile": f"files/of-{job.id.removeprefix('batches/')}"} if job.lines else {}
        return {**said, "done": True, "response": file}

    # All

    def _file(self, id_: object) -> bytes:
        if (data := self.files.get(str(id_))) is None:
            raise Rejection(404, f"No such File object: {id_}")
        return data

    def _take(
        self,
        protocol: str,
        prefix: str,
        requests: list[tuple[str, Mapping[str, object]]],
        request: web.Request,
        note: object = "",
        model: str = "",
    ) -> Job:
        if not 0 < len(requests) <= self.most_requests[protocol] or len(dict(requests)) < len(requests):
            raise Rejection(400, "A batch has requests, not too many, and none with the same id.")
        if self.busy:
            raise Rejection(429, "Too many batches are under way.")
        course = self.courses.popleft() if self.courses else self.usual
        id_ = f"{prefix}{protocol}{len(self.jobs) + 1}"
        job = Job(id_, protocol, str(note), [key for key, _ in requests], course)
        self.jobs.append(job)
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = LIVE.get(protocol, f"/google/v1beta/models/{model}:generateContent")
        run = requests[: len(requests) - course.expired] if not course.fails else []
        for key, body in run:
            job.lines.append(_LINES[protocol](key, *self._reply(protocol, path, headers, body)))
        if course.backwards:
            job.lines.reverse()
        return job

    def _reply(
        self, protocol: str, path: str, headers: Mapping[str, str], body: Mapping[str, object]
    ) -> tuple[int, dict[str, object]]:
        """What the live API would have said to this request."""
        dialect = self._dialects[protocol]
        try:
            heard = dialect.read(path, headers, body, self._keyless)
            reply = self._answer(heard)
            said = reply(heard) if callable(reply) else reply
            if not isinstance(said, Fault):
                return 200, dialect.answer(said if isinstance(said, str) else json.dumps(said), heard)
            if said.kind is Kind.STATUS:
                return said.code, dialect.error(said.code, said.text)
            if said.kind in (Kind.NO_STRUCTURED_OUTPUT, Kind.UNKNOWN_MODEL, Kind.BAD_KEY):
                raise dialect.rejection(said, heard)
            return 200, dialect.answer(said.text, heard, said.kind)
        except Rejection as rejection:
            return rejection.status, dialect.error(rejection.status, rejection.message, rejection.parameter)

    def _taken(self, job: Job, request: web.Request, said: dict[str, Any]) -> dict[str, Any] | web.StreamResponse:
        from aiohttp import web

        if not job.course.unheard:
            return said
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    def _job(self, protocol: str, id_: str) -> Job:
        for job in self.jobs:
            if (job.protocol, job.id) == (protocol, id_) and not job.course.forgotten:
                return job
        raise Rejection(404, f"No batch found with id '{id_}'.")

    def _look(self, protocol: str, id_: str) -> Job:
        job = self._job(protocol, id_)
        job.looked += 1
        return job

    def _page(self, protocol: str, request: web.Request, after: str) -> tuple[list[Job], bool]:
        """Newest first, two on a page, so that who reads only the first is found out."""
        jobs = [job for job in reversed(self.jobs) if job.protocol == protocol and not job.course.forgotten]
        ids = [job.id for job in jobs]
        start = ids.index(request.query[after]) + 1 if after in request.query else 0
        return jobs[start : start + 2], len(jobs) > start + 2

    async def _send(self, job: Job, lines: list[dict[str, Any]], request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if not job.ended:
            raise Rejection(404, "The batch has no results yet.")
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
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
        if request.transport is not None:
            request.transport.close()
        return response


def _openai_errors(course: Course) -> dict[str, Any]:
    code = "token_limit_exceeded" if course.full else "invalid_request"
    return {"object": "list", "data": [{"code": code, "message": course.fails, "param": None, "line": None}]}


def _openai_line(key: str, status: int, body: dict[str, object]) -> dict[str, Any]:
    response = {"status_code": status, "request_id": "req_123", "body": body}
    return {"id": f"batch_req_{key[:8]}", "custom_id": key, "response": response, "error": None}


def _anthropic_line(key: str, status: int, body: dict[str, object]) -> dict[str, Any]:
    result = {"type": "succeeded", "message": body} if status < 400 else {"type": "errored", "error": body}
    return {"custom_id": key, "result": result}


def _google_line(key: str, status: int, body: dict[str, object]) -> dict[str, Any]:
    if status < 400:
        return {"key": key, "response": body}
    return {"key": key, "error": {"code": _RPC.get(status, 2), "message": mapping(body["error"])["message"]}}


_LINES: Mapping[str, Callable[[str, int, dict[str, object]], dict[str, Any]]] = {
    "openai": _openai_line,
    "anthropic": _anthropic_line,
    "google": _google_line,
}
_ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("DELETE", "/openai/v1/files/([^/]+)", BatchCounter.delete_file),
    ("DELETE", "/google/v1beta/(files/[^/]+)", BatchCounter.delete_file),
    ("POST", "/openai/v1/files", BatchCounter.openai_upload),
    ("POST", "/openai/v1/batches", BatchCounter.openai_create),
    ("GET", "/openai/v1/batches", BatchCounter.openai_list),
    ("GET", "/openai/v1/batches/([^/]+)", BatchCounter.openai_get),
    ("POST", "/openai/v1/batches/([^/]+)/cancel", BatchCounter.openai_cancel),
    ("GET", "/openai/v1/files/([^/]+)/content", BatchCounter.openai_content),
    ("POST", BATCHES, BatchCounter.anthropic_create),
    ("GET", BATCHES, BatchCounter.anthropic_list),
    ("GET", f"{BATCHES}/([^/]+)", BatchCounter.anthropic_get),
    ("POST", f"{BATCHES}/([^/]+)/cancel", BatchCounter.anthropic_cancel),
    ("GET", f"{BATCHES}/([^/]+)/results", BatchCounter.anthropic_results),
    ("POST", "/google/upload/v1beta/files", BatchCounter.google_start),
    ("POST", "/google/upload/v1beta/files/([0-9]+)", BatchCounter.google_upload),
    ("POST", "/google/v1beta/models/([^/:]+):batchGenerateContent", BatchCounter.google_create),
    ("GET", "/google/v1beta/batches", BatchCounter.google_list),
    ("GET", "/google/v1beta/(batches/[^/:]+)", BatchCounter.google_get),
    ("POST", "/google/v1beta/(batches/[^/:]+):cancel", BatchCounter.google_cancel),
    ("GET", "/google/download/v1beta/files/of-([^/:]+):download", BatchCounter.google_download),
)
