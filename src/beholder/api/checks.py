"""`measure` (what changed between two images, how good one is) and `doctor` (is everything here that a judge needs)."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from beholder.api.arguments import check_number, to_names
from beholder.api.loop import run_in_background
from beholder.errors import BeholderError, ImageError, LedgerError, UsageError
from beholder.images.in_memory import normalize_image
from beholder.images.source import read_image
from beholder.ledger.ledger import Ledger

if TYPE_CHECKING:
    from beholder.instruments.instrument import Instrument, Measurement
    from beholder.instruments.pair import ImagePair
    from beholder.rubrics.brief import Brief
    from beholder.verdicts.answer import Answer


PEOPLE_FAMILY = "people"  # predicted human ratings, shown like a family of instruments


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """What was measured on two images, or one: the result of `measure`. `result["colour.shift"]` is one `Measurement`.

    Attributes:
        sources: The files, by role: before, after, and mask if there is one; or image. An image in memory has no name.
        sizes: Width and height of the images, as they are in the files; not of the mask.
        values: The measurements by name, family by family.
        maps: The pictures that were written, by name.
    """

    sources: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]]
    values: Mapping[str, Measurement]
    maps: Mapping[str, Path] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Measurement:
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, as `beholder measure --json` prints them."""
        described: dict[str, object] = {
            role: {"source": self.sources[role], "width": width, "height": height}
            for role, (width, height) in self.sizes.items()
        }
        described["mask"] = self.sources.get("mask")
        described["measurements"] = {
            name: {
                "value": measurement.value,
                "unit": measurement.unit,
                "better": measurement.better or None,
                "sentence": measurement.sentence,
            }
            for name, measurement in self.values.items()
        }
        if self.maps:
            described["maps"] = {name: str(path) for name, path in self.maps.items()}
        return described

    def __repr__(self) -> str:
        return f"<{len(self.values)} Measurements of {self._title}>"

    @property
    def _title(self) -> str:
        return " → ".join(self.sources[role] for role in self.sizes)

    def _repr_html_(self) -> str:
        from beholder.instruments.heatmap import format_value
        from beholder.reports.charts import html_result, html_table

        rows = [
            (name, "—" if one.value is None else format_value(one.value, one.unit), one.better, one.sentence)
            for name, one in self.values.items()
        ]
        table = html_table(("measured", "value", "better", "what it says"), rows)
        return html_result(self._title, [table])


def measure(
    before: object,
    after: object = None,
    /,
    *,
    mask: object = None,
    only: str | Sequence[str] = (),
    maps: str | os.PathLike[str] | None = None,
) -> Measurements:
    """Measure what changed between two images, and how good the second one is; or how good one image is. Asks nobody.

    Args:
        before: The image as it was: a path, bytes, a data URI, a PIL image, an array, or anything that `Case` takes.
        after: What was made of it. Without it, `before` is measured by itself: its technical quality.
        mask: An image that is white where the edit belongs; without one that is inferred.
        only: A family or an instrument, such as "colour", or several; "people" are predicted human ratings.
        maps: A folder to write pictures into of where it is, one for each measurement that has a map.

    Raises:
        UsageError: There is no such instrument, or the folder cannot be written to.
        ImageError: An image cannot be used.
    """
    from beholder.instruments.human_ratings import predict_pair_ratings
    from beholder.instruments.instrument import state_condition
    from beholder.instruments.pair import ImagePair

    names = to_names("only", only)
    if after is None:
        if mask is not None or maps is not None:
            raise UsageError("A mask and maps are for two images; only one was given.")
        return _measure_one(before, names)
    wanted = [name for name in names if name != PEOPLE_FAMILY]
    chosen = _select_instruments(wanted) if wanted or not names else []
    given = {"before": before, "after": after} | ({} if mask is None else {"mask": mask})
    sources = {role: _name_source(image, role) for role, image in given.items()}
    data = {role: _read_image(role, image) for role, image in given.items()}
    shown = (sources["before"], sources["after"], sources.get("mask", ""))
    pair = ImagePair.load(data["before"], data["after"], mask=data.get("mask"), names=shown)
    values = _run_instruments(chosen, pair)
    if not names or PEOPLE_FAMILY in names:
        values |= {
            name: replace(rating, sentence=state_condition(name, rating.sentence))
            for name, rating in predict_pair_ratings(pair).items()
        }
    written = {} if maps is None else _write_maps(chosen, values, pair, Path(maps))
    sizes = dict(zip(("before", "after"), pair.sizes, strict=False))
    return Measurements(sources, sizes, values, written)


