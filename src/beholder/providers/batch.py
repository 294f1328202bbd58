"""Batch APIs: many requests submitted as one job, answered within a day, at half the price.

`BatchApi` is one provider's batch API (each provider module makes one), `BatchClient` the HTTP client that it uses.
A job holds what a live call would send (`ModelJudge.build_request`), byte for byte, and its replies are read as live
ones are (`ModelJudge.parse_answer`), so that cache keys and checks are the same both ways.

Why not pydantic-ai's `Model.batch_*` (2.66)? For OpenAI they support the Responses API only, they encode from their own
message model (body and cache key of a batch would differ from a live request), they keep a whole job and all its
results in memory (200 MB of images several times over), and they leave nothing at the provider by which a job can be
found again after a crash between submitting it and recording it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import msgspec

from beholder.errors import SetupError
from beholder.providers.base import EMPTY_BRIEF, HttpRequest, HttpResponse, JudgeSettings
from beholder.providers.http import MAX_REPLY_BYTES, HttpClient
from beholder.providers.payload import MalformedReplyError, as_mapping, as_text, parse_object
from beholder.providers.retry import FilteredRequestError, PermanentError, Retrier, RetryableError
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import BatchStage

if TYPE_CHECKING:
    import aiohttp


# A job file lies on the disk until it is submitted, so ours are never larger, whatever a provider allows.
MAX_BATCH_BYTES = 200_000_000
UNCONFIRMED = "unsure"  # key in the handle of a job that was found again only by its size and time
MAX_PAGES = 1000  # of a list of jobs, so that one whose pages never end is not read for ever
MAX_BLANK_LINES = 10_000  # in a file of results, for the same reason
NOT_FOUND_STATUSES = frozenset({404, 405, 410})
# Asking again would be paid again, for a reply that may be no better.
UNREADABLE_RESULT = b'{"error": {"message": "the line of the results that has the reply cannot be read"}}'
_JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")
P = ParamSpec("P")

BatchHandle = Mapping[str, str]
"""What a provider needs to find a job again; stored as JSON."""


class BatchState(StrEnum):
    """State of a job at the provider."""

    IN_PROGRESS = "in_progress"
    CANCELING = "canceling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Progress of a job.

    Attributes:
        state: state of the whole job.
        answered: number of requests with a reply.
        failed: number of requests with an error.
        unfinished_stage: what became of all other requests once the job has ended.
        reason: why the job failed, in the provider's words; may be empty.
        queue_full: the provider had no capacity for the job; submitting it again later can help.
    """

    state: BatchState
    answered: int = 0
    failed: int = 0
    unfinished_stage: BatchStage = BatchStage.EXPIRED
    reason: str = ""
    queue_full: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of one request. `body` is the provider's reply or error as a live call would return it.

    A result that cannot be read is an error; its `key` is empty where even that cannot be read.
    """

    key: str
    stage: BatchStage
    status: int = 200
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class UnconfirmedBatch:
    """A job of which nobody knows whether the provider accepted it.

    Attributes:
        note: the note that the job would carry.
        since: when submitting began.
        count: number of its requests.
        others: ids of jobs that it cannot be.
    """

    note: str
    since: datetime
    count: int
    others: Collection[str] = ()


class IncompleteResultsError(RetryableError):
    """The results ended early: some are missing."""


class BatchNotFoundError(Exception):
    """The provider does not know the job, or no longer has its results. Never leaves `judges` and `runs`."""


def handle_from_reply(reply: Mapping[str, object], key: str) -> BatchHandle:
    """Return the handle of a job that was just created; its id is at `key` of the provider's reply."""
    id_ = reply.get(key)
    if not isinstance(id_, str) or not id_:
        raise RetryableError("A job was taken, and its reply says not under which name.")
    return {"id": id_}


class BatchCaller(Protocol):
    """The judge for which a `BatchClient` makes its calls; `ModelJudge` is one."""

    model: str
    base_url: str

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> JudgeSettings: ...

    def build_request(self, brief: Brief, structured: bool) -> HttpRequest: ...

    def error_for(self, response: HttpResponse, structured: bool) -> Exception: ...


class _BatchCallOptions(TypedDict, total=False):
    """Options of one call. With `large_file` only silence counts as a timeout, not the whole duration."""

    data: object
    headers: Mapping[str, str]
    large_file: bool


