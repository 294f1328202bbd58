"""Promise: an image that cannot be used is answered with one plain sentence, quickly, and never with a traceback."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from support.images import jpeg_segment, photo, png_chunk, saved

from beholder.errors import ImageError
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, Sizing
from beholder.images.prepare import prepare_image
from beholder.images.source import read_image


def _complaint(file: Path | bytes | str, name: str = "cat.jpg", limits: ImageLimits = DEFAULT_IMAGE_LIMITS) -> str:
    with pytest.raises(ImageError) as caught:
        prepare_image(read_image(file, limits=limits), limits=limits, name=name)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert caught.value.__cause__ is None
    return sentence


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Dear diary, today I saw a picture.\n" * 20, "is a text file, not an image"),
        ("Grüße aus Köln".encode(), "is a text file, not an image"),
        (b"BMW is a car.\n" * 5, "is a text file, not an image"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "is a web page"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "is an SVG drawing"),
        (b"%PDF-1.7\n", "is a PDF document"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "is a video"),
        (bytes(range(256)), "is not an image of a known format"),
    ],
)
def test_something_else_is_called_what_it_is(content: bytes, words: str) -> None:
    assert f"cat.jpg {words}" in _complaint(content)


def test_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "cat.jpg"
    file.touch()
    assert _complaint(file).endswith("cat.jpg is empty (0 bytes)")
    with pytest.raises(ImageError, match=r"^cat\.jpg is empty"):
        prepare_image(b"", name="cat.jpg")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_file(kind: str, share: float) -> None:
    file = saved(photo(200, 150), kind)
    sentence = _complaint(file[: int(len(file) * share)])
    assert "cut off" in sentence or "damaged" in sentence


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_file_is_noticed_wherever_it_ends(kind: str) -> None:
    file = saved(photo(), kind)
    for end in range(12, len(file), 41):
        _complaint(file[:end])
    _complaint(file[:-1])


def test_damage_inside_a_jpeg_is_noticed_when_it_must_be_decoded() -> None:
    file = saved(photo(200, 150), "JPEG")
    with pytest.raises(ImageError, match="damaged"):
        prepare_image(file[: len(file) // 2] + b"\xff\xd9", Sizing(max_side=100))


def test_damage_inside_a_png_is_noticed_by_its_checksum() -> None:
    file = bytearray(saved(photo(), "PNG"))
    file[len(file) // 2] ^= 1
    assert "checksum" in _complaint(bytes(file))


def _png_that_says(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * 100_000)
    parts = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _jpeg_that_says(width: int, height: int) -> bytes:
    jpeg = saved(photo(), "JPEG")
    at = jpeg.index(b"\xff\xc0")
    return jpeg[: at + 5] + struct.pack(">HH", height, width) + jpeg[at + 9 :]


def _gif_that_says(width: int, height: int) -> bytes:
    gif = saved(photo(), "GIF")
    return gif[:6] + struct.pack("<HH", width, height) + gif[10:]


def _bmp_that_says(width: int, height: int) -> bytes:
    bmp = saved(photo(), "BMP")
    return bmp[:18] + struct.pack("<ii", width, height) + bmp[26:]


def _webp_that_says(width: int, height: int) -> bytes:
    body = (
        b"WEBPVP8X"
        + struct.pack("<IB3x", 10, 2)
        + (width - 1).to_bytes(3, "little")
        + (height - 1).to_bytes(3, "little")
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


LIARS = [_png_that_says, _jpeg_that_says, _gif_that_says, _bmp_that_says, _webp_that_says]


@pytest.mark.parametrize("file", LIARS)
def test_a_picture_30_000_pixels_wide_is_refused_by_its_header(file: Callable[[int, int], bytes]) -> None:
    sentence = _complaint(file(30_000, 100))
    assert "cat.jpg is 30000×100 pixels; at most 16384 on a side are opened" in sentence


@pytest.mark.parametrize("file", LIARS)
def test_a_bomb_of_12_000_by_12_000_is_refused_by_its_header(file: Callable[[int, int], bytes]) -> None:
    assert "cat.jpg is 12000×12000 pixels, 144 million; at most 100 million are opened" in _complaint(
        file(12_000, 12_000)
    )


def test_a_large_tiff_avif_or_heic_is_refused_by_its_header() -> None:
    limits = ImageLimits(max_side=90)
    for kind in ("TIFF", "AVIF", "HEIF"):
        assert "cat.jpg is 96×64 pixels; at most 90" in _complaint(saved(photo(), kind), limits=limits)


def test_a_bomb_is_refused_without_taking_memory() -> None:
    script = (
        "import resource, sys\n"
        "from beholder.images.prepare import prepare_image\n"
        "from beholder.errors import ImageError\n"
        "data = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: prepare_image(data)\n"
        "except ImageError as error: print(error)\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=_png_that_says(12_000, 12_000), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert "144 million" in done.stdout.decode()


def test_a_header_that_promises_less_than_the_data_holds_takes_no_memory() -> None:
    header = struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)
    packed = zlib.compress(b"\0" * 300_000_000, 9)
    file = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")
    script = (
        "import resource, sys\n"
        "from beholder.images import codec\n"
        "from beholder.images.image import Sizing\n"
        "from beholder.images.prepare import prepare_image\n"
        "data = sys.stdin.buffer.read()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert prepare_image(data, Sizing(max_side=4)).width == 4\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=file, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_a_colour_profile_that_is_a_bomb_takes_no_memory() -> None:
    png = saved(photo(), "PNG")
    bomb = b"name\0\0" + zlib.compress(b"\0" * 200_000_000, 9)
    file = png[:33] + png_chunk(b"iCCP", bomb) + png[33:]
    tracemalloc.start()
    try:
        assert "colour_profile_ignored" in prepare_image(file).notes
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_a_jpeg_with_two_frames_is_refused() -> None:
    jpeg = saved(photo(), "JPEG")
    second = jpeg_segment(0xC0, struct.pack(">BHHB", 8, 16_000, 6_000, 3) + b"\x01\x11\0" * 3)
    assert "two frame headers" in _complaint(jpeg[:2] + second + jpeg[2:])


def test_a_jpeg_of_thousands_of_scans_is_refused() -> None:
    jpeg = saved(photo(), "JPEG", progressive=True)
    scan = jpeg.index(b"\xff\xda")
    end = jpeg.index(b"\xff\xc4", scan)
    assert "too many scans" in _complaint(jpeg[:end] + jpeg[scan:end] * 1_000 + jpeg[end:])


def test_a_file_over_the_cap_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.jpg"
    with file.open("wb") as out:
        out.truncate(1 << 40)
    assert _complaint(file).endswith("huge.jpg has 1048576.0 MB; at most 64.0 MB are opened")
    with pytest.raises(ImageError, match=r"^cat\.jpg has 101 bytes; at most 100 bytes"):
        prepare_image(b"x" * 101, limits=ImageLimits(max_bytes=100), name="cat.jpg")


def test_a_missing_file(tmp_path: Path) -> None:
    assert _complaint(tmp_path / "cat.jpg").endswith("cat.jpg does not exist")
    (tmp_path / "file").touch()
    assert "does not exist" in _complaint(tmp_path / "file" / "cat.jpg")
    assert "does not exist" in _complaint(tmp_path / ("x" * 5_000))
    assert "not a name" in _complaint(str(tmp_path / "a\0b"))


def test_a_directory(tmp_path: Path) -> None:
    assert "is a directory; name an image file in it" in _complaint(tmp_path)


def test_a_symlink_loop_and_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "leads back to itself" in _complaint(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    assert "does not exist" in _complaint(tmp_path / "c")


def test_a_pipe_a_socket_and_a_device_are_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in _complaint(tmp_path / "pipe")
    assert "is a device" in _complaint("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "s"))
        assert "is a socket" in _complaint(tmp_path / "s")


def test_a_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "cat.jpg"
    file.write_bytes(saved(photo(), "JPEG"))
    file.chmod(0)
    if os.geteuid() != 0:
        assert "permission denied" in _complaint(file)
        return
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    child = os.fork()
    if child == 0:  # root reads everything, so somebody else must try
        os.seteuid(65534)
        try:
            read_image(file)
        except ImageError as error:
            os._exit(0 if "permission denied" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_hostile_name_is_shown_escaped(tmp_path: Path) -> None:
    sentence = _complaint(tmp_path / "a\nb\x1b[31m\u202egpj.exe\r\udcff")
    assert sentence.isprintable()
    assert "a\\nb\\x1b[31m\\u202egpj.exe\\r\\udcff does not exist" in sentence
    with pytest.raises(ImageError) as caught:
        prepare_image(b"text", name="x\n\x1b]0;owned\x07" * 100)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("https://example.com/cat.jpg?token=secret", "is a remote image.*--allow-remote"),
        ("HTTP://example.com/cat.jpg", "allow"),
        ("ftp://example.com/cat.jpg", "ftp: addresses are not read"),
        ("file:///etc/passwd", "file: addresses are not read"),
        ("ftp://host/cat.jpg", "ftp: addresses are not read"),
        ("s3://bucket/cat.jpg", "is a remote image"),
        ("data:text/html;base64,AAAA", "holds text/html, not an image"),
        ("data:image/png;base64", "has no comma"),
        ("data:image/png;base64,????", "not base64"),
        ("data:image/png;base64,", "is empty"),
        ("data:,", "not an image"),
    ],
)
def test_sources_that_are_not_read(source: str, words: str) -> None:
    with pytest.raises(ImageError, match=words) as caught:
        read_image(source)
    assert "secret" not in str(caught.value)


def test_images_of_no_size() -> None:
    assert "0×10 pixels" in _complaint(_png_that_says(0, 10))
    assert "96×0 pixels" in _complaint(_jpeg_that_says(96, 0))


def test_nothing_is_said_on_the_error_stream(capfd: pytest.CaptureFixture[str]) -> None:
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"):
        file = saved(Image.new("RGB", (60, 40)), kind)
        _complaint(file[: len(file) * 2 // 3])
    assert capfd.readouterr() == ("", "")
