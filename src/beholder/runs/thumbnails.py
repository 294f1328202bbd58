"""Small pictures of images that the ledger does not have yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from beholder.cases import Case
from beholder.errors import ImageError
from beholder.runs.pictures import Pictures
from beholder.verdicts.model import SentImage

REMEMBERED = 4096  # images that are known to have a thumbnail without asking the ledger


class Thumbnails:
    """Draws each image once; `there` tells which of some digests the ledger has."""

    def __init__(self, pictures: Pictures, there: Callable[[list[str]], Awaitable[Collection[str]]]) -> None:
        self._pictures = pictures
        self._there = there
        self._drawn: dict[str, None] = {}

    async def of(self, case: Case, images: Sequence[SentImage]) -> tuple[tuple[str, bytes], ...]:
        """The new ones, with the digests of their files."""
        wanted = {image.source_digest: image.role for image in images}
        new = {digest: role for digest, role in wanted.items() if digest not in self._drawn}
        if not new:
            return ()
        self._drawn |= dict.fromkeys(new)
        while len(self._drawn) > REMEMBERED:  # the oldest; the ledger knows them all
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
