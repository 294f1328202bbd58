"""Files that a command writes: whole or not at all, and what goes wrong is a sentence."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from beholder.errors import UsageError

if TYPE_CHECKING:
    from beholder.ledger import Ledger


def spare(book: Ledger, output: Path) -> None:
    """Raises `UsageError` where the output would take the place of the ledger that it comes from."""
    with suppress(OSError):
        if book.path is not None and os.path.samefile(book.path, output):
            raise UsageError(f"{str(output)!r} is the ledger itself; name another file.")


def write(output: Path, text: str) -> None:
    """The text as a file."""
    with replacing(output) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


@contextmanager
def replacing(output: Path) -> Iterator[IO[bytes]]:
    """A file beside the wanted one, which takes its place when everything is written: half a file is none. What is
    there and is no regular file (a pipe, a device) stays what it is and is written to as it is."""
    try:
        with _opened(output) as file:
            yield file
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{str(output)!r} cannot be written: {reason}.") from None


@contextmanager
def _opened(output: Path) -> Iterator[IO[bytes]]:
    if output.is_dir():
        raise UsageError(f"{str(output)!r} is a folder; name a file in it.")
    if output.exists() and not output.is_file():
        with output.open("wb") as file:
            yield file
        return
    output = output.resolve()  # a link stays one
    handle, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)
