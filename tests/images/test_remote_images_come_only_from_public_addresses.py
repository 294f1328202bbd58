"""Promise: a remote image comes from public addresses only, also behind redirects and DNS, within size and time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from support.images import photo, saved

from beholder.errors import ImageError
from beholder.images.image import ImageLimits
from beholder.images.remote import IPAddress, download_image, is_public

IMAGE = saved(photo(), "JPEG")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """A real server on loopback, and what it was asked."""

    port: int
    requests: list[web.Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def allowed(self, address: IPAddress) -> bool:
        return str(address) == "127.0.0.1"


@asynccontextmanager
async def serving(**handlers: Handler) -> AsyncIterator[Server]:
    server = Server(port=0)

    async def answer(request: web.Request) -> web.StreamResponse:
        server.requests.append(request)
        return await handlers[request.path.strip("/")](request)

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


async def cat(_: web.Request) -> web.Response:
    return web.Response(body=IMAGE, content_type="image/jpeg")


def to(location: str, status: int = 302) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": location, "Connection": "close"})

    return answer


class ScriptedResolver(AbstractResolver):
    """Says one list of addresses after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=found, port=port, family=socket.AF_INET, proto=0, flags=0)
            for found in self.answers.pop(0)
        ]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "5f00::1",
        "3fff::1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ip_address(address))


async def test_an_image_is_fetched_with_nothing_of_ours_but_the_request() -> None:
    async with serving(cat=cat) as server:
        assert await download_image(f"{server.url}/cat?size=1", allowed=server.allowed) == IMAGE
    (request,) = server.requests
    assert set(request.headers) == {"Host", "User-Agent", "Accept", "Accept-Encoding"}
    assert request.headers["User-Agent"] == "beholder"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
    ],
)
async def test_this_machine_is_refused_however_it_is_spelled(host: str) -> None:
    async with serving(cat=cat) as server:
        with pytest.raises(ImageError, match="not fetched"):
            await download_image(f"http://{host}:{server.port}/cat")
        assert server.requests == []


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://10.0.0.1/cat",
        "http://127.0.0.2/cat",
        "//192.168.0.1/cat",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(location: str) -> None:
    async with serving(start=to(location)) as server:
        with pytest.raises(ImageError, match="private, local or reserved"):
            await download_image(f"{server.url}/start", allowed=server.allowed)


async def test_a_redirect_to_an_address_that_is_not_allowed_never_reaches_it() -> None:
    async with serving(cat=cat) as inner, serving(start=to(f"{inner.url}/cat")) as server:
        answers = iter([True, False])  # the first address is, the one behind the redirect is not
        with pytest.raises(ImageError, match="private, local or reserved"):
            await download_image(f"{server.url}/start", allowed=lambda _: next(answers))
        assert len(server.requests) == 1
        assert inner.requests == []


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "http or https only"),
        ("ftp://example.com/cat", "http or https only"),
        ("data:image/png;base64,AAAA", "http or https only"),
        ("http://user:secret@example.com/", "user name or password"),
        ("http://[broken/", "not a web address"),
        ("http://example.com:99999/", "not a web address"),
        ("", "redirects to nowhere"),
    ],
)
async def test_a_redirect_to_something_else_is_refused(location: str, words: str) -> None:
    async with serving(start=to(location)) as server:
        with pytest.raises(ImageError, match=words) as caught:
            await download_image(f"{server.url}/start", allowed=server.allowed)
        assert "secret" not in str(caught.value)


async def test_five_redirects_are_followed_and_no_more() -> None:
    steps = {f"s{n}": to(f"/s{n + 1}", status) for n, status in enumerate([301, 302, 303, 307, 308])}
    async with serving(**steps, s5=cat) as server:
        assert await download_image(f"{server.url}/s0", allowed=server.allowed) == IMAGE
    async with serving(round=to("round")) as server:
        with pytest.raises(ImageError, match="more than 5 redirects"):
            await download_image(f"{server.url}/round", allowed=server.allowed)
        assert len(server.requests) == 6


