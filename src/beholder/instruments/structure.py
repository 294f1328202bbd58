"""Structure: shapes, edges and details, whatever their color."""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Bools,
    Bytes,
    Floats,
    InstrumentFamily,
    PairReading,
    format_percent,
)
from beholder.instruments.pair import ImagePair, once_per_pair, shrink_to_side
from beholder.instruments.pixel_metrics import SSIM_RADIUS, compute_ssim
from beholder.instruments.regions import EVERYWHERE, NOWHERE, LocatedWeight, locate

# Of the scales, fine to coarse (Wang, Simoncelli, Bovik 2003).
_SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
_GMS_C = np.float32(170 / 255**2)  # Xue, Zhang, Mou and Bovik 2014, for gray values 0–1
_PREWITT = np.array([[1, 0, -1]] * 3, np.float32) / 3
# Under this mean similarity of gradients all of them are lost, and the deviation would fall again.
_MIN_GRADIENT_SIMILARITY = 0.35
_LOST_SIMILARITY = 0.6  # similarity under which structure is lost
_MIN_SIDE = 2 * SSIM_RADIUS + 1
_MIN_KEYPOINT_SIDE = 64
_FEATURE_SIDE = 512  # edges and keypoints are found at this size
_MAX_KEYPOINTS, _MIN_KEYPOINTS = 300, 20
_MAX_DIFFERING_BITS = 64  # of 256 bits that may differ in the description of a place that stayed the same
# Of the image that is near an edge: noise has 0.7 and more, the busiest of 1,241 photographs and edits 0.5.
_MAX_EDGE_SHARE = 0.65
_MIN_EDGE_SHARE = 0.001  # of the image

_TOO_SMALL = f"Not measured: an image under {_MIN_SIDE} pixels on a side has no structure at this scale."
_BOTH_FLAT = "Not measured: neither image has any structure; both are flat."
_TOO_FEW_DETAILS = "Not measured: the image before has too few distinct details."


INSTRUMENTS = InstrumentFamily("structure")


@INSTRUMENTS.pair("ssim", better="higher")
def _read_ssim(pair: ImagePair) -> PairReading:
    """Structural similarity of the grey images (Wang et al. 2004: Gaussian window of 1.5 px, population covariance),
    averaged where the window lies within both: 1 is the same.
    """
    if _get_shortest_side(pair) < _MIN_SIDE:
        return PairReading(None, _TOO_SMALL)
    if _are_flat(pair):
        return PairReading(None, _BOTH_FLAT)
    values = pair.similarity[0]
    mean = _average_valid(values, pair.valid)
    if mean is None:
        return PairReading(None, _TOO_SMALL)
    least, boxes = locate((values[::2, ::2] < _LOST_SIMILARITY) & pair.valid[::2, ::2])
    where = f"; least {least}" if least not in (EVERYWHERE, NOWHERE) else ""
    sentence = f"Local structure is kept by {mean:.2f} (1 is the same, 0 unrelated){where}."
    shown = values if pair.fully_valid else np.where(pair.valid, values, np.float32(1))
    return PairReading(mean, sentence, shown, 1.0, boxes)


@INSTRUMENTS.pair("ms_ssim", better="higher", cheap=False)
def _read_ms_ssim(pair: ImagePair) -> PairReading:
    """Structural similarity over five scales with the weights of Wang et al. 2003 (fewer, weights adding up to 1, for
    an image that is too small); averages over 2×2 pixels from scale to scale.
    """
    if _get_shortest_side(pair) < _MIN_SIDE:
        return PairReading(None, _TOO_SMALL)
    one, other, valid = *pair.luma, pair.valid
    if _are_flat(pair):
        return PairReading(None, _BOTH_FLAT)
    levels: list[tuple[float, float]] = []
    for level in range(len(_SCALE_WEIGHTS)):
        if min(valid.shape) < _MIN_SIDE:
            break
        means = [_average_valid(values, valid) for values in (compute_ssim(one, other) if level else pair.similarity)]
        if means[0] is None or means[1] is None:
            break
        levels.append((means[0], means[1]))
        one, other, valid = _halve_all(one, other, valid) if level else _halve_pair(pair)
    if not levels:
        return PairReading(None, _TOO_SMALL)
    # Luminance counts at the coarsest scale alone; a negative similarity, which has no power, is none.
    scores = np.maximum([*(contrast for _, contrast in levels[:-1]), levels[-1][0]], 0)
    weights = np.array(_SCALE_WEIGHTS[: len(levels)])
    value = float(np.prod(scores ** (weights / weights.sum())))
    split = f"{scores[0]:.2f} in fine detail, {scores[-1]:.2f} in large shapes"
    how = "alike at all scales" if min(scores) > 0.9 else split
    return PairReading(value, f"Over {len(levels)} scales structure is kept by {value:.2f}: {how}.")


