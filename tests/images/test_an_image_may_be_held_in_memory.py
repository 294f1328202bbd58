"""File objects, PIL images, arrays and tensors are images: the same pixels give the same digest, whoever held them."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image, ImageCms

from beholder.cases.case import Case
from beholder.errors import CaseError, ImageError
from beholder.images.image import ImageLimits
from beholder.images.in_memory import normalize_image
from beholder.images.prepare import digest, prepare_image

Pixels = NDArray[np.uint8]


def encode(image: object) -> bytes:
    data = normalize_image(image)
    assert isinstance(data, bytes)
    return data


def decode(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)))


class Tensor:
    """What torch's tensor offers: `detach().cpu().numpy()`, with `bfloat16` unknown to NumPy."""

    def __init__(self, values: NDArray[Any], *, bfloat16: bool = False) -> None:
        self._values, self._bfloat16 = values, bfloat16
        self.shape = values.shape

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self._values.astype(np.float32))

    def numpy(self) -> NDArray[Any]:
        if self._bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._values

    def __array__(self, *_: object) -> NDArray[Any]:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


sides = st.integers(5, 24)
color_pixels = st.tuples(sides, sides, st.sampled_from([3, 4])).flatmap(lambda shape: arrays.arrays(np.uint8, shape))
any_pixels = st.one_of(st.tuples(sides, sides).flatmap(lambda shape: arrays.arrays(np.uint8, shape)), color_pixels)


@given(any_pixels)
def test_the_same_pixels_give_the_same_bytes(pixels: Pixels) -> None:
    expected = encode(Image.fromarray(pixels))
    assert encode(pixels) == expected
    assert encode(np.asfortranarray(pixels)) == expected
    assert encode(pixels[::-1][::-1]) == expected
    for kind in (np.float16, np.float32, np.float64):
        assert encode((pixels / 255).astype(kind)) == expected
    channels_first = np.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels
    assert encode(channels_first) == encode(Tensor(channels_first)) == expected
    assert encode(Tensor(channels_first / 255, bfloat16=True)) == expected


@given(any_pixels)
def test_nothing_is_lost(pixels: Pixels) -> None:
    opaque = pixels[:, :, :3] if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels[:, :, 3].min() == 255 else pixels
    assert np.array_equal(decode(encode(pixels)), opaque)


def test_a_gray_image_with_one_channel_is_the_gray_image() -> None:
    gray = np.arange(60, dtype=np.uint8).reshape(6, 10)
    assert encode(gray) == encode(gray[:, :, None]) == encode(gray[None]) == encode(Image.fromarray(gray))


def test_an_alpha_channel_that_is_opaque_is_dropped() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (9, 7, 3), np.uint8)
    opaque = np.dstack([pixels, np.full((9, 7), 255, np.uint8)])
    assert encode(opaque) == encode(pixels) == encode(Image.fromarray(opaque))


def test_where_channels_could_be_first_or_last_an_array_has_them_last_and_a_tensor_first() -> None:
    pixels = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    assert decode(encode(pixels)).shape == (3, 4, 3)
    assert np.array_equal(decode(encode(Tensor(pixels))), np.moveaxis(pixels, 0, 2))


@given(st.integers(5, 30), st.integers(5, 30), st.sampled_from([1, 3, 4]))
def test_channels_are_found_in_either_place(height: int, width: int, channels: int) -> None:
    last = np.zeros((height, width, channels), np.uint8)
    assert encode(last) == encode(np.moveaxis(last, 2, 0))
    assert decode(encode(last)).shape[:2] == (height, width)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((0, 5, 3), np.uint8), "is an array of shape (0, 5, 3) without pixels (5×0)"),
        (np.zeros((5, 0), np.uint8), "is an array of shape (5, 0) without pixels (0×5)"),
        (np.zeros((2, 8, 8, 3), np.uint8), "is an array of shape (2, 8, 8, 3), a batch; give its images one by one"),
        (np.zeros(12, np.uint8), "is an array of shape (12,); one image is height × width"),
        (np.uint8(3), "is an array of shape (); one image is height × width"),
        (np.zeros((8, 8, 2), np.uint8), "is an array of shape (8, 8, 2); one image is height × width"),
        (np.zeros((8, 8), np.int64), "is an array of int64; give uint8 from 0 to 255, or floats from 0 to 1"),
        (np.zeros((8, 8), np.uint16), "is an array of uint16; give uint8"),
        (
            np.zeros((8, 8), bool),
            "is an array of bool; give uint8 from 0 to 255, or floats from 0 to 1; of a mask: mask",
        ),
        (np.zeros((8, 8), complex), "is an array of complex128; give uint8"),
        (np.full((8, 8), "x"), "is an array of <U1; give uint8"),
        (np.full((8, 8), np.nan), "is an array of float64 with values that are not finite (NaN or infinite)"),
        (np.full((8, 8), np.inf, np.float16), "is an array of float16 with values that are not finite"),
        (
            np.linspace(0, 255, 64).reshape(8, 8),
            "with values from 0 to 255; give uint8 from 0 to 255, or floats from 0",
        ),
        (np.linspace(-1, 1, 64).reshape(8, 8), "where it runs from -1 to 1: (array + 1) / 2"),
        (Tensor(np.zeros((1, 3, 8, 8), np.float32)), "is a tensor of shape (1, 3, 8, 8), a batch"),
    ],
)
def test_an_array_that_is_no_image_is_one_plain_sentence(array: object, sentence: str) -> None:
    with pytest.raises(ImageError) as caught:
        normalize_image(array)
    assert sentence in str(caught.value)
    with pytest.raises(CaseError, match=r"^The image 'input' of 'a' is a"):
        Case("a", {"input": array})  # type: ignore[dict-item]  # on purpose


