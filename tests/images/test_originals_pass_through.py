"""Promise: a picture that a judge can take as it is arrives with its pixels untouched, and without being decoded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms
from support.images import P3_COLUMNS, gps_exif, jpeg_segment, photo, pixels, profile, saved, with_jpeg_segment

from beholder.images import prepare
from beholder.images.headers import is_srgb
from beholder.images.image import Sizing
from beholder.images.prepare import digest, prepare_image

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

FILES = {
    "jpeg": lambda **more: saved(photo(), "JPEG", **more),
    "jpeg progressive": lambda **more: saved(photo(), "JPEG", progressive=True, **more),
    "jpeg 4:4:4": lambda **more: saved(photo(), "JPEG", subsampling=0, **more),
    "jpeg grey": lambda **more: saved(photo().convert("L"), "JPEG", **more),
    "jpeg stored as RGB": lambda **more: saved(photo(), "JPEG", keep_rgb=True, **more),
    "jpeg with restarts": lambda **more: saved(photo(), "JPEG", restart_marker_rows=1, **more),
    "png": lambda **more: saved(photo(), "PNG", **more),
    "png grey": lambda **more: saved(photo().convert("L"), "PNG", **more),
    "png palette": lambda **more: saved(photo().quantize(16), "PNG", **more),
    "png 1 bit": lambda **more: saved(photo().convert("1"), "PNG", **more),
    "png opaque rgba": lambda **more: saved(photo().convert("RGBA"), "PNG", **more),
    "webp": lambda **more: saved(photo(), "WEBP", **more),
    "webp lossless": lambda **more: saved(photo(), "WEBP", lossless=True, **more),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_without_metadata_is_sent_byte_for_byte(kind: str) -> None:
    file = FILES[kind]()
    sent = prepare_image(file)
    assert sent.data == file
    assert sent.digest == sent.source_digest == digest(file)
    assert sent.media_type == f"image/{kind.split()[0]}"
    assert (sent.width, sent.height) == (sent.source_width, sent.source_height) == (96, 64)
    assert not sent.scaled
    assert sent.notes == ()


@pytest.mark.parametrize("kind", FILES)
def test_cutting_metadata_leaves_every_pixel_as_it_was(kind: str) -> None:
    file = FILES[kind](exif=gps_exif(), icc_profile=None if "grey" in kind or "1 bit" in kind else SRGB)
    sent = prepare_image(file)
    assert len(sent.data) < len(file)
    assert np.array_equal(pixels(sent.data), pixels(file))
    assert sent.notes == ()


def test_the_first_frame_of_an_animated_png_is_cut_out_losslessly() -> None:
    file = saved(photo(), "PNG", save_all=True, append_images=[photo().rotate(180)])
    sent = prepare_image(file)
    assert np.array_equal(pixels(sent.data), pixels(saved(photo(), "PNG")))
    assert sent.notes == ("first_frame_of_png",)


def test_a_profile_is_known_as_srgb_by_its_curve_and_primaries_not_by_its_name() -> None:
    assert is_srgb(SRGB)
    assert is_srgb(profile())
    assert not is_srgb(profile(gamma=1.8) + b"sRGB IEC61966-2.1")
    assert not is_srgb(profile(P3_COLUMNS))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_file_without_metadata_is_neither_copied_nor_digested_twice(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digested: list[bytes] = []

    def recorded_digest(data: bytes) -> str:
        digested.append(data)
        return digest(data)

    monkeypatch.setattr(prepare, "digest", recorded_digest)
    file = saved(photo(), kind)
    sent = prepare_image(file)
    assert sent.data is file
    assert sent.digest == sent.source_digest == digest(file)
    assert digested == [file]


def test_a_file_of_the_same_length_with_other_bytes_is_not_taken_for_the_original() -> None:
    jpeg = saved(photo(), "JPEG")
    place = jpeg.index(b"JFIF\0") + 12
    thumbnail = jpeg[:place] + b"\1\1" + jpeg[place + 2 :]  # a thumbnail's size, which is written anew as none
    sent = prepare_image(thumbnail)
    assert sent.data == jpeg
    assert (sent.digest, sent.source_digest) == (digest(jpeg), digest(thumbnail))


def test_fill_bytes_before_a_marker_do_no_harm() -> None:
    jpeg = saved(photo(), "JPEG")
    sent = prepare_image(jpeg[:2] + b"\xff\xff\xff" + jpeg[2:])
    assert sent.data == jpeg


def test_stray_bytes_between_the_segments_of_a_jpeg_are_left_out() -> None:
    jpeg = saved(photo(), "JPEG")
    assert prepare_image(jpeg[:2] + jpeg_segment(0xFE, b"x") + b"\0stray" + jpeg[2:]).data == jpeg


def test_a_picture_in_a_format_that_the_judge_does_not_take_is_encoded_anew() -> None:
    sent = prepare_image(saved(photo(), "WEBP", lossless=True), Sizing(formats=frozenset({"jpeg", "png"})))
    assert sent.media_type == "image/png"
    assert np.array_equal(pixels(sent.data), np.asarray(photo()))


def test_a_file_over_the_limit_of_bytes_does_not_pass_but_metadata_does_not_count() -> None:
    jpeg = saved(photo(), "JPEG", quality=95)
    bulky = with_jpeg_segment(jpeg, 0xE5, b"x" * 60_000)
    assert prepare_image(bulky, Sizing(max_bytes=len(jpeg))).data == jpeg
    assert prepare_image(jpeg, Sizing(max_bytes=len(jpeg) - 1)).data != jpeg


def test_passing_through_loads_no_codec_and_importing_no_network(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    file.write_bytes(saved(photo(), "JPEG", exif=gps_exif(), icc_profile=SRGB))
    script = (
        "import sys\n"
        "from beholder.images.prepare import prepare_image\n"
        "from beholder.images.source import read_image\n"
        "prepare_image(read_image(sys.argv[1]))\n"
        "print(sorted({'PIL', 'cv2', 'numpy', 'simplejpeg', 'aiohttp', 'yarl'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_same_file_gives_the_same_bytes() -> None:
    for file in (saved(photo(), "JPEG"), saved(photo(), "PNG"), saved(Image.new("RGBA", (40, 30)), "PNG")):
        for sizing in (Sizing(), Sizing(max_side=20)):
            assert prepare_image(file, sizing) == prepare_image(file, sizing)