@INSTRUMENTS.pair("gradients", better="lower", cheap=False)
def _read_gradients(pair: ImagePair) -> PairReading:
    """Gradient magnitude similarity deviation (Xue et al. 2014: Prewitt at half size, c = 170): 0 is the same, 0.35 and
    more another image; not measured where the mean similarity is under 0.35.
    """
    one, other, valid = _halve_pair(pair)
    inner = _erode_valid(valid, 1)
    if min(one.shape) < 3 or _get_shortest_side(pair) < 3 or not inner.any():
        return PairReading(None, _TOO_SMALL)
    if _are_flat(pair):
        return PairReading(None, _BOTH_FLAT)
    m1, m2 = _compute_gradient(one), _compute_gradient(other)
    similar = (2 * m1 * m2 + _GMS_C) / (m1 * m1 + m2 * m2 + _GMS_C)
    mean, deviation = (float(number) for number in (similar[inner].mean(), similar[inner].std()))
    if mean < _MIN_GRADIENT_SIMILARITY:
        return PairReading(None, "Not measured: edges and textures changed everywhere alike, which no deviation tells.")
    lost = np.where(inner, 1 - similar, np.float32(0))
    place = locate(lost) if deviation > 0.05 else LocatedWeight(EVERYWHERE)
    where = f", most {place.name}" if place.name != EVERYWHERE else ""
    how = "kept" if deviation < 0.05 else "partly kept" if deviation < 0.15 else "mostly changed"
    size = pair.valid.shape[::-1]
    shown = np.asarray(cv2.resize(lost, size, interpolation=cv2.INTER_LINEAR), np.float32)
    sentence = f"Edges and textures are {how} (deviation of similarity {deviation:.2f}){where}."
    return PairReading(deviation, sentence, shown, 1.0, place.boxes)


@INSTRUMENTS.pair("edges", better="higher", cheap=False)
def _read_edges(pair: ImagePair) -> PairReading:
    """F1 of the Canny edges of both images at ≤ 512 px, each found again within 0.3 % of the longer side; thresholds
    follow each image's own contrast.
    """
    if _get_shortest_side(pair) < _MIN_SIDE:
        return PairReading(None, _TOO_SMALL)
    grays, valid = _downscale_grays(pair)
    valid = _erode_valid(valid, 2).astype(np.uint8)
    one, other = (_detect_edges(gray) & valid for gray in grays)
    first, second = int(np.count_nonzero(one)), int(np.count_nonzero(other))
    if max(first, second) < max(8, _MIN_EDGE_SHARE * valid.size):
        return PairReading(None, "Not measured: neither image has edges.")
    reach = max(1, round(0.003 * max(valid.shape)))
    near = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    around, others = (np.asarray(cv2.dilate(edges, near), np.uint8) for edges in (one, other))
    crowded = max(np.count_nonzero(around), np.count_nonzero(others)) > _MAX_EDGE_SHARE * valid.size
    if crowded and not pair.identical:
        return PairReading(None, "Not measured: edges lie so close, as in noise, that any would be found again.")
    kept = np.count_nonzero(one & others) / max(1, first)
    new = np.count_nonzero(other > around) / max(1, second)
    f1 = 2 * kept * (1 - new) / max(kept + 1 - new, 1e-9) if first and second else 0.0
    return PairReading(
        f1, f"{format_percent(kept)} of the edges are still there, and {format_percent(new)} of those after are new."
    )


@INSTRUMENTS.pair("keypoints", unit="share", better="higher", cheap=False)
def _read_keypoints(pair: ImagePair) -> PairReading:
    """Share of the corners of the image before (≤ 300, at ≤ 512 px, a fortieth of the longer side apart) whose ORB
    description at the same place after differs in at most 64 of 256 bits.
    """
    if _get_shortest_side(pair) < _MIN_KEYPOINT_SIDE:
        side = _MIN_KEYPOINT_SIDE
        return PairReading(None, f"Not measured: an image under {side} pixels on a side has too few distinct details.")
    (one, other), valid = _downscale_grays(pair)
    # Corners at a distance from each other: ORB's own keypoints crowd where the contrast is highest.
    corners = cv2.goodFeaturesToTrack(one, _MAX_KEYPOINTS, 0.01, max(one.shape) / 40, mask=valid.view(np.uint8))
    points = [] if corners is None else [cv2.KeyPoint(x, y, 31, 0) for ((x, y),) in np.asarray(corners).tolist()]
    finder = cv2.ORB.create()
    # Both are described at the same places and with the same direction, so no matching is needed.
    described, words = finder.compute(one, points)
    again, others = finder.compute(other, described)
    if words is None or others is None or len(again) < _MIN_KEYPOINTS or len(again) != len(described):
        return PairReading(None, _TOO_FEW_DETAILS)
    bits = np.unpackbits(np.bitwise_xor(words, others), axis=1).sum(axis=1)
    stayed = bits <= _MAX_DIFFERING_BITS
    share = float(stayed.mean())
    lost = np.zeros(one.shape, np.float32)
    columns, rows = np.asarray(cv2.KeyPoint.convert(described))[~stayed].astype(int).T
    lost[rows, columns] = 1
    place = locate(lost) if 0.02 < share < 0.9 else LocatedWeight(EVERYWHERE)
    where = f"; most that went were {place.name}" if place.name != EVERYWHERE else ""
    sentence = f"{format_percent(share)} of {len(described)} distinct details stayed in their place{where}."
    return PairReading(share, sentence, boxes=place.boxes)


