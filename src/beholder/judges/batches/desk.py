"""Where the jobs of one judge are handed in: plain calls by the rules of `wires.transport`, and files both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import msgspec

from beholder.errors import SetupError
from beholder.judges.batches import Forgotten, Result, Short
from beholder.judges.model import ModelJudge
from beholder.judges.stages import Stage
from beholder.judges.wires import Malformed
from beholder.judges.wires.faults import Again, Blocked, Never
from beholder.judges.wires.patience import Patience
from beholder.judges.wires.reading import document, mapping, text
from beholder.judges.wires.transport import MAX_REPLY_BYTES, Response, Transport
from beholder.rubrics.brief import Brief

if TYPE_CHECKING:
    import aiohttp

GONE = frozenset({404, 405, 410})
# Asking again would be paid again, for a reply that may be no better.
UNREADABLE = b'{"error": {"message": "the line of the results that has the reply cannot be read"}}'
_NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


class _Sent(TypedDict, total=False):
    """What goes with a call. `patient`: a large file may take its time, as long as something of it moves."""

    data: object
    headers: Mapping[str, str]
    patient: bool


class Desk(Transport):
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
        except Forgotten as error:
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
        except (Again, Never, SetupError, Forgotten) as error:
            if not isinstance(error, Again) or error.busy:  # else there may be a job that needs it
                await self.delete(file)
            raise

    async def delete(self, path: str) -> None:
        """If it can be done at once; a file that stays is no harm, and the provider deletes it some day."""
        with suppress(Again, Never, SetupError, Forgotten):
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

    async def results(self, path: str, key: str, read: Callable[[bytes], Result]) -> AsyncIterator[Result]:
        """The results in a file of lines; `read` makes one of a line, in which the key of the request is at `key`."""
        async for line in self.lines(path):
            try:
                result = read(line)
            except _NO_JSON:
                result = Result(_key_in(line, key), Stage.ERRORED, 400, UNREADABLE)
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
                        raise Never(f"{self._host} sent a line of more than {MAX_REPLY_BYTES // 2**20} MB.")
        if last.strip():
            try:
                msgspec.json.decode(last)
            except _NO_JSON:
                raise Short(f"{self._host} sent results that break off in the middle.") from None
            yield last

    async def patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks again where that can help."""
        settings = self._judge.settings

        async def once() -> T | Never:
            try:
                return await ask()
            except Never as never:  # which is no outage, as it would be called here
                return never

        said = await Patience(settings.retries, settings.sleep, settings.random).persist(once)
        if isinstance(said, Never):
            raise said
        return said

    async def _call(self, method: str, path: str, **sent: Unpack[_Sent]) -> Mapping[str, object]:
        said = await self._answer(method, path, **sent)
        try:
            return document(said.body)
        except Malformed:
            raise Again(f"{self._host} sent a reply that is no JSON object.") from None

    async def _answer(self, method: str, path: str, **sent: Unpack[_Sent]) -> Response:
        with self.told():
            async with self._request(method, path, **sent) as response:
                said = await self._response(response)
        if not 200 <= said.status < 300:
            raise self._refusal(said)
        return said

    def _request(self, method: str, path: str, **sent: Unpack[_Sent]) -> aiohttp.client._RequestContextManager:
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

    async def _response(self, response: aiohttp.ClientResponse) -> Response:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, await self._body(response))

    def _refusal(self, response: Response) -> Exception:
        if response.status in GONE:
            return Forgotten(f"{self._judge.name} answered {response.status}")
        fault = self._judge.fault(response, False)
        if isinstance(fault, Blocked):
            return Never(f"{self._judge.name} refused a job by its content filter: {str(fault) or response.status}.")
        return fault


def _key_in(line: bytes, name: str) -> str:
    try:
        return text(mapping(msgspec.json.decode(line)).get(name))
    except _NO_JSON:
        return ""
