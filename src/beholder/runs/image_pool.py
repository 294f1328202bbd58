"""The pictures of a run: each read once while in use, decoded only where it must be, and then in other processes.

Small pictures of images that the ledger does not have yet.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TypeVar

from beholder.cases.case import Case
from beholder.errors import ImageError
from beholder.images.image import ImageSource, PreparedImage, Sizing
from beholder.images.prepare import prepare_image, prepare_unchanged
from beholder.images.source import is_remote, load_image, read_image
from beholder.judges.audit import AuditEvidence, AuditPlan, measure_evidence
from beholder.verdicts.verdict import SentImage

T = TypeVar("T")

CACHE_BYTES = 24 * 1024 * 1024
CACHE_OVERHEAD_BYTES = 2048  # bytes that a picture takes beside its own: its name, its digests, its place in the order


class ImagePool:
    """Prepares pictures for judges. What was used last is kept, up to `kept_bytes`, for the cases that share it.

    `workers` is how many processes decode, as many as there are cores unless said; with 0 a thread does it here.
    """

    def __init__(
        self, *, allow_remote: bool = False, kept_bytes: int = CACHE_BYTES, workers: int | None = None
    ) -> None:
        self._allow_remote = allow_remote
        self._kept_bytes = kept_bytes
        self._workers = (os.cpu_count() or 1) if workers is None else workers
        self._pool: ProcessPoolExecutor | None = None
        self._kept: OrderedDict[tuple[ImageSource, Sizing], PreparedImage] = OrderedDict()
        self._size = 0
        self._under_way: dict[tuple[ImageSource, Sizing], asyncio.Future[PreparedImage]] = {}

    async def get(self, source: ImageSource, sizing: Sizing) -> PreparedImage:
        """The picture as a judge with that sizing gets it. Raises `ImageError`."""
        key = (source, sizing)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._under_way:
            data: bytes | None = None
            if not (isinstance(source, str) and is_remote(source)):
                data = read_image(source)  # from the disk cache this takes less than handing it to a thread would
                if (image := prepare_unchanged(data, sizing)) is not None:
                    self._keep(key, image)
                    return image
            work = asyncio.ensure_future(self._prepare(source, data, sizing))
            self._under_way[key] = work
            work.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._under_way[key])

    async def thumbnail(self, source: ImageSource) -> bytes:
        """A small WebP of the picture. Raises `ImageError`."""
        from beholder.images.prepare import make_thumbnail

        data = await load_image(source, allow_remote=self._allow_remote)
        return await self._elsewhere(make_thumbnail, data)

    async def measured(self, order: AuditPlan, before: bytes, after: bytes) -> AuditEvidence:
        """What can be measured of two pictures; see `judges.audit.measure`."""
        try:
            return await self._elsewhere(measure_evidence, order, before, after)
        except ImageError as error:
            return AuditEvidence({}, {}, failed=str(error))
        except Exception as error:  # whatever it is, it is no reason to lose an answer that was paid for
            return AuditEvidence({}, {}, failed=f"measuring failed: {type(error).__name__}: {error}")

    async def pixels(
        self, pair: tuple[ImageSource, ImageSource], names: tuple[str, ...]
    ) -> tuple[dict[str, float], str]:
        """What a calibration needs to know of two pictures; see `instruments.pixels.pixels_of`."""
        from beholder.instruments.human_ratings import measure_pixel_features

        try:
            return await self._elsewhere(measure_pixel_features, pair, names)
        except Exception as error:  # as above
            return {}, f"measuring failed: {type(error).__name__}: {error}"

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    async def _prepare(self, source: ImageSource, data: bytes | None, sizing: Sizing) -> PreparedImage:
        """Where it takes time: the picture must be fetched (`data` is not there yet) or decoded."""
        if data is None:
            data = await load_image(source, allow_remote=self._allow_remote)
            if (image := prepare_unchanged(data, sizing)) is not None:
                return image
        return await self._elsewhere(prepare_image, data, sizing)

    async def _elsewhere(self, work: Callable[..., T], *arguments: object) -> T:
        if not self._workers:
            return await asyncio.to_thread(work, *arguments)
        for _ in range(2):
            pool = self._pool = self._pool or self._new_pool()
            try:
                return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
            except BrokenProcessPool:  # killed, perhaps for want of memory; others may have noticed it before us
                if self._pool is pool:
                    self._pool = None
        raise ImageError("could not be decoded: the process that did it was killed twice")

    def _new_pool(self) -> ProcessPoolExecutor:
        """Not forked: a forked child would share our sockets and the ledger's file."""
        return ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=_init_pool_process)

    def _finished(self, key: tuple[ImageSource, Sizing], done: asyncio.Future[PreparedImage]) -> None:
        del self._under_way[key]
        if not done.cancelled() and done.exception() is None:
            self._keep(key, done.result())

    def _keep(self, key: tuple[ImageSource, Sizing], image: PreparedImage) -> None:
        source = key[0]
        if isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
            return  # its key would be the picture itself
        self._kept[key] = image
        self._size += len(image.data) + CACHE_OVERHEAD_BYTES
        while self._size > self._kept_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped.data) + CACHE_OVERHEAD_BYTES


def _init_pool_process() -> None:
    """At the start of a process that decodes: Ctrl-C is for the one that began it to hear, and when that one is gone,
    however it ended, nothing is left to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


REMEMBERED_THUMBNAILS = 4096  # images that are known to have a thumbnail without asking the ledger


class ThumbnailMaker:
    """Draws each image once; `there` tells which of some digests the ledger has."""

    def __init__(self, pictures: ImagePool, there: Callable[[list[str]], Awaitable[Collection[str]]]) -> None:
        self._pictures = pictures
        self._there = there
        self._drawn: dict[str, None] = {}

    async def make(self, case: Case, images: Sequence[SentImage]) -> tuple[tuple[str, bytes], ...]:
        """The new ones, with the digests of their files."""
        wanted = {image.source_digest: image.role for image in images}
        new = {digest: role for digest, role in wanted.items() if digest not in self._drawn}
        if not new:
            return ()
        self._drawn |= dict.fromkeys(new)
        while len(self._drawn) > REMEMBERED_THUMBNAILS:  # the oldest; the ledger knows them all
            del self._drawn[next(iter(self._drawn))]
        there = await self._there(list(new))
        drawn = []
        for digest, role in new.items():
            if digest not in there:
                try:
                    drawn.append((digest, await self._pictures.thumbnail(case.images[role])))
                except ImageError:  # it was readable a moment ago; the verdict stands without its small picture
                    continue
        return tuple(drawn)
