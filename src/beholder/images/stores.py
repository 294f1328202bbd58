"""Images from object stores (`s3://`, `gs://` …), for those who allowed it. fsspec is loaded when it is needed.

Who the user is, and which servers a store's addresses lead to, is the matter of the store's own settings
(`AWS_PROFILE`, `~/.config/gcloud` …), as for every other program that reads from it.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.model import STANDARD_CAPS, Caps
from beholder.images.names import shown

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem  # type: ignore[import-untyped]  # it has no types

_ENOUGH_TO_SNIFF = 1024
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "oss": "ossfs",
    "hf": "huggingface_hub",
}


async def fetch_stored(address: str, *, caps: Caps = STANDARD_CAPS, timeout_s: float = 60.0) -> bytes:
    """The bytes of an image in a store, or an `ImageError`; no more is read of it than the caps allow."""
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(_fetched, address, caps)
    except TimeoutError:
        raise ImageError(f"{_called(address)} did not arrive within {timeout_s:g} s") from None


def objection(address: str) -> str:
    """Why an address in a store can never be read here, as a sentence; empty where it may be. Asks nobody."""
    try:
        _kind_of_store(address)
    except ImageError as error:
        return str(error)
    return ""


def _fetched(address: str, caps: Caps) -> bytes:
    store = _store(address)
    try:
        # One request with a range, in place of one for the size and one for the bytes.
        data = bytes(store.cat_file(store._strip_protocol(address), start=0, end=caps.max_bytes + 1))
        if not data:
            raise ImageError("is empty (0 bytes)")
        headers.check_bytes(len(data), caps)
        headers.recognise(data[:_ENOUGH_TO_SNIFF])
    except ImageError as error:
        raise ImageError(f"{_called(address)} {error}") from None
    except FileNotFoundError:
        raise ImageError(f"{_called(address)} does not exist") from None
    except PermissionError:
        raise ImageError(f"{_called(address)} may not be read: permission denied") from None
    except Exception as error:  # each store has its own: no credentials, no network, no such bucket …
        raise ImageError(f"{_called(address)} could not be read ({_cause(error)})") from None
    return data


def _store(address: str) -> AbstractFileSystem:
    """The store of an address; fsspec keeps it, and its connections, for the next one."""
    kind = _kind_of_store(address)
    try:
        return kind()
    except Exception as error:  # no credentials, say; some stores look for them at once
        raise ImageError(f"the store of {_scheme(address)}:// images cannot be used ({_cause(error)})") from None


def _kind_of_store(address: str) -> type[AbstractFileSystem]:
    scheme = _scheme(address)
    if "::" in address:  # to fsspec a chain: the second address could be of any kind
        raise ImageError(f"{_called(address)} is not read: its address holds '::'")
    try:
        import fsspec
    except ImportError:
        raise ImageError(
            f"{scheme}:// images are read through fsspec, which is not installed; run: pip install 'beholder[stores]'"
            + (f" {_PACKAGES[scheme]}" if scheme in _PACKAGES else "")
        ) from None
    try:
        kind: type[AbstractFileSystem] = fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError):
        package = _PACKAGES.get(scheme, scheme)
        raise ImageError(
            f"{scheme}:// images are read through {package}, which is not installed; run: pip install {package}"
        ) from None
    return kind


def _scheme(address: str) -> str:
    return address.partition("://")[0].lower()


def _called(address: str) -> str:
    """Without its query: signed addresses hold secrets, and errors end up in logs."""
    return shown(re.split("[?#]", address, maxsplit=1)[0])


def _cause(error: Exception) -> str:
    said = str(error).splitlines()
    return shown(re.split("[?]", said[0], maxsplit=1)[0]) if said and said[0] else type(error).__name__