def _measure_one(image: object, names: Sequence[str]) -> Measurements:
    from beholder.instruments.pair import SingleImage
    from beholder.instruments.registry import measure_image

    source, data = _name_source(image, "image"), _read_image("image", image)
    single = SingleImage.load(data, name=source)
    return Measurements({"image": source}, {"image": single.size}, measure_image(single, names or None))


def _name_source(image: object, role: str) -> str:
    """Return what an image is called in messages: its path or address, if it has one."""
    if isinstance(image, str | os.PathLike) and str(image)[:5].lower() != "data:":
        return str(image)
    return f"the image {role}" if role != "mask" else "the mask"


def family_of(name: str) -> str:
    """Return the family of an instrument."""
    return name.partition(".")[0]


def _select_instruments(names: Sequence[str]) -> list[Instrument]:
    """Return the instruments for images, or those named by themselves or by their family."""
    from beholder.instruments.registry import list_instruments

    known = [*list_instruments("pair"), *list_instruments("image")]
    families = list(dict.fromkeys(family_of(instrument.name) for instrument in known))
    for name in names:
        if name not in families and name not in {instrument.name for instrument in known}:
            valid = [instrument.name for instrument in known if family_of(instrument.name) == family_of(name)] or [
                *families,
                PEOPLE_FAMILY,
            ]
            raise UsageError(f"No instrument is named {name!r}; there are {', '.join(valid)}.")
    picked = [
        instrument
        for instrument in known
        if not names or instrument.name in names or family_of(instrument.name) in names
    ]
    return sorted(picked, key=lambda one: families.index(family_of(one.name)))


def _run_instruments(chosen: Iterable[Instrument], pair: ImagePair) -> dict[str, Measurement]:
    """Run the instruments; one for a single image gets the second image."""
    from beholder.instruments.registry import take_measurement

    after = pair.images()[1]
    return {
        instrument.name: take_measurement(instrument, pair if instrument.kind == "pair" else after)
        for instrument in chosen
    }


def _read_image(role: str, image: object) -> bytes:
    try:
        source = normalize_image(image)
    except ImageError as error:  # a predicate
        raise ImageError(f"The image {role!r} {error}") from None
    return read_image(source)


def _write_maps(
    chosen: Iterable[Instrument], measurements: Mapping[str, Measurement], pair: ImagePair, folder: Path
) -> dict[str, Path]:
    from beholder.instruments.heatmap import render_png

    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{str(folder)!r} is not a folder; maps are written into one, which is made where there is none."
        )
    written: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for instrument in chosen:
            if measurements[instrument.name].map is not None:
                path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', instrument.name)}.png"
                path.write_bytes(
                    render_png(
                        measurements[instrument.name], pair, instrument.about, on_after=instrument.kind == "image"
                    )
                )
                written[instrument.name] = path
    except OSError as error:
        raise UsageError(f"{str(folder)!r} cannot be written to: {error.strerror or error}.") from None
    return written


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

