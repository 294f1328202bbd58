"""Plug-ins: entry points of installed packages, and which of them may have a name of Beholder's own.

Judges, instruments, rubrics and styles are found by entry points, ours like those of any other package. A package that
registers a name that is built in (`openai`, `description`) is left out with a warning, since keys are sent and scores
are computed under these names. Whoever wants the replacement names it: `beholder --override openai …`, or
`BEHOLDER_OVERRIDE=openai,description` in the environment.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb

_log = logging.getLogger(__name__)

OVERRIDE_VARIABLE = "BEHOLDER_OVERRIDE"


def find_entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, ours first."""
    return sorted(entry_points(group=group), key=lambda point: not is_own(point))


def find_named_entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group whose names are what users write: under each name of ours only one, that of
    a plug-in only if the user allows it."""
    points = find_entry_points(group)
    own = {point.name for point in points if is_own(point)}
    replaced = {
        point.name for point in points if not is_own(point) and point.name in own and may_override(point, point.name)
    }
    return [point for point in points if point.name not in own or is_own(point) != (point.name in replaced)]


def is_own(point: EntryPoint) -> bool:
    """Return whether an entry point is one of Beholder's own."""
    return point.value.startswith(("beholder.", "beholder:"))


def find_blamed_plugin(error: BaseException) -> str:
    """Return the package and version of the plug-in in whose code an error rose, or in what it called; else empty."""
    modules = {
        point.value.partition(":")[0].partition(".")[0]: point
        for group in entry_points().groups
        if group.startswith("beholder.")
        for point in entry_points(group=group)
        if not is_own(point)
    }
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        point = modules.get(str(frame.f_globals.get("__name__")).partition(".")[0])
        if point is not None:
            return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    return ""


def may_override(point: EntryPoint, name: str) -> bool:
    """Return whether a plug-in may replace what is built in under a name; log a warning if it may not."""
    if name in list_overrides():
        return True
    _warn(point.group, point.value, name)
    return False


def list_overrides() -> set[str]:
    """Return the built-in names that the user lets plug-ins replace."""
    return {name.strip() for name in os.environ.get(OVERRIDE_VARIABLE, "").split(",") if name.strip()}


@cache  # once is enough
def _warn(group: str, value: str, name: str) -> None:
    _log.warning(
        "beholder: the plugin %s of %s would replace %r, which is built in, and is left out; `beholder --override %s` "
        "lets it, and so does %s=%s.",
        *(value, group, name, name, OVERRIDE_VARIABLE, name),
    )
