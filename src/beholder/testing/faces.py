"""What differs between the providers' batch APIs, from the server's side: paths, words, and how a result is written.

OpenAI: https://developers.openai.com/api/docs/guides/batch and …/api-reference/batch
Anthropic: https://platform.claude.com/docs/en/build-with-claude/batch-processing and …/api/messages/batches
Google: https://ai.google.dev/gemini-api/docs/batch-api, https://ai.google.dev/api/batch-api and …/api/files
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from beholder.testing.dialects import Rejection, mapping, objects

STATES = {"in_progress": "RUNNING", "completed": "SUCCEEDED"}  # Google's, where it has another word
RPC = {400: 3, 401: 16, 403: 7, 404: 5, 429: 8, 500: 13, 503: 14, 504: 4}

Line = dict[str, Any]
Order = tuple[list[tuple[str, Mapping[str, object]]], str, str]  # requests by key, their note, the file they were in
Files = Callable[[object], bytes]  # by their ids; raises `Rejection`


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
    file: str = ""
    lines: list[Line] = field(default_factory=list)
    looked: int = 0
    cuts: int = 0
    canceled: bool = False
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def ended(self) -> bool:
        return self.canceled or self.looked > self.course.looks

    @property
    def state(self) -> str:
        """In OpenAI's words."""
        unrun = "cancelled" if self.canceled else "expired" if len(self.lines) < len(self.keys) else "completed"
        return "in_progress" if not self.ended else "failed" if self.course.fails else unrun


class Face(ABC):
    """A provider's batch API. `routes` are its calls, each under the method of `BatchCounter` that answers it; `after`
    is the parameter by which a list goes on; `key` and `needed` are headers of every call; a request by itself would
    be sent to `live`; `listing` stands in every list, and `canceling` in a job that was just cancelled, if it is shown
    at all. The results of a job have a name that ends with its id, after `of-` if anything is before it."""

    name: str
    prefix: str
    most_requests: int
    after: str
    key: str
    needed: str = ""
    live: str
    routes: Sequence[tuple[str, str]]
    listing: Sequence[tuple[str, str]] = ()
    canceling: Sequence[tuple[str, str]] = ()

    @abstractmethod
    def order(self, wanted: Mapping[str, Any], files: Files) -> Order:
        """What the body that makes a job asks for."""

    @abstractmethod
    def line(self, key: str, status: int, body: Mapping[str, object]) -> Line:
        """A result: what the live API says to the request of that key."""

    @abstractmethod
    def failed(self, line: Line) -> bool: ...

    @abstractmethod
    def about(self, job: Job) -> Line:
        """A job as it is shown."""

    def listed(self, page: Sequence[Job], more: bool) -> Line:
        return {**dict(self.listing), "data": [self.about(job) for job in page], "has_more": more}

    def cancelled(self, job: Job) -> Line:
        return {**self.about(job), **dict(self.canceling)} if self.canceling else {}

    def results(self, job: Job, name: str) -> list[Line]:
        return job.lines

    async def uploaded(self, request: web.Request, number: str) -> tuple[str, bytes, Line]:
        """The id of a file, its bytes, and what is said to it."""
        raise Rejection(404, "No files are taken here: the requests stand in the body that makes a job.")


