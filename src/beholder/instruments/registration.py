"""Alignments: where the pixels of one image are found in another, and bringing it there.

A matrix (2×3) takes a point of before to its point in after; the centres of pixels are at whole numbers.

How one image lies over the other: as it is, moved, scaled, turned or cropped; or not at all.

Corners of before are followed into after (Lucas and Kanade, on images freed of local brightness and contrast), and the
similarity that most of them agree on is found by RANSAC: 3 ms, precise to a tenth of a pixel, and undisturbed by an
edit that replaces a third of the image. Phase correlation is twenty times less precise; it is the second try, for
shifts too far to follow, and ORB keypoints the third. Whatever is found must beat lying still clearly, by how much of
the detail it explains: most edits move nothing, and a false move is worse than none. An image of another shape may
have been stretched or cropped: lying still is the stretch then, and a crop must explain clearly more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
import numpy.typing as npt

from beholder.instruments.instrument import Array, Bools, Bytes, Floats

_ASPECT_TOLERANCE = 0.02

Matrix = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Where the pixels of before are found in after.

    `matrix` (2×3) takes a point of before to its point in after, both in pixels as given, centres of pixels at whole
    numbers. The rest is against the plain resize of after to before's size: details are `scale` times as large,
    turned by `rotation` degrees (clockwise), and what was in the middle moved by `shift` pixels of before (to the right,
    downwards). `registered` says that the two were found to show the same; `confidence` is the share of before's detail
    that is found where the alignment says (0–1). `method` is "identity", "stretched" (the plain resize to another
    shape), "moved", or "none" (then it is the plain resize, and `reason` has the reason).
    """

    matrix: Matrix
    scale: float = 1.0
    rotation: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    registered: bool = False
    confidence: float = 0.0
    method: str = "none"
    reason: str = ""

    @property
    def moved(self) -> bool:
        return self.method == "moved"

    @property
    def stretched(self) -> bool:
        """Whether what is shown became wider or higher in shape."""
        return self.registered and is_stretch(self.matrix)


