"""Pictures: safe loading, and preparing for a judge.

    obtain / read / fetch   source → bytes       path, data URI, bytes; the web only when allowed
    prepare                 bytes  → PreparedImage   metadata gone, upright, sRGB, within the judge's limits

Importing this package loads no codec and no network library; they are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from beholder.images.model import Caps, PreparedImage, Sizing
from beholder.images.preparing import as_it_is, digest, prepare
from beholder.images.sources import is_remote, obtain, read

if TYPE_CHECKING:
    from beholder.images.remote import fetch

__all__ = ["Caps", "PreparedImage", "Sizing", "as_it_is", "digest", "fetch", "is_remote", "obtain", "prepare", "read"]


def __getattr__(name: str) -> object:
    if name == "fetch":
        from beholder.images.remote import fetch

        return fetch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
