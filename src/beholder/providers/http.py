"""The one place where a wire's request goes out: aiohttp, with the environment's proxy and certificates.

Where the jobs of one judge are handed in: plain calls by the rules of `wires.transport`, and files both ways.
"""

from __future__ import annotations

import os
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from beholder.errors import SetupError
from beholder.providers.base import (
    BatchHandle,
    BatchNotFoundError,
    BatchResult,
    BatchStatus,
    HttpRequest,
    IncompleteResultsError,
    UnconfirmedBatch,
)
from beholder.providers.payload import MalformedReplyError, RequestBody, as_mapping, as_text, parse_object
from beholder.providers.retry import FilteredRequestError, PermanentError, Retrier, RetryableError
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import BatchStage

if TYPE_CHECKING:
    import aiohttp

    from beholder.judges.model import ModelJudge


MAX_REPLY_BYTES = 16 * 1024 * 1024
# A wrong base URL stays wrong; a server that is just starting comes up within a few tries.
CONNECT_RETRIES = 2


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class HttpClient:
    """POSTs requests to one server. Belongs to the event loop that first uses it; makes its session then."""

    def __init__(self, base_url: str, *, timeout_s: float, connect_timeout_s: float) -> None:
        self.base_url = base_url
        self._host = urlsplit(base_url).netloc
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self.proxy = find_proxy(base_url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, request: HttpRequest) -> HttpResponse:
        """The server's response, whatever its status. Redirects are not followed: they could carry the key away.

        Raises `Again` for a connection that failed and `Never` for one that cannot be trusted.
        """
        from yarl import URL

        with self.told():
            async with self.session.post(
                URL(request.url, encoded=True),
                data=_stream_body(request.body),
                headers={**request.headers, "Content-Length": str(len(request.body))},
                proxy=self.proxy,
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpResponse(response.status, headers, _decompress(await self._body(response), headers))

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self._open()
        return self._session

    @contextmanager
    def told(self) -> Iterator[None]:
        """What goes wrong with a connection, as `Again` or `Never`."""
        import aiohttp

        try:
            yield
        except aiohttp.ConnectionTimeoutError:
            raise RetryableError(
                f"No connection to {self.base_url} within {self._connect_timeout_s:g} s; {self._advice()}.",
                retries=CONNECT_RETRIES,
            ) from None
        except TimeoutError:
            raise RetryableError(f"{self._host} did not answer within {self._timeout_s:g} s.") from None
        except aiohttp.ClientSSLError as error:
            reason = getattr(error.os_error, "verify_message", "") or getattr(error.os_error, "reason", "")
            raise PermanentError(
                f"{self._host} is not trusted ({reason}); if its certificate is your own, set SSL_CERT_FILE to it.",
                of_server=True,
            ) from None
        except aiohttp.ClientHttpProxyError as error:
            said = f"The proxy answered {error.status} for {self._host}; check HTTPS_PROXY."
            raise PermanentError(said, of_server=True) from None
        except aiohttp.ClientConnectorError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else "no such host"
            raise RetryableError(
                f"Cannot connect to {self.base_url} ({reason}); {self._advice()}.", retries=CONNECT_RETRIES
            ) from None
        except ValueError:  # the base URL was checked, so it is a proxy whose name can be no name
            raise PermanentError(f"{self.base_url} cannot be asked; {self._advice()}.", of_server=True) from None
        except (aiohttp.ClientError, OSError):
            raise RetryableError(f"{self._host} dropped the connection.") from None

    async def is_up(self) -> bool:
        """Whether `GET base_url/models` is answered by anything but an error of the server's own. No key is sent: who
        asks for one is there."""
        import aiohttp
        from yarl import URL

        try:
            async with self.session.get(
                URL(f"{self.base_url}/models", encoded=True),
                proxy=self.proxy,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self._connect_timeout_s),
            ) as response:
                return response.status < 500
        except (aiohttp.ClientError, OSError, ValueError):  # a timeout is an OSError
            return False

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _advice(self) -> str:
        return "check the base URL and the proxy" if self.proxy else "check the base URL and that the server is up"

    def _trust(self) -> ssl.SSLContext | bool:
        """Certificates take 20 ms to load, and plain http has no use for them."""
        proxied = self.proxy is not None and self.proxy.startswith("https:")
        return load_certificates() if proxied or self.base_url.startswith("https:") else True

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            # The caller decides how much runs at once. Waiting here for a free connection would count as a timeout.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._trust()),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=self._connect_timeout_s),
            # Nothing is unpacked unseen: `_plain` knows how much it may become.
            headers={"Accept-Encoding": "identity", "User-Agent": "beholder"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Not `trust_env`: it would also put a .netrc password in the key's place, and read that file each time.
            trust_env=False,
        )

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise PermanentError(f"{self._host} sent more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
            chunks.append(chunk)
        return b"".join(chunks)


def load_certificates() -> ssl.SSLContext:
    """OpenSSL's default certificates, which obey SSL_CERT_FILE and SSL_CERT_DIR, and those of REQUESTS_CA_BUNDLE."""
    context = ssl.create_default_context()
    if bundle := os.environ.get("REQUESTS_CA_BUNDLE"):
        try:
            if os.path.isdir(bundle):
                context.load_verify_locations(capath=bundle)
            else:
                context.load_verify_locations(cafile=bundle)
        except (OSError, ssl.SSLError):
            raise SetupError(f"REQUESTS_CA_BUNDLE names '{bundle}', which holds no certificates.") from None
    return context


def find_proxy(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY prescribe for this URL."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = getproxies().get(parts.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        kind = urlsplit(proxy).scheme or "that"
        raise SetupError(f"{parts.scheme.upper()}_PROXY names a {kind} proxy; Beholder speaks to http:// proxies only.")
    return proxy


async def _stream_body(body: RequestBody) -> AsyncIterator[bytes]:
    """Asynchronous only for aiohttp, which then waits for the socket after each piece."""
    for piece in body.pieces():
        yield piece


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body unpacked, if a gateway packed it although we asked for it plain."""
    if headers.get("content-encoding", "identity").lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        plain = zlib.decompressobj(wbits=47).decompress(body, MAX_REPLY_BYTES + 1)
    except zlib.error:
        return body
    if len(plain) > MAX_REPLY_BYTES:
        raise PermanentError(f"A packed reply unfolded to more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
    return plain


NOT_FOUND_STATUSES = frozenset({404, 405, 410})
# Asking again would be paid again, for a reply that may be no better.
UNREADABLE_RESULT = b'{"error": {"message": "the line of the results that has the reply cannot be read"}}'
_JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


class _BatchCallOptions(TypedDict, total=False):
    """What goes with a call. `patient`: a large file may take its time, as long as something of it moves."""

    data: object
    headers: Mapping[str, str]
    patient: bool


class BatchClient(HttpClient):
    """Speaks for one judge, with its key. Raises `SetupError` where it cannot be spoken to at all (a wrong key, no
    batch API), `Unreachable` where it could not this time, `Never` for what is refused for good, `Forgotten` for what
    is not there."""

    def __init__(self, judge: ModelJudge) -> None:
        settings = judge.settings
        super().__init__(judge.base_url, timeout_s=settings.timeout_s, connect_timeout_s=settings.connect_timeout_s)
        self.model = judge.model
        self._judge = judge
        request = judge.request(Brief("", "", None, "", (), None, "", ""), False)
        self._headers = {name: value for name, value in request.headers.items() if name != "Content-Type"}

    @contextmanager
    def making(self, of: str = "") -> Iterator[None]:
        """While a job is made: who does not know the calls for it has no batch API, or none `of` a model."""
        try:
            yield
        except BatchNotFoundError as error:
            sentence = f"there is no batch API{of} at {self.base_url}; leave --batch out."
            raise SetupError(f"{error}: {sentence}") from None

    async def get(self, path: str) -> Mapping[str, object]:
        return await self.patiently(lambda: self._call("GET", path))

    async def say(self, path: str, body: object) -> Mapping[str, object]:
        """POSTs JSON, once only: what makes a job must not be sent again before it is known that it made none."""
        headers = {"Content-Type": "application/json"}
        return await self._call("POST", path, data=msgspec.json.encode(body), headers=headers)

    async def make(self, path: str, body: object, file: str) -> Mapping[str, object]:
        """Makes a job of a file that was uploaded; where that is refused, the file goes."""
        try:
            return await self.say(path, body)
        except (RetryableError, PermanentError, SetupError, BatchNotFoundError) as error:
            if not isinstance(error, RetryableError) or error.busy:  # else there may be a job that needs it
                await self.delete(file)
            raise

    async def delete(self, path: str) -> None:
        """If it can be done at once; a file that stays is no harm, and the provider deletes it some day."""
        with suppress(RetryableError, PermanentError, SetupError, BatchNotFoundError):
            await self._answer("DELETE", path)

    async def send(self, path: str, file: Path, headers: Mapping[str, str]) -> Mapping[str, object]:
        """A file as the body; once only, as with `say`."""
        with file.open("rb") as data:
            return await self._call("POST", path, data=data, headers=headers, patient=True)

    async def upload(self, path: str, file: Path, fields: Mapping[str, str]) -> Mapping[str, object]:
        """A file as a form has it, with other fields; again where that can help: a file alone costs nothing."""
        import aiohttp

        async def once() -> Mapping[str, object]:
            with file.open("rb") as data:
                form = aiohttp.FormData()
                for name, value in fields.items():
                    form.add_field(name, value)
                form.add_field("file", data, filename="beholder.jsonl", content_type="application/jsonl")
                return await self._call("POST", path, data=form, patient=True)

        return await self.patiently(once)

    async def resumable(self, path: str, file: Path, about: object, kind: str) -> Mapping[str, object]:
        """A file as Google takes it: first what it is, then its bytes to the address that was given in return."""
        size = str(file.stat().st_size)
        begin = {
            "Content-Type": "application/json",
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": size,
            "X-Goog-Upload-Header-Content-Type": kind,
        }

        async def once() -> Mapping[str, object]:
            started = await self._answer("POST", path, data=msgspec.json.encode(about), headers=begin)
            place = started.headers.get("x-goog-upload-url", "")
            if urlsplit(place).netloc != urlsplit(self.base_url).netloc:
                host = urlsplit(place).hostname or "nowhere"
                raise SetupError(f"{self.base_url} sends files to {host}; only the judge that was named gets any.")
            with file.open("rb") as data:
                headers = {"X-Goog-Upload-Offset": "0", "X-Goog-Upload-Command": "upload, finalize"}
                return await self._call("POST", place, data=data, headers=headers, patient=True)

        return await self.patiently(once)

    async def results(self, path: str, key: str, read: Callable[[bytes], BatchResult]) -> AsyncIterator[BatchResult]:
        """The results in a file of lines; `read` makes one of a line, in which the key of the request is at `key`."""
        async for line in self.lines(path):
            try:
                result = read(line)
            except _JSON_ERRORS:
                result = BatchResult(_find_key(line, key), BatchStage.ERRORED, 400, UNREADABLE_RESULT)
            yield result

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """A file of lines, as it comes. Raises `Again` where it breaks off; what came before is whole.

        A last line without an end is whole if it is JSON.
        """
        last = b""
        with self.told():
            async with self._request("GET", path, patient=True) as response:
                if response.status != 200:
                    raise self._refusal(await self._response(response))
                async for chunk in response.content.iter_any():
                    *whole, last = (last + chunk).split(b"\n")
                    for line in filter(None, whole):
                        yield line
                    if len(last) > MAX_REPLY_BYTES:
                        raise PermanentError(f"{self._host} sent a line of more than {MAX_REPLY_BYTES // 2**20} MB.")
        if last.strip():
            try:
                msgspec.json.decode(last)
            except _JSON_ERRORS:
                raise IncompleteResultsError(f"{self._host} sent results that break off in the middle.") from None
            yield last

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks again where that can help."""
        settings = self._judge.settings

        async def once() -> T | PermanentError:
            try:
                return await ask()
            except PermanentError as never:  # which is no outage, as it would be called here
                return never

        said = await Retrier(settings.retries, settings.sleep, settings.random).persist(once)
        if isinstance(said, PermanentError):
            raise said
        return said

    async def _call(self, method: str, path: str, **sent: Unpack[_BatchCallOptions]) -> Mapping[str, object]:
        said = await self._answer(method, path, **sent)
        try:
            return parse_object(said.body)
        except MalformedReplyError:
            raise RetryableError(f"{self._host} sent a reply that is no JSON object.") from None

    async def _answer(self, method: str, path: str, **sent: Unpack[_BatchCallOptions]) -> HttpResponse:
        with self.told():
            async with self._request(method, path, **sent) as response:
                said = await self._response(response)
        if not 200 <= said.status < 300:
            raise self._refusal(said)
        return said

    def _request(
        self, method: str, path: str, **sent: Unpack[_BatchCallOptions]
    ) -> aiohttp.client._RequestContextManager:
        import aiohttp
        from yarl import URL

        total = None if sent.get("patient") else self._timeout_s
        return self.session.request(
            method,
            URL(path if path.startswith("http") else f"{self.base_url}{path}", encoded=True),
            data=sent.get("data"),
            headers={**self._headers, **sent.get("headers", {})},
            proxy=self.proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=total, sock_connect=self._connect_timeout_s, sock_read=None if total else self._timeout_s
            ),
        )

    async def _response(self, response: aiohttp.ClientResponse) -> HttpResponse:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status, headers, await self._body(response))

    def _refusal(self, response: HttpResponse) -> Exception:
        if response.status in NOT_FOUND_STATUSES:
            return BatchNotFoundError(f"{self._judge.name} answered {response.status}")
        fault = self._judge.fault(response, False)
        if isinstance(fault, FilteredRequestError):
            return PermanentError(
                f"{self._judge.name} refused a job by its content filter: {str(fault) or response.status}."
            )
        return fault