def has_same_aspect(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two (width, height) have one shape, within 2 % or the rounding to whole pixels."""
    (w1, h1), (w2, h2) = one, other
    slack = _ASPECT_TOLERANCE
    for short in (min(w1, h1), min(w2, h2)):
        slack += 0.5 / short if 1 < short < 50 else 0
    return abs(math.log((w1 * h2) / (w2 * h1))) <= slack


def make_resize_matrix(before: tuple[int, ...], after: tuple[int, ...]) -> Matrix:
    """The plain resize, whole area upon whole area, from before's to after's pixels (shapes H×W×…)."""
    sx, sy = after[1] / before[1], after[0] / before[0]
    return np.array([[sx, 0, (sx - 1) / 2], [0, sy, (sy - 1) / 2]])


def warp_to_frame(after: Bytes, alignment: Alignment, shape: tuple[int, int]) -> tuple[Bytes, Bools]:
    """After brought into before's frame of `shape` (H, W), and where it has pixels there."""
    height, width = shape
    if not alignment.moved:
        valid = np.ones(shape, np.bool_)
        if after.shape[:2] == shape:
            return after, valid
        how = cv2.INTER_AREA if after.shape[0] * after.shape[1] > height * width else cv2.INTER_LINEAR
        return np.asarray(cv2.resize(after, (width, height), interpolation=how), np.uint8), valid
    matrix, shrunk = alignment.matrix, math.sqrt(abs(np.linalg.det(alignment.matrix[:, :2])))
    if shrunk > 1.25:  # linear interpolation would skip pixels: by area first, then the rest
        size = max(1, round(after.shape[1] / shrunk)), max(1, round(after.shape[0] / shrunk))
        small = np.asarray(cv2.resize(after, size, interpolation=cv2.INTER_AREA), np.uint8)
        matrix = compose_matrices(make_resize_matrix(after.shape, small.shape), matrix)
        after = small
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    aligned = cv2.warpAffine(after, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(aligned, np.uint8), mask_inside(matrix, shape, after.shape)


def compose_matrices(second: Matrix, first: Matrix) -> Matrix:
    """First the one, then the other."""
    return np.asarray((np.vstack([second, [0, 0, 1]]) @ np.vstack([first, [0, 0, 1]]))[:2])


def mask_inside(matrix: Matrix, shape: tuple[int, ...], other: tuple[int, ...]) -> Bools:
    """The pixels of before that have their place inside after."""
    x, y = np.arange(shape[1]), np.arange(shape[0])[:, None]
    (a, b, c), (d, e, f) = matrix
    u, v = a * x + b * y + c, d * x + e * y + f
    slack = 1e-3
    return np.asarray(
        (u >= -slack) & (u <= other[1] - 1 + slack) & (v >= -slack) & (v <= other[0] - 1 + slack), np.bool_
    )


def decompose_matrix(matrix: Matrix, plain: Matrix) -> tuple[float, float]:
    """Of a similarity, with or without the plain resize to another shape before it: its scale against the plain
    resize, and its turn in degrees, clockwise."""
    if is_stretch(matrix):
        matrix, plain = np.linalg.inv(plain[:, :2]) @ matrix[:, :2], np.eye(2)
    scale = math.sqrt(abs(np.linalg.det(matrix[:, :2])) / abs(np.linalg.det(plain[:, :2])))
    return scale, math.degrees(math.atan2(matrix[1, 0], matrix[0, 0]))


def is_stretch(matrix: Matrix) -> bool:
    """Whether a matrix scales width and height differently, by more than rounding to whole pixels would."""
    across, down = abs(matrix[0, 0]), abs(matrix[1, 1])
    return bool(abs(across - down) > 0.75 * _ASPECT_TOLERANCE * max(across, down))


def make_alignment(full: Matrix, shapes: tuple[tuple[int, ...], tuple[int, ...]], confidence: float) -> Alignment:
    """A move that was found, with its parts told against the plain resize."""
    plain = make_resize_matrix(*shapes)
    scale, rotation = decompose_matrix(full, plain)
    middle = np.array([(shapes[0][1] - 1) / 2, (shapes[0][0] - 1) / 2])
    reach = float(np.hypot(*middle))
    to, still = (matrix[:, :2] @ middle + matrix[:, 2] for matrix in (full, plain))
    shift = (to - still) / np.array([plain[0, 0], plain[1, 1]])
    # A shift by whole pixels is one: interpolating a quarter of a pixel would only blur what can be compared exactly.
    if abs(scale - 1) * reach < 0.5 and abs(math.radians(rotation)) * reach < 0.5 and shapes[0] == shapes[1]:
        whole = np.rint(shift)
        if not whole.any():
            return Alignment(plain, registered=True, confidence=confidence, method="identity")
        if np.abs(shift - whole).max() < 0.25:
            shift, scale, rotation = whole + 0.0, 1.0, 0.0  # no −0
            full = np.hstack([np.eye(2), whole[:, None]])
    return Alignment(full, scale, rotation, (float(shift[0]), float(shift[1])), True, confidence, "moved")


MIN_CONFIDENCE_STILL, MIN_CONFIDENCE_MOVED = (
    0.2,
    0.3,
)  # 1,500 pairs of unrelated photographs reach 0.18 lying still and 0.22 moved

_FINE_SIDE = 384  # where corners are followed
_COARSE_SIDE = 192  # where explanations are compared
_MIN_SIDE = 24  # an image with a shorter side has too few pixels to say anything
_MAX_CORNERS = 100
_MIN_AGREEING = 12  # corners that must agree
_CORNER_TOLERANCE = 0.3  # px at _SIDE: a corner this near to where it should be is there
_MIN_SLOPE = np.float32(0.03)  # change of grey from px to px at _COARSE
_MIN_MOVE = 0.75  # px of before: a smaller move is not undone, interpolating would cost more than it mends
_WINDOW_SIDE = 11  # px at _COARSE
_PATCH_SIDE = 15  # px at _SIDE, around a corner
_FLOW_CRITERIA = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 12, 0.02)
_MIN_DEVIATION = 3 / 255  # a window of a smaller standard deviation has no detail
_MIN_GRAY_CORRELATION, _MIN_OUTLINE_CORRELATION = 0.75, 0.5  # correlations from which a window shows the same
_GOOD_EXPLANATION = 0.3  # lying still that explains this much leaves nothing to search for but small moves
_WEAK_EXPLANATION = 0.12  # nearly all unrelated photographs explain less
_SURE_STRETCH = 0.9  # a stretch that explains this much: a crop may be explained in part by a stretch
_MAX_KEYPOINTS = 250
_RANSAC_TRIALS = 150
_SCALE_RANGE, _MAX_TURN, _MIN_OVERLAP = (0.5, 2.0), 10.0, 0.3


def register_images(before: Bytes, after: Bytes) -> Alignment:
    """The alignment of two RGB images. Never raises; what cannot be registered says why."""
    plain = make_resize_matrix(before.shape, after.shape)
    if before.shape == after.shape and np.array_equal(before, after):
        return Alignment(plain, registered=True, confidence=1.0, method="identity")
    if min(*before.shape[:2], *after.shape[:2]) < _MIN_SIDE:
        return Alignment(plain, reason=f"an image under {_MIN_SIDE} pixels on a side has too few to tell")
    search = _RegistrationSearch(before, after)
    if search.detail < 0.01:
        return Alignment(plain, reason="the image before has too little detail to tell")
    return search.alignment()


class _RegistrationSearch:
    """The search in small: both images at ≤ 384 px (to follow corners) and ≤ 192 px (to compare explanations).

    Matrices here take a point of before to one of after, in pixels of the coarse images; `plain` is the plain resize.
    """

    def __init__(self, before: Bytes, after: Bytes) -> None:
        self.shapes = before.shape[:2], after.shape[:2]
        self.fine = _downscale(_to_gray(before), _FINE_SIDE), _downscale(_to_gray(after), _FINE_SIDE)
        self.coarse = _downscale(self.fine[0], _COARSE_SIDE), _downscale(self.fine[1], _COARSE_SIDE)
        self.same_aspect = has_same_aspect(*(shape[::-1] for shape in self.shapes))
        self.plain = make_resize_matrix(self.coarse[0].shape, self.coarse[1].shape)
        self.stats = _compute_window_statistics(self.coarse[0])
        self.textured = self.stats[2] > _MIN_DEVIATION**2
        self.detail = float(self.textured.mean())

    def alignment(self) -> Alignment:
        still = self.explained_share(self.plain)
        best, most = self.plain, still
        # A stretch that was redrawn is nearly as well explained by many a crop; a crop is never by a stretch.
        clearly = 1.1 if self.same_aspect else 1.2
        for matrix, confident in self.candidates(still):
            share = self.explained_share(matrix)
            # A small move that most corners vouch for need not explain more, at this size, than lying still does.
            if share > max(most + 0.05, most * clearly) or (confident and share >= most - 0.01):
                best, most = matrix, share
                if most > (0.5 if self.same_aspect else _SURE_STRETCH):
                    break
        if most < (MIN_CONFIDENCE_STILL if best is self.plain else MIN_CONFIDENCE_MOVED):
            why = "too little of the one is found in the other"
            return Alignment(make_resize_matrix(*self.shapes), confidence=still, reason=why)
        if best is self.plain:
            method = "identity" if self.same_aspect else "stretched"
            return Alignment(make_resize_matrix(*self.shapes), registered=True, confidence=still, method=method)
        before, after = self.shapes
        up, down = make_resize_matrix(self.coarse[1].shape, after), make_resize_matrix(before, self.coarse[0].shape)
        return make_alignment(compose_matrices(compose_matrices(up, best), down), self.shapes, most)

    def candidates(self, still: float) -> Iterator[tuple[Matrix, bool]]:
        """Ways in which after may have moved, the likely ones first, and whether most corners vouch for it."""
        if still >= _GOOD_EXPLANATION and self.is_still():
            return
        if self.same_aspect:
            if (found := self.track_corners(self.plain)) is not None:
                yield found
            if still >= _GOOD_EXPLANATION:
                return
        elif still > _SURE_STRETCH:
            return
        for matrix in self.guess_matrices():
            if matrix is not None and self.explained_share(matrix) > max(still, 0.05):
                yield self.track_corners(matrix, guessed=True) or (matrix, False)
        if not self.same_aspect and still > _WEAK_EXPLANATION and (found := self.track_corners(self.plain)) is not None:
            yield found[0], False  # stretched and moved

    def guess_matrices(self) -> Iterator[Matrix | None]:
        if self.same_aspect:
            yield self.correlate_phase(self.plain)
        else:
            yield max(self.crop_matrices, key=self.explained_share)
            yield self.correlate_phase(self.crop_matrices[0])
        yield self.match_keypoints()

    @cached_property
    def crop_matrices(self) -> tuple[Matrix, ...]:
        """What an image of another shape may be beside stretched: cut or widened evenly, or cut on one side only."""
        before, after = self.shapes
        (h1, w1), (h2, w2) = before, after
        larger, smaller = sorted((w2 / w1, h2 / h1), reverse=True)
        # In whole pixels of the images as given: the small ones are rounded, and hardly ever of their shape.
        up, down = make_resize_matrix(self.coarse[0].shape, before), make_resize_matrix(after, self.coarse[1].shape)
        return tuple(
            compose_matrices(compose_matrices(down, np.array([[scale, 0, dx * at], [0, scale, dy * at]])), up)
            for scale, at in ((larger, 0.5), (smaller, 0.5), (larger, 0.0), (larger, 1.0))
            for dx, dy in [(w2 - 1 - scale * (w1 - 1), h2 - 1 - scale * (h1 - 1))]
        )

    def is_still(self) -> bool:
        """Whether nothing can have moved, told in a quarter of the time that following corners takes: a shift changes
        the grey values on slopes by slope × shift, and most of them changed by less than a move worth undoing would.
        Slopes across and slopes down must both say so."""
        grey = self.stats[0]
        changed = np.abs(_warp_gray(self.coarse[1], self.plain, grey.shape) * np.float32(1 / 255) - grey)
        by = np.float32(0.6 * _MIN_MOVE * max(grey.shape) / max(self.shapes[0]))
        for across in (1, 0):
            slope = np.abs(np.asarray(cv2.Sobel(grey, cv2.CV_32F, across, 1 - across, scale=0.125), np.float32))
            steep = slope > _MIN_SLOPE
            count = np.count_nonzero(steep)
            if count < 0.02 * grey.size or np.count_nonzero(changed[steep] < by * slope[steep]) < 0.5 * count:
                return False
        return True

    def explained_share(self, matrix: Matrix) -> float:
        """The share of before's detail that is found in after where `matrix` says: windows of 11 pixels at ≤ 192 whose
        grey values correlate by at least 0.75 or (for a restyle turns light to dark) whose outlines run alike by 0.5.
        Nothing where under 30 % of before would still be there."""
        shape = self.coarse[0].shape
        where = self.textured & mask_inside(matrix, shape, self.coarse[1].shape)
        if where.mean() < _MIN_OVERLAP * self.detail:
            return 0.0
        grey, mean, variance = self.stats
        over = _warp_gray(self.coarse[1], matrix, shape)
        other, other_mean, other_variance = _compute_window_statistics(over)
        both = _box_blur(grey * other) - mean * other_mean
        alike = (both > _MIN_GRAY_CORRELATION * np.sqrt(variance * other_variance + 1e-10)) & where
        count = np.count_nonzero(where)
        if np.count_nonzero(alike) < 0.5 * count:
            (x1, y1, energy1), (x2, y2, energy2) = self.outlines, _compute_outlines(other)
            alike |= (
                _box_blur(x1 * x2 + y1 * y2) > _MIN_OUTLINE_CORRELATION * np.sqrt(energy1 * energy2 + 1e-12)
            ) & where
        return float(np.count_nonzero(alike) / count)

    @cached_property
    def outlines(self) -> tuple[Floats, Floats, Floats]:
        return _compute_outlines(self.stats[0])

    def track_corners(self, start: Matrix, guessed: bool = False) -> tuple[Matrix, bool] | None:
        """The similarity that the corners of before agree on when they are followed into after from `start` on, and
        whether most vouch for it. From the plain resize on, nothing where lying still explains as much."""
        here = self.corners
        if len(here) < _MIN_AGREEING:
            return None
        shape = self.fine[0].shape
        down = make_resize_matrix(shape, self.coarse[0].shape)
        start = compose_matrices(
            compose_matrices(make_resize_matrix(self.coarse[1].shape, self.fine[1].shape), start), down
        )
        there, found, _ = cv2.calcOpticalFlowPyrLK(
            self.normalized[0],
            _warp_gray(self.normalized[1], start, shape),
            here,
            np.empty_like(here),
            winSize=(_PATCH_SIDE, _PATCH_SIDE),
            maxLevel=3,
            criteria=_FLOW_CRITERIA,
        )
        kept = np.asarray(found).reshape(-1) == 1
        here, there = here[kept], np.asarray(there)[kept]
        moved = _fit_similarity(here, there, _CORNER_TOLERANCE) if len(here) >= _MIN_AGREEING else None
        if moved is None:
            return None
        agreeing = int((_measure_errors(moved, here, there) < _CORNER_TOLERANCE).sum())
        still = 0 if guessed else int((_measure_errors(np.eye(2, 3), here, there) < _CORNER_TOLERANCE).sum())
        if agreeing < max(_MIN_AGREEING, 0.1 * len(self.corners)) or agreeing <= 1.15 * still + 2:
            return None
        if not guessed and _measure_errors(moved, here, here).max() * self.shapes[0][1] / shape[1] < _MIN_MOVE:
            return None
        confident = not guessed and agreeing >= max(0.3 * len(self.corners), 1.5 * still)
        back = make_resize_matrix(self.fine[1].shape, self.coarse[1].shape)
        matrix = compose_matrices(
            compose_matrices(back, compose_matrices(start, moved)), make_resize_matrix(self.coarse[0].shape, shape)
        )
        return (matrix, confident) if _is_plausible(matrix, self.plain) else None

    @cached_property
    def normalized(self) -> tuple[Bytes, Bytes]:
        return _normalize_contrast(self.fine[0]), _normalize_contrast(self.fine[1])

    @cached_property
    def corners(self) -> Floats:
        """Corners of before in pixels of the fine image; looked for at half its size, in an eighth of the time."""
        half = np.asarray(cv2.resize(self.normalized[0], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
        found = cv2.goodFeaturesToTrack(half, _MAX_CORNERS, 0.02, max(half.shape) / 24)
        if found is None:
            return np.empty((0, 2), np.float32)
        return np.asarray((np.asarray(found).reshape(-1, 2) + 0.5) * 2 - 0.5, np.float32)

    def correlate_phase(self, start: Matrix) -> Matrix | None:
        """The shift by phase correlation, from `start` on."""
        shape = self.coarse[0].shape
        other = _warp_gray(self.coarse[1], start, shape)
        window = cv2.createHanningWindow(shape[::-1], cv2.CV_32F)
        (dx, dy), _ = cv2.phaseCorrelate(self.coarse[0].astype(np.float32), other.astype(np.float32), window)
        matrix = compose_matrices(start, np.array([[1, 0, dx], [0, 1, dy]]))
        return matrix if max(abs(dx), abs(dy)) > 1 and _is_plausible(matrix, self.plain) else None

    def match_keypoints(self) -> Matrix | None:
        """The similarity by ORB keypoints, for large changes of scale and for crops of another shape."""
        finder = cv2.ORB.create(nfeatures=_MAX_KEYPOINTS)
        (first, words), (second, others) = (finder.detectAndCompute(grey, _NO_MASK) for grey in self.fine)
        if words is None or others is None or min(len(first), len(second)) < _MIN_AGREEING:
            return None
        matches = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(words, others)
        if len(matches) < _MIN_AGREEING:
            return None
        here = np.array([first[match.queryIdx].pt for match in matches], np.float32)
        there = np.array([second[match.trainIdx].pt for match in matches], np.float32)
        moved = _fit_similarity(here, there, 3.0)
        if moved is None or (_measure_errors(moved, here, there) < 3.0).sum() < _MIN_AGREEING:
            return None
        back = make_resize_matrix(self.fine[1].shape, self.coarse[1].shape)
        matrix = compose_matrices(
            compose_matrices(back, moved), make_resize_matrix(self.coarse[0].shape, self.fine[0].shape)
        )
        return matrix if _is_plausible(matrix, self.plain) else None


_NO_MASK: Array = np.empty((0, 0), np.uint8)


def _to_gray(rgb: Bytes) -> Bytes:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)


def _downscale(grey: Bytes, side: int) -> Bytes:
    """At most `side` pixels long: halved by area, the rest linearly, which is three times as fast as all by area."""
    height, width = grey.shape
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    while max(grey.shape) > 1.8 * side and min(grey.shape) > 1:
        half = (grey.shape[1] + 1) // 2, (grey.shape[0] + 1) // 2
        grey = np.asarray(cv2.resize(grey, half, interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_LINEAR), np.uint8)


def _warp_gray(grey: Bytes, matrix: Matrix, shape: tuple[int, ...]) -> Bytes:
    """Brought into a frame of `shape` (H, W), whose points `matrix` takes to those of `grey`."""
    if grey.shape == shape and np.array_equal(matrix, np.eye(2, 3)):
        return grey
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(grey, matrix, shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _box_blur(values: Floats) -> Floats:
    return np.asarray(cv2.blur(values, (_WINDOW_SIDE, _WINDOW_SIDE)), np.float32)


def _compute_window_statistics(pixels: Bytes) -> tuple[Floats, Floats, Floats]:
    """Grey values 0–1, and their mean and variance in each window."""
    grey = pixels * np.float32(1 / 255)
    mean = _box_blur(grey)
    return grey, mean, np.maximum(_box_blur(grey * grey) - mean * mean, 0)


def _compute_outlines(grey: Floats) -> tuple[Floats, Floats, Floats]:
    """The gradient with its angle doubled, so that a light line on dark is as a dark line on light, and its energy in
    each window."""
    dx = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 1, 0, scale=0.25), np.float32)
    dy = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 0, 1, scale=0.25), np.float32)
    length = np.sqrt(dx * dx + dy * dy) + np.float32(1e-3)
    x: Floats = np.asarray((dx * dx - dy * dy) / length, np.float32)
    y: Floats = np.asarray(2 * dx * dy / length, np.float32)
    return x, y, _box_blur(x * x + y * y)


