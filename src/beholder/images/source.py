"""Read the bytes of an image from a path, a `data:` URI, the web or an object store, and its header.

- `read_image` and `load_image` return the whole file; `load_image` also reads remote images where that is allowed.
- `inspect_image` returns format and size without reading the whole file where possible.
- `read_header` parses the header of a whole file.

Credentials and servers of object stores (`s3://`, `gs://` …) come from the store's own settings (`AWS_PROFILE`,
`~/.config/gcloud` …), as for every other program that reads from it. fsspec is loaded only when it is needed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import FileIO
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.headers import ImageHeader, ImageSize
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, ImageSource, printable_name
from beholder.images.jpeg import read_jpeg_header, read_jpeg_size
from beholder.images.png import read_png_header, read_png_size
from beholder.images.webp import read_webp_header, read_webp_size

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):(?://|(?=image/))", re.IGNORECASE)
# Only schemes whose addresses name a bucket; the user's own settings say which servers are asked for it. Other schemes
# of fsspec name a host or a file (ssh, ftp, file, zip), which an address in an untrusted case file must not.
_STORE_PREFIXES = tuple(
    f"{scheme}://" for scheme in ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "hf", "memory")
)
_BLANKS = re.compile(r"\s+")

_FILE_KINDS = (
    (stat.S_ISDIR, "is a directory; name an image file in it"),
    (stat.S_ISFIFO, "is a pipe, not a file; write the image to a file first"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)
_READ_ERRORS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist: a part of its path is a file",
    errno.EACCES: "may not be read: permission denied",
    errno.EPERM: "may not be read: permission denied",
    errno.ELOOP: "is a symbolic link that leads back to itself",
    errno.ENAMETOOLONG: "does not exist: the name is too long",
}


async def load_image(source: ImageSource, *, allow_remote: bool, limits: ImageLimits = DEFAULT_IMAGE_LIMITS) -> bytes:
    """Return the bytes of an image: `read_image` in a thread, or a download from the web or an object store.

    Args:
        source: A path, a `data:` URI, an address or the bytes.
        allow_remote: Whether an address may be fetched.
        limits: The largest image that is read.

    Raises:
        ImageError: When the image cannot be read, or is remote and that is not allowed.
    """
    if allow_remote and isinstance(source, str) and is_remote(source):
        if is_object_store(source):
            return await fetch_object(source, limits=limits)
        from beholder.images.remote import download_image

        return await download_image(source, limits=limits)
    import asyncio  # late: worker processes, which only decode, need none of it (2 MB each)

    return await asyncio.to_thread(read_image, source, limits=limits)


def read_image(source: ImageSource, *, limits: ImageLimits = DEFAULT_IMAGE_LIMITS) -> bytes:
    """Return the bytes of a local image: a path, a `data:` URI or the bytes. Never waits on a pipe or device.

    Raises:
        ImageError: When the image cannot be read, or is remote (see `load_image`).
    """
    if isinstance(source, bytes):
        return _check_data("the image", source, limits)
    text = os.fspath(source)
    if isinstance(source, str):
        if text[:5].lower() == "data:":
            return _check_data("the data URI", _read_data_uri(text, limits), limits)
        if is_remote(text):
            raise ImageError(
                f"{_redacted_address(text)} is a remote image, and those are read only where they are allowed "
                "(--allow-remote or allow_remote=True)"
            )
        if (scheme := _SCHEME.match(text)) is not None:
            raise ImageError(
                f"{printable_name(text)} is no path; {printable_name(scheme[1])}: addresses are not read, "
                "give a file path"
            )
    data = _read_file(text, limits)
    return data if data else _check_data(printable_name(text), data, limits)


def find_source_problem(source: ImageSource, *, allow_remote: bool) -> str:
    """Return why a source is no image: there is no file, it may not be read, or it begins as no image does.

    Empty where it begins as an image does, damaged or not. Nothing is fetched.
    """
    if allow_remote and isinstance(source, str) and is_remote(source):
        return ""
    try:
        start = _read_start(source) or read_image(source)  # which raises with a message for each reason
    except ImageError as error:
        return str(error)
    try:
        headers.recognize_format(start)
    except ImageError as error:
        return f"{_describe_source(source)} {error}"
    return ""


def _read_start(source: ImageSource) -> bytes:
    """Return the first bytes of a file; nothing where it cannot be read or is none."""
    try:
        if isinstance(source, bytes) or not stat.S_ISREG(os.stat(source).st_mode):
            return b""
        with open(source, "rb") as file:
            return file.read(_START_LENGTHS[0])
    except (OSError, ValueError):
        return b""


def is_remote(source: str) -> bool:
    """Return whether a source is an address on the web or in an object store, of a kind that may be fetched."""
    return source[:8].lower().startswith(("http://", "https://")) or is_object_store(source)


def is_object_store(source: str) -> bool:
    """Return whether a source is an address in an object store."""
    return source[:9].lower().startswith(_STORE_PREFIXES)


def _check_data(name: str, data: bytes, limits: ImageLimits) -> bytes:
    if not data:
        raise ImageError(f"{name} is empty (0 bytes)")
    try:
        headers.check_bytes(len(data), limits)
    except ImageError as error:
        raise ImageError(f"{name} {error}") from None
    return data


def _read_data_uri(uri: str, limits: ImageLimits) -> bytes:
    head, comma, body = uri[5:].partition(",")
    kind, *parameters = (part.strip().lower() for part in head.split(";"))
    if not comma:
        raise ImageError("the data URI is cut off: it has no comma before its data")
    if not kind.startswith("image/"):
        raise ImageError(f"the data URI holds {printable_name(kind) or 'text/plain'}, not an image")
    if "base64" not in parameters:
        return unquote_to_bytes(body)
    if len(body) > limits.max_bytes * 4:  # before any copy; even a fully percent-encoded image is shorter
        raise ImageError(f"the data URI is longer than any image of {limits.max_bytes} bytes")
    if "%" in body:
        body = unquote_to_bytes(body).decode("latin-1")
    import pybase64

    body = _BLANKS.sub("", body)
    try:
        return bytes(pybase64.b64decode(body + "=" * (-len(body) % 4), validate=True))
    except ValueError:
        raise ImageError("the data URI is damaged: its data is not base64") from None


def _read_file(path: str, limits: ImageLimits) -> bytes:
    try:
        # Checked before it is opened, since opening a device can have effects; and again afterwards, since the name
        # may belong to something else by then. O_NONBLOCK: a pipe that appears in between must not block us.
        _check_file_kind(os.stat(path).st_mode)
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            _check_file_kind(status.st_mode)
            headers.check_bytes(status.st_size, limits)
            return _read_fully(file, status.st_size)
    except ImageError as error:
        raise ImageError(f"{printable_name(path)} {error}") from None
    except OSError as error:
        reason = _READ_ERRORS.get(error.errno or 0, f"could not be read ({error.strerror or type(error).__name__})")
        raise ImageError(f"{printable_name(path)} {reason}") from None
    except ValueError:  # a NUL in the name
        raise ImageError(f"{printable_name(path)} is not a name that a file can have") from None


def _read_fully(file: FileIO, size: int) -> bytes:
    """Read `size` bytes, in one system call where possible: a buffered read costs 0.2 ms more for each image."""
    data = file.read(size) or b""
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _check_file_kind(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ImageError(next((why for is_kind, why in _FILE_KINDS if is_kind(mode)), "is not a file"))


_DETECT_BYTES = 1024
_STORE_PACKAGES = {
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


async def fetch_object(address: str, *, limits: ImageLimits = DEFAULT_IMAGE_LIMITS, timeout_s: float = 60.0) -> bytes:
    """Return the bytes of an image in an object store; reads no more than the limits allow. Raises `ImageError`."""
    import asyncio  # late, as above

    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(_fetch_object, address, limits)
    except TimeoutError:
        raise ImageError(f"{_redacted_address(address)} did not arrive within {timeout_s:g} s") from None


def object_store_problem(address: str) -> str:
    """Return why an address in an object store can never be read here (a missing package); empty where it may be.

    Makes no request.
    """
    try:
        _store_class(address)
    except ImageError as error:
        return str(error)
    return ""


def _fetch_object(address: str, limits: ImageLimits) -> bytes:
    store = _open_store(address)
    try:
        # One request with a range, instead of one for the size and one for the bytes.
        data = bytes(store.cat_file(store._strip_protocol(address), start=0, end=limits.max_bytes + 1))
        if not data:
            raise ImageError("is empty (0 bytes)")
        headers.check_bytes(len(data), limits)
        headers.recognize_format(data[:_DETECT_BYTES])
    except ImageError as error:
        raise ImageError(f"{_redacted_address(address)} {error}") from None
    except FileNotFoundError:
        raise ImageError(f"{_redacted_address(address)} does not exist") from None
    except PermissionError:
        raise ImageError(f"{_redacted_address(address)} may not be read: permission denied") from None
    except Exception as error:  # each store has its own exceptions: no credentials, no network, no such bucket …
        raise ImageError(f"{_redacted_address(address)} could not be read ({_describe_cause(error)})") from None
    return data


def _open_store(address: str) -> AbstractFileSystem:
    """Return the store of an address; fsspec caches it with its connections."""
    store_class = _store_class(address)
    try:
        return store_class()
    except Exception as error:  # such as missing credentials: some stores look for them at once
        raise ImageError(
            f"the store of {_store_scheme(address)}:// images cannot be used ({_describe_cause(error)})"
        ) from None


def _store_class(address: str) -> type[AbstractFileSystem]:
    scheme = _store_scheme(address)
    if "::" in address:  # fsspec chains addresses by this, and the second one could be of any kind
        raise ImageError(f"{_redacted_address(address)} is not read: its address holds '::'")
    try:
        import fsspec
    except ImportError:
        raise ImageError(
            f"{scheme}:// images are read through fsspec, which is not installed; run: pip install 'beholder[stores]'"
            + (f" {_STORE_PACKAGES[scheme]}" if scheme in _STORE_PACKAGES else "")
        ) from None
    try:
        store_class: type[AbstractFileSystem] = fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError):
        package = _STORE_PACKAGES.get(scheme, scheme)
        raise ImageError(
            f"{scheme}:// images are read through {package}, which is not installed; run: pip install {package}"
        ) from None
    return store_class


def _store_scheme(address: str) -> str:
    return address.partition("://")[0].lower()


def _redacted_address(address: str) -> str:
    """Return an address without its query: signed addresses hold secrets, and errors end up in logs.

    `remote` has its own version for parsed URLs, which can also hold a user name and a password.
    """
    return printable_name(re.split("[?#]", address, maxsplit=1)[0])


def _describe_cause(error: Exception) -> str:
    lines = str(error).splitlines()
    return printable_name(re.split("[?]", lines[0], maxsplit=1)[0]) if lines and lines[0] else type(error).__name__


_START_LENGTHS = (4 * 1024, 64 * 1024)  # the first is nearly always enough; a large EXIF block needs the second
_END_LENGTH = 12


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What is known of an image without decoding it.

    Attributes:
        width: The width in the file, before it is turned upright; `height` likewise.
        mtime_ns: The modification time; `None` for an image that is not a file.
    """

    format: str
    width: int
    height: int
    bytes: int
    mtime_ns: int | None = None