class OpenAIFace(Face):
    name, prefix, most_requests = "openai", "batch_", 50_000
    after, key, live = "after", "authorization", "/openai/v1/chat/completions"
    listing, canceling = (("object", "list"),), (("status", "cancelling"),)
    routes = (
        ("upload", "POST /openai/v1/files"),
        ("delete_file", "DELETE /openai/v1/files/([^/]+)"),
        ("create", "POST /openai/v1/batches"),
        ("list_jobs", "GET /openai/v1/batches"),
        ("look", "GET /openai/v1/batches/([^/]+)"),
        ("cancel", "POST /openai/v1/batches/([^/]+)/cancel"),
        ("results", "GET /openai/v1/files/([^/]+)/content"),
    )

    def order(self, wanted: Mapping[str, Any], files: Files) -> Order:
        if wanted.get("endpoint") != "/v1/chat/completions" or wanted.get("completion_window") != "24h":
            raise Rejection(400, "Invalid value: 'endpoint' or 'completion_window'.")
        data = files(wanted.get("input_file_id"))
        if len(data) > 200_000_000:
            raise Rejection(400, "The file is larger than 200 MB.")
        lines = [json.loads(line) for line in data.splitlines()]
        if any((line["method"], line["url"]) != ("POST", "/v1/chat/completions") for line in lines):
            raise Rejection(400, "The 'url' of a line is not the endpoint of the batch.")
        if len({line["body"]["model"] for line in lines}) > 1:
            raise Rejection(400, "All requests of a batch must be of one model.")
        note = str(mapping(wanted.get("metadata")).get("beholder", ""))
        return [(line["custom_id"], line["body"]) for line in lines], note, wanted["input_file_id"]

    def line(self, key: str, status: int, body: Mapping[str, object]) -> Line:
        response = {"status_code": status, "request_id": "req_123", "body": body}
        return {"id": f"batch_req_{key[:8]}", "custom_id": key, "response": response, "error": None}

    def failed(self, line: Line) -> bool:
        return line["response"] is None or line["response"]["status_code"] >= 400

    def about(self, job: Job) -> Line:
        bad = sum(map(self.failed, job.lines))
        good = len(job.lines) - bad
        files = job.ended and not job.course.fails
        code = "token_limit_exceeded" if job.course.full else "invalid_request"
        error = {"code": code, "message": job.course.fails, "param": None, "line": None}
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": {"object": "list", "data": [error]} if job.state == "failed" else None,
            "input_file_id": job.file,
            "completion_window": "24h",
            "status": job.state,
            "output_file_id": f"output-of-{job.id}" if files and good else None,
            "error_file_id": f"errors-of-{job.id}" if files and bad else None,
            "created_at": int(job.created.timestamp()),
            "request_counts": {"total": len(job.keys), "completed": good * job.ended, "failed": bad * job.ended},
            "metadata": {"beholder": job.note},
        }

    def results(self, job: Job, name: str) -> list[Line]:
        return [line for line in job.lines if self.failed(line) is name.startswith("errors-")]

    async def uploaded(self, request: web.Request, number: str) -> tuple[str, bytes, Line]:
        form = await request.post()
        file = form.get("file")
        if form.get("purpose") != "batch" or file is None or isinstance(file, str | bytes | bytearray):
            raise Rejection(400, "'purpose' and 'file' are required")
        id_, data = f"file-{number}", file.file.read()
        return id_, data, {"id": id_, "object": "file", "bytes": len(data), "purpose": "batch"}


