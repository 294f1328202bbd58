"""The providers' batch APIs, from the server's side: what they have in common. How the next jobs go is said by a
`Course`; what tells one provider from the others stands in `faces`."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping

from aiohttp import web

from beholder.testing.dialects import Dialect, Rejection, hang_up, headers_of
from beholder.testing.faces import FACES, Course, Face, Job, Line, Order
from beholder.testing.replies import Fault, Kind, Received, Reply


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
        self.most_requests = {name: face.most_requests for name, face in FACES.items()}
        self.files: dict[str, bytes] = {}
        self._uploads = 0
        self._answer, self._dialects, self._keyless = answer, dialects, keyless

    async def handle(self, request: web.Request) -> web.StreamResponse | None:
        """The answer, if it is a call of a batch API."""
        face = FACES.get(request.path.split("/")[1])
        for name, route in face.routes if face else ():
            match = re.fullmatch(route, f"{request.method} {request.path}")
            if face is None or match is None:
                continue
            try:
                self._check(face, request)
                said = await getattr(self, name)(face, request, *match.groups())
            except Rejection as rejection:
                error = self._dialects[face.name].error(rejection.status, rejection.message)
                return web.json_response(error, status=rejection.status)
            return said if isinstance(said, web.StreamResponse) else web.json_response(said)
        return None

    async def begin_upload(self, face: Face, request: web.Request) -> web.StreamResponse:
        needed = {"X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start"}
        if any(request.headers.get(name) != value for name, value in needed.items()):
            raise Rejection(400, "An upload begins with X-Goog-Upload-Command: start.")
        self._uploads += 1
        size, host = request.headers["X-Goog-Upload-Header-Content-Length"], self.upload_host or request.host
        place = f"http://{host}{request.path}/{self._uploads}?upload_id=x&size={size}"
        return web.json_response({}, headers={"X-Goog-Upload-URL": place, "X-Goog-Upload-Status": "active"})

    async def upload(self, face: Face, request: web.Request, number: str = "") -> Line:
        self._uploads += not number
        id_, data, said = await face.uploaded(request, number or str(self._uploads))
        self.files[id_] = data
        return said

    async def delete_file(self, face: Face, request: web.Request, id_: str) -> Line:
        self._file(id_)
        del self.files[id_]
        return {"id": id_, "object": "file", "deleted": True}

    async def create(self, face: Face, request: web.Request, model: str = "") -> Line | web.StreamResponse:
        job = self._take(face, face.order(await request.json(), self._file), request, model)
        if not job.course.unheard:
            return face.about(job)
        hang_up(request)
        return web.Response()

    async def list_jobs(self, face: Face, request: web.Request) -> Line:
        """Newest first, two on a page, so that who reads only the first is found out."""
        jobs = [job for job in reversed(self.jobs) if job.protocol == face.name and not job.course.forgotten]
        ids = [job.id for job in jobs]
        start = ids.index(request.query[face.after]) + 1 if face.after in request.query else 0
        return face.listed(jobs[start : start + 2], len(jobs) > start + 2)

    async def look(self, face: Face, request: web.Request, id_: str) -> Line:
        job = self._job(face, id_)
        job.looked += 1
        return face.about(job)

    async def cancel(self, face: Face, request: web.Request, id_: str) -> Line:
        job = self._job(face, id_)
        job.canceled = True
        return face.cancelled(job)

    async def results(self, face: Face, request: web.Request, name: str) -> web.StreamResponse:
        id_ = name.rpartition("of-")[2]
        job = self._job(face, id_ if id_.startswith(face.prefix) else face.prefix + id_)
        if not job.ended:
            raise Rejection(404, "The batch has no results yet.")
        body = "".join(json.dumps(line) + "\n" for line in face.results(job, name)).encode()
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
        hang_up(request)
        return response

    def _check(self, face: Face, request: web.Request) -> None:
        if self.refuse is not None:
            if self.refuse.kind is Kind.STATUS:
                raise Rejection(self.refuse.code, self.refuse.text)
            heard = Received(face.name, request.path, headers_of(request), {}, "", (), (), None, "")
            raise self._dialects[face.name].rejection(self.refuse, heard)
        if not self._keyless and not request.headers.get(face.key):
            raise Rejection(401, "No API key was provided.")
        if face.needed and not request.headers.get(face.needed):
            raise Rejection(400, f"{face.needed}: header is required")

    def _file(self, id_: object) -> bytes:
        if (data := self.files.get(str(id_))) is None:
            raise Rejection(404, f"No such File object: {id_}")
        return data

    def _job(self, face: Face, id_: str) -> Job:
        for job in self.jobs:
            if (job.protocol, job.id) == (face.name, id_) and not job.course.forgotten:
                return job
        raise Rejection(404, f"No batch found with id '{id_}'.")

    def _take(self, face: Face, order: Order, request: web.Request, model: str) -> Job:
        requests, note, file = order
        keys = [key for key, _ in requests]
        if not 0 < len(keys) <= self.most_requests[face.name] or len(set(keys)) < len(keys):
            raise Rejection(400, "A batch has requests, not too many, and none with the same id.")
        if self.busy:
            raise Rejection(429, "Too many batches are under way.")
        course = self.courses.popleft() if self.courses else self.usual
        id_ = f"{face.prefix}{face.name}{len(self.jobs) + 1}"
        job = Job(id_, face.name, note, keys, course, file)
        self.jobs.append(job)
        path, headers = face.live.format(model=model), headers_of(request)
        for key, body in requests[: len(keys) - course.expired] if not course.fails else ():
            job.lines.append(face.line(key, *self._reply(self._dialects[face.name], path, headers, body)))
        if course.backwards:
            job.lines.reverse()
        return job

    def _reply(
        self, dialect: Dialect, path: str, headers: Mapping[str, str], body: Mapping[str, object]
    ) -> tuple[int, dict[str, object]]:
        """What the live API would have said to this request."""
        try:
            heard = dialect.read(path, headers, body, self._keyless)
            reply = self._answer(heard)
            return dialect.reply(reply(heard) if callable(reply) else reply, heard)
        except Rejection as rejection:
            return rejection.status, dialect.error(rejection.status, rejection.message, rejection.parameter)