def _get_shortest_side(pair: ImagePair) -> int:
    """Return the shortest side of both images: enlarged pixels have no structure either."""
    return int(min(*pair.before.shape[:2], *pair.after.shape[:2]))


def _are_flat(pair: ImagePair) -> bool:
    """Return whether both images are one tone each and not identical: then no structure can be kept or lost."""
    return not pair.identical and all(float(gray.max() - gray.min()) < 2 / 255 for gray in pair.luma)


@once_per_pair
def _halve_pair(pair: ImagePair) -> tuple[Floats, Floats, Bools]:
    return _halve_all(*pair.luma, pair.valid)


def _halve_all(one: Floats, other: Floats, valid: Bools) -> tuple[Floats, Floats, Bools]:
    """Return both gray images at half the size, and which of their pixels are made of valid ones only."""
    return _halve(one), _halve(other), _halve(valid.astype(np.float32)) > 0.99


def _halve(values: Floats) -> Floats:
    """Average over 2×2 pixels; an odd last row or column is dropped."""
    height, width = (side // 2 * 2 for side in values.shape)
    if min(height, width) < 2:
        return values[:1, :1]
    size = width // 2, height // 2
    return np.asarray(cv2.resize(values[:height, :width], size, interpolation=cv2.INTER_AREA), np.float32)


def _erode_valid(valid: Bools, margin: int) -> Bools:
    """Return the valid pixels whose window contains only valid pixels; the border of the image is excluded as well."""
    side = 2 * margin + 1
    kernel = np.ones((side, side), np.uint8)
    inner = cv2.erode(valid.astype(np.uint8), kernel, borderType=cv2.BORDER_CONSTANT, borderValue=(0.0,))
    return np.asarray(inner, np.bool_)


def _compute_gradient(gray: Floats) -> Floats:
    dx = np.asarray(cv2.filter2D(gray, cv2.CV_32F, _PREWITT, borderType=cv2.BORDER_REFLECT), np.float32)
    dy = np.asarray(cv2.filter2D(gray, cv2.CV_32F, _PREWITT.T, borderType=cv2.BORDER_REFLECT), np.float32)
    return np.asarray(np.sqrt(dx * dx + dy * dy), np.float32)


def _average_valid(values: Floats, valid: Bools) -> float | None:
    """Average over the pixels whose window lies in both images; None where there is none."""
    if valid.all():
        return float(values[SSIM_RADIUS:-SSIM_RADIUS, SSIM_RADIUS:-SSIM_RADIUS].mean())
    inner = _erode_valid(valid, SSIM_RADIUS)
    return float(cv2.mean(values, inner.view(np.uint8))[0]) if inner.any() else None


def _detect_edges(gray: Bytes) -> Bytes:
    """Return Canny edges as 0 and 1.

    The upper threshold is the mean gradient plus one and a half standard deviations (at least 40), so that a darker or
    softer image keeps its edges.
    """
    gray = np.asarray(cv2.GaussianBlur(gray, (5, 5), 1.0), np.uint8)
    dx, dy = cv2.Sobel(gray, cv2.CV_16S, 1, 0), cv2.Sobel(gray, cv2.CV_16S, 0, 1)
    size = np.abs(np.asarray(dx)[::2, ::2].astype(np.float32)) + np.abs(np.asarray(dy)[::2, ::2])
    high = max(40.0, float(size.mean() + 1.5 * size.std()))
    return np.asarray(np.asarray(cv2.Canny(dx, dy, high / 2, high)) > 0, np.uint8)


@once_per_pair
def _downscale_grays(pair: ImagePair) -> tuple[tuple[Bytes, Bytes], Bools]:
    """Return before and aligned in gray, as edges and keypoints are found in them, and where they are valid."""
    before, aligned = (np.asarray(shrink_to_side(gray, _FEATURE_SIDE), np.uint8) for gray in pair.gray)
    valid = cv2.resize(pair.valid.view(np.uint8), before.shape[::-1], interpolation=cv2.INTER_NEAREST)
    return (before, aligned), np.asarray(valid, np.bool_)
