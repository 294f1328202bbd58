"""The colour difference is CIEDE2000: by the published test data, by scikit-image, and by what it must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage import color

from beholder.instruments.pixel_metrics import ciede2000, compute_color_difference, to_lab

# Sharma, Wu and Dalal (2005), table 1: two colours in CIELAB and their difference.
PUBLISHED = """
50 2.6772 -79.7751  50 0 -82.7485  2.0425
50 3.1571 -77.2803  50 0 -82.7485  2.8615
50 2.8361 -74.0200  50 0 -82.7485  3.4412
50 -1.3802 -84.2814  50 0 -82.7485  1.0000
50 -1.1848 -84.8006  50 0 -82.7485  1.0000
50 -0.9009 -85.5211  50 0 -82.7485  1.0000
50 0 0  50 -1 2  2.3669
50 -1 2  50 0 0  2.3669
50 2.4900 -0.0010  50 -2.4900 0.0009  7.1792
50 2.4900 -0.0010  50 -2.4900 0.0010  7.1792
50 2.4900 -0.0010  50 -2.4900 0.0011  7.2195
50 2.4900 -0.0010  50 -2.4900 0.0012  7.2195
50 -0.0010 2.4900  50 0.0009 -2.4900  4.8045
50 -0.0010 2.4900  50 0.0010 -2.4900  4.8045
50 -0.0010 2.4900  50 0.0011 -2.4900  4.7461
50 2.5 0  50 0 -2.5  4.3065
50 2.5 0  73 25 -18  27.1492
50 2.5 0  61 -5 29  22.8977
50 2.5 0  56 -27 -3  31.9030
50 2.5 0  58 24 15  19.4535
50 2.5 0  50 3.1736 0.5854  1.0000
50 2.5 0  50 3.2972 0  1.0000
50 2.5 0  50 1.8634 0.5757  1.0000
50 2.5 0  50 3.2592 0.3350  1.0000
60.2574 -34.0099 36.2677  60.4626 -34.1751 39.4387  1.2644
63.0109 -31.0961 -5.8663  62.8187 -29.7946 -4.0864  1.2630
61.2901 3.7196 -5.3901  61.4292 2.2480 -4.9620  1.8731
35.0831 -44.1164 3.7933  35.0232 -40.0716 1.5901  1.8645
22.7233 20.0904 -46.6940  23.0331 14.9730 -42.5619  2.0373
36.4612 47.8580 18.3852  36.2715 50.5065 21.2231  1.4146
90.8027 -2.0831 1.4410  91.1528 -1.6435 0.0447  1.4441
90.9257 -0.5406 -0.9208  88.6381 -0.8985 -0.7239  1.5381
6.7747 -0.2908 -2.4247  5.8714 -0.0985 -2.2286  0.6377
2.0776 0.0795 -1.1350  0.9033 -0.0636 -0.5514  0.9082
"""

pixels = st.tuples(*[st.integers(0, 255)] * 3)


def one(colour: tuple[int, int, int]) -> np.ndarray:
    return np.array([[colour]], np.uint8)


@pytest.mark.parametrize("line", PUBLISHED.strip().splitlines())
def test_the_published_pairs(line: str) -> None:
    numbers = [float(number) for number in line.split()]
    first, second = np.array(numbers[:6], np.float32).reshape(2, 1, 1, 3)
    assert ciede2000(first, second).item() == pytest.approx(numbers[6], abs=1e-3)
    assert ciede2000(second, first).item() == pytest.approx(numbers[6], abs=1e-3)


def test_it_equals_scikit_image() -> None:
    random = np.random.default_rng(7)
    first, second = random.integers(0, 256, (2, 300, 400, 3), np.uint8)
    theirs = color.deltaE_ciede2000(color.rgb2lab(first), color.rgb2lab(second))
    off = np.abs(compute_color_difference(first, second) - theirs)
    # The formula itself jumps where two hues are opposite; a few of 120,000 random pairs lie that near to it.
    assert (off > 1e-2).mean() < 1e-4
    assert np.median(off) < 1e-3


def test_lab_equals_scikit_image() -> None:
    every = np.stack(np.meshgrid(*[np.arange(0, 256, 5)] * 3), axis=-1).astype(np.uint8).reshape(52 * 4, -1, 3)
    assert np.abs(to_lab(every) - color.rgb2lab(every)).max() < 1e-3


def test_both_ways_to_it_agree_on_images_of_any_shape() -> None:
    random = np.random.default_rng(1)
    for shape in [(1, 1), (1, 70_000), (70_000, 1), (37, 41)]:
        first, second = random.integers(0, 256, (2, *shape, 3), np.uint8)
        assert np.array_equal(compute_color_difference(first, second), ciede2000(to_lab(first), to_lab(second)))


def test_black_against_white_is_a_hundred() -> None:
    assert compute_color_difference(one((0, 0, 0)), one((255, 255, 255))).item() == pytest.approx(100, abs=1e-3)


@given(pixels, pixels)
def test_it_is_symmetric_finite_and_not_negative(first: tuple[int, int, int], second: tuple[int, int, int]) -> None:
    there, back = (
        compute_color_difference(one(first), one(second)).item(),
        compute_color_difference(one(second), one(first)).item(),
    )
    assert there == pytest.approx(back, abs=1e-3)
    assert 0 <= there < 130


@given(pixels)
def test_a_colour_does_not_differ_from_itself(colour: tuple[int, int, int]) -> None:
    assert compute_color_difference(one(colour), one(colour)).item() == 0
