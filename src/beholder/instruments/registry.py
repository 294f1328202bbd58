"""Every instrument there is: ours and those of plugins, found by entry points in the group `beholder.instruments`.

An entry point names a tuple of `Instrument`s, a family: `colour = "beholder.instruments.colour:INSTRUMENTS"`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from beholder.errors import SetupError, UsageError
from beholder.instruments.model import Instrument, Kind, Measurement
from beholder.instruments.pair import Pair, Picture

GROUP = "beholder.instruments"

# The order in which people read them; families of plugins follow by name.
_ORDER = ("geometry", "colour", "structure", "locality", "quality", "restyle", "description")


def instruments(kind: Kind = "pair") -> tuple[Instrument, ...]:
    """The instruments of a kind, ours first. Raises `SetupError` for a plugin that cannot be used."""
    return tuple(one for one in _all() if one.kind == kind)


def measure_pair(
    pair: Pair, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the pair instruments say of two images, by name: all of them, those of `names`, or the cheap ones.

    A name may be that of a family. Raises `UsageError` for a name that no pair instrument has.
    """
    return {one.name: one.measure(pair) for one in _chosen("pair", names, cheap_only)}


def measure_image(
    picture: Picture, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the image instruments say of one image. As `measure_pair`."""
    return {one.name: one.measure(picture) for one in _chosen("image", names, cheap_only)}


def _chosen(kind: Kind, names: Collection[str] | None, cheap_only: bool) -> list[Instrument]:
    known = instruments(kind)
    if names is not None:
        there = {one.name for one in known} | {one.name.partition(".")[0] for one in known}
        if strangers := sorted(set(names) - there):
            raise UsageError(f"No {kind} instrument is named {strangers[0]!r}; there are {', '.join(sorted(there))}.")
        known = tuple(one for one in known if one.name in names or one.name.partition(".")[0] in names)
    return [one for one in known if one.cheap or not cheap_only]


@cache
def _all() -> tuple[Instrument, ...]:
    found: dict[str, Instrument] = {}
    points = sorted(
        entry_points(group=GROUP),
        key=lambda point: (_ORDER.index(point.name) if point.name in _ORDER else len(_ORDER), point.name),
    )
    for point in points:
        for one in _family(point):
            if one.name in found:
                raise SetupError(f"{_called(point)} brings {one.name!r}, a name that another instrument has.")
            found[one.name] = one
    return tuple(found.values())


def _family(point: EntryPoint) -> tuple[Instrument, ...]:
    try:
        family = tuple(point.load())
    except Exception as error:  # whatever a stranger's module raises
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise SetupError(
            f"{_called(point)} cannot be loaded: {why}. Mend or uninstall the package that brings it."
        ) from None
    if not all(isinstance(one, Instrument) for one in family):
        raise SetupError(f"{_called(point)} must be a tuple of Instruments, and holds something else.")
    return family


def _called(point: EntryPoint) -> str:
    return f"The plugin {point.name!r} of {point.group} ({point.value})"
