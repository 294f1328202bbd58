"""The one place where a wire's request goes out: aiohttp, with the environment's proxy and certificates."""

from __future__ import annotations

import os
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from beholder.errors import SetupError
from beholder.judges.wires import Body, Request
from beholder.judges.wires.faults import Again, Never

if TYPE_CHECKING:
    import aiohttp

MAX_REPLY_BYTES = 16 * 1024 * 1024
# A wrong base URL stays wrong; a server that is just starting comes up within a few tries.
CONNECT_RETRIES = 2


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Transport:
    """POSTs requests to one server. Belongs to the event loop that first uses it; makes its session then."""

    def __init__(self, base_url: str, *, timeout_s: float, connect_timeout_s: float) -> None:
        self.base_url = base_url
        self._host = urlsplit(base_url).netloc
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self.proxy = proxy_for(base_url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, request: Request) -> Response:
        """The server's response, whatever its status. Redirects are not followed: they could carry the key away.

        Raises `Again` for a connection that failed and `Never` for one that cannot be trusted.
        """
        from yarl import URL

        with self.told():
            async with self.session.post(
                URL(request.url, encoded=True),
                data=_stream(request.body),
                headers={**request.headers, "Content-Length": str(len(request.body))},
                proxy=self.proxy,
                allow_redirects=False,
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Response(response.status, headers, _plain(await self._body(response), headers))

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
            raise Again(
                f"No connection to {self.base_url} within {self._connect_timeout_s:g} s; {self._advice()}.",
                retries=CONNECT_RETRIES,
            ) from None
        except TimeoutError:
            raise Again(f"{self._host} did not answer within {self._timeout_s:g} s.") from None
        except aiohttp.ClientSSLError as error:
            reason = getattr(error.os_error, "verify_message", "") or getattr(error.os_error, "reason", "")
            raise Never(
                f"{self._host} is not trusted ({reason}); if its certificate is your own, set SSL_CERT_FILE to it.",
                of_server=True,
            ) from None
        except aiohttp.ClientHttpProxyError as error:
            said = f"The proxy answered {error.status} for {self._host}; check HTTPS_PROXY."
            raise Never(said, of_server=True) from None
        except aiohttp.ClientConnectorError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else "no such host"
            raise Again(
                f"Cannot connect to {self.base_url} ({reason}); {self._advice()}.", retries=CONNECT_RETRIES
            ) from None
        except ValueError:  # the base URL was checked, so it is a proxy whose name can be no name
            raise Never(f"{self.base_url} cannot be asked; {self._advice()}.", of_server=True) from None
        except (aiohttp.ClientError, OSError):
            raise Again(f"{self._host} dropped the connection.") from None

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
        return certificates() if proxied or self.base_url.startswith("https:") else True

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
                raise Never(f"{self._host} sent more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
            chunks.append(chunk)
        return b"".join(chunks)


def certificates() -> ssl.SSLContext:
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


def proxy_for(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY prescribe for this URL."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = getproxies().get(parts.scheme)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        kind = urlsplit(proxy).scheme or "that"
        raise SetupError(f"{parts.scheme.upper()}_PROXY names a {kind} proxy; Beholder speaks to http:// proxies only.")
    return proxy


async def _stream(body: Body) -> AsyncIterator[bytes]:
    """Asynchronous only for aiohttp, which then waits for the socket after each piece."""
    for piece in body.pieces():
        yield piece


def _plain(body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body unpacked, if a gateway packed it although we asked for it plain."""
    if headers.get("content-encoding", "identity").lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        plain = zlib.decompressobj(wbits=47).decompress(body, MAX_REPLY_BYTES + 1)
    except zlib.error:
        return body
    if len(plain) > MAX_REPLY_BYTES:
        raise Never(f"A packed reply unfolded to more than {MAX_REPLY_BYTES // 2**20} MB; that is no answer.")
    return plain
