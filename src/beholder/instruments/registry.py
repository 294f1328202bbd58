"""All instruments, built in and plugged in, found by entry points in the group `beholder.instruments`.

An entry point names a tuple of `Instrument`s, a family, whose names begin with the name of the entry point:
`colour = "beholder.instruments.color:INSTRUMENTS"`. Asking for instruments by name loads only their families, so a
plug-in that cannot be loaded affects only those who ask for it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint
from itertools import pairwise

from beholder.errors import SetupError, UsageError
from beholder.instruments.instrument import Instrument, InstrumentKind, Measurement
from beholder.instruments.pair import ImagePair, SingleImage
from beholder.plugins import find_named_entry_points

ENTRY_POINT_GROUP = "beholder.instruments"

# The order in which results are shown; families of plug-ins follow by name.
_FAMILY_ORDER = ("geometry", "colour", "structure", "locality", "quality", "naturalness", "restyle", "description")


def list_instruments(kind: InstrumentKind = "pair") -> tuple[Instrument, ...]:
    """Return all instruments of a kind, the built-in ones first.

    Raises:
        SetupError: A plug-in cannot be used.
    """
    return tuple(
        instrument for point in _find_entry_points() for instrument in _load_family(point) if instrument.kind == kind
    )


def measure_pair(
    pair: ImagePair, names: Collection[str] | None = None, *, cheap_only: bool = False
) -> dict[str, Measurement]:
    """Measure two images with pair instruments.

    Args:
        pair: The two images.
        names: Instruments or families; all of them unless given.
        cheap_only: Whether to leave out instruments that are too slow for an audit.

    Returns:
        The measurements by the name of their instrument.

    Raises:
        UsageError: No pair instrument has one of the names.
        SetupError: A plug-in that is asked for cannot be used.
    """
    chosen = _select_instruments("pair", names, cheap_only)
    return {instrument.name: take_measurement(instrument, pair) for instrument in chosen}


def measure_image(image: SingleImage, names: Collection[str] | None = None) -> dict[str, Measurement]:
    """Measure one image with image instruments; arguments and result as for `measure_pair`."""
    chosen = _select_instruments("image", names, cheap_only=False)
    return {instrument.name: take_measurement(instrument, image) for instrument in chosen}


def take_measurement(instrument: Instrument, subject: ImagePair | SingleImage) -> Measurement:
    """Measure a subject with one instrument; a failure of a plug-in becomes a measurement without a value."""
    if instrument.name.partition(".")[0] in _FAMILY_ORDER:
        return instrument.measure(subject)
    try:
        measured = instrument.measure(subject)
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return Measurement(instrument.name, None, sentence=f"Not measured: the plugin failed, {why}.")
    if not isinstance(measured, Measurement):
        reason = "Not measured: the plugin gave something else than a Measurement."
        return Measurement(instrument.name, None, sentence=reason)
    return measured


def _select_instruments(kind: InstrumentKind, names: Collection[str] | None, cheap_only: bool) -> list[Instrument]:
    if names is None:
        chosen = list_instruments(kind)
    else:
        families = {name.partition(".")[0] for name in names}
        known = [
            instrument
            for point in _find_entry_points()
            if point.name in families
            for instrument in _load_family(point)
            if instrument.kind == kind
        ]
        unknown = set(names) - {
            part for instrument in known for part in (instrument.name, instrument.name.partition(".")[0])
        }
        if unknown:
            points = {point.name for point in _find_entry_points()}
            valid = sorted({instrument.name for instrument in list_instruments(kind)} | points)
            raise UsageError(f"No {kind} instrument is named {min(unknown)!r}; there are {', '.join(valid)}.")
        chosen = tuple(
            instrument for instrument in known if instrument.name in names or instrument.name.partition(".")[0] in names
        )
    return [instrument for instrument in chosen if instrument.cheap or not cheap_only]


@cache
def _find_entry_points() -> tuple[EntryPoint, ...]:
    """Return the families, built-in ones in their order, then plug-ins by name.

    Raises:
        SetupError: Two families have the same name.
    """
    points = sorted(
        find_named_entry_points(ENTRY_POINT_GROUP),
        key=lambda point: (
            _FAMILY_ORDER.index(point.name) if point.name in _FAMILY_ORDER else len(_FAMILY_ORDER),
            point.name,
        ),
    )
    for first, second in pairwise(points):
        if first.name == second.name:
            raise SetupError(f"{_describe_entry_point(second)} has the name of another family ({first.value}).")
    return tuple(points)


@cache
def _load_family(point: EntryPoint) -> tuple[Instrument, ...]:
    try:
        family = tuple(point.load())
    except Exception as error:  # the module of a plug-in may raise anything
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise SetupError(
            f"{_describe_entry_point(point)} cannot be loaded: {why}. Mend or uninstall the package that brings it."
        ) from None
    if not all(isinstance(member, Instrument) for member in family):
        raise SetupError(f"{_describe_entry_point(point)} must be a tuple of Instruments, and holds something else.")
    names = [member.name for member in family]
    for name in names:
        if name.partition(".")[0] != point.name or names.count(name) > 1:
            wanted = f"names must be {point.name}.SOMETHING, each once"
            raise SetupError(f"{_describe_entry_point(point)} brings {name!r}; its {wanted}.")
    return family


def _describe_entry_point(point: EntryPoint) -> str:
    return f"The plugin {point.name!r} of {point.group} ({point.value})"