class BatchClient(HttpClient):
    """HTTP client for the batch API of one judge, with the judge's key.

    All calls raise `SetupError` where the API cannot be used at all (a wrong key, no batch API), `Unreachable` where
    it could not be reached this time, `PermanentError` for what is refused for good, and `BatchNotFoundError` for what
    does not exist.
    """

    def __init__(self, judge: BatchCaller) -> None:
        settings = judge.settings
        super().__init__(judge.base_url, timeout_s=settings.timeout_s, connect_timeout_s=settings.connect_timeout_s)
        self.model = judge.model
        self._judge = judge
        # The headers of a live request (key, API version) are those of every call.
        headers = judge.build_request(EMPTY_BRIEF, False).headers
        self._headers = {name: value for name, value in headers.items() if name != "Content-Type"}

    @contextmanager
    def require_batch_api(self, suffix: str = "") -> Iterator[None]:
        """Turn "not found" into a `SetupError` while a job is created: the server has no batch API.

        Args:
            suffix: for the message, such as " for 'gemini-2.5-pro'", where a model may lack a batch API.
        """
        try:
            yield
        except BatchNotFoundError as error:
            sentence = f"there is no batch API{suffix} at {self.base_url}; run it without (--batch or batch=True)."
            raise SetupError(f"{error}: {sentence}") from None

    async def get(self, path: str) -> Mapping[str, object]:
        return await self._with_retries(self._call_json, "GET", path)

    async def post_json(self, path: str, body: object) -> Mapping[str, object]:
        """POST JSON without retries: a call that creates a job may have done so although it seemed to fail."""
        headers = {"Content-Type": "application/json"}
        return await self._call_json("POST", path, data=msgspec.json.encode(body), headers=headers)

    async def create_batch(self, path: str, body: object, file_path: str) -> Mapping[str, object]:
        """Create a job from the uploaded file at `file_path`; delete the file if the job is refused."""
        try:
            return await self.post_json(path, body)
        except (RetryableError, PermanentError, SetupError, BatchNotFoundError) as error:
            if not isinstance(error, RetryableError) or error.rate_limited:  # else there may be a job that needs it
                await self.delete(file_path)
            raise

    async def delete(self, path: str) -> None:
        """Delete a file, in one attempt: a file that stays does no harm, and the provider deletes it some day."""
        with suppress(RetryableError, PermanentError, SetupError, BatchNotFoundError):
            await self._send("DELETE", path)

    async def post_file(self, path: str, file: Path, headers: Mapping[str, str]) -> Mapping[str, object]:
        """POST a file as the body, without retries, as `post_json`."""
        with file.open("rb") as data:
            return await self._call_json("POST", path, data=data, headers=headers, large_file=True)

    async def upload(self, path: str, file: Path, fields: Mapping[str, str]) -> Mapping[str, object]:
        """Upload a file as multipart form data; retried, since a file alone costs nothing."""
        return await self._with_retries(self._upload_once, path, file, fields)

    async def _upload_once(self, path: str, file: Path, fields: Mapping[str, str]) -> Mapping[str, object]:
        import aiohttp

        with file.open("rb") as data:
            form = aiohttp.FormData()
            for name, value in fields.items():
                form.add_field(name, value)
            form.add_field("file", data, filename="beholder.jsonl", content_type="application/jsonl")
            return await self._call_json("POST", path, data=form, large_file=True)

    async def upload_resumable(self, path: str, file: Path, metadata: object, media_type: str) -> Mapping[str, object]:
        """Upload a file by Google's resumable protocol; retried, since a file alone costs nothing."""
        return await self._with_retries(self._upload_resumable_once, path, file, metadata, media_type)

    async def _upload_resumable_once(
        self, path: str, file: Path, metadata: object, media_type: str
    ) -> Mapping[str, object]:
        """Announce the file, then send its bytes to the address that comes in return."""
        start = {
            "Content-Type": "application/json",
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(file.stat().st_size),
            "X-Goog-Upload-Header-Content-Type": media_type,
        }
        started = await self._send("POST", path, data=msgspec.json.encode(metadata), headers=start)
        upload_url = started.headers.get("x-goog-upload-url", "")
        try:
            same_server = urlsplit(upload_url)[:2] == urlsplit(self.base_url)[:2]  # scheme, host and port
            host = urlsplit(upload_url).hostname or "nowhere"
        except ValueError:
            same_server, host = False, "nowhere"
        if not same_server:
            raise SetupError(f"{self.base_url} sends files to {host}; only the judge that was named gets any.")
        with file.open("rb") as data:
            headers = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
            return await self._call_json("POST", upload_url, data=data, headers=headers, large_file=True)

    async def results(self, path: str, key: str, parse: Callable[[bytes], BatchResult]) -> AsyncIterator[BatchResult]:
        """Iterate over the results in a JSONL file as it arrives.

        Args:
            path: where the file is.
            key: name of the field of a line that holds the key of the request.
            parse: makes a result of a line; a line that it cannot decode becomes an error result.

        Raises:
            RetryableError: the download broke off, or what comes are no results; those before it are whole.
        """
        async for line in self._lines(path):
            try:
                result = parse(line)
            except _JSON_ERRORS:
                result = BatchResult(_find_key(line, key), BatchStage.ERRORED, 400, UNREADABLE_RESULT)
            yield result

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        last, blank_lines = b"", 0
        with self.translate_errors():
            async with self._request("GET", path, large_file=True) as response:
                if response.status != 200:
                    raise self._error_for(await self._response(response))
                async for chunk in response.content.iter_any():
                    *whole, last = (last + chunk).split(b"\n")
                    for line in filter(None, whole):
                        yield line
                    blank_lines += whole.count(b"")
                    if len(last) > MAX_REPLY_BYTES or blank_lines > MAX_BLANK_LINES:
                        size = f"a line of more than {MAX_REPLY_BYTES // 2**20} MB or {MAX_BLANK_LINES} blank ones"
                        raise IncompleteResultsError(f"{self._host} sent {size} in place of results.")
        # A last line without a line break is whole if it is JSON.
        if last.strip():
            try:
                msgspec.json.decode(last)
            except _JSON_ERRORS:
                raise IncompleteResultsError(f"{self._host} sent results that break off in the middle.") from None
            yield last

    async def _with_retries(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        settings = self._judge.settings
        retrier = Retrier(settings.retries, settings.sleep, settings.random)
        return await retrier.call(call, *args, **kwargs)

    async def _call_json(self, method: str, path: str, **options: Unpack[_BatchCallOptions]) -> Mapping[str, object]:
        response = await self._send(method, path, **options)
        try:
            return parse_object(response.body)
        except MalformedReplyError:
            raise RetryableError(f"{self._host} sent a reply that is no JSON object.") from None

    async def _send(self, method: str, path: str, **options: Unpack[_BatchCallOptions]) -> HttpResponse:
        with self.translate_errors():
            async with self._request(method, path, **options) as response:
                received = await self._response(response)
        if not 200 <= received.status < 300:
            raise self._error_for(received)
        return received

    def _request(
        self, method: str, path: str, **options: Unpack[_BatchCallOptions]
    ) -> aiohttp.client._RequestContextManager:
        import aiohttp
        from yarl import URL

        total = None if options.get("large_file") else self._timeout_s
        return self.session.request(
            method,
            URL(path if path.startswith("http") else f"{self.base_url}{path}", encoded=True),
            data=options.get("data"),
            headers={**self._headers, **options.get("headers", {})},
            proxy=self.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=total, sock_connect=self._connect_timeout_s, sock_read=None if total else self._timeout_s
            ),
        )

    async def _response(self, response: aiohttp.ClientResponse) -> HttpResponse:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status, headers, await self._read_body(response))

    def _error_for(self, response: HttpResponse) -> Exception:
        if response.status in NOT_FOUND_STATUSES:
            return BatchNotFoundError(f"{self._judge.name} answered {response.status}")
        error = self._judge.error_for(response, False)
        if isinstance(error, FilteredRequestError):
            return PermanentError(
                f"{self._judge.name} refused a job by its content filter: {str(error) or response.status}."
            )
        return error


