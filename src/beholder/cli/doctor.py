"""`beholder doctor`: whether everything that Beholder needs is there and sound. No key is shown, and none is sent."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

import typer

from beholder.cli.runs import AsJson, LedgerAt
from beholder.errors import BeholderError, LedgerError
from beholder.reports.terminal import printable, say

# Files of 8×8 pixels are made of each of these and read as a judge's picture would be.
_FORMATS = ("jpeg", "png", "webp", "gif", "bmp", "tiff", "avif")
_EXTRAS = {
    "pillow_heif": ("HEIC images", "heic"),
    "polars": ("Parquet and frames", "tables"),
    "genai_prices": ("prices", "prices"),
    "pydantic_ai": ("other providers", "providers"),
    "fastapi": ("the app", "web"),
    "psycopg": ("ledgers in PostgreSQL", "postgres"),
    "ray": ("Ray clusters", "ray"),
    "fsspec": ("object stores", "stores"),
}
_MOST_BYTES = 1024 * 1024  # of a server's list of models
_MARKS = {"ok": "✓", "note": "·", "problem": "✗"}

Listed: TypeAlias = Mapping[str, str]  # by the model's name, where its weights came from


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at. `state` is ok, note (nothing is wrong, but good to know) or problem."""

    about: str
    state: str
    said: str


def doctor(
    judge: Annotated[str | None, typer.Option(help="Also ask whether this judge can be reached.")] = None,
    base_url: Annotated[list[str] | None, typer.Option(help="Also ask whether a server answers here.")] = None,
    ledger: LedgerAt = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the server.")] = 10.0,
    json_: AsJson = False,
) -> None:
    """Check keys, decoders, the ledger and, when one is named, the judge's server. Exit code 2 when something is wrong.

    Keys are looked for, never shown and never sent; the server is only asked whether it is there.
    """
    from beholder.cli import WRONG_USE

    wrong = False
    for finding in _findings(judge, base_url or [], ledger, timeout_s):
        wrong = wrong or finding.state == "problem"
        mark = _MARKS[finding.state]
        say(json.dumps(asdict(finding)) if json_ else printable(f"{mark} {finding.about}: {finding.said}"))
    raise typer.Exit(WRONG_USE if wrong else 0)


