"""The images of a run: read once while they are in use, decoded in other processes, and their thumbnails."""

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
CACHE_OVERHEAD_BYTES = 2048  # memory of a cached image beside its data: path, digests, entry in the dictionary


class ImagePool:
    """Prepares images for judges, and caches those used last for the cases that share them.

    Args:
        allow_remote: Fetch remote images (https, s3, gs).
        workers: How many processes decode images; by default as many as there are cores. With 0 a thread of this
            process does it.
    """

    def __init__(self, *, allow_remote: bool = False, workers: int | None = None) -> None:
        self._allow_remote = allow_remote
        self._workers = (os.cpu_count() or 1) if workers is None else workers
        self._pool: ProcessPoolExecutor | None = None
        self._cache: OrderedDict[tuple[ImageSource, Sizing], PreparedImage] = OrderedDict()
        self._size = 0
        self._in_progress: dict[tuple[ImageSource, Sizing], asyncio.Future[PreparedImage]] = {}

    async def prepare(self, source: ImageSource, sizing: Sizing) -> PreparedImage:
        """Return an image as a judge with that sizing gets it. Raises `ImageError`."""
        key = (source, sizing)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        if key not in self._in_progress:
            data: bytes | None = None
            if not (isinstance(source, str) and is_remote(source)):
                data = read_image(source)  # from the disk cache this is quicker than passing it to a thread
                if (image := prepare_unchanged(data, sizing)) is not None:
                    self._keep(key, image)
                    return image
            work = asyncio.ensure_future(self._load_and_prepare(source, data, sizing))
            self._in_progress[key] = work
            work.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._in_progress[key])

    async def thumbnail(self, source: ImageSource) -> bytes:
        """Return a small WebP of an image. Raises `ImageError`."""
        from beholder.images.prepare import make_thumbnail

        data = await load_image(source, allow_remote=self._allow_remote)
        return await self._run_in_pool(make_thumbnail, data)

    async def audit(self, plan: AuditPlan, before: bytes, after: bytes) -> AuditEvidence:
        """Measure a pair of images; see `judges.audit.measure_evidence`. A failure is part of the evidence."""
        try:
            return await self._run_in_pool(measure_evidence, plan, before, after)
        except ImageError as error:
            return AuditEvidence({}, {}, failed=str(error))
        except Exception as error:  # no failure here may lose an answer that was paid for
            return AuditEvidence({}, {}, failed=f"measuring failed: {type(error).__name__}: {error}")

    async def measure(
        self, pair: tuple[ImageSource, ImageSource], names: tuple[str, ...]
    ) -> tuple[dict[str, float], str]:
        """Measure the pixel features of a pair that a calibration needs; see `measure_pixel_features`.

        Returns:
            The features, and why they could not be measured; empty where they were.
        """
        from beholder.instruments.human_ratings import measure_pixel_features

        try:
            return await self._run_in_pool(measure_pixel_features, pair, names)
        except Exception as error:  # as above
            return {}, f"measuring failed: {type(error).__name__}: {error}"

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    async def _load_and_prepare(self, source: ImageSource, data: bytes | None, sizing: Sizing) -> PreparedImage:
        """Fetch (if `data` is not there yet) and decode an image."""
        if data is None:
            data = await load_image(source, allow_remote=self._allow_remote)
            if (image := prepare_unchanged(data, sizing)) is not None:
                return image
        return await self._run_in_pool(prepare_image, data, sizing)

    async def _run_in_pool(self, work: Callable[..., T], *arguments: object) -> T:
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
        # Not forked: a forked child would share our sockets and the ledger's file.
        return ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=_init_pool_process)

    def _finished(self, key: tuple[ImageSource, Sizing], done: asyncio.Future[PreparedImage]) -> None:
        del self._in_progress[key]
        if not done.cancelled() and done.exception() is None:
            self._keep(key, done.result())

    def _keep(self, key: tuple[ImageSource, Sizing], image: PreparedImage) -> None:
        source = key[0]
        if isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
            return  # its key would be the image itself
        self._cache[key] = image
        self._size += len(image.data) + CACHE_OVERHEAD_BYTES
        while self._size > CACHE_BYTES:
            _, dropped = self._cache.popitem(last=False)
            self._size -= len(dropped.data) + CACHE_OVERHEAD_BYTES


def _init_pool_process() -> None:
    """Initialize a process of the pool: leave Ctrl-C to the parent, and exit when the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


REMEMBERED_THUMBNAILS = 4096  # images that are known to have a thumbnail without a lookup in the ledger


class ThumbnailMaker:
    """Makes a thumbnail of each image once. `find_stored` returns those of some digests that the ledger has."""

    def __init__(self, images: ImagePool, find_stored: Callable[[list[str]], Awaitable[Collection[str]]]) -> None:
        self._images = images
        self._find_stored = find_stored
        self._known: dict[str, None] = {}

    async def make(self, case: Case, images: Sequence[SentImage]) -> tuple[tuple[str, bytes], ...]:
        """Return the thumbnails of a case that the ledger lacks, as (digest of the image file, WebP)."""
        wanted = {image.source_digest: image.role for image in images}
        new = {digest: role for digest, role in wanted.items() if digest not in self._known}
        if not new:
            return ()
        self._known |= dict.fromkeys(new)
        while len(self._known) > REMEMBERED_THUMBNAILS:  # the oldest; the ledger knows them all
            del self._known[next(iter(self._known))]
        stored = await self._find_stored(list(new))
        thumbnails = []
        for digest, role in new.items():
            if digest not in stored:
                try:
                    thumbnails.append((digest, await self._images.thumbnail(case.images[role])))
                except ImageError:  # it was readable a moment ago; the verdict is valid without a thumbnail
                    continue
        return tuple(thumbnails)
