"""Where the edit is, to judge by the change itself and by what resembles it."""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.model import Array, Bools, Floats
from beholder.instruments.pair import Pair
from beholder.instruments.regions import MOST, NOTICEABLE
from beholder.instruments.sizes import shrunk

_SIDE = 256
_GROWN = 0.02  # of the longer side
_PARTS = 6  # more further changes than these are no parts of one edit but are strewn over the image
_ALONE = 0.4  # of its own difference, what surrounds a part differs by at most: a cast or a blur has no such bounds
_SAME_SHIFT = 0.4  # of the edit's shift in CIELAB, how far that of a part may lie from it
_SAME_COLOUR = 12.0  # in CIELAB, between what the edit and a part have become


def edited(pair: Pair) -> Bools:
    """`pair.region`, and the smaller changes that resemble it.

    `pair.region` leaves out what has less than a quarter of the main change; but one thing that was recoloured may show
    in two unequal parts, and two things may have been asked for. A further change is part of the edit where it lies by
    itself and has shifted in CIELAB as the edit has, or has become the same colour; together they are no larger than
    the edit.
    """
    region = pair.region
    if not region.any() or region.mean() > MOST or pair.mask is not None:
        return region
    before, after = (shrunk(image, _SIDE) for image in pair.lab)
    difference = shrunk(pair.difference, _SIDE)
    main = shrunk(region.astype(np.float32), _SIDE) > 0.5
    changed = np.asarray(cv2.blur(difference, (3, 3)) > NOTICEABLE)
    core = main & changed
    if not core.any():
        return region
    count, labels = cv2.connectedComponents(np.asarray(changed & ~main, np.uint8), connectivity=8)
    disc = _disc(_GROWN * max(main.shape))
    sizes = np.bincount(np.asarray(labels).ravel(), minlength=count)[1:]
    largest = [int(one) + 1 for one in np.argsort(-sizes, kind="stable")[:_PARTS]]
    parts = [np.asarray(labels) == label for label in largest]
    alike = [part for part in parts if _alone(part, difference, main, disc) and _resembles(part, core, before, after)]
    if not alike or sum(int(one.sum()) for one in alike) > core.sum():
        return region
    grown = np.asarray(cv2.dilate(np.any(alike, axis=0).astype(np.uint8), disc), np.uint8)
    return region | np.asarray(cv2.resize(grown, region.shape[::-1], interpolation=cv2.INTER_NEAREST), np.bool_)


def _alone(part: Bools, difference: Floats, main: Bools, disc: Array) -> bool:
    near = np.asarray(cv2.dilate(part.astype(np.uint8), disc), np.uint8)
    ring = (np.asarray(cv2.dilate(near, disc), np.bool_)) & ~near.astype(np.bool_) & ~main
    return not ring.any() or float(difference[ring].mean()) <= _ALONE * float(difference[part].mean())


def _resembles(part: Bools, core: Bools, before: Floats, after: Floats) -> bool:
    shift, other = ((after[where] - before[where]).mean(axis=0) for where in (core, part))
    if float(np.linalg.norm(other - shift)) <= _SAME_SHIFT * float(np.linalg.norm(shift)):
        return True
    return float(np.linalg.norm(after[part].mean(axis=0) - after[core].mean(axis=0))) <= _SAME_COLOUR


def _disc(radius: float) -> Array:
    size = 2 * max(1, round(radius)) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
