"""A pair is loaded through the safe decoder: upright, sRGB, alpha over white, scaled; a mask lies over the image."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image as Pillow
from support.instruments import jpeg, noisy, pasted, photo, png

from beholder.errors import ImageError, UsageError
from beholder.instruments.pair import ImagePair, SingleImage

PHOTO = photo("coffee", 640, 480)


def test_a_pair_is_as_in_the_files() -> None:
    pair = ImagePair.load(png(PHOTO), png(255 - PHOTO))
    assert np.array_equal(pair.before, PHOTO)
    assert np.array_equal(pair.after, 255 - PHOTO)
    assert pair.sizes == ((640, 480), (640, 480))
    assert pair.mask is None
    assert pair.region_is_inferred


def test_large_images_are_scaled_down_and_small_ones_left() -> None:
    pair = ImagePair.load(png(PHOTO), png(photo("coffee", 160, 120)), side=320)
    assert pair.before.shape == (240, 320, 3)
    assert pair.after.shape == (120, 160, 3)
    assert pair.aligned.shape == (240, 320, 3)
    assert pair.sizes == ((640, 480), (160, 120))
    assert pair.difference_quantiles[0] < 4


def test_a_turned_photo_stands_upright() -> None:
    out = io.BytesIO()
    exif = Pillow.Exif()
    exif[274] = 6
    Pillow.fromarray(np.ascontiguousarray(np.rot90(PHOTO))).save(out, "JPEG", quality=95, exif=exif)
    pair = ImagePair.load(png(PHOTO), out.getvalue())
    assert pair.sizes == ((640, 480), (640, 480))
    assert pair.difference_quantiles[0] < 4


def test_alpha_is_laid_over_white() -> None:
    clear = np.dstack([PHOTO, np.zeros(PHOTO.shape[:2], np.uint8)])
    assert ImagePair.load(png(clear), png(PHOTO)).before.min() == 255
    assert ImagePair(clear, PHOTO).before.min() == 255


def test_grey_becomes_rgb() -> None:
    pair = ImagePair.load(png(PHOTO[:, :, 0]), jpeg(PHOTO))
    assert pair.before.shape == PHOTO.shape
    assert np.array_equal(pair.before[..., 0], pair.before[..., 2])


def test_a_picture_knows_the_size_of_its_file() -> None:
    picture = SingleImage.load(jpeg(PHOTO), side=100)
    assert picture.size == (640, 480)
    assert picture.pixels.shape == (75, 100, 3)
    assert picture.luma.shape == (75, 100)
    assert picture.lab.shape == (75, 100, 3)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_broken_file_is_one_sentence_with_its_name(which: int) -> None:
    files = [png(PHOTO), png(PHOTO), png(PHOTO[:, :, 0])]
    files[which] = files[which][:200]
    with pytest.raises(ImageError, match=f"^{'abc'[which]}.png is "):
        ImagePair.load(files[0], files[1], mask=files[2], names=("a.png", "b.png", "c.png"))


def test_white_is_where_the_edit_belongs() -> None:
    mask = np.zeros((480, 640), np.uint8)
    mask[100:200, 100:300] = 255
    pair = ImagePair.load(png(PHOTO), png(PHOTO), mask=png(mask))
    assert pair.mask is not None
    assert np.array_equal(pair.mask, mask > 0)
    assert not pair.region_is_inferred
    assert np.array_equal(pair.region, mask > 0)


def test_a_transparent_hole_is_where_the_edit_belongs() -> None:
    hole = np.dstack([PHOTO, np.full(PHOTO.shape[:2], 255, np.uint8)])
    hole[100:200, 100:300, 3] = 0
    pair = ImagePair.load(png(PHOTO), png(PHOTO), mask=png(hole))
    assert pair.mask is not None
    assert np.array_equal(pair.mask, hole[:, :, 3] == 0)


def test_white_paint_on_nothing_is_where_the_edit_belongs() -> None:
    paint = np.zeros((480, 640, 4), np.uint8)
    paint[100:200, 100:300] = 255
    pair = ImagePair.load(png(PHOTO), png(PHOTO), mask=png(paint))
    assert pair.mask is not None
    assert np.array_equal(pair.mask, paint[:, :, 3] > 0)


def test_a_mask_of_another_size_is_scaled() -> None:
    mask = np.zeros((240, 320), np.uint8)
    mask[:120] = 255
    for pair in (ImagePair.load(png(PHOTO), png(PHOTO), mask=png(mask)), ImagePair(PHOTO, PHOTO, mask=mask)):
        assert pair.mask is not None
        assert pair.mask.shape == (480, 640)
        assert pair.mask[:240].all()
        assert not pair.mask[240:].any()


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match="another shape"):
        ImagePair(PHOTO, PHOTO, mask=np.zeros((300, 300), np.bool_))
    with pytest.raises(UsageError, match="another shape"):
        ImagePair.load(png(PHOTO), png(PHOTO), mask=png(np.zeros((300, 300), np.uint8)))


@pytest.mark.parametrize(
    "pixels", [PHOTO.astype(np.float32), np.zeros((0, 5, 3), np.uint8), np.zeros((5, 5, 2), np.uint8), PHOTO.ravel()]
)
def test_what_is_no_image_is_refused(pixels: np.ndarray) -> None:
    with pytest.raises(UsageError, match="the image after must"):
        ImagePair(PHOTO, pixels)


def test_nothing_that_was_given_is_changed() -> None:
    before, after = photo(), noisy(pasted(photo(), 0.1, 0.1, 0.4, 0.4, (9, 9, 200)))
    kept = before.copy(), after.copy()
    pair = ImagePair(before, after)
    _ = pair.region, pair.lab, pair.similarity, pair.sampled_colors
    assert np.array_equal(before, kept[0])
    assert np.array_equal(after, kept[1])
