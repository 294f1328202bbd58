"""`beholder doctor`: check the installation, keys, the ledger and servers; no key is shown or sent."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

import typer

from beholder.cli.options import JsonOption, LedgerOption
from beholder.errors import BeholderError, LedgerError
from beholder.reports.text import print_text, printable

# An image of 8×8 pixels is written in each of these formats and read back, to test the decoders.
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

ServedModels: TypeAlias = Mapping[str, str]  # by the model's name, where its weights came from


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check. `state` is ok, note (nothing is wrong, but good to know) or problem."""

    about: str
    state: str
    said: str


def doctor(
    judge: Annotated[str | None, typer.Option(help="Also ask whether this judge can be reached.")] = None,
    base_url: Annotated[list[str] | None, typer.Option(help="Also ask whether a server answers here.")] = None,
    address: LedgerOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the server.")] = 10.0,
    json_: JsonOption = False,
) -> None:
    """Check keys, decoders, the ledger and, when one is named, the judge's server. Exit code 2 when something is wrong.

    Keys are looked for, never shown and never sent; the server is only asked whether it is there.
    """
    from beholder.cli import EXIT_USAGE

    wrong = False
    for finding in _collect_findings(judge, base_url or [], address, timeout_s):
        wrong = wrong or finding.state == "problem"
        mark = _MARKS[finding.state]
        print_text(json.dumps(asdict(finding)) if json_ else printable(f"{mark} {finding.about}: {finding.said}"))
    raise typer.Exit(EXIT_USAGE if wrong else 0)