ServedModels: TypeAlias = Mapping[str, str]  # by the model's name, where its weights came from


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check of `doctor`. `state` is ok, note (nothing is wrong, but good to know) or problem."""

    about: str
    state: str
    said: str

    def to_dict(self) -> dict[str, str]:
        """Return JSON values, as `beholder doctor --json` prints them."""
        return asdict(self)


class CheckList(list[Check]):
    """The checks of `doctor`, in order: a list, which a notebook shows as a table."""

    def to_dict(self) -> dict[str, object]:
        """Return JSON values: under `checks`, what `beholder doctor --json` prints line by line."""
        return {"checks": [check.to_dict() for check in self]}

    def __repr__(self) -> str:
        states = Counter(check.state for check in self)
        return f"<CheckList, {', '.join(f'{count} {state}' for state, count in states.items())}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_result, html_table

        rows = [(check.about, check.state, check.said) for check in self]
        return html_result("beholder doctor", [html_table(("checked", "state", "what it says"), rows)])


def doctor(
    *,
    judge: str | None = None,
    base_url: str | Sequence[str] = (),
    ledger: str | os.PathLike[str] | None = None,
    timeout_s: float = 10.0,
) -> CheckList:
    """Check keys, decoders, the ledger and, when one is named, the judge's server.

    Keys are never shown. With a judge, one small image is sent to it, with its key, and what works is said: images,
    structured output, token counts. That may cost a fraction of a cent.

    Args:
        judge: Also ask this judge one question about a small image.
        base_url: Also ask whether a server answers here, or several.
        ledger: The ledger; by default BEHOLDER_LEDGER, else `beholder.db`.
        timeout_s: Seconds to wait for a server.
    """
    urls = to_names("base_url", base_url)
    check_number("timeout_s", timeout_s, above=0)
    if judge is not None and not isinstance(judge, str):
        raise UsageError(f"judge is the name of a judge, such as 'openai:gpt-5-mini', not a {type(judge).__name__}.")
    return CheckList(run_checks(judge, urls, ledger, timeout_s))


def run_checks(
    judge: str | None, base_urls: Sequence[str], address: str | os.PathLike[str] | None, timeout_s: float
) -> Iterator[Check]:
    """Run the checks of `doctor` one after the other."""
    from beholder import __version__

    yield Check("beholder", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from _check_decoders()
    for module, (what, extra) in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        missing = f"not installed; pip install 'beholder[{extra}]'"
        yield Check(what, "ok" if there else "note", "installed" if there else missing)
    yield from _check_keys()
    yield from _check_ledger(address)
    if judge or base_urls:
        yield from _check_servers(judge, base_urls, timeout_s)


def _check_decoders() -> Iterator[Check]:
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
    yield Check("decoders", "ok", ", ".join(readable))
    for said in wrong:
        yield Check("decoders", "problem", f"cannot read {said}")


def _check_keys() -> Iterator[Check]:
    from beholder.judges.factory import load_plugins
    from beholder.providers.base import Provider

    for provider in load_plugins():
        if isinstance(provider, Provider):
            present = [name for name in provider.key_variables if os.environ.get(name, "").strip()]
            said = f"{present[0]} is set" if present else f"{' or '.join(provider.key_variables)} is not set"
            yield Check(f"key for {provider.name}", "ok" if present else "note", said)


def _check_ledger(where: str | os.PathLike[str] | None) -> Iterator[Check]:
    from beholder.ledger.database import is_postgresql, ledger_exists, resolve_address

    try:
        path = resolve_address(where)
        shown = "in the database" if is_postgresql(path) else f"at {path}"
        if not ledger_exists(path) and not os.path.lexists(path):
            yield Check("ledger", "note", f"none {shown} yet; the first run makes it")
            return
        with Ledger.open(where, read_only=True) as ledger:
            problems = ledger.check()
            count, size = (len(ledger.runs()), ledger.size()) if not problems else (0, 0)
    except LedgerError as error:
        yield Check("ledger", "problem", str(error))
        return
    for problem in problems:
        yield Check("ledger", "problem", problem)
    if not problems:
        yield Check("ledger", "ok", f"{ledger.place} is sound: {count} runs, {size / 1e6:.1f} MB")


def _check_servers(judge: str | None, base_urls: Sequence[str], timeout_s: float) -> Iterator[Check]:
    """Check that each server answers and, if servers list their models, that all list the judge's model."""
    from beholder.judges.factory import load_plugin, split_spec
    from beholder.providers.base import Provider
    from beholder.providers.endpoint import normalize_base_url

    try:
        prefix, model = split_spec(judge or "openai:any")
        provider = load_plugin(prefix)
        is_given = bool(base_urls)
        if not is_given:
            if not isinstance(provider, Provider):
                if judge and model:
                    yield from _probe_judge(judge, None, timeout_s)
                return
            base_urls = [os.environ.get(provider.base_url_variable, "").strip() or provider.base_url]
        path = "/models" if prefix == "openai" else ""
        urls = [normalize_base_url(url) + path for url in base_urls]
    except BeholderError as error:
        yield Check("server", "problem", str(error))
        return

    async def ask_all(stop: asyncio.Event) -> list[tuple[Check, ServedModels]]:
        return await asyncio.gather(*(_query_server(url, timeout_s, is_asked=judge is not None) for url in urls))

    answers = run_in_background(ask_all)
    yield from (finding for finding, _ in answers)
    listed = {url: names for url, (_, names) in zip(urls, answers, strict=True) if names}
    if judge and listed:
        yield _check_models(model, listed)
    if judge:
        for url, (finding, _) in zip(base_urls, answers, strict=True):
            if finding.state != "problem":
                yield from _probe_judge(judge, url if is_given else None, timeout_s)


_PROBE_WORD = "kestrel"
PROBE_TIMEOUT_S = 60.0  # a large model on a small machine takes its time