def _normalize_contrast(grey: Bytes) -> Bytes:
    """Freed of local brightness and contrast, so that a recoloured or relit image can be followed too."""
    values = grey.astype(np.float32)
    values -= np.asarray(cv2.blur(values, (25, 25)), np.float32)
    spread = np.asarray(cv2.blur(values * values, (25, 25)), np.float32)
    values *= 48 / np.sqrt(np.maximum(spread, 0) + 16)
    return np.asarray(cv2.convertScaleAbs(values + np.float32(128)), np.uint8)


def _fit_similarity(here: Floats, there: Floats, near: float) -> Matrix | None:
    """The similarity that takes most points to within `near` of where they went: RANSAC, points as complex numbers.

    OpenCV's own takes 5 ms where most points are wrong; the same points always give the same answer.
    """
    z, w = (points.astype(np.float64) @ np.array([1, 1j]) for points in (here, there))
    one, two = np.random.default_rng(0).integers(0, len(z), (2, _RANSAC_TRIALS))
    apart = np.abs(z[one] - z[two]) > 20 * near  # near ones tell little of scale and turn
    one, two = one[apart], two[apart]
    if not len(one):
        return None
    factor = (w[one] - w[two]) / (z[one] - z[two])
    offset = w[one] - factor * z[one]
    agreeing = np.abs(factor[:, None] * z + offset[:, None] - w) < near
    inside = agreeing[agreeing.sum(axis=1).argmax()]
    for _ in range(3):
        if inside.sum() < 3:
            return None
        z_mean, w_mean = z[inside].mean(), w[inside].mean()
        z_off, w_off = z[inside] - z_mean, w[inside] - w_mean
        a = (w_off * z_off.conj()).sum() / max((np.abs(z_off) ** 2).sum(), 1e-9)
        b = w_mean - a * z_mean
        inside = np.abs(a * z + b - w) < near
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])


def _measure_errors(matrix: Matrix, here: Floats, there: Floats) -> npt.NDArray[np.float64]:
    """How far each point is from where it should be."""
    return np.asarray(np.hypot(*(here @ matrix[:, :2].T + matrix[:, 2] - there).T))


def _is_plausible(matrix: Matrix, plain: Matrix) -> bool:
    scale, rotation = decompose_matrix(matrix, plain)
    return _SCALE_RANGE[0] <= scale <= _SCALE_RANGE[1] and abs(rotation) <= _MAX_TURN