def _findings(judge: str | None, base_urls: Sequence[str], ledger: str | None, timeout_s: float) -> Iterator[Finding]:
    from beholder import __version__

    yield Finding("beholder", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from _decoders()
    for module, (what, extra) in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        missing = f"not installed; pip install 'beholder[{extra}]'"
        yield Finding(what, "ok" if there else "note", "installed" if there else missing)
    yield from _keys()
    yield from _ledger(ledger)
    if judge or base_urls:
        yield from _servers(judge, base_urls, timeout_s)


def _decoders() -> Iterator[Finding]:
    import io

    from PIL import Image

    from beholder.images.thumbnails import thumbnail

    wrong = []
    for file_format in _FORMATS:
        made = io.BytesIO()
        try:
            Image.new("RGB", (8, 8), (200, 40, 40)).save(made, file_format.upper())
            thumbnail(made.getvalue())
        except (BeholderError, OSError, KeyError, ValueError) as error:
            wrong.append(f"{file_format} ({error or type(error).__name__})")
    readable = [one for one in _FORMATS if not any(said.startswith(f"{one} ") for said in wrong)]
    yield Finding("decoders", "ok", ", ".join(readable))
    for said in wrong:
        yield Finding("decoders", "problem", f"cannot read {said}")


def _keys() -> Iterator[Finding]:
    from importlib.metadata import entry_points

    from beholder.judges.wires import Wire

    for entry in entry_points(group="beholder.judges"):
        wire = entry.load()
        if isinstance(wire, Wire):
            present = [name for name in wire.key_variables if os.environ.get(name, "").strip()]
            said = f"{present[0]} is set" if present else f"{' or '.join(wire.key_variables)} is not set"
            yield Finding(f"key for {wire.name}", "ok" if present else "note", said)


def _ledger(where: str | None) -> Iterator[Finding]:
    from beholder.ledger import Ledger
    from beholder.ledger.places import exists_at, in_postgresql, place

    try:
        path = place(where)
        shown = "in the database" if in_postgresql(path) else f"at {path}"
        if not exists_at(path) and not os.path.lexists(path):
            yield Finding("ledger", "note", f"none {shown} yet; the first run makes it")
            return
        with Ledger.open(where, read_only=True) as book:
            problems = book.check()
            count, size = (len(book.runs()), book.size()) if not problems else (0, 0)
    except LedgerError as error:
        yield Finding("ledger", "problem", str(error))
        return
    for problem in problems:
        yield Finding("ledger", "problem", problem)
    if not problems:
        yield Finding("ledger", "ok", f"{book.place} is sound: {count} runs, {size / 1e6:.1f} MB")


def _servers(judge: str | None, base_urls: Sequence[str], timeout_s: float) -> Iterator[Finding]:
    """Whether each server answers and, where they say what they serve, whether all serve the judge's model."""
    import asyncio
    from importlib.metadata import entry_points

    from beholder.judges.model import checked_url, split_spec
    from beholder.judges.wires import Wire

    try:
        provider, model = split_spec(judge or "openai:any")
        wire = next((entry.load() for entry in entry_points(group="beholder.judges") if entry.name == provider), None)
        if not base_urls:
            if not isinstance(wire, Wire):
                yield Finding("server", "note", f"{provider} is not Beholder's own wire; only asking it would tell")
                return
            base_urls = [os.environ.get(wire.base_url_variable, "").strip() or wire.base_url]
        path = "/models" if provider == "openai" else ""
        urls = [checked_url(url) + path for url in base_urls]
    except BeholderError as error:
        yield Finding("server", "problem", str(error))
        return

    async def asked() -> list[tuple[Finding, Listed]]:
        return await asyncio.gather(*(_ask(url, timeout_s) for url in urls))

    answers = asyncio.run(asked())
    yield from (finding for finding, _ in answers)
    listed = {url: names for url, (_, names) in zip(urls, answers, strict=True) if names}
    if judge and listed:
        yield _served(model, listed)


def _served(model: str, listed: Mapping[str, Listed]) -> Finding:
    """Whether servers that list their models list this one, and from the same weights (vLLM's `root`). What none of
    them lists may still be served: Ollama, for one, knows its models by longer names."""
    lacking = {url: names for url, names in listed.items() if model not in names}
    if lacking:
        told = "; ".join(f"{url} lists {', '.join(sorted(names)[:5])}" for url, names in lacking.items())
        state = "problem" if len(lacking) < len(listed) else "note"
        return Finding("model", state, f"{model} is not listed everywhere: {told}")
    roots = {names[model] for names in listed.values()} - {""}
    if len(roots) > 1:
        return Finding("model", "note", f"{model} comes from different places: {', '.join(sorted(roots))}")
    return Finding("model", "ok", f"{model} is listed by {', '.join(listed)}")


async def _ask(url: str, timeout_s: float) -> tuple[Finding, Listed]:
    """One GET without a key: any answer shows that somebody is there. Also the models that it lists, each with where
    its weights came from, if the server says so."""
    import aiohttp

    from beholder.judges.wires.transport import certificates, proxy_for

    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=certificates()),
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                headers={"User-Agent": "beholder"},
            ) as session,
            session.get(url, proxy=proxy_for(url), allow_redirects=False) as response,
        ):
            status = response.status
            body = b""
            while status == 200 and len(body) < _MOST_BYTES and (piece := await response.content.read(_MOST_BYTES)):
                body += piece
    except TimeoutError:
        return Finding("server", "problem", f"{url} did not answer within {timeout_s:g} s"), {}
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Finding("server", "problem", f"{url} cannot be reached: {error or type(error).__name__}"), {}
    if status >= 500:
        return Finding("server", "problem", f"{url} answers, with an error of its own (HTTP {status})"), {}
    meaning = {401: ", which wants a key", 403: ", which wants a key"}.get(status, "")
    if status == 404:
        return Finding("server", "note", f"{url} answers with HTTP 404; look whether the base URL is right"), {}
    return Finding("server", "ok", f"{url} answers (HTTP {status}{meaning})"), _models_in(body)


def _models_in(body: bytes) -> Listed:
    """The models of a list in OpenAI's form; none where it is something else."""
    from beholder.judges.wires import Malformed
    from beholder.judges.wires.reading import document, items, text

    try:
        entries = items(document(body).get("data"))
    except Malformed:
        return {}
    return {text(one.get("id")): text(one.get("root")) for one in entries if one.get("id")}