def _probe_judge(spec: str, base_url: str | None, timeout_s: float) -> Iterator[Check]:
    """Ask a judge what color a small image has, and say what works: images, structured output, token counts."""
    from beholder.judges.factory import judge_from
    from beholder.providers.schema_support import fits_schema

    place = f" at {base_url}" if base_url else ""

    probe = _make_probe()

    async def ask(stop: asyncio.Event) -> Answer:
        judge = judge_from(spec, base_url=base_url, timeout_s=max(timeout_s, PROBE_TIMEOUT_S), retries=0)
        try:
            return await judge.answer(probe)
        finally:
            await judge.aclose()

    try:
        answer = run_in_background(ask)
    except BeholderError as error:
        yield Check("answer", "problem", str(error))
        return
    said = " ".join(answer.text.split())[:80]
    if answer.finish != "complete" or not said:
        yield Check("answer", "problem", f"{spec}{place} gave none ({answer.finish}); {answer.detail or 'it is empty'}")
        return
    yield Check("answer", "ok", f"{spec}{place} answered" + (f" as {answer.model}" if answer.model else ""))
    if "red" in said.lower():
        yield Check("images", "ok", "it sees them: a red square was called red")
    else:
        yield Check("images", "note", f"it may not see them: a red square was called {said!r}")
    if answer.flags:
        yield Check("schema", "note", "no structured output; the schema goes into the prompt (--structured-output off)")
    elif fits_schema(answer.text, probe.schema or {}):
        yield Check("schema", "ok", "structured output works")
    else:
        yield Check("schema", "note", "structured output is accepted and ignored; use --structured-output off")
    used = answer.usage
    if used.input_tokens is None:
        yield Check("usage", "note", "it does not say how many tokens it used; costs stay unknown")
    else:
        yield Check("usage", "ok", f"{used.input_tokens} tokens in, {used.output_tokens or 0} out")


def _make_probe() -> Brief:
    """Return a question about a red square of 64 pixels; some models take no smaller image.

    Only its schema says that the answer is JSON, and which word is to stand under `form`: a server that ignores the
    schema cannot answer so by chance.
    """
    import hashlib
    import io

    from PIL import Image

    from beholder.images.image import PreparedImage
    from beholder.rubrics.brief import Brief, ImageBlock, TextBlock

    made = io.BytesIO()
    Image.new("RGB", (64, 64), (220, 20, 20)).save(made, "PNG")
    data = made.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    image = ImageBlock("image", "Image:", PreparedImage(data, "image/png", 64, 64, digest, digest, 64, 64, "png"))
    schema = {
        "type": "object",
        "properties": {
            "color": {"type": "string", "description": "the color in one English word"},
            "form": {"type": "string", "enum": [_PROBE_WORD]},
        },
        "required": ["color", "form"],
        "additionalProperties": False,
    }
    question = TextBlock("Which color is this image? Answer with the color in one English word.")
    return Brief(
        "doctor", "1", None, "You look at images.", (image, question), schema, digest, "doctor", answer_tokens=256
    )


def _check_models(model: str, listed: Mapping[str, ServedModels]) -> Check:
    """Check that all lists of models have this one, with the same weights (vLLM's `root`).

    It is only a note if no server lists it: Ollama, for one, lists models under longer names.
    """
    lacking = {url: names for url, names in listed.items() if model not in names}
    if lacking:
        others = "; ".join(f"{url} lists {', '.join(sorted(names)[:5])}" for url, names in lacking.items())
        state = "problem" if len(lacking) < len(listed) else "note"
        return Check("model", state, f"{model} is not listed everywhere: {others}")
    roots = {names[model] for names in listed.values()} - {""}
    if len(roots) > 1:
        return Check("model", "note", f"{model} comes from different places: {', '.join(sorted(roots))}")
    return Check("model", "ok", f"{model} is listed by {', '.join(listed)}")


async def _query_server(url: str, timeout_s: float, *, is_asked: bool) -> tuple[Check, ServedModels]:
    """Send one GET without a key; any reply shows that the server is there.

    Args:
        url: Where.
        timeout_s: How long to wait.
        is_asked: Whether a question to the judge follows, which shows what an error of the server means.

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
        return Check("server", "problem", f"{url} did not answer within {timeout_s:g} s"), {}
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Check("server", "problem", f"{url} cannot be reached: {error or type(error).__name__}"), {}
    if status >= 500:
        # LiteLLM's proxy says so to who has no key; the question that follows has it.
        said = f"{url} answers, with an error of its own (HTTP {status}) where no key is sent"
        return Check("server", "note" if is_asked else "problem", said), {}
    meaning = {401: ", which wants a key", 403: ", which wants a key"}.get(status, "")
    if status == 404:
        return Check("server", "note", f"{url} answers with HTTP 404; look whether the base URL is right"), {}
    return Check("server", "ok", f"{url} answers (HTTP {status}{meaning})"), _models_in(body)


def _models_in(body: bytes) -> ServedModels:
    """Return the models of a list in OpenAI's format; none if it is something else."""
    from beholder.providers.payload import MalformedReplyError, as_objects, as_text, parse_object

    try:
        entries = as_objects(parse_object(body).get("data"))
    except MalformedReplyError:
        return {}
    return {as_text(one.get("id")): as_text(one.get("root")) for one in entries if one.get("id")}