def inspect_image(source: ImageSource, limits: ImageLimits = DEFAULT_IMAGE_LIMITS) -> ImageInfo:
    """Return format and size of a local image, without reading the whole file where possible.

    For JPEG, PNG and WebP the first 4 (or 64) KB and the last bytes are enough; where they are not, and for the rarer
    formats, the whole file is read. Measured on a 680 KB JPEG: 17 µs against 800. Damage in the middle of a file is
    found only when the image is prepared.

    Raises:
        ImageError: When the source is missing, not a file, not an image, cut off or above the limits; also for a remote
            address, which is not fetched.
    """
    if isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
        return _inspect_whole_file(source, limits)
    try:
        status = os.stat(source)
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= limits.max_bytes
            and (info := _inspect_file_ends(source, status))
        ):
            headers.check_size(info.width, info.height, limits)
            return info
    except ImageError as error:
        raise ImageError(f"{_describe_source(source)} {error}") from None
    except (OSError, ValueError):
        return _inspect_whole_file(source, limits)  # raises with a message for each of these
    return replace(_inspect_whole_file(source, limits), mtime_ns=status.st_mtime_ns)


def _inspect_whole_file(source: ImageSource, limits: ImageLimits) -> ImageInfo:
    data = read_image(source, limits=limits)
    try:
        header = read_header(data, limits)
    except ImageError as error:
        raise ImageError(f"{_describe_source(source)} {error}") from None
    return ImageInfo(header.format, header.width, header.height, len(data))