class AnthropicFace(Face):
    name, prefix, most_requests = "anthropic", "msgbatch_", 100_000
    after, key, needed, live = "after_id", "x-api-key", "anthropic-version", "/anthropic/v1/messages"
    canceling = (("processing_status", "canceling"),)
    routes = (
        ("create", "POST /anthropic/v1/messages/batches"),
        ("list_jobs", "GET /anthropic/v1/messages/batches"),
        ("look", "GET /anthropic/v1/messages/batches/([^/]+)"),
        ("cancel", "POST /anthropic/v1/messages/batches/([^/]+)/cancel"),
        ("results", "GET /anthropic/v1/messages/batches/([^/]+)/results"),
    )

    def order(self, wanted: Mapping[str, Any], files: Files) -> Order:
        requests = [(str(one["custom_id"]), mapping(one["params"])) for one in objects(wanted.get("requests"))]
        if wrong := [key for key, _ in requests if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", key)]:
            raise Rejection(400, f"requests.custom_id: {wrong[0]!r} should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        return requests, "", ""

    def line(self, key: str, status: int, body: Mapping[str, object]) -> Line:
        result = {"type": "succeeded", "message": body} if status < 400 else {"type": "errored", "error": body}
        return {"custom_id": key, "result": result}

    def failed(self, line: Line) -> bool:
        return bool(line["result"]["type"] != "succeeded")

    def about(self, job: Job) -> Line:
        bad, rest = sum(map(self.failed, job.lines)), len(job.keys) - len(job.lines)
        counts = {"processing": 0, "succeeded": len(job.lines) - bad, "errored": bad}
        counts |= {"canceled": rest * job.canceled, "expired": rest * (not job.canceled)}
        waiting = {**dict.fromkeys(counts, 0), "processing": len(job.keys)}
        return {
            "id": job.id,
            "type": "message_batch",
            "processing_status": "ended" if job.ended else "in_progress",
            "request_counts": counts if job.ended else waiting,
            "created_at": job.created.isoformat(),
            "results_url": f"https://api.anthropic.com/v1/messages/batches/{job.id}/results" if job.ended else None,
        }

    def results(self, job: Job, name: str) -> list[Line]:
        ran = {line["custom_id"] for line in job.lines}
        ending = {"type": "canceled" if job.canceled else "expired"}
        return job.lines + [{"custom_id": key, "result": ending} for key in job.keys if key not in ran]


class GoogleFace(Face):
    name, prefix, most_requests = "google", "batches/", 1_000_000
    after, key, live = "pageToken", "x-goog-api-key", "/google/v1beta/models/{model}:generateContent"
    routes = (
        ("begin_upload", "POST /google/upload/v1beta/files"),
        ("upload", "POST /google/upload/v1beta/files/([0-9]+)"),
        ("delete_file", "DELETE /google/v1beta/(files/[^/]+)"),
        ("create", "POST /google/v1beta/models/([^/:]+):batchGenerateContent"),
        ("list_jobs", "GET /google/v1beta/batches"),
        ("look", "GET /google/v1beta/(batches/[^/:]+)"),
        ("cancel", "POST /google/v1beta/(batches/[^/:]+):cancel"),
        ("results", "GET /google/download/v1beta/files/(of-[^/:]+):download"),
    )

    def order(self, wanted: Mapping[str, Any], files: Files) -> Order:
        batch = mapping(wanted.get("batch"))
        file = str(mapping(batch.get("input_config") or batch.get("inputConfig"))["file_name"])
        lines = [json.loads(line) for line in files(file).splitlines()]
        note = str(batch.get("display_name") or batch.get("displayName") or "")
        return [(line["key"], line["request"]) for line in lines], note, file

    def line(self, key: str, status: int, body: Mapping[str, object]) -> Line:
        if status < 400:
            return {"key": key, "response": body}
        return {"key": key, "error": {"code": RPC.get(status, 2), "message": mapping(body["error"])["message"]}}

    def failed(self, line: Line) -> bool:
        return "error" in line

    def about(self, job: Job) -> Line:
        bad = sum(map(self.failed, job.lines))
        stats = {"requestCount": str(len(job.keys))}
        if job.ended and not job.course.fails:
            stats |= {"successfulRequestCount": str(len(job.lines) - bad), "failedRequestCount": str(bad)}
        about = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "displayName": job.note,
            "inputConfig": {"fileName": job.file},
            "state": f"BATCH_STATE_{STATES.get(job.state, job.state.upper())}",
            "batchStats": stats,
        }
        if not job.ended:
            return {"name": job.id, "metadata": about}
        file = {"responsesFile": f"files/of-{job.id.removeprefix(self.prefix)}"} if job.lines else {}
        error = {"code": 8 if job.course.full else 3, "message": job.course.fails}
        result = {"error": error} if job.course.fails else {"response": file}
        return {"name": job.id, "metadata": about, "done": True, **result}

    def listed(self, page: Sequence[Job], more: bool) -> Line:
        token = {"nextPageToken": page[-1].id} if more else {}
        return {"operations": [self.about(job) for job in page], **token}

    async def uploaded(self, request: web.Request, number: str) -> tuple[str, bytes, Line]:
        data, name = await request.read(), f"files/{number}"
        whole = len(data) == int(request.query["size"])
        if request.headers.get("X-Goog-Upload-Command") != "upload, finalize" or not whole:
            raise Rejection(400, "The upload is not whole.")
        return name, data, {"file": {"name": name, "mimeType": "application/jsonl", "state": "ACTIVE"}}


FACES: Mapping[str, Face] = {face.name: face for face in (OpenAIFace(), AnthropicFace(), GoogleFace())}
