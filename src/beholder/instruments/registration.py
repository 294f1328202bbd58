"""How one image lies over the other: as it is, moved, scaled, turned or cropped; or not at all.

Corners of before are followed into after (Lucas and Kanade, on images freed of local brightness and contrast), and the
similarity that most of them agree on is found by RANSAC: 3 ms, precise to a tenth of a pixel, and undisturbed by an
edit that replaces a third of the image. Phase correlation is twenty times less precise; it is the second try, for
shifts too far to follow, and ORB keypoints the third. Whatever is found must beat lying still clearly, by how much of
the detail it explains: most edits move nothing, and a false move is worse than none. An image of another shape may
have been stretched or cropped: lying still is the stretch then, and a crop must explain clearly more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import cv2
import numpy as np
import numpy.typing as npt

from beholder.instruments.alignment import (
    Alignment,
    Matrix,
    composed,
    described,
    inside,
    resizing,
    same_aspect,
    scale_and_turn,
)
from beholder.instruments.model import Array, Bytes, Floats

REGISTERED, MOVED = 0.2, 0.3  # 1,500 pairs of unrelated photographs reach 0.18 lying still and 0.22 moved

_SIDE = 384  # where corners are followed
_COARSE = 192  # where explanations are compared
_SMALLEST = 24  # an image with a shorter side has too few pixels to say anything
_CORNERS = 100
_FEWEST = 12  # corners that must agree
_NEAR = 0.3  # px at _SIDE: a corner this near to where it should be is there
_STEEP = np.float32(0.03)  # change of grey from px to px at _COARSE
_WORTH = 0.75  # px of before: a smaller move is not undone, interpolating would cost more than it mends
_WINDOW = 11  # px at _COARSE
_PATCH = 15  # px at _SIDE, around a corner
_STOP = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 12, 0.02)
_FLAT = 3 / 255  # a window of a smaller standard deviation has no detail
_ALIKE, _ALONG = 0.75, 0.5  # correlations from which a window shows the same
_WELL = 0.3  # lying still that explains this much leaves nothing to search for but small moves
_HARDLY = 0.12  # nearly all unrelated photographs explain less
_SURELY = 0.9  # a stretch that explains this much: a crop may be explained in part by a stretch
_KEYPOINTS = 250
_TRIES = 150
_SCALES, _TURN, _LEAST_OVERLAP = (0.5, 2.0), 10.0, 0.3


def register(before: Bytes, after: Bytes) -> Alignment:
    """The alignment of two RGB images. Never raises; what cannot be registered says why."""
    plain = resizing(before.shape, after.shape)
    if before.shape == after.shape and np.array_equal(before, after):
        return Alignment(plain, registered=True, confidence=1.0, method="identity")
    if min(*before.shape[:2], *after.shape[:2]) < _SMALLEST:
        return Alignment(plain, why=f"an image under {_SMALLEST} pixels on a side has too few to tell")
    search = _Search(before, after)
    if search.detail < 0.01:
        return Alignment(plain, why="the image before has too little detail to tell")
    return search.alignment()


class _Search:
    """The search in small: both images at ≤ 384 px (to follow corners) and ≤ 192 px (to compare explanations).

    Matrices here take a point of before to one of after, in pixels of the coarse images; `plain` is the plain resize.
    """

    def __init__(self, before: Bytes, after: Bytes) -> None:
        self.shapes = before.shape[:2], after.shape[:2]
        self.fine = _small(_grey(before), _SIDE), _small(_grey(after), _SIDE)
        self.coarse = _small(self.fine[0], _COARSE), _small(self.fine[1], _COARSE)
        self.shape_kept = same_aspect(*(shape[::-1] for shape in self.shapes))
        self.plain = resizing(self.coarse[0].shape, self.coarse[1].shape)
        self.stats = _statistics(self.coarse[0])
        self.textured = self.stats[2] > _FLAT**2
        self.detail = float(self.textured.mean())

    def alignment(self) -> Alignment:
        still = self.explained(self.plain)
        best, most = self.plain, still
        # A stretch that was redrawn is nearly as well explained by many a crop; a crop is never by a stretch.
        clearly = 1.1 if self.shape_kept else 1.2
        for matrix, sure in self.candidates(still):
            share = self.explained(matrix)
            # A small move that most corners vouch for need not explain more, at this size, than lying still does.
            if share > max(most + 0.05, most * clearly) or (sure and share >= most - 0.01):
                best, most = matrix, share
                if most > (0.5 if self.shape_kept else _SURELY):
                    break
        if most < (REGISTERED if best is self.plain else MOVED):
            why = "too little of the one is found in the other"
            return Alignment(resizing(*self.shapes), confidence=still, why=why)
        if best is self.plain:
            method = "identity" if self.shape_kept else "stretched"
            return Alignment(resizing(*self.shapes), registered=True, confidence=still, method=method)
        before, after = self.shapes
        up, down = resizing(self.coarse[1].shape, after), resizing(before, self.coarse[0].shape)
        return described(composed(composed(up, best), down), self.shapes, most)

    def candidates(self, still: float) -> Iterator[tuple[Matrix, bool]]:
        """Ways in which after may have moved, the likely ones first, and whether most corners vouch for it."""
        if still >= _WELL and self.quiet():
            return
        if self.shape_kept:
            if (found := self.followed(self.plain)) is not None:
                yield found
            if still >= _WELL:
                return
        elif still > _SURELY:
            return
        for matrix in self.guesses():
            if matrix is not None and self.explained(matrix) > max(still, 0.05):
                yield self.followed(matrix, guessed=True) or (matrix, False)
        if not self.shape_kept and still > _HARDLY and (found := self.followed(self.plain)) is not None:
            yield found[0], False  # stretched and moved

    def guesses(self) -> Iterator[Matrix | None]:
        if self.shape_kept:
            yield self.shifted(self.plain)
        else:
            yield max(self.cuts, key=self.explained)
            yield self.shifted(self.cuts[0])
        yield self.by_keypoints()

    @cached_property
    def cuts(self) -> tuple[Matrix, ...]:
        """What an image of another shape may be beside stretched: cut or widened evenly, or cut on one side only."""
        before, after = self.shapes
        (h1, w1), (h2, w2) = before, after
        larger, smaller = sorted((w2 / w1, h2 / h1), reverse=True)
        # In whole pixels of the images as given: the small ones are rounded, and hardly ever of their shape.
        up, down = resizing(self.coarse[0].shape, before), resizing(after, self.coarse[1].shape)
        return tuple(
            composed(composed(down, np.array([[scale, 0, dx * at], [0, scale, dy * at]])), up)
            for scale, at in ((larger, 0.5), (smaller, 0.5), (larger, 0.0), (larger, 1.0))
            for dx, dy in [(w2 - 1 - scale * (w1 - 1), h2 - 1 - scale * (h1 - 1))]
        )

    def quiet(self) -> bool:
        """Whether nothing can have moved, told in a quarter of the time that following corners takes: a shift changes
        the grey values on slopes by slope × shift, and most of them changed by less than a move worth undoing would.
        Slopes across and slopes down must both say so."""
        grey = self.stats[0]
        changed = np.abs(_warped(self.coarse[1], self.plain, grey.shape) * np.float32(1 / 255) - grey)
        by = np.float32(0.6 * _WORTH * max(grey.shape) / max(self.shapes[0]))
        for across in (1, 0):
            slope = np.abs(np.asarray(cv2.Sobel(grey, cv2.CV_32F, across, 1 - across, scale=0.125), np.float32))
            steep = slope > _STEEP
            count = np.count_nonzero(steep)
            if count < 0.02 * grey.size or np.count_nonzero(changed[steep] < by * slope[steep]) < 0.5 * count:
                return False
        return True

    def explained(self, matrix: Matrix) -> float:
        """The share of before's detail that is found in after where `matrix` says: windows of 11 pixels at ≤ 192 whose
        grey values correlate by at least 0.75 or (for a restyle turns light to dark) whose outlines run alike by 0.5.
        Nothing where under 30 % of before would still be there."""
        shape = self.coarse[0].shape
        where = self.textured & inside(matrix, shape, self.coarse[1].shape)
        if where.mean() < _LEAST_OVERLAP * self.detail:
            return 0.0
        grey, mean, variance = self.stats
        over = _warped(self.coarse[1], matrix, shape)
        other, other_mean, other_variance = _statistics(over)
        both = _blur(grey * other) - mean * other_mean
        alike = (both > _ALIKE * np.sqrt(variance * other_variance + 1e-10)) & where
        count = np.count_nonzero(where)
        if np.count_nonzero(alike) < 0.5 * count:
            (x1, y1, energy1), (x2, y2, energy2) = self.outlines, _outlines(other)
            alike |= (_blur(x1 * x2 + y1 * y2) > _ALONG * np.sqrt(energy1 * energy2 + 1e-12)) & where
        return float(np.count_nonzero(alike) / count)

    @cached_property
    def outlines(self) -> tuple[Floats, Floats, Floats]:
        return _outlines(self.stats[0])

    def followed(self, start: Matrix, guessed: bool = False) -> tuple[Matrix, bool] | None:
        """The similarity that the corners of before agree on when they are followed into after from `start` on, and
        whether most vouch for it. From the plain resize on, nothing where lying still explains as much."""
        here = self.corners
        if len(here) < _FEWEST:
            return None
        shape = self.fine[0].shape
        down = resizing(shape, self.coarse[0].shape)
        start = composed(composed(resizing(self.coarse[1].shape, self.fine[1].shape), start), down)
        there, found, _ = cv2.calcOpticalFlowPyrLK(
            self.even[0],
            _warped(self.even[1], start, shape),
            here,
            np.empty_like(here),
            winSize=(_PATCH, _PATCH),
            maxLevel=3,
            criteria=_STOP,
        )
        kept = np.asarray(found).reshape(-1) == 1
        here, there = here[kept], np.asarray(there)[kept]
        moved = _agreed(here, there, _NEAR) if len(here) >= _FEWEST else None
        if moved is None:
            return None
        agreeing = int((_off(moved, here, there) < _NEAR).sum())
        still = 0 if guessed else int((_off(np.eye(2, 3), here, there) < _NEAR).sum())
        if agreeing < max(_FEWEST, 0.1 * len(self.corners)) or agreeing <= 1.15 * still + 2:
            return None
        if not guessed and _off(moved, here, here).max() * self.shapes[0][1] / shape[1] < _WORTH:
            return None
        sure = not guessed and agreeing >= max(0.3 * len(self.corners), 1.5 * still)
        back = resizing(self.fine[1].shape, self.coarse[1].shape)
        matrix = composed(composed(back, composed(start, moved)), resizing(self.coarse[0].shape, shape))
        return (matrix, sure) if _plausible(matrix, self.plain) else None

    @cached_property
    def even(self) -> tuple[Bytes, Bytes]:
        return _even(self.fine[0]), _even(self.fine[1])

    @cached_property
    def corners(self) -> Floats:
        """Corners of before in pixels of the fine image; looked for at half its size, in an eighth of the time."""
        half = np.asarray(cv2.resize(self.even[0], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
        found = cv2.goodFeaturesToTrack(half, _CORNERS, 0.02, max(half.shape) / 24)
        if found is None:
            return np.empty((0, 2), np.float32)
        return np.asarray((np.asarray(found).reshape(-1, 2) + 0.5) * 2 - 0.5, np.float32)

    def shifted(self, start: Matrix) -> Matrix | None:
        """The shift by phase correlation, from `start` on."""
        shape = self.coarse[0].shape
        other = _warped(self.coarse[1], start, shape)
        window = cv2.createHanningWindow(shape[::-1], cv2.CV_32F)
        (dx, dy), _ = cv2.phaseCorrelate(self.coarse[0].astype(np.float32), other.astype(np.float32), window)
        matrix = composed(start, np.array([[1, 0, dx], [0, 1, dy]]))
        return matrix if max(abs(dx), abs(dy)) > 1 and _plausible(matrix, self.plain) else None

    def by_keypoints(self) -> Matrix | None:
        """The similarity by ORB keypoints, for large changes of scale and for crops of another shape."""
        finder = cv2.ORB.create(nfeatures=_KEYPOINTS)
        (first, words), (second, others) = (finder.detectAndCompute(grey, _EMPTY) for grey in self.fine)
        if words is None or others is None or min(len(first), len(second)) < _FEWEST:
            return None
        matches = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(words, others)
        if len(matches) < _FEWEST:
            return None
        here = np.array([first[match.queryIdx].pt for match in matches], np.float32)
        there = np.array([second[match.trainIdx].pt for match in matches], np.float32)
        moved = _agreed(here, there, 3.0)
        if moved is None or (_off(moved, here, there) < 3.0).sum() < _FEWEST:
            return None
        back = resizing(self.fine[1].shape, self.coarse[1].shape)
        matrix = composed(composed(back, moved), resizing(self.coarse[0].shape, self.fine[0].shape))
        return matrix if _plausible(matrix, self.plain) else None


_EMPTY: Array = np.empty((0, 0), np.uint8)


def _grey(rgb: Bytes) -> Bytes:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)


def _small(grey: Bytes, side: int) -> Bytes:
    """At most `side` pixels long: halved by area, the rest linearly, which is three times as fast as all by area."""
    height, width = grey.shape
    scale = min(1.0, side / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    while max(grey.shape) > 1.8 * side and min(grey.shape) > 1:
        half = (grey.shape[1] + 1) // 2, (grey.shape[0] + 1) // 2
        grey = np.asarray(cv2.resize(grey, half, interpolation=cv2.INTER_AREA), np.uint8)
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_LINEAR), np.uint8)


def _warped(grey: Bytes, matrix: Matrix, shape: tuple[int, ...]) -> Bytes:
    """Brought into a frame of `shape` (H, W), whose points `matrix` takes to those of `grey`."""
    if grey.shape == shape and np.array_equal(matrix, np.eye(2, 3)):
        return grey
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(grey, matrix, shape[::-1], flags=flags, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def _blur(values: Floats) -> Floats:
    return np.asarray(cv2.blur(values, (_WINDOW, _WINDOW)), np.float32)


def _statistics(pixels: Bytes) -> tuple[Floats, Floats, Floats]:
    """Grey values 0–1, and their mean and variance in each window."""
    grey = pixels * np.float32(1 / 255)
    mean = _blur(grey)
    return grey, mean, np.maximum(_blur(grey * grey) - mean * mean, 0)


def _outlines(grey: Floats) -> tuple[Floats, Floats, Floats]:
    """The gradient with its angle doubled, so that a light line on dark is as a dark line on light, and its energy in
    each window."""
    dx = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 1, 0, scale=0.25), np.float32)
    dy = np.asarray(cv2.Sobel(grey, cv2.CV_32F, 0, 1, scale=0.25), np.float32)
    length = np.sqrt(dx * dx + dy * dy) + np.float32(1e-3)
    x: Floats = np.asarray((dx * dx - dy * dy) / length, np.float32)
    y: Floats = np.asarray(2 * dx * dy / length, np.float32)
    return x, y, _blur(x * x + y * y)


def _even(grey: Bytes) -> Bytes:
    """Freed of local brightness and contrast, so that a recoloured or relit image can be followed too."""
    values = grey.astype(np.float32)
    values -= np.asarray(cv2.blur(values, (25, 25)), np.float32)
    spread = np.asarray(cv2.blur(values * values, (25, 25)), np.float32)
    values *= 48 / np.sqrt(np.maximum(spread, 0) + 16)
    return np.asarray(cv2.convertScaleAbs(values + np.float32(128)), np.uint8)


def _agreed(here: Floats, there: Floats, near: float) -> Matrix | None:
    """The similarity that takes most points to within `near` of where they went: RANSAC, points as complex numbers.

    OpenCV's own takes 5 ms where most points are wrong; the same points always give the same answer.
    """
    z, w = (points.astype(np.float64) @ np.array([1, 1j]) for points in (here, there))
    one, two = np.random.default_rng(0).integers(0, len(z), (2, _TRIES))
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


def _off(matrix: Matrix, here: Floats, there: Floats) -> npt.NDArray[np.float64]:
    """How far each point is from where it should be."""
    return np.asarray(np.hypot(*(here @ matrix[:, :2].T + matrix[:, 2] - there).T))


def _plausible(matrix: Matrix, plain: Matrix) -> bool:
    scale, turn = scale_and_turn(matrix, plain)
    return _SCALES[0] <= scale <= _SCALES[1] and abs(turn) <= _TURN
