"""Images of cases, by the digest of their file and in no other way; always made anew, never the file itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from beholder.cases import Case
from beholder.errors import ImageError, LedgerError
from beholder.images import digest as digest_of
from beholder.images import read
from beholder.images.thumbnails import thumbnail
from beholder.ledger import Ledger, RunRecord
from beholder.web.answering import Book, NotThere, address, record_of

router = APIRouter()

SIDE = 1600
QUALITY = 82
KEPT_BYTES = 64 * 1024 * 1024

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="of the image file, SHA-256 in hex")]
# What a digest names never changes.
_KEEP = {"Cache-Control": "private, max-age=31536000, immutable"}


class Larger:
    """Larger pictures that were made, the last ones used, up to `kept_bytes`."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._making = threading.Semaphore(2)  # decoding takes memory

    def get(self, book: Ledger, record: RunRecord, case_id: str, digest: str) -> bytes | None:
        """The picture, as long as its file is where the case says and still the one that was judged."""
        return self._kept_or(digest, lambda: _made(book, record, case_id, digest))

    def of_file(self, case: Case, role: str) -> bytes | None:
        """An image of a case that the judge was not sent, so that nothing says which file it was."""
        data = _data(case, role)
        return None if data is None else self._kept_or(digest_of(data), lambda: _scaled(data))

    def _kept_or(self, digest: str, make: Callable[[], bytes | None]) -> bytes | None:
        with self._lock:
            if digest in self._kept:
                self._kept.move_to_end(digest)
                return self._kept[digest]
        with self._making:
            made = make()
        if made is not None:
            with self._lock:
                if digest not in self._kept:
                    self._size += len(made)
                self._kept[digest] = made
                while self._size > self._kept_bytes:
                    self._size -= len(self._kept.popitem(last=False)[1])
        return made


def _larger(request: Request) -> Larger:
    found = request.app.state.pictures
    assert isinstance(found, Larger)
    return found


@router.get("/pictures/{digest}.webp", response_class=Response)
def small(book: Book, digest: Digest) -> Response:
    """The small copy that the ledger keeps of an image."""
    found = book.thumbnail(digest)
    if found is None:
        raise NotThere("The ledger keeps no such picture.")
    return Response(found, media_type="image/webp", headers=_KEEP)


@router.get("/pictures/{digest}/large.webp", response_class=Response)
def large(
    book: Book,
    larger: Annotated[Larger, Depends(_larger)],
    digest: Digest,
    run: Annotated[str, Query(max_length=500)] = "",
    case: Annotated[str, Query(max_length=4000)] = "",
) -> Response:
    """An image of a case, up to 1,600 pixels wide and high; the small copy where its file is gone or another by now."""
    record = record_of(book, run)
    _check(book, record, case, digest)
    found = larger.get(book, record, case, digest)
    if found is None:
        return RedirectResponse(f"/pictures/{digest}.webp", 307)
    return Response(found, media_type="image/webp", headers=_KEEP)


def larger_link(record: RunRecord, case_id: str, digest: str) -> str:
    return address(f"/pictures/{digest}/large.webp", run=record.id, case=case_id)


def _check(book: Ledger, record: RunRecord, case_id: str, digest: str) -> None:
    if _role(book, record, case_id, digest) is None:
        raise NotThere("No case of this run has such an image.")


def _role(book: Ledger, record: RunRecord, case_id: str, digest: str) -> str | None:
    """The role of the image in the case."""
    for one in book.judged(record.id, case=case_id):
        for image in one.verdict.images:
            if image.source_digest == digest:
                return image.role
    return None


def available(case: Case, role: str, digest: str) -> bool:
    """Whether the file that was judged is still where the case says."""
    return _file(case, role, digest) is not None


def _file(case: Case, role: str, digest: str) -> bytes | None:
    data = _data(case, role)
    return data if data is not None and digest_of(data) == digest else None


def _data(case: Case, role: str) -> bytes | None:
    source = case.images.get(role)
    if not isinstance(source, str):
        return None
    try:
        return read(source)  # refuses what is no plain file, and whatever is on the web
    except ImageError:
        return None


def _made(book: Ledger, record: RunRecord, case_id: str, digest: str) -> bytes | None:
    try:
        data = _file(book.case(record.id, case_id), _role(book, record, case_id, digest) or "", digest)
    except LedgerError:
        return None
    return None if data is None else _scaled(data)


def _scaled(data: bytes) -> bytes | None:
    try:
        return thumbnail(data, side=SIDE, quality=QUALITY)
    except ImageError:
        return None
