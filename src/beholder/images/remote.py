"""Images from the web, for those who allowed it. Imported late: loads aiohttp.

A case file may come from a stranger, so an address in it must not become a way into the network of whoever runs
Beholder. The address is checked where it is used: the resolver hands the connection only addresses that it has
checked itself, so a name that resolves differently a moment later changes nothing; redirects are followed by hand
and each is checked anew.

No proxy is used, even if the environment names one: a proxy resolves the name itself, out of our sight, and so would
undo the check. Where the network allows no direct connection, download the images first.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from ipaddress import ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.addresses import Address, is_public
from beholder.images.model import STANDARD_CAPS, Caps
from beholder.images.names import shown

_MOST_REDIRECTS = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_ENOUGH_TO_SNIFF = 1024
_CHUNK = 64 * 1024
_HEADERS = {"User-Agent": "beholder", "Accept": "image/*", "Accept-Encoding": "identity"}
# No name on the internet ends in a number; these are old spellings of IPv4 addresses (0177.1, 0x7f000001).
_ODD_ADDRESS = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$", re.IGNORECASE)

Policy = Callable[[Address], bool]


async def fetch(
    url: str,
    *,
    caps: Caps = STANDARD_CAPS,
    timeout_s: float = 20.0,
    allowed: Policy = is_public,
    resolver: AbstractResolver | None = None,
) -> bytes:
    """The bytes of a remote image, or an `ImageError`.

    `timeout_s` bounds everything: names, redirects and body. `allowed` decides what may be connected to, and
    `resolver` finds the addresses; both are there for tests and for people with networks of their own.
    """
    at = _parsed(url)
    try:
        async with asyncio.timeout(timeout_s):
            connector = aiohttp.TCPConnector(
                resolver=_Checked(resolver or aiohttp.ThreadedResolver(), allowed), use_dns_cache=False
            )
            async with aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers=_HEADERS,
                auto_decompress=False,
                trust_env=False,
            ) as session:
                return await _follow(session, at, caps, allowed)
    except TimeoutError:
        raise ImageError(f"{_called(at)} did not arrive within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        hint = "; proxies are not used for images, download them first" if _proxy_in_environment() else ""
        raise ImageError(f"{_called(at)} could not be fetched ({_cause(error)}){hint}") from None


async def _follow(session: aiohttp.ClientSession, url: URL, caps: Caps, allowed: Policy) -> bytes:
    for _ in range(_MOST_REDIRECTS + 1):
        _check_literal(url, allowed)
        async with session.get(url, allow_redirects=False) as response:
            if response.status not in _REDIRECTS:
                return await _body(response, url, caps)
            location = response.headers.get("Location")
            if not location:
                raise ImageError(f"{_called(url)} redirects to nowhere")
            url = _parsed(location, base=url)
    raise ImageError(f"{_called(url)} is behind more than {_MOST_REDIRECTS} redirects")


async def _body(response: aiohttp.ClientResponse, url: URL, caps: Caps) -> bytes:
    if response.status != 200:
        raise ImageError(f"{_called(url)} answered {response.status} {shown(response.reason or '')}".rstrip())
    try:
        headers.check_bytes(response.content_length or 0, caps)
        body = bytearray()
        sniffed = False
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            headers.check_bytes(len(body), caps)
            if not sniffed and len(body) >= _ENOUGH_TO_SNIFF:
                headers.recognise(bytes(body))
                sniffed = True
        headers.recognise(bytes(body[:_ENOUGH_TO_SNIFF]))
    except ImageError as error:
        raise ImageError(f"{_called(url)} {error}") from None
    return bytes(body)


def _parsed(text: str, base: URL | None = None) -> URL:
    """The address, absolute and of a kind that we fetch. The same parser that the connection uses, so that both read
    the same host in it."""
    try:
        url = URL(text) if base is None else base.join(URL(text))
        host = url.host
        _ = url.port
    except ValueError:
        raise ImageError(f"{shown(text)} is not a web address") from None
    if url.scheme not in ("http", "https"):
        raise ImageError(f"{_called(url)} is not fetched: remote images come by http or https only")
    if not host:
        raise ImageError(f"{shown(text)} names no host")
    if url.user is not None or url.password is not None:
        raise ImageError(f"{_called(url)} is not fetched: its address carries a user name or password")
    return url


def _check_literal(url: URL, allowed: Policy) -> None:
    """Addresses written as numbers never reach the resolver."""
    host = url.host or ""
    try:
        address = ip_address(host)
    except ValueError:
        if _ODD_ADDRESS.search(host):
            raise ImageError(f"{_called(url)} is not fetched: write its address in the usual form") from None
        return
    _check(address, host, allowed)


def _check(address: Address, host: str, allowed: Policy) -> None:
    if not allowed(address):
        raise ImageError(
            f"{shown(host)} is not fetched from: {address} is a private, local or reserved address, "
            "and remote images come from public ones only"
        )


class _Checked(AbstractResolver):
    """Gives out an answer only when every address in it is allowed."""

    def __init__(self, inner: AbstractResolver, allowed: Policy) -> None:
        self._inner = inner
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            _check(ip_address(result["host"]), host, self._allowed)
        return found

    async def close(self) -> None:
        await self._inner.close()


def _called(url: URL) -> str:
    """Without query, user and password: signed addresses hold secrets, and errors end up in logs."""
    return shown(str(url.with_user(None).with_query(None).with_fragment(None)) if url.absolute else url.path)


def _cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name is unknown"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection ended before the image was complete"
    if isinstance(error, OSError) and error.strerror:
        return shown(error.strerror)
    return shown(str(error)) or type(error).__name__


def _proxy_in_environment() -> bool:
    return any(os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"))