def _inspect_file_ends(path: str | os.PathLike[str], status: os.stat_result) -> ImageInfo | None:
    """Return what the first and last bytes of a file say; `None` where they are not enough."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))  # half the time of `open`
    try:
        os.lseek(file, max(0, status.st_size - _END_LENGTH), os.SEEK_SET)
        end = os.read(file, _END_LENGTH)
        for length in _START_LENGTHS:
            os.lseek(file, 0, os.SEEK_SET)
            start = os.read(file, length)
            file_format = headers.recognize_format(start)
            read_size = _SIZE_READERS.get(file_format)
            if read_size and (size := read_size(start, end, status.st_size)):
                return ImageInfo(file_format, *size, bytes=status.st_size, mtime_ns=status.st_mtime_ns)
    finally:
        os.close(file)
    return None


def _describe_source(source: ImageSource) -> str:
    if isinstance(source, bytes):
        return "the image"
    text = os.fspath(source)
    return "the data URI" if text[:5].lower() == "data:" else printable_name(text)


_SIZE_READERS: dict[str, Callable[[bytes, bytes, int], ImageSize | None]] = {
    "jpeg": read_jpeg_size,
    "png": read_png_size,
    "webp": read_webp_size,
}
_HEADER_READERS = {"jpeg": read_jpeg_header, "png": read_png_header, "webp": read_webp_header}


def read_header(data: bytes, limits: ImageLimits) -> ImageHeader:
    """Return the header of a whole file. Raises `ImageError` where it is damaged or above the limits."""
    headers.check_bytes(len(data), limits)
    file_format = headers.recognize_format(data)
    if file_format in _HEADER_READERS:
        header = _HEADER_READERS[file_format](data)
    else:
        from beholder.images import codec

        header = codec.read_header_with_library(data, file_format)
    headers.check_size(header.width, header.height, limits)
    return header