async def test_a_name_is_refused_when_any_of_its_addresses_is_private() -> None:
    async with serving(cat=cat) as server:
        for answer in (["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["::ffff:10.0.0.1"]):
            with pytest.raises(ImageError, match="private, local or reserved"):
                await download_image(
                    f"http://cat.example:{server.port}/cat", allowed=server.allowed, resolver=ScriptedResolver(answer)
                )
        assert server.requests == []


async def test_a_name_that_resolves_anew_between_check_and_connection_gains_nothing() -> None:
    """The address that was checked is the one that is connected to: the name is asked for once a connection."""
    async with serving(cat=cat, start=to("/cat")) as server:
        resolver = ScriptedResolver(["127.0.0.1"], ["10.0.0.1"])
        found = await download_image(f"http://cat.example:{server.port}/cat", allowed=server.allowed, resolver=resolver)
        assert found == IMAGE
        assert resolver.answers == [["10.0.0.1"]]
        resolver = ScriptedResolver(["127.0.0.1"], ["10.0.0.1"])
        with pytest.raises(ImageError, match="private, local or reserved"):
            await download_image(f"http://cat.example:{server.port}/start", allowed=server.allowed, resolver=resolver)


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would resolve names itself, where we cannot look."""
    async with serving(cat=cat) as server, serving(cat=cat) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await download_image(f"{server.url}/cat", allowed=server.allowed) == IMAGE
        with pytest.raises(ImageError, match="private"):
            await download_image(f"{server.url}/cat")
        assert proxy.requests == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/cat.jpg", "http or https only"),
        ("/etc/passwd", "http or https only"),
        ("http://", "is not a web address|names no host"),
        ("http://user:secret@example.com/", "user name or password"),
        ("http://secret@example.com/", "user name or password"),
        ("http://[::1/", "not a web address"),
    ],
)
async def test_addresses_that_are_not_fetched(url: str, words: str) -> None:
    with pytest.raises(ImageError, match=words) as caught:
        await download_image(url)
    assert "secret" not in str(caught.value)


async def test_size_is_capped_by_what_is_said_and_by_what_comes() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(IMAGE)
        while True:
            await response.write(b"\0" * 65_536)
            sent += 65_536

    async def says_much(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(10**12)})
        await response.prepare(request)
        return response

    async with serving(endless=endless, much=says_much) as server:
        for path in ("endless", "much"):
            with pytest.raises(ImageError, match=r"at most 1\.0 MB are opened"):
                await download_image(
                    f"{server.url}/{path}", allowed=server.allowed, limits=ImageLimits(max_bytes=2**20)
                )
    assert sent < 64 * 2**20


async def test_time_is_capped() -> None:
    over = asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    async def stalls(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(IMAGE[:100])
        await over.wait()
        return response

    async with serving(silent=silent, stalls=stalls) as server:
        for path in ("silent", "stalls"):
            with pytest.raises(ImageError, match=r"did not arrive within 0\.1 s"):
                await download_image(f"{server.url}/{path}", allowed=server.allowed, timeout_s=0.1)
        over.set()


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (lambda: web.Response(status=404), "answered 404 Not Found"),
        (lambda: web.Response(status=206, body=IMAGE), "answered 206"),
        (lambda: web.Response(text="<html>sign in first</html>" * 50), "is a web page, not an image"),
        (lambda: web.Response(text="nope"), "is a text file, not an image"),
        (lambda: web.Response(), "is empty"),
        (lambda: web.Response(status=302), "redirects to nowhere"),
    ],
)
async def test_anything_but_an_image_is_one_plain_sentence(response: Callable[[], web.Response], words: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return response()

    async with serving(cat=answer) as server:
        with pytest.raises(ImageError, match=words) as caught:
            await download_image(f"{server.url}/cat?signature=secret", allowed=server.allowed)
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith(f"{server.url}/cat ")


async def test_a_connection_that_breaks_is_one_plain_sentence() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100000"})
        await response.prepare(request)
        await response.write(IMAGE[:500])
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(cat=breaks) as server:
        with pytest.raises(ImageError, match="before the image was complete"):
            await download_image(f"{server.url}/cat", allowed=server.allowed)
    with pytest.raises(ImageError, match="could not be fetched"):
        await download_image(f"{server.url}/cat", allowed=server.allowed)  # nobody listens any more
