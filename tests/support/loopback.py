"""A forward proxy and a TLS front for the loopback server, each a few lines of asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "certificates"


@dataclass
class Seen:
    """Where a proxy or a front listens, and the first lines of what came to it."""

    port: int = 0
    lines: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with suppress(ConnectionError, OSError):
        writer.close()


async def _between(
    left: tuple[asyncio.StreamReader, asyncio.StreamWriter], right: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    await asyncio.gather(_pipe(left[0], right[1]), _pipe(right[0], left[1]))


@asynccontextmanager
async def _serving(handle: object, seen: Seen, context: ssl.SSLContext | None = None) -> AsyncIterator[Seen]:
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)  # type: ignore[arg-type]
    seen.port = server.sockets[0].getsockname()[1]
    async with server:
        yield seen


@asynccontextmanager
async def proxy() -> AsyncIterator[Seen]:
    """Forwards plain requests and tunnels CONNECT, as a company's proxy does."""
    seen = Seen()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, _, rest = head.partition("\r\n")
        seen.lines.append(line)
        seen.heads.append(rest)
        method, target, version = line.split(" ")
        place, _, path = target.removeprefix("http://").partition("/")
        host, _, port = place.partition(":")
        outward = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            outward[1].write(f"{method} /{path} {version}\r\n{rest}".encode("latin-1"))
        await _between((reader, writer), outward)

    async with _serving(handle, seen) as running:
        yield running


@asynccontextmanager
async def tls_front(port: int) -> AsyncIterator[Seen]:
    """HTTPS in front of a plain server on `port`."""
    seen = Seen()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / "server.pem")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _between((reader, writer), await asyncio.open_connection("127.0.0.1", port))

    async with _serving(handle, seen, context) as running:
        yield running