def test_what_resampling_leaves_beyond_the_ends_is_black_and_white() -> None:
    assert decode(encode(np.array([[-0.001, 1.0019, 0.5]] * 3))).tolist()[0] == [0, 255, 128]


def test_a_huge_array_is_refused_before_its_values_are_touched() -> None:
    class Huge:
        shape = (20_000, 20_000, 3)

        def detach(self) -> None:
            raise AssertionError("the values were asked for")

        cpu = detach

    with pytest.raises(ImageError, match="20000×20000 pixels; at most 16384 on a side"):
        normalize_image(Huge())
    with pytest.raises(ImageError, match="at most 0 million are opened"):
        normalize_image(np.broadcast_to(np.uint8(0), (500, 900)), ImageLimits(max_pixels=1000))
    with pytest.raises(ImageError, match="17000×2 pixels"):
        normalize_image(Image.new("L", (17_000, 2)))


def test_an_array_of_another_library_that_fails_is_a_sentence() -> None:
    class Failing:
        shape = (8, 8)

        def __array__(self, *_: object) -> None:
            raise RuntimeError("the device is gone\nsecond line")

    with pytest.raises(ImageError, match=r"^is an array that NumPy cannot read \(the device is gone\)$"):
        normalize_image(Failing())


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I;16"])
def test_every_mode_of_pillow_is_read(mode: str) -> None:
    image = Image.linear_gradient("L").convert("RGB" if mode not in ("I;16",) else "I;16")
    image = image.convert(mode)
    pixels = decode(encode(image))
    assert pixels.shape[:2] == (256, 256)
    assert pixels.dtype == np.uint8


@pytest.mark.parametrize("mode", ["I", "F"])
def test_a_mode_whose_range_nothing_states_is_a_sentence(mode: str) -> None:
    with pytest.raises(ImageError, match="has pixels whose range nothing states"):
        normalize_image(Image.new(mode, (8, 8)))


def test_a_pillow_image_that_is_closed_or_cut_off_is_a_sentence(tmp_path: Path) -> None:
    closed = Image.new("RGB", (8, 8))
    closed.close()
    with pytest.raises(ImageError, match="cannot be decoded"):
        normalize_image(closed)
    data = encode(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8))
    (tmp_path / "cut.png").write_bytes(data[:3000])
    with Image.open(tmp_path / "cut.png") as cut, pytest.raises(ImageError, match="is cut off or damaged"):
        normalize_image(cut)


def test_a_pillow_image_without_pixels_is_a_sentence() -> None:
    with pytest.raises(ImageError, match=r"is a PIL image without pixels \(0×5\)"):
        normalize_image(Image.new("RGB", (0, 5)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_pillow_image_is_turned_upright_as_its_file_would_be(kind: str, orientation: int) -> None:
    picture = Image.fromarray(np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3))
    exif = Image.Exif()
    exif[274] = orientation
    buffer = io.BytesIO()
    picture.save(buffer, kind, exif=exif, lossless=True)
    buffer.seek(0)
    upright = prepare_image(buffer.getvalue())
    ours = decode(encode(Image.open(buffer)))
    assert ours.shape[:2] == (upright.height, upright.width)
    if kind != "JPEG":
        assert np.array_equal(ours, decode(upright.data))


def test_a_color_profile_is_converted_as_that_of_a_file() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    picture = Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3))
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    tagged = picture.copy()
    tagged.info["icc_profile"] = srgb
    assert encode(tagged) == encode(picture)
    tagged.info["icc_profile"] = profile  # made for other pixels, and so ignored
    assert encode(tagged) == encode(picture)


def test_a_file_object_is_read_from_its_start() -> None:
    data = encode(np.zeros((8, 8), np.uint8))
    file = io.BytesIO(data)
    file.seek(5)
    assert normalize_image(file) == data


