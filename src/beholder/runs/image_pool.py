"""The images of a run: read once while they are in use, decoded in other processes, audited, and their thumbnails."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from beholder.errors import ImageError, Unreachable
from beholder.images.headers import ImageHeader
from beholder.images.image import DEFAULT_IMAGE_LIMITS, DEFAULT_SIZING, ImageSource, PreparedImage, Sizing
from beholder.images.memory import decoding_budget, estimate_decoding_bytes
from beholder.images.prepare import digest as digest_of
from beholder.images.prepare import fit_size, prepare_image, prepare_unchanged, prepared_header, upright_size
from beholder.images.source import is_remote, load_image, read_header, read_image
from beholder.judges.audit import AuditEvidence, AuditPlan, Examination, ImageToExamine, examine_images
from beholder.runs.ledger_access import CallCoalescer
from beholder.runs.worker_processes import WorkerPool, default_worker_count

if TYPE_CHECKING:
    from beholder.instruments.edit_crop import EditCrop

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
        count = default_worker_count() if workers is None else workers
        self._pool = WorkerPool(count) if count else None
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

    async def examine(
        self,
        plan: AuditPlan | None,
        images: Sequence[PreparedImage],
        thumbnails: Collection[str] = (),
        unsent: Mapping[str, bytes] | None = None,
    ) -> Examination:
        """Measure a pair of images and make thumbnails, in one task of a worker process that decodes each image once.

        Args:
            plan: What to measure; `None` for nothing.
            images: As they are sent; two where there is a plan.
            thumbnails: Digests of the image files that need one.
            unsent: Image files by digest that no judge was sent; where there are any, `images` are none.

        Returns:
            The evidence, in which a failure is told, and the thumbnails of those images that can be decoded.
        """
        chosen = [
            ImageToExamine(
                image.data, prepared_header(image), image.source_digest if image.source_digest in thumbnails else ""
            )
            for image in images
            if plan is not None or image.source_digest in thumbnails
        ]
        files = {digest: data for digest, data in (unsent or {}).items() if digest in thumbnails}
        chosen += [ImageToExamine(data, thumbnail=digest) for digest, data in files.items()]
        if not chosen:
            return Examination()
        estimate = partial(_estimate, files.values(), DEFAULT_SIZING) if files else partial(_estimate_prepared, images)
        try:
            return await self._run_in_pool(estimate, examine_images, plan, chosen)
        except ImageError as error:
            why = str(error)
        except Exception as error:  # no failure here may lose an answer that was paid for
            why = f"measuring failed: {type(error).__name__}: {error}"
        return Examination(AuditEvidence({}, {}, failed=why) if plan is not None else None)

    async def measure(
        self, pair: tuple[ImageSource, ImageSource], names: tuple[str, ...]
    ) -> tuple[dict[str, float], str]:
        """Measure the pixel features of a pair that a calibration needs; see `measure_pixel_features`.

        Returns:
            The features, and why they could not be measured; empty where they were.
        """
        from beholder.instruments.human_ratings import measure_pixel_features

        try:
            return await self._run_in_pool(
                partial(_estimate, pair, DEFAULT_SIZING), measure_pixel_features, pair, names
            )
        except Exception as error:  # as above
            return {}, f"measuring failed: {type(error).__name__}: {error}"

    async def crop_edit_region(self, pair: tuple[ImageSource, ImageSource], sizing: Sizing) -> EditCrop:
        """Return crops of the region where an edit was made, in a worker process; see `edit_crop`.

        Args:
            pair: The images before and after the edit. A remote one is fetched again: only prepared ones are cached.
            sizing: How the judge wants its images.

        Returns:
            The crops, or why there are none; a failure is told there, too.
        """
        from beholder.instruments.edit_crop import EditCrop, crop_edit_region

        try:
            files = [await load_image(source, allow_remote=self._allow_remote) for source in pair]
            estimate = partial(_estimate, files, Sizing(max_side=None))
            return await self._run_in_pool(estimate, crop_edit_region, *files, sizing)
        except (ImageError, Unreachable) as error:
            return EditCrop(why_not=str(error))
        except Exception as error:  # as above
            return EditCrop(why_not=f"cropping failed: {type(error).__name__}: {error}")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    async def _load_and_prepare(self, source: ImageSource, data: bytes | None, sizing: Sizing) -> PreparedImage:
        """Fetch (if `data` is not there yet) and decode an image."""
        if data is None:
            data = await load_image(source, allow_remote=self._allow_remote)
            if (image := prepare_unchanged(data, sizing)) is not None:
                return image
        return await self._run_in_pool(partial(_estimate, (data,), sizing), prepare_image, data, sizing)

    async def _run_in_pool(self, estimate: Callable[[], int], work: Callable[..., T], *arguments: object) -> T:
        """Run `work` in a worker process, as soon as there is the memory that it is estimated to need."""
        if self._pool is None:  # `codec.decode` waits for memory by itself
            return await asyncio.to_thread(work, *arguments)
        for _ in range(2):
            try:
                job = partial(work, *arguments)
                return await asyncio.wrap_future(self._pool.submit_within(decoding_budget(), estimate, job))
            except BrokenExecutor:  # killed, perhaps for want of memory
                continue
        raise ImageError("could not be decoded: the process that did it was killed twice")

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


def read_local_image(source: ImageSource) -> tuple[bytes, str] | None:
    """Return an image file with its digest; `None` for one that cannot be read, or would have to be fetched."""
    if isinstance(source, str) and is_remote(source):
        return None
    try:
        data = read_image(source)
    except ImageError:
        return None
    return data, digest_of(data)


def _estimate(images: Iterable[ImageSource], sizing: Sizing) -> int:
    """Return how much memory decoding these images to that size may take; nothing for one that cannot be read."""
    total = 0
    for image in images:
        with suppress(ImageError):
            header = read_header(read_image(image), DEFAULT_IMAGE_LIMITS)
            total += estimate_decoding_bytes(header, fit_size(*upright_size(header), sizing))
    return total


def _estimate_prepared(images: Iterable[PreparedImage]) -> int:
    """Return how much memory decoding these images may take, from what is known of them."""
    headers = (
        ImageHeader(image.media_type.removeprefix("image/"), image.width, image.height, alpha=True) for image in images
    )
    return sum(estimate_decoding_bytes(header, (header.width, header.height)) for header in headers)


REMEMBERED_THUMBNAILS = 4096  # images that are known to have a thumbnail without a lookup in the ledger


class ThumbnailSelector:
    """Tells which images still need a thumbnail, each once. `find_stored` returns those of some digests that the ledger
    has."""

    def __init__(self, find_stored: Callable[[list[str]], Awaitable[Collection[str]]]) -> None:
        self._find_stored = find_stored
        self._lookups: CallCoalescer[list[str], Collection[str]] = CallCoalescer(self._find_together)
        self._known: dict[str, None] = {}

    async def select_new(self, digests: Iterable[str]) -> set[str]:
        """Return those of these image files that have no thumbnail yet; from now on they count as having one."""
        new = [digest for digest in dict.fromkeys(digests) if digest not in self._known]
        if not new:
            return set()
        self._known |= dict.fromkeys(new)
        while len(self._known) > REMEMBERED_THUMBNAILS:  # the oldest; the ledger knows them all
            del self._known[next(iter(self._known))]
        return set(new).difference(await self._lookups.call(new))

    def forget(self, digests: Iterable[str]) -> None:
        """Let the next case with these images have their thumbnails made: this one came to nothing."""
        for digest in digests:
            self._known.pop(digest, None)

    async def _find_together(self, wanted: Sequence[list[str]]) -> Sequence[Collection[str]]:
        stored = await self._find_stored([digest for digests in wanted for digest in digests])
        return [stored] * len(wanted)
