"""Download images over http(s), from public addresses only.

This protects against server-side request forgery (SSRF). A case file may come from somebody else, so an address in it
must not give access to the network of whoever runs Beholder. The address is checked where it is used: the resolver
gives the connection only addresses that it has checked, so a name that resolves differently a moment later (DNS
rebinding) changes nothing; redirects are followed by hand and each is checked again.

No proxy is used, even if the environment names one: a proxy resolves the name itself, which would bypass the check.
Where the network allows no direct connection, download the images first.

Import this module late: it loads aiohttp.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, printable_name

IPAddress = IPv4Address | IPv6Address

# `ipaddress.is_global` is not enough: older Pythons get several ranges wrong (CVE-2024-4032), and IPv6 has several ways
# to write a private IPv4 address.
_RESERVED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by number, but Azure's platform service on every Azure machine
        "169.254.0.0/16",  # link-local, and the metadata service of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and Oracle's metadata service
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_ROUTED_V6 = IPv6Network("2000::/3")  # all that is routed on the internet today
_RESERVED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_SIX_TO_FOUR = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: IPAddress) -> bool:
    """Return whether an address is public, that is, reachable from the whole internet."""
    if isinstance(address, IPv6Address):
        inner = _embedded_ipv4(address)
        if inner is not None:
            return is_public(inner)
        return address in _ROUTED_V6 and not any(address in network for network in _RESERVED_V6)
    return not any(address in network for network in _RESERVED_V4)


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a translator (NAT64, 6to4) would connect to; `None` where there is none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    number = int(address)
    if address in _NAT64:
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    return None


_MAX_REDIRECTS = 5
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}
_DETECT_BYTES = 1024
_CHUNK = 64 * 1024
_HEADERS = {"User-Agent": "beholder", "Accept": "image/*", "Accept-Encoding": "identity"}
# No name on the internet ends in a number; these are old spellings of IPv4 addresses (0177.1, 0x7f000001).
_ODD_ADDRESS = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)\.?$", re.IGNORECASE)

AddressPolicy = Callable[[IPAddress], bool]


async def download_image(
    url: str,
    *,
    limits: ImageLimits = DEFAULT_IMAGE_LIMITS,
    timeout_s: float = 20.0,
    allowed: AddressPolicy = is_public,
    resolver: AbstractResolver | None = None,
) -> bytes:
    """Return the bytes of an image on the web.

    Args:
        url: An http or https address.
        limits: The largest image that is read.
        timeout_s: The time limit for everything: name resolution, redirects and body.
        allowed: Decides which IP addresses may be connected to.
        resolver: Resolves host names; the default is the system's.

    Raises:
        ImageError: When the address is not allowed or the image cannot be downloaded.
    """
    parsed = _parse_url(url)
    try:
        async with asyncio.timeout(timeout_s):
            connector = aiohttp.TCPConnector(
                resolver=_CheckedResolver(resolver or aiohttp.ThreadedResolver(), allowed), use_dns_cache=False
            )
            async with aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers=_HEADERS,
                auto_decompress=False,
                trust_env=False,
            ) as session:
                return await _follow_redirects(session, parsed, limits, allowed)
    except TimeoutError:
        raise ImageError(f"{_redacted_url(parsed)} did not arrive within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        hint = "; proxies are not used for images, download them first" if _has_proxy_variable() else ""
        raise ImageError(f"{_redacted_url(parsed)} could not be fetched ({_describe_cause(error)}){hint}") from None


async def _follow_redirects(
    session: aiohttp.ClientSession, url: URL, limits: ImageLimits, allowed: AddressPolicy
) -> bytes:
    for _ in range(_MAX_REDIRECTS + 1):
        _check_literal_host(url, allowed)
        async with session.get(url, allow_redirects=False) as response:
            if response.status not in _REDIRECT_STATUSES:
                return await _read_body(response, url, limits)
            location = response.headers.get("Location")
            if not location:
                raise ImageError(f"{_redacted_url(url)} redirects to nowhere")
            url = _parse_url(location, base=url)
    raise ImageError(f"{_redacted_url(url)} is behind more than {_MAX_REDIRECTS} redirects")


async def _read_body(response: aiohttp.ClientResponse, url: URL, limits: ImageLimits) -> bytes:
    if response.status != 200:
        raise ImageError(
            f"{_redacted_url(url)} answered {response.status} {printable_name(response.reason or '')}".rstrip()
        )
    try:
        headers.check_bytes(response.content_length or 0, limits)
        body = bytearray()
        recognized = False
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            headers.check_bytes(len(body), limits)
            if not recognized and len(body) >= _DETECT_BYTES:
                headers.recognize_format(bytes(body))
                recognized = True
        headers.recognize_format(bytes(body[:_DETECT_BYTES]))
    except ImageError as error:
        raise ImageError(f"{_redacted_url(url)} {error}") from None
    return bytes(body)


def _parse_url(text: str, base: URL | None = None) -> URL:
    """Return an absolute address of a kind that we fetch. Raises `ImageError` for any other.

    This is the parser that the connection uses, so that both see the same host in it.
    """
    try:
        url = URL(text) if base is None else base.join(URL(text))
        host = url.host
        _ = url.port  # raises ValueError for a bad port
    except ValueError:
        raise ImageError(f"{printable_name(text)} is not a web address") from None
    if url.scheme not in ("http", "https"):
        raise ImageError(f"{_redacted_url(url)} is not fetched: remote images come by http or https only")
    if not host:
        raise ImageError(f"{printable_name(text)} names no host")
    if url.user is not None or url.password is not None:
        raise ImageError(f"{_redacted_url(url)} is not fetched: its address carries a user name or password")
    return url


def _check_literal_host(url: URL, allowed: AddressPolicy) -> None:
    """Check a host that is written as an IP address: such hosts never reach the resolver."""
    host = url.host or ""
    try:
        address = ip_address(host)
    except ValueError:
        if _ODD_ADDRESS.search(host):
            raise ImageError(f"{_redacted_url(url)} is not fetched: write its address in the usual form") from None
        return
    _check_address(address, host, allowed)


def _check_address(address: IPAddress, host: str, allowed: AddressPolicy) -> None:
    if not allowed(address):
        raise ImageError(
            f"{printable_name(host)} is not fetched from: {address} is a private, local or reserved address, "
            "and remote images come from public ones only"
        )


class _CheckedResolver(AbstractResolver):
    """A resolver that returns an answer only when every address in it is allowed."""

    def __init__(self, inner: AbstractResolver, allowed: AddressPolicy) -> None:
        self._inner = inner
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._inner.resolve(host, port, family)
        for result in results:
            _check_address(ip_address(result["host"]), host, self._allowed)
        return results

    async def close(self) -> None:
        await self._inner.close()


def _redacted_url(url: URL) -> str:
    """Return a URL without query, user and password: signed URLs hold secrets, and errors end up in logs."""
    return printable_name(str(url.with_user(None).with_query(None).with_fragment(None)) if url.absolute else url.path)


def _describe_cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name is unknown"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection ended before the image was complete"
    if isinstance(error, OSError) and error.strerror:
        return printable_name(error.strerror)
    return printable_name(str(error)) or type(error).__name__


def _has_proxy_variable() -> bool:
    return any(os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"))