def _find_key(line: bytes, name: str) -> str:
    try:
        return as_text(as_mapping(msgspec.json.decode(line)).get(name))
    except _JSON_ERRORS:
        return ""


@dataclass(frozen=True, slots=True)
class BatchApi:
    """A provider's batch API. A job is a file: `opening`, requests with `between` between them, `closing`; `frame` is
    what stands before and after the body of a request.

    `submit` hands a file in, under a note. It raises `Again` (and not `busy`) where nobody can tell whether the job was
    taken; then `find` can. `results` come in any order; when they break off, those before were whole, and `Again` is
    raised. All but `submit` raise `Forgotten`. `tidy` is for a job that is done with: what was uploaded for it is
    deleted.
    """

    name: str
    most_requests: int
    frame: Callable[[str], tuple[bytes, bytes]]
    submit: Callable[[BatchClient, Path, str], Awaitable[BatchHandle]]
    find: Callable[[BatchClient, UnconfirmedBatch], Awaitable[BatchHandle | None]]
    look: Callable[[BatchClient, BatchHandle], Awaitable[BatchStatus]]
    results: Callable[[BatchClient, BatchHandle], AsyncIterator[BatchResult]]
    cancel: Callable[[BatchClient, BatchHandle], Awaitable[None]]
    tidy: Callable[[BatchClient, BatchHandle], Awaitable[None]]
    opening: bytes = b""
    between: bytes = b"\n"
    closing: bytes = b"\n"


def find_batch_api(wire: str) -> BatchApi | None:
    """The batch API that goes with a wire; `None` where there is none."""
    from beholder.providers import anthropic, google, openai

    return {one.name: one for one in (openai.BATCH_API, anthropic.BATCH_API, google.BATCH_API)}.get(wire)