def test_a_stream_that_cannot_seek_is_read_to_its_end(tmp_path: Path) -> None:
    data = encode(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", data)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive, archive.open("a.png") as member:
        assert normalize_image(member) == data

    class Trickle(io.RawIOBase):
        def __init__(self) -> None:
            self._left = io.BytesIO(data)

        def read(self, size: int = -1, /) -> bytes:
            return self._left.read(min(size, 1000))

    assert normalize_image(Trickle()) == data


def test_a_file_object_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    closed = io.BytesIO(b"x")
    closed.close()
    with pytest.raises(ImageError, match=r"is a file object that cannot be read \(I/O operation on closed file\)"):
        normalize_image(closed)
    with pytest.raises(ImageError, match="is a file object that returns str; open the file with mode 'rb'"):
        normalize_image(io.StringIO("x"))
    with pytest.raises(ImageError, match="without any bytes left to read"):
        normalize_image(io.BytesIO())
    with pytest.raises(ImageError, match=r"has 11 bytes; at most 10 bytes are opened"):
        normalize_image(io.BytesIO(bytes(100)), ImageLimits(max_bytes=10))
    with (
        (tmp_path / "out.png").open("wb") as writing,
        pytest.raises(ImageError, match="is a file object that cannot be"),
    ):
        normalize_image(writing)


def test_the_dict_of_hugging_face() -> None:
    assert normalize_image({"bytes": b"data", "path": "a.png"}) == b"data"
    assert normalize_image({"bytes": None, "path": "a.png"}) == "a.png"
    assert normalize_image({"path": Path("a.png")}) == Path("a.png")
    for wrong, sentence in (
        ({"bytes": None, "path": None}, "is a dict with neither 'bytes' nor 'path'"),
        ({}, "is a dict with no keys; one of Hugging Face has 'bytes' and 'path'"),
        ({"url": "a"}, "is a dict with 'url'; one of Hugging Face"),
        ({"bytes": "text"}, "is a dict whose 'bytes' are of type str"),
        ({"bytes": None, "path": 5}, "is a dict whose 'path' is of type int"),
    ):
        with pytest.raises(ImageError) as caught:
            normalize_image(wrong)
        assert sentence in str(caught.value)


def test_anything_else_is_a_sentence() -> None:
    for wrong in (5, None, object(), {1, 2}):
        with pytest.raises(
            ImageError, match=r"^should be a path, an address, bytes, a file object, a PIL image or an arr"
        ):
            normalize_image(wrong)


def test_a_case_holds_bytes_and_can_be_pickled() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    case = Case("a", {"input": pixels, "edited": Path("e.png"), "mask": bytearray(b"m"), "view": memoryview(b"v")})
    assert case.images == {"input": encode(pixels), "edited": Path("e.png"), "mask": b"m", "view": b"v"}
    assert pickle.loads(pickle.dumps(case)) == case
    pixels[:] = 0  # what the caller does later is not seen
    assert case.images["input"] != encode(pixels)


def test_images_fields_and_groups_are_mappings() -> None:
    with pytest.raises(CaseError, match=r"The images of 'a' should be a mapping by name: 'x.png'"):
        Case("a", "x.png")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(CaseError, match=r"The fields of 'a' should be a mapping by name: \['x'\]"):
        Case("a", {}, ["x"])  # type: ignore[arg-type]  # on purpose


def test_the_repr_of_a_case_has_no_bytes_in_it() -> None:
    data = "data:image/png;base64," + "A" * 5000
    case = Case("a", {"input": ["i.png", bytes(7308)], "edited": data}, {"instruction": "x"})
    assert repr(case).startswith("Case('a', images={'input': ['i.png', <7,308 bytes>], 'edited': 'data:image/png;")
    assert repr(case).endswith("}, fields={'instruction': 'x'})")
    assert len(repr(case)) < 300


def test_a_list_of_images_is_kept_in_order() -> None:
    case = Case("a", {"reference": ["1.png", Image.new("L", (4, 4)), {"bytes": b"3"}], "output": ("o.png",)})
    assert case.sources("reference") == ("1.png", encode(np.zeros((4, 4), np.uint8)), b"3")
    assert case.images["output"] == "o.png"
    assert [role for role, _ in case.list_images()] == ["reference", "reference", "reference", "output"]
    with pytest.raises(CaseError, match="The image 'reference' of 'a' is an empty list"):
        Case("a", {"reference": []})
    with pytest.raises(CaseError, match=r"The image 'reference' of 'a' \(number 2 of 2\) should be a path"):
        Case("a", {"reference": ["a.png", 5]})  # type: ignore[list-item]  # on purpose


def test_digests_are_those_of_the_pixels_as_a_judge_gets_them() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    prepared = prepare_image(encode(pixels))
    assert prepared.digest == prepared.source_digest == digest(encode(Image.fromarray(pixels)))
    assert np.array_equal(decode(prepared.data), pixels)


def test_nothing_is_imported_for_images_that_are_files() -> None:
    check = (
        "import sys, io; from beholder import Case; "
        "Case('a', {'input': 'a.png', 'edited': io.BytesIO(b'x'), 'c': {'bytes': b'x', 'path': None}}); "
        "print([name for name in ('numpy', 'PIL', 'cv2', 'torch') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout == "[]\n"
