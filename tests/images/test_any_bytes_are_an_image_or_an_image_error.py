"""Promise: whatever the bytes, `prepare` returns a picture that opens or raises `ImageError`, and nothing else."""

from __future__ import annotations

import io
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.images import gps_exif, photo, profile, saved

from beholder.errors import ImageError
from beholder.images.headers import is_srgb
from beholder.images.image import PreparedImage, Sizing
from beholder.images.prepare import prepare_image

KINDS = [
    "JPEG",
    "PROGRESSIVE",
    "CMYK",
    "PNG",
    "PALETTE",
    "WEBP",
    "LOSSLESS",
    "GIF",
    "BMP",
    "TIFF",
    "LZW",
    "AVIF",
    "HEIF",
]
MAGIC = [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x20\0\0\0WEBP", b"GIF89a", b"BM", b"II*\0", b"MM\0*"]
MAGIC += [b"\0\0\0\x18ftypavif", b"\0\0\0\x18ftypheic"]
SIZINGS = [Sizing(), Sizing(max_side=20)]
SRGB = profile()


@cache
def _file(kind: str) -> bytes:
    image = photo(48, 32)
    odd = profile(gamma=1.8)
    if kind == "PROGRESSIVE":
        return saved(image, "JPEG", progressive=True, exif=gps_exif(6))
    if kind == "CMYK":
        return saved(image.convert("CMYK"), "JPEG")
    if kind == "PALETTE":
        return saved(image.quantize(8), "PNG", transparency=0, icc_profile=odd)
    if kind == "LOSSLESS":
        return saved(image.convert("RGBA"), "WEBP", lossless=True, icc_profile=odd, exif=gps_exif(3))
    if kind == "LZW":
        return saved(image, "TIFF", compression="tiff_lzw")
    return saved(image, kind)


def _holds(data: bytes, sizing: Sizing) -> None:
    try:
        sent = prepare_image(data, sizing, name="any")
    except ImageError as error:
        sentence = str(error)
    else:
        _opens(sent)
        return
    assert sentence.startswith("any ")
    assert sentence.isprintable()


def _opens(sent: PreparedImage) -> None:
    with Image.open(io.BytesIO(sent.data)) as image:
        assert image.size == (sent.width, sent.height)


@given(st.binary(max_size=300) | st.tuples(st.sampled_from(MAGIC), st.binary(max_size=300)).map(b"".join))
def test_arbitrary_bytes(data: bytes) -> None:
    _holds(data, SIZINGS[1])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_real_files_with_bytes_changed_cut_or_added(data: st.DataObject) -> None:
    file = bytearray(_file(data.draw(st.sampled_from(KINDS))))
    # Half of the damage goes to the head, where structure is.
    places = st.integers(0, min(200, len(file) - 1)) | st.integers(0, len(file) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=4)):
        file[place] = value
    if data.draw(st.booleans()):
        del file[data.draw(places) :]
    elif data.draw(st.booleans()):
        at = data.draw(places)
        file[at:at] = data.draw(st.binary(max_size=40))
    _holds(bytes(file), data.draw(st.sampled_from(SIZINGS)))


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda junk: (SRGB[:140] + junk + SRGB)[:600]))
def test_arbitrary_profiles_are_srgb_or_not(tag: bytes) -> None:
    assert is_srgb(tag) in (True, False)
