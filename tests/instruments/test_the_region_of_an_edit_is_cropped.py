"""Crops show the edit, in both images, from the files at full size; where there is no region, a sentence says why."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image
from support.probes import photo, png, with_patch

from beholder.errors import ImageError
from beholder.images.image import DEFAULT_SIZING, PreparedImage, Sizing
from beholder.instruments.edit_crop import MIN_SIDE, EditCrop, crop_edit_region
from beholder.instruments.instrument import Bytes

RED = (250, 20, 20)


def pixels_of(image: PreparedImage | None) -> Bytes:
    assert image is not None
    found = np.asarray(Image.open(io.BytesIO(image.data)).convert("RGB"), np.uint8)
    assert found.shape[:2] == (image.height, image.width)
    return found


def crop(before: Bytes, after: Bytes, sizing: Sizing = DEFAULT_SIZING) -> EditCrop:
    return crop_edit_region(png(before), png(after), sizing)


def count_red(pixels: Bytes) -> int:
    return int(np.all(np.abs(pixels.astype(int) - RED) < 30, axis=2).sum())


def test_both_crops_show_the_same_place_at_full_size() -> None:
    before = photo(size=(1600, 1200))
    after = with_patch(before, (1000, 200, 1300, 500))
    made = crop(before, after)
    first, second = pixels_of(made.before), pixels_of(made.after)
    assert count_red(second) == 300 * 300  # all of it, and no pixel was scaled
    assert count_red(first) == 0
    assert first.shape == second.shape
    assert np.all(first[:20] == second[:20])  # a margin that did not change
    assert made.share == pytest.approx(first.shape[0] * first.shape[1] / before.shape[0] / before.shape[1], abs=0.01)
    assert (
        made.sentence
        == f"The probe showed {made.share:.0%} of the image, around what changed: upper right.".replace("%", " %")
    )
    assert crop(before, after) == made


def test_what_moved_is_cropped_where_it_is() -> None:
    before = photo(size=(1000, 800))
    moved = np.roll(with_patch(before, (400, 300, 560, 420)), (24, 40), axis=(0, 1))
    made = crop(before, moved)
    first, second = pixels_of(made.before), pixels_of(made.after)
    assert count_red(second) == 160 * 120
    rows, columns = (np.flatnonzero(np.all(second == RED, axis=2).any(axis=axis)) for axis in (1, 0))
    height, width = first.shape[:2]
    # The patch is in the middle of both crops, though it is elsewhere in the image.
    assert abs(rows.mean() - height / 2) < 8
    assert abs(columns.mean() - width / 2) < 8


def test_an_output_of_another_size_is_cropped_in_its_own_pixels() -> None:
    before = photo(size=(800, 600))
    after = cv2.resize(with_patch(before, (500, 100, 700, 250)), (1600, 1200), interpolation=cv2.INTER_LINEAR)
    made = crop(before, np.asarray(after, np.uint8))
    assert made.before is not None
    assert made.after is not None
    assert made.after.width == pytest.approx(2 * made.before.width, abs=2)
    assert count_red(pixels_of(made.after)) > 0.95 * 4 * 200 * 150


def test_a_small_edit_is_shown_with_its_surroundings_and_inside_the_image() -> None:
    before = photo()
    made = crop(before, with_patch(before, (770, 570, 800, 600)))
    assert pixels_of(made.before).shape == (MIN_SIDE, MIN_SIDE, 3)
    assert count_red(pixels_of(made.after)) == 30 * 30


def test_a_crop_fits_the_judge() -> None:
    before = photo(size=(1600, 1200))
    made = crop(before, with_patch(before, (300, 300, 900, 900)), Sizing(max_side=256, formats=frozenset({"jpeg"})))
    assert made.after is not None
    assert (max(made.after.width, made.after.height), made.after.media_type) == (256, "image/jpeg")


def test_where_there_is_no_region_a_sentence_says_why() -> None:
    before = photo()
    corners = with_patch(with_patch(before, (0, 0, 120, 120)), (680, 480, 800, 600))
    for after, why in (
        (before, "the two images are identical"),
        (np.clip(before.astype(int) + 1, 0, 255).astype(np.uint8), "nothing that can be seen has changed"),
        (255 - before, "so that nothing tells where the edit was"),
        (corners, "which a crop would show again"),
        (photo(9, (300, 900)), "could not be laid over each other"),
    ):
        made = crop(before, after)
        assert why in made.why_not
        assert (made.before, made.after) == (None, None)


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ImageError, match="edited"):
        crop_edit_region(png(photo()), b"no image", DEFAULT_SIZING)
