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
from beholder.instruments.instrument import Instrument, InstrumentKind, Measurement
from beholder.instruments.pair import ImagePair, SingleImage

ENTRY_POINT_GROUP = "beholder.instruments"

# The order in which people read them; families of plugins follow by name.
_FAMILY_ORDER = ("geometry", "colour", "structure", "locality", "quality", "naturalness", "restyle", "description")


def list_instruments(kind: InstrumentKind = "pair") -> tuple[Instrument, ...]:
    """The instruments of a kind, ours first. Raises `SetupError` for a plugin that cannot be used."""
    return tuple(one for one in _load_all() if one.kind == kind)


def measure_pair(
    pair: ImagePair, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the pair instruments say of two images, by name: all of them, those of `names`, or the cheap ones.

    A name may be that of a family. Raises `UsageError` for a name that no pair instrument has.
    """
    return {one.name: take_measurement(one, pair) for one in _select_instruments("pair", names, cheap_only)}


def measure_image(
    picture: SingleImage, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """What the image instruments say of one image. As `measure_pair`."""
    return {one.name: take_measurement(one, picture) for one in _select_instruments("image", names, cheap_only)}


def take_measurement(one: Instrument, subject: ImagePair | SingleImage) -> Measurement:
    """What an instrument says. A plugin that raises, or measures no number, has not measured; our own never do."""
    if one.name.partition(".")[0] in _FAMILY_ORDER:
        return one.measure(subject)
    try:
        found = one.measure(subject)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return Measurement(one.name, None, sentence=f"Not measured: the plugin failed, {why}.")
    if not isinstance(found, Measurement):
        return Measurement(one.name, None, sentence="Not measured: the plugin gave something else than a Measurement.")
    return found


def _select_instruments(kind: InstrumentKind, names: Collection[str] | None, cheap_only: bool) -> list[Instrument]:
    if names is None:
        known = list_instruments(kind)
    else:
        wanted = {name.partition(".")[0] for name in names}
        known = tuple(
            one
            for point in _find_entry_points()
            if point.name in wanted
            for one in _load_family(point)
            if one.kind == kind
        )
        there = {one.name for one in known} | {one.name.partition(".")[0] for one in known}
        if strangers := sorted(set(names) - there):
            all_ = sorted({one.name for one in list_instruments(kind)} | {point.name for point in _find_entry_points()})
            raise UsageError(f"No {kind} instrument is named {strangers[0]!r}; there are {', '.join(all_)}.")
        known = tuple(one for one in known if one.name in names or one.name.partition(".")[0] in names)
    return [one for one in known if one.cheap or not cheap_only]


def _load_all() -> tuple[Instrument, ...]:
    return tuple(one for point in _find_entry_points() for one in _load_family(point))


@cache
def _find_entry_points() -> tuple[EntryPoint, ...]:
    """Ours in their order, then those of plugins by name. Raises `SetupError` for a name that stands there twice."""
    points = sorted(
        entry_points(group=ENTRY_POINT_GROUP),
        key=lambda point: (
            _FAMILY_ORDER.index(point.name) if point.name in _FAMILY_ORDER else len(_FAMILY_ORDER),
            point.name,
        ),
    )
    for one, other in pairwise(points):
        if one.name == other.name:
            raise SetupError(f"{_describe_entry_point(other)} has the name of another family ({one.value}).")
    return tuple(points)


@cache
def _load_family(point: EntryPoint) -> tuple[Instrument, ...]:
    try:
        family = tuple(point.load())
    except Exception as error:  # whatever a stranger's module raises
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise SetupError(
            f"{_describe_entry_point(point)} cannot be loaded: {why}. Mend or uninstall the package that brings it."
        ) from None
    if not all(isinstance(one, Instrument) for one in family):
        raise SetupError(f"{_describe_entry_point(point)} must be a tuple of Instruments, and holds something else.")
    names = [one.name for one in family]
    for name in names:
        if name.partition(".")[0] != point.name or names.count(name) > 1:
            wanted = f"names must be {point.name}.SOMETHING, each once"
            raise SetupError(f"{_describe_entry_point(point)} brings {name!r}; its {wanted}.")
    return family


def _describe_entry_point(point: EntryPoint) -> str:
    return f"The plugin {point.name!r} of {point.group} ({point.value})"