def _collect_findings(
    judge: str | None, base_urls: Sequence[str], address: str | None, timeout_s: float
) -> Iterator[DoctorFinding]:
    from beholder import __version__

    yield DoctorFinding("beholder", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from _check_decoders()
    for module, (what, extra) in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        missing = f"not installed; pip install 'beholder[{extra}]'"
        yield DoctorFinding(what, "ok" if there else "note", "installed" if there else missing)
    yield from _check_keys()
    yield from _check_ledger(address)
    if judge or base_urls:
        yield from _check_servers(judge, base_urls, timeout_s)


def _check_decoders() -> Iterator[DoctorFinding]:
    import io

    from PIL import Image

    from beholder.images.prepare import make_thumbnail

    wrong = []
    for file_format in _FORMATS:
        made = io.BytesIO()
        try:
            Image.new("RGB", (8, 8), (200, 40, 40)).save(made, file_format.upper())
            make_thumbnail(made.getvalue())
        except (BeholderError, OSError, KeyError, ValueError) as error:
            wrong.append(f"{file_format} ({error or type(error).__name__})")
    readable = [one for one in _FORMATS if not any(said.startswith(f"{one} ") for said in wrong)]
    yield DoctorFinding("decoders", "ok", ", ".join(readable))
    for said in wrong:
        yield DoctorFinding("decoders", "problem", f"cannot read {said}")


def _check_keys() -> Iterator[DoctorFinding]:
    from beholder.judges.factory import load_plugins
    from beholder.providers.base import Provider

    for provider in load_plugins():
        if isinstance(provider, Provider):
            present = [name for name in provider.key_variables if os.environ.get(name, "").strip()]
            said = f"{present[0]} is set" if present else f"{' or '.join(provider.key_variables)} is not set"
            yield DoctorFinding(f"key for {provider.name}", "ok" if present else "note", said)


def _check_ledger(where: str | None) -> Iterator[DoctorFinding]:
    from beholder.ledger.database import is_postgresql, ledger_exists, resolve_address
    from beholder.ledger.ledger import Ledger

    try:
        path = resolve_address(where)
        shown = "in the database" if is_postgresql(path) else f"at {path}"
        if not ledger_exists(path) and not os.path.lexists(path):
            yield DoctorFinding("ledger", "note", f"none {shown} yet; the first run makes it")
            return
        with Ledger.open(where, read_only=True) as ledger:
            problems = ledger.check()
            count, size = (len(ledger.runs()), ledger.size()) if not problems else (0, 0)
    except LedgerError as error:
        yield DoctorFinding("ledger", "problem", str(error))
        return
    for problem in problems:
        yield DoctorFinding("ledger", "problem", problem)
    if not problems:
        yield DoctorFinding("ledger", "ok", f"{ledger.place} is sound: {count} runs, {size / 1e6:.1f} MB")


def _check_servers(judge: str | None, base_urls: Sequence[str], timeout_s: float) -> Iterator[DoctorFinding]:
    """Check that each server answers and, if servers list their models, that all list the judge's model."""
    import asyncio

    from beholder.judges.factory import load_plugin, split_spec
    from beholder.providers.base import Provider, normalize_base_url

    try:
        prefix, model = split_spec(judge or "openai:any")
        provider = load_plugin(prefix)
        if not base_urls:
            if not isinstance(provider, Provider):
                yield DoctorFinding(
                    "server", "note", f"{prefix} is not Beholder's own provider; only asking it would tell"
                )
                return
            base_urls = [os.environ.get(provider.base_url_variable, "").strip() or provider.base_url]
        path = "/models" if prefix == "openai" else ""
        urls = [normalize_base_url(url) + path for url in base_urls]
    except BeholderError as error:
        yield DoctorFinding("server", "problem", str(error))
        return

    async def asked() -> list[tuple[DoctorFinding, ServedModels]]:
        return await asyncio.gather(*(_query_server(url, timeout_s) for url in urls))

    answers = asyncio.run(asked())
    yield from (finding for finding, _ in answers)
    listed = {url: names for url, (_, names) in zip(urls, answers, strict=True) if names}
    if judge and listed:
        yield _check_models(model, listed)


def _check_models(model: str, listed: Mapping[str, ServedModels]) -> DoctorFinding:
    """Check that all lists of models have this one, with the same weights (vLLM's `root`).

    It is only a note if no server lists it: Ollama, for one, lists models under longer names.
    """
    lacking = {url: names for url, names in listed.items() if model not in names}
    if lacking:
        others = "; ".join(f"{url} lists {', '.join(sorted(names)[:5])}" for url, names in lacking.items())
        state = "problem" if len(lacking) < len(listed) else "note"
        return DoctorFinding("model", state, f"{model} is not listed everywhere: {others}")
    roots = {names[model] for names in listed.values()} - {""}
    if len(roots) > 1:
        return DoctorFinding("model", "note", f"{model} comes from different places: {', '.join(sorted(roots))}")
    return DoctorFinding("model", "ok", f"{model} is listed by {', '.join(listed)}")


async def _query_server(url: str, timeout_s: float) -> tuple[DoctorFinding, ServedModels]:
    """Send one GET without a key; any reply shows that the server is there.

    Returns:
        The finding, and the models that the server lists with the origin of their weights.
    """
    import aiohttp

    from beholder.providers.http import find_proxy, load_certificates

    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=load_certificates()),
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                headers={"User-Agent": "beholder"},
            ) as session,
            session.get(url, proxy=find_proxy(url), allow_redirects=False) as response,
        ):
            status = response.status
            body = b""
            while status == 200 and len(body) < _MOST_BYTES and (piece := await response.content.read(_MOST_BYTES)):
                body += piece
    except TimeoutError:
        return DoctorFinding("server", "problem", f"{url} did not answer within {timeout_s:g} s"), {}
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return DoctorFinding("server", "problem", f"{url} cannot be reached: {error or type(error).__name__}"), {}
    if status >= 500:
        return DoctorFinding("server", "problem", f"{url} answers, with an error of its own (HTTP {status})"), {}
    meaning = {401: ", which wants a key", 403: ", which wants a key"}.get(status, "")
    if status == 404:
        return DoctorFinding("server", "note", f"{url} answers with HTTP 404; look whether the base URL is right"), {}
    return DoctorFinding("server", "ok", f"{url} answers (HTTP {status}{meaning})"), _models_in(body)


def _models_in(body: bytes) -> ServedModels:
    """Return the models of a list in OpenAI's format; none if it is something else."""
    from beholder.providers.payload import MalformedReplyError, as_objects, as_text, parse_object

    try:
        entries = as_objects(parse_object(body).get("data"))
    except MalformedReplyError:
        return {}
    return {as_text(one.get("id")): as_text(one.get("root")) for one in entries if one.get("id")}
