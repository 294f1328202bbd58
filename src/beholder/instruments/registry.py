"""Every instrument there is: ours and those of plugins, found by entry points in the group `beholder.instruments`.

An entry point names a tuple of `Instrument`s, a family, whose names begin with its own:
`colour = "beholder.instruments.colour:INSTRUMENTS"`. Who asks for instruments by name loads no other family, so that a
plugin which cannot be loaded stops only those who want it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise

from beholder.errors import SetupError, UsageError
from beholder.instruments.model import Instrument, Kind, Measurement
from beholder.instruments.pair import Pair, Picture

GROUP = "beholder.instruments"

# The order in which people read them; families of plugins follow by name.
_ORDER = ("geometry", "colour", "structure", "locality", "quality", "naturalness", "restyle", "description")


def instruments(kind: Kind = "pair") -> tuple[Instrument, ...]:
    """The instruments of a kind, ours first. Raises `SetupError` for a plugin that cannot be used."""
    return tuple(one for one in _all() if one.kind == kind)


def measure_pair(
    pair: Pair, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the pair instruments say of two images, by name: all of them, those of `names`, or the cheap ones.

    A name may be that of a family. Raises `UsageError` for a name that no pair instrument has.
    """
    return {one.name: taken(one, pair) for one in _chosen("pair", names, cheap_only)}


def measure_image(
    picture: Picture, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the image instruments say of one image. As `measure_pair`."""
    return {one.name: taken(one, picture) for one in _chosen("image", names, cheap_only)}


def taken(one: Instrument, subject: Pair | Picture) -> Measurement:
    """What an instrument says. A plugin that raises, or measures no number, has not measured; our own never do."""
    if one.name.partition(".")[0] in _ORDER:
        return one.measure(subject)
    try:
        found = one.measure(subject)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return Measurement(one.name, None, sentence=f"Not measured: the plugin failed, {why}.")
    if not isinstance(found, Measurement):
        return Measurement(one.name, None, sentence="Not measured: the plugin gave something else than a Measurement.")
    return found


def _chosen(kind: Kind, names: Collection[str] | None, cheap_only: bool) -> list[Instrument]:
    if names is None:
        known = instruments(kind)
    else:
        wanted = {name.partition(".")[0] for name in names}
        known = tuple(one for point in _points() if point.name in wanted for one in _family(point) if one.kind == kind)
        there = {one.name for one in known} | {one.name.partition(".")[0] for one in known}
        if strangers := sorted(set(names) - there):
            all_ = sorted({one.name for one in instruments(kind)} | {point.name for point in _points()})
            raise UsageError(f"No {kind} instrument is named {strangers[0]!r}; there are {', '.join(all_)}.")
        known = tuple(one for one in known if one.name in names or one.name.partition(".")[0] in names)
    return [one for one in known if one.cheap or not cheap_only]


def _all() -> tuple[Instrument, ...]:
    return tuple(one for point in _points() for one in _family(point))


@cache
def _points() -> tuple[EntryPoint, ...]:
    """Ours in their order, then those of plugins by name. Raises `SetupError` for a name that stands there twice."""
    points = sorted(
        entry_points(group=GROUP),
        key=lambda point: (_ORDER.index(point.name) if point.name in _ORDER else len(_ORDER), point.name),
    )
    for one, other in pairwise(points):
        if one.name == other.name:
            raise SetupError(f"{_called(other)} has the name of another family ({one.value}).")
    return tuple(points)


@cache
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
    names = [one.name for one in family]
    for name in names:
        if name.partition(".")[0] != point.name or names.count(name) > 1:
            wanted = f"names must be {point.name}.SOMETHING, each once"
            raise SetupError(f"{_called(point)} brings {name!r}; its {wanted}.")
    return family


def _called(point: EntryPoint) -> str:
    return f"The plugin {point.name!r} of {point.group} ({point.value})"
