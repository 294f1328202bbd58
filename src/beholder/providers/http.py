"""HTTP client: the one place where requests go out, by aiohttp, with the environment's proxy and certificates."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import weakref
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from beholder.errors import SetupError
from beholder.providers.base import HttpRequest, HttpResponse
from beholder.providers.payload import RequestBody
from beholder.providers.retry import PermanentError, RetryableError

if TYPE_CHECKING:
    import aiohttp


MAX_REPLY_BYTES = 16 * 1024 * 1024
# A wrong base URL stays wrong; a server that is just starting comes up within a few tries.
CONNECT_RETRIES = 2


class HttpClient:
    """POSTs requests to one server. May be used from several event loops at once: each has connections of its own.

    Args:
        base_url: of the server.
        timeout_s: for a whole request.
        connect_timeout_s: for its connection.
    """

    def __init__(self, base_url: str, *, timeout_s: float, connect_timeout_s: float) -> None:
        self.base_url = base_url
        self._host = urlsplit(base_url).netloc
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self.proxy = find_proxy(base_url)
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        close_with_loop(self)
        weakref.finalize(self, _close_abandoned, self._sessions, all_loops=True).atexit = False

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response, whatever its status.

        Redirects are not followed: they could carry the key to another server.

        Raises:
            RetryableError: the connection failed.
            PermanentError: the server cannot be trusted, or its response is too large.
        """
        from yarl import URL

        with self.translate_errors():
            async with self.session.post(
                URL(request.url, encoded=True),
                data=_stream_body(request.body),
                headers={**request.headers, "Content-Length": str(len(request.body))},
                proxy=self.proxy,
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpResponse(response.status, headers, _decompress(await self._read_body(response), headers))

    @property
    def session(self) -> aiohttp.ClientSession:
        """The connections of the running event loop."""
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            _close_abandoned(self._sessions, all_loops=False)
            session = self._sessions[loop] = self._open_session()
        return session

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn connection errors into `RetryableError` or `PermanentError`."""
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
                server_wide=True,
            ) from None
        except aiohttp.ClientHttpProxyError as error:
            message = f"The proxy answered {error.status} for {self._host}; check HTTPS_PROXY."
            raise PermanentError(message, server_wide=True) from None
        except aiohttp.ClientConnectorError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else "no such host"
            raise RetryableError(
                f"Cannot connect to {self.base_url} ({reason}); {self._advice()}.", retries=CONNECT_RETRIES
            ) from None
        except ValueError:  # the base URL was checked before, so it is the proxy whose host name is invalid
            raise PermanentError(f"{self.base_url} cannot be asked; {self._advice()}.", server_wide=True) from None
        except (aiohttp.ClientError, OSError):
            raise RetryableError(f"{self._host} dropped the connection.") from None

    async def check_health(self) -> bool:
        """Return whether `GET base_url/models` is answered below status 500; no key is sent, and 401 will do."""
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
        """Close the connections of the running event loop; the next request opens new ones."""
        if session := self._sessions.pop(asyncio.get_running_loop(), None):
            await session.close()

    def _advice(self) -> str:
        return "check the base URL and the proxy" if self.proxy else "check the base URL and that the server is up"

    def _ssl_context(self) -> ssl.SSLContext | bool:
        # Certificates take 20 ms to load, and plain http does not need them.
        proxied = self.proxy is not None and self.proxy.startswith("https:")
        return load_certificates() if proxied or self.base_url.startswith("https:") else True

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            # The caller limits concurrency. Waiting here for a free connection would count towards the timeout.
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl_context()),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=self._connect_timeout_s),
            # Not decompressed by aiohttp: `_decompress` limits the size.
            headers={"Accept-Encoding": "identity", "User-Agent": "beholder"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # `trust_env` would replace the key by a password from .netrc, and read that file for each request.
            trust_env=False,
        )

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_REPLY_BYTES:
                raise PermanentError(f"{self._host} sent more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
            chunks.append(chunk)
        return b"".join(chunks)


class LoopConnections(Protocol):
    """What has connections for each event loop, and closes those of the running one."""

    async def aclose(self) -> None: ...


_clients: weakref.WeakSet[LoopConnections] = weakref.WeakSet()
_clients_lock = threading.Lock()


def _renew_lock_in_child() -> None:
    global _clients_lock
    _clients_lock = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_in_child)


def close_with_loop(client: LoopConnections) -> None:
    """Let `close_loop_connections` close the connections of a client, too."""
    with _clients_lock:
        _clients.add(client)


async def close_loop_connections() -> None:
    """Close all connections of the running event loop, which is about to end; judges that opened them stay usable."""
    with _clients_lock:
        clients = list(_clients)
    for client in clients:
        await client.aclose()


def _close_abandoned(sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession], *, all_loops: bool) -> None:
    """Close the sessions of event loops that are closed; with `all_loops` also those of loops that still run."""
    for loop in list(sessions):
        closed = loop.is_closed()
        if not closed and not (all_loops and loop.is_running()):
            continue
        if (session := sessions.pop(loop, None)) is None:  # another thread was faster
            continue
        if closed:
            with suppress(StopIteration):  # on a closed loop there is nothing to wait for
                session.close().send(None)
        else:
            with suppress(RuntimeError):  # it was closed meanwhile
                asyncio.run_coroutine_threadsafe(session.close(), loop)


# OpenAI and most gateways; Anthropic; Azure; Amazon. Google has it in the body only.
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid")


def find_request_id(headers: Mapping[str, str]) -> str:
    """Return the id by which the provider knows a request; empty where it names none. Header names are lower case."""
    return next((headers[name][:100] for name in REQUEST_ID_HEADERS if name in headers), "")


def load_certificates() -> ssl.SSLContext:
    """Load OpenSSL's default certificates (SSL_CERT_FILE and SSL_CERT_DIR) and those of REQUESTS_CA_BUNDLE."""
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
    """Return the proxy for a URL by HTTP_PROXY, HTTPS_PROXY and NO_PROXY; `None` for none."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = getproxies().get(parts.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        kind = urlsplit(proxy).scheme or "that"
        raise SetupError(f"{parts.scheme.upper()}_PROXY names a {kind} proxy; Beholder speaks to http:// proxies only.")
    return proxy


async def _stream_body(body: RequestBody) -> AsyncIterator[bytes]:
    # Asynchronous only for aiohttp, which then waits for the socket after each chunk.
    for chunk in body.chunks():
        yield chunk


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Decompress a body that a gateway compressed although we asked for `identity`."""
    if headers.get("content-encoding", "identity").lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        plain = zlib.decompressobj(wbits=47).decompress(body, MAX_REPLY_BYTES + 1)
    except zlib.error:
        return body
    if len(plain) > MAX_REPLY_BYTES:
        raise PermanentError(f"A packed reply unfolded to more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
    return plain
