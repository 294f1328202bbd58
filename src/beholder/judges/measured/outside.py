"""What became of an image outside of its edit."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from beholder.instruments.model import Bools, Bytes
from beholder.instruments.pair import Pair
from beholder.instruments.places import place
from beholder.instruments.regions import NOTICEABLE
from beholder.instruments.sizes import shrunk
from beholder.instruments.ssim import similarity
from beholder.instruments.wording import percent, times
from beholder.judges.measured.answering import Told

_SHAPES_SIDE = 96  # what is left of an image at this size are its large shapes
_PATCHES_SIDE = 48
_PATCHES = 50  # the most changed one in so many
_BARE = 2.0  # deviation of L*, under which an image is blank
_BLOCKS = 32  # of fine detail along the longer side
_TEXTURE = 1e-4  # mean square of fine detail, of a range of 1, up to which it is noise
_DETAILS_SIDE, _DETAILS, _FEWEST = 512, 300, 20
_SAME = 64  # of the 256 bits that describe a detail, how many may differ where it is the same


@dataclass(frozen=True, slots=True)
class Outside:
    """Measured where the edit is not.

    `structure` and `shapes` are SSIM without luminance, 0–1, at the size given and at 96 px: detail, and layout.
    `differing` is the share of the pixels with a difference above ΔE 10, `differing_place` where they are, `mean` the
    mean ΔE. `patch` is how far the most changed fiftieth moved on average in CIELAB at 48 px, where noise is averaged
    away, so that a spot weighs by its area; `patch_place` is where it is. `sharpness` is how strong fine detail is as a
    multiple of what it was, in the median textured block; `None` where there is no texture. `drift` is the length of
    the mean shift in CIELAB; `contrast` the ratio of the deviations of L*. `details` is the share of ORB keypoints
    whose description is the same, `None` where there are fewer than 20; `count` how many there are, and `lost` where
    most of those were that are gone. `bare` is whether there is neither a detail nor light and dark.
    """

    differing: float
    differing_place: str
    mean: float
    structure: float
    shapes: float
    patch: float
    patch_place: str
    sharpness: float | None
    drift: float
    contrast: float
    details: float | None
    count: int
    lost: str
    bare: bool

    def told(self) -> dict[str, Told]:
        """As measurements."""
        details = f"{percent(self.details)} of" if self.details is not None else "Too few to be counted, only"
        sharp = (
            "There is no texture to tell sharpness by."
            if self.sharpness is None
            else f"Fine detail is {times(self.sharpness)} as strong as it was."
        )
        sentences = {
            "outside.differing": (
                self.differing,
                "share",
                f"{percent(self.differing)} of the pixels differ by more than ΔE {NOTICEABLE:.0f}.",
            ),
            "outside.mean": (self.mean, "ΔE", f"The pixels differ by ΔE {self.mean:.1f} on average."),
            "outside.sharpness": (self.sharpness, "×", sharp),
            "outside.structure": (self.structure, "", f"Fine structure is kept by {self.structure:.2f}."),
            "outside.shapes": (self.shapes, "", f"Large shapes are kept by {self.shapes:.2f}."),
            "outside.patch": (
                self.patch,
                "ΔE",
                f"The most changed fiftieth moved by ΔE {self.patch:.1f}, {self.patch_place}.",
            ),
            "outside.drift": (self.drift, "ΔE", f"All colours together moved by {self.drift:.1f}."),
            "outside.contrast": (self.contrast, "×", f"The contrast is {times(self.contrast)} what it was."),
            "outside.details": (self.details, "share", f"{details} {self.count} distinct details are as they were."),
        }
        return {
            name: Told(value=value, unit=unit, sentence=f"Outside the edit: {says[0].lower()}{says[1:]}")
            for name, (value, unit, says) in sentences.items()
        }


def measured_outside(pair: Pair, where: Bools) -> Outside:
    """`where` is what lies outside of the edit, at least one pixel, in the frame of the image before."""
    one, other = (image[where] for image in pair.lab)
    deviations = [float(colours[:, 0].std()) for colours in (one, other)]
    small = [shrunk(grey, _SHAPES_SIDE) for grey in pair.grey]
    there = shrunk(where.astype(np.float32), _SHAPES_SIDE) > 0.9
    structure = float(np.clip(pair.similarity[1][where], 0, 1).mean())
    shapes = float(np.clip(similarity(*small)[1][there], 0, 1).mean()) if there.any() else structure
    details, count, lost = _details(pair, where)
    patch, patch_place = _patch(pair, where)
    differing = (pair.difference > NOTICEABLE) & where
    return Outside(
        differing=float(differing.sum() / where.sum()),
        differing_place=place(differing) if differing.any() else "nowhere",
        mean=float(pair.difference[where].mean()),
        structure=structure,
        shapes=shapes,
        patch=patch,
        patch_place=patch_place,
        sharpness=_sharpness(pair, where),
        drift=float(np.linalg.norm((other - one).mean(axis=0))),
        contrast=(deviations[1] + 0.5) / (deviations[0] + 0.5),
        details=details,
        count=count,
        lost=lost,
        bare=not count and deviations[0] < _BARE,
    )


def _patch(pair: Pair, where: Bools) -> tuple[float, str]:
    one, other = (shrunk(image, _PATCHES_SIDE) for image in pair.lab)
    there = shrunk(where.astype(np.float32), _PATCHES_SIDE) > 0.99
    moved = np.linalg.norm(other - one, axis=2) * there
    most = np.sort(moved[there])[-max(1, int(there.sum()) // _PATCHES) :]
    strength = float(most.mean()) if len(most) else 0.0
    return strength, place(moved >= max(float(most.max()) / 2, 1e-6)) if strength else "nowhere"


def _sharpness(pair: Pair, where: Bools) -> float | None:
    """By the detail that is finer than a blur of 2 px; grain finer than one of 0.7 px does not count."""
    smooth = [cv2.GaussianBlur(grey, (0, 0), 0.7) for grey in pair.grey]
    fine = [np.square(grey - cv2.GaussianBlur(grey, (0, 0), 2.0)) for grey in smooth]
    before, after = (shrunk(np.asarray(one, np.float32), _BLOCKS) for one in fine)
    textured = (shrunk(where.astype(np.float32), _BLOCKS) > 0.9) & (before > _TEXTURE)
    return float(np.median(np.sqrt(after[textured] / before[textured]))) if textured.any() else None


def _details(pair: Pair, where: Bools) -> tuple[float | None, int, str]:
    """Both images are described at the same places and with the same direction, so no match has to be looked for."""
    one, other = (_grey(image) for image in (pair.before, pair.aligned))
    mask = cv2.resize(where.astype(np.uint8), one.shape[::-1], interpolation=cv2.INTER_NEAREST)
    finder = cv2.ORB.create(nfeatures=_DETAILS, fastThreshold=12)
    found, words = finder.compute(one, finder.detect(one, np.asarray(mask, np.uint8)))
    still, others = finder.compute(other, found)
    if words is None or others is None or len(found) != len(still) or len(found) < _FEWEST:
        return None, len(found), ""
    same = np.unpackbits(np.bitwise_xor(words, others), axis=1).sum(axis=1) <= _SAME
    gone = np.zeros(one.shape, np.float32)
    for x, y in np.array([point.pt for point in found])[~same].astype(int):
        gone[y, x] = 1
    return float(same.mean()), len(found), place(gone) if not same.all() else ""


def _grey(rgb: Bytes) -> Bytes:
    return np.asarray(shrunk(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), _DETAILS_SIDE), np.uint8)
