"""`beholder measure`: run the instruments on two images, without a judge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.errors import UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from beholder.instruments.instrument import Instrument, Measurement
    from beholder.instruments.pair import ImagePair


PEOPLE_FAMILY = "people"  # predicted human ratings, shown like a family of instruments
ARROWS = {"higher": "↑", "lower": "↓", "": ""}


def measure(
    before: Annotated[str, typer.Argument(help="The image as it was.", show_default=False)],
    after: Annotated[str, typer.Argument(help="What was made of it.", show_default=False)],
    mask: Annotated[
        str | None, typer.Option(help="An image that is white where the edit belongs; without one that is inferred.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A family or an instrument, such as colour; again for another.")
    ] = None,
    maps: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a picture of where it is, for each that has a map.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object, without the maps.")] = False,
) -> None:
    """Measure what changed between two images, and how good the second one is."""
    from beholder.images.source import read_image
    from beholder.instruments.human_ratings import predict_pair_ratings
    from beholder.instruments.pair import ImagePair

    wanted = [name for name in only or () if name != PEOPLE_FAMILY]
    chosen = _select_instruments(wanted) if wanted or not only else []
    files = [before, after] if mask is None else [before, after, mask]
    data = [read_image(file) for file in files]
    pair = ImagePair.load(data[0], data[1], mask=None if mask is None else data[2], names=(before, after, mask or ""))
    measurements = _run_instruments(chosen, pair)
    if not only or PEOPLE_FAMILY in only:
        measurements |= predict_pair_ratings(pair)
    written = {} if maps is None else _write_maps(chosen, measurements, pair, maps)
    if json_:
        print_text(json.dumps(_as_dict(files, pair, measurements, written), ensure_ascii=False))
        return
    _print_measurements(files, pair, measurements)
    if maps is not None:
        print_text(_maps_sentence(written, maps))


def _select_instruments(names: Sequence[str]) -> list[Instrument]:
    """Return the instruments for images, or those named by themselves or by their family."""
    from beholder.instruments.registry import list_instruments

    known = [*list_instruments("pair"), *list_instruments("image")]
    families = list(dict.fromkeys(_family(instrument.name) for instrument in known))
    for name in names:
        if name not in families and name not in {instrument.name for instrument in known}:
            valid = [instrument.name for instrument in known if _family(instrument.name) == _family(name)] or [
                *families,
                PEOPLE_FAMILY,
            ]
            raise UsageError(f"No instrument is named {name!r}; there are {', '.join(valid)}.")
    picked = [
        instrument for instrument in known if not names or instrument.name in names or _family(instrument.name) in names
    ]
    return sorted(picked, key=lambda one: families.index(_family(one.name)))


def _run_instruments(chosen: Iterable[Instrument], pair: ImagePair) -> dict[str, Measurement]:
    """Run the instruments; one for a single image gets the second image."""
    from beholder.instruments.pair import SingleImage
    from beholder.instruments.registry import take_measurement

    after = SingleImage(pair.after, size=pair.sizes[1])
    return {
        instrument.name: take_measurement(instrument, pair if instrument.kind == "pair" else after)
        for instrument in chosen
    }


def _write_maps(
    chosen: Iterable[Instrument], measurements: Mapping[str, Measurement], pair: ImagePair, folder: Path
) -> dict[str, Path]:
    from beholder.instruments.heatmap import render_png

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{str(folder)!r} is not a folder; --maps takes one, and makes it where there is none.")
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


def _as_dict(
    files: Sequence[str], pair: ImagePair, measurements: Mapping[str, Measurement], written: Mapping[str, Path]
) -> dict[str, object]:
    described: dict[str, object] = {
        role: {"source": source, "width": width, "height": height}
        for role, source, (width, height) in zip(("before", "after"), files, pair.sizes, strict=False)
    }
    described["mask"] = files[2] if len(files) > 2 else None
    described["measurements"] = {
        name: {
            "value": measurement.value,
            "unit": measurement.unit,
            "better": measurement.better or None,
            "sentence": measurement.sentence,
        }
        for name, measurement in measurements.items()
    }
    if written:
        described["maps"] = {name: str(path) for name, path in written.items()}
    return described


def _print_measurements(files: Sequence[str], pair: ImagePair, measurements: Mapping[str, Measurement]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beholder.instruments.heatmap import format_value

    sizes = [f"{name} ({width}×{height})" for name, (width, height) in zip(files, pair.sizes, strict=False)]
    place = f"the edit belongs where {files[2]} is white" if len(files) > 2 else "where the edit belongs is inferred"
    print_text(printable(f"{' → '.join(sizes)}; {place}"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("measured", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("what it says")
    for family, members in groupby(measurements.values(), key=lambda one: _family(one.name)):
        table.add_section()
        table.add_row(Text(printable(family).capitalize(), "bold"))
        for member in members:
            value = (
                Text("—", "dim") if member.value is None else Text(printable(format_value(member.value, member.unit)))
            )
            sentence = Text(printable(member.sentence), "dim" if member.value is None else "")
            name = Text(f"  {printable(member.name.partition('.')[2])}")
            table.add_row(name, value, ARROWS[member.better], sentence)
    console = Console(highlight=False, emoji=False)
    console.print(table)
    console.print(Text("↑ higher is better   ↓ lower is better   — no meaning here", "dim"))


def _maps_sentence(written: Mapping[str, Path], folder: Path) -> str:
    if not written:
        return "None of these measurements has a map here; no picture was written."
    names = ", ".join(path.name for path in written.values())
    return printable(f"Wrote {len(written)} {'map' if len(written) == 1 else 'maps'} to {folder}: {names}")


def _family(name: str) -> str:
    return name.partition(".")[0]