def _find_key(line: bytes, name: str) -> str:
    try:
        return as_text(as_mapping(msgspec.json.decode(line)).get(name))
    except _JSON_ERRORS:
        return ""


@dataclass(frozen=True, slots=True)
class BatchApi:
    """A provider's batch API.

    All functions but `submit` raise `BatchNotFoundError` where the provider does not know the job (any more).

    Attributes:
        max_requests: most requests in a job.
        frame: returns, for the key of a request, the bytes before and after its body in a job file.
        submit: submits a job file under a note. Raises a `RetryableError` that is not `rate_limited` where nobody can
            tell whether the job was accepted; then `find` can.
        find: looks for a job that may have been submitted.
        get_status: returns the progress of a job.
        results: iterates over results in any order; where they break off, those before are whole, and `RetryableError`
            is raised.
        cancel: asks the provider to cancel a job.
        delete_files: deletes what was uploaded for a job that is finished.
        prefix: first bytes of a job file.
        separator: bytes between two requests.
        suffix: last bytes of a job file.
    """

    max_requests: int
    frame: Callable[[str], tuple[bytes, bytes]]
    submit: Callable[[BatchClient, Path, str], Awaitable[BatchHandle]]
    find: Callable[[BatchClient, UnconfirmedBatch], Awaitable[BatchHandle | None]]
    get_status: Callable[[BatchClient, BatchHandle], Awaitable[BatchStatus]]
    results: Callable[[BatchClient, BatchHandle], AsyncGenerator[BatchResult, None]]
    cancel: Callable[[BatchClient, BatchHandle], Awaitable[None]]
    delete_files: Callable[[BatchClient, BatchHandle], Awaitable[None]]
    prefix: bytes = b""
    separator: bytes = b"\n"
    suffix: bytes = b"\n"
