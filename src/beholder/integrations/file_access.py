"""Which files somebody else may name: an agent over MCP, or a model in its answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from beholder.cases.case import normalize_images
from beholder.errors import CaseError, ImageError, UsageError
from beholder.images.image import ImageSource, printable_name
from beholder.images.source import find_source_problem, is_remote


@dataclass(frozen=True)
class FileAccess:
    """The files that a client or a model may name: those below `roots`, which are real paths, wherever links lead.

    Attributes:
        roots: The folders.
        opened_to: To whom they are open, for messages.
    """

    roots: tuple[Path, ...]
    opened_to: str = "this server"

    @classmethod
    def of_uris(cls, uris: Sequence[str]) -> FileAccess:
        """Return the access to the folders that a client calls its roots; addresses of other kinds are none."""
        return cls(tuple(Path(os.path.realpath(path)) for uri in uris if (path := _path_of_uri(uri))))

    def find_image(self, given: str) -> str:
        """Return the real path of an image that was named, or its data URI.

        Args:
            given: A path, relative to the roots or not, a `file://` address, or a `data:` URI.

        Raises:
            UsageError: It is not below the roots, which is all that is said of such a file; or it is no image.
        """
        if given[:5].lower() == "data:":
            path = given
        else:
            path = self._find_file(_path_of_uri(given) if given[:5].lower() == "file:" else given)
        if problem := find_source_problem(path, allow_remote=False):
            raise UsageError(f"{problem}.")
        return path

    def _find_file(self, given: str) -> str:
        if not self.roots:
            raise UsageError(
                "No folder is open to this server: the client names no roots. Start it with --root FOLDER."
            )
        if "\0" in given or not given.strip():
            raise UsageError(f"{printable_name(given)} is not a name that a file can have.")
        if "://" in given:
            raise UsageError(f"{printable_name(given)} is an address; give the path of a file.")
        tried = [os.path.realpath(root / given) for root in self.roots]  # an absolute path stays as it is
        allowed = [path for path in tried if any(Path(path).is_relative_to(root) for root in self.roots)]
        if not allowed:
            folders = ", ".join(printable_name(str(root)) for root in self.roots)
            raise UsageError(
                f"{printable_name(given)} is not below the folders that are open to {self.opened_to}: {folders}."
            )
        return next((path for path in allowed if os.path.exists(path)), allowed[0])


def find_output_image(image: str, roots: Sequence[str | os.PathLike[str]], how: str) -> str:
    """Return an image that an output names, whose text may be a model's: no file but one below the working folder or
    `roots`. Addresses are left to `Options.allow_remote`.

    Args:
        image: The image, as it is named.
        roots: Further folders.
        how: How a caller says them, for messages: `` `roots` of the assertion ``.

    Raises:
        UsageError: It is another file, or no image.
    """
    if is_remote(image):
        return image
    folders = tuple(Path(os.path.realpath(Path(folder).expanduser())) for folder in (os.getcwd(), *roots))
    return FileAccess(folders, f"images of an output ({how})").find_image(image)


def find_output_images(
    role: str, value: object, roots: Sequence[str | os.PathLike[str]], how: str
) -> ImageSource | tuple[ImageSource, ...]:
    """Return the image, or the images, that an output has for a role, as a case holds them: see `find_output_image`.
    They may be in any form that a case takes, such as `{"path": …}`, which names a file too.

    Raises:
        UsageError: One is another file, or cannot be an image.
    """
    try:
        held = normalize_images(value)
    except ImageError as error:
        raise CaseError(f"The image {role!r} {error}.") from None
    found = [
        one if isinstance(one, bytes) else find_output_image(os.fsdecode(one), roots, how)
        for one in (held if isinstance(held, tuple) else (held,))
    ]
    return found[0] if len(found) == 1 else tuple(found)


def _path_of_uri(uri: str) -> str:
    """Return the path of a `file://` address of this machine; empty for any other."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = unquote(parts.path)
    return path[1:] if os.name == "nt" and path[2:3] == ":" else path
