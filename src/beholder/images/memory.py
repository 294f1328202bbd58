"""Memory for decoding images: how much an image needs, and a budget that all decoders of a process share.

A PNG of 400 KB may have 100 million pixels, which take gigabytes while they are converted. So what an image needs is
estimated from its header before it is decoded, and it waits until there is room. The budget is a quarter of the memory
of the machine or container; `BEHOLDER_DECODE_MB` sets another one. An image that needs more than the default budget is
decoded alone, as long as it needs less than all memory; a budget that was set is never exceeded.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from beholder.errors import ImageError, UsageError
from beholder.images.headers import ImageHeader, ImageSize

BUDGET_VARIABLE = "BEHOLDER_DECODE_MB"
REDUCED_FROM_PIXELS = 40_000_000  # images that Pillow decodes are reduced by a whole factor, from this size on

_DEFAULT_SHARE = 4
_UNKNOWN_MEMORY = 4 * 2**30  # where the system does not say
_NO_LIMIT = 2**60  # version 1 of cgroups has a number near 2**63 for none
# Bytes per pixel, measured at the peak: decoded by Pillow (4), then converted to 8 bits and RGB, or mixed with the
# background as well.
_CONVERTED, _MIXED = 13, 25
_LOADED_FROM_VIDEO = 18  # what decoders of WebP, AVIF and HEIC take
_JPEG_COEFFICIENTS = 6  # of a progressive image at its full size, however small it is decoded
_JPEG_CONVERTED = 9


def estimate_decoding_bytes(header: ImageHeader, at_least: ImageSize) -> int:
    """Return how much memory `codec.decode` takes at its peak, roughly and rather too much.

    Args:
        header: The header of the image.
        at_least: The upright size that is wanted.
    """
    pixels = header.width * header.height
    if header.format == "jpeg" and header.channels != 4:
        factor = next((one for one in (8, 4, 2) if reduction_factor(header, at_least) >= one), 1)
        return pixels * _JPEG_COEFFICIENTS + pixels // factor**2 * _JPEG_CONVERTED
    may_be_mixed = header.alpha or header.format not in ("png", "jpeg")
    converted = _MIXED if may_be_mixed else _CONVERTED
    factor = reduction_factor(header, at_least) if pixels >= REDUCED_FROM_PIXELS else 1
    if factor == 1:
        return pixels * converted
    loaded = _LOADED_FROM_VIDEO if header.format in ("webp", "avif", "heic") else _CONVERTED
    return pixels * loaded + pixels // factor**2 * converted


def reduction_factor(header: ImageHeader, at_least: ImageSize) -> int:
    """Return the largest whole number by which both sides can be divided and still be at least the wanted size."""
    width, height = at_least if header.orientation < 5 else at_least[::-1]
    return max(1, min(header.width // max(1, width), header.height // max(1, height)))


class MemoryBudget:
    """Memory that several threads share: each reserves what it needs, in the order in which they ask.

    Args:
        total: How many bytes are reserved at the same time.
        most: The most that one may reserve; more than `total` waits until nobody else has anything.
    """

    def __init__(self, total: int, most: int) -> None:
        self.total, self.most = total, most
        self.reserved = 0
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Wait for room, and keep it until the end of the context. Raises `ImageError` where it never comes."""
        if size > self.most:
            raise ImageError(
                f"needs about {size / 2**20:,.0f} MB to decode, and {self.most / 2**20:,.0f} MB are allowed; scale it "
                f"down first, or allow more ({BUDGET_VARIABLE})"
            )
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket and self._has_room(size))
                self.reserved += size
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self.reserved -= size
                self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        return self.reserved == 0 or self.reserved + size <= self.total


@cache
def decoding_budget() -> MemoryBudget:
    """Return the budget of this process. Raises `UsageError` if the variable is no number of megabytes."""
    value = os.environ.get(BUDGET_VARIABLE, "").strip()
    if not value:
        memory = read_memory_limit()
        return MemoryBudget(memory // _DEFAULT_SHARE, memory)
    if not value.isascii() or not value.isdecimal() or not int(value[:9]):
        raise UsageError(f"{BUDGET_VARIABLE} is a whole number of megabytes, such as 2000, and not {value[:40]!r}.")
    total = int(value[:9]) * 2**20
    return MemoryBudget(total, total)


if hasattr(os, "register_at_fork"):  # the lock may be taken at the moment of the fork
    os.register_at_fork(after_in_child=decoding_budget.cache_clear)


def read_memory_limit(root: Path = Path("/")) -> int:
    """Return the memory of the machine in bytes, or of the container (cgroup, version 1 or 2) if that is less.

    Args:
        root: The root of the file system; another one for tests.
    """
    limits = [_read_cgroup_limit(file) for file in _cgroup_files(root)]
    return min([_physical_memory(), *(limit for limit in limits if limit)])


def _physical_memory() -> int:
    sysconf = getattr(os, "sysconf", None)  # not on Windows
    with suppress(ValueError, OSError):
        return int(sysconf("SC_PAGE_SIZE") * sysconf("SC_PHYS_PAGES")) if sysconf else _UNKNOWN_MEMORY
    return _UNKNOWN_MEMORY


def _cgroup_files(root: Path) -> Iterator[Path]:
    """Yield the files with the limits of this process's group and of the groups around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = (
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes") if controllers else ("sys/fs/cgroup", "memory.max")
        )
        path = Path(group.lstrip("/"))
        for part in (path, *path.parents):  # inside a container the group may be the root, whatever its path says
            yield root / folder / part / name


def _read_cgroup_limit(file: Path) -> int | None:
    try:
        limit = int(file.read_text("ascii"))
    except (OSError, ValueError):  # "max" is no limit
        return None
    return limit if 0 < limit < _NO_LIMIT else None
