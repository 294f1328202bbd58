"""Geometry: how size and shape changed, and how the image was shifted, scaled, rotated, stretched or cropped.

A stretch is a change of the aspect ratio and nothing else; a crop that did not enlarge what is left is neither a shift
nor a zoom.
"""

from __future__ import annotations

import math
from functools import partial

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Floats,
    InstrumentFamily,
    PairReading,
    format_factor,
    format_percent,
)
from beholder.instruments.pair import ImagePair
from beholder.instruments.registration import has_same_aspect

_MIN_ROTATION = 0.2  # degrees: a frame that is rotated by less counts as straight


INSTRUMENTS = InstrumentFamily("geometry")
_instrument = partial(INSTRUMENTS.pair, needs_registration=False)


@_instrument("size", unit="×")
def _read_size(pair: ImagePair) -> PairReading:
    """Pixels of the file after as a multiple of those of the file before."""
    (w1, h1), (w2, h2) = pair.sizes
    ratio = (w2 * h2) / (w1 * h1)
    if (w1, h1) == (w2, h2):
        return PairReading(1.0, f"Both images have {w1}×{h1} pixels.")
    how = "as many" if ratio == 1 else f"{format_factor(ratio)} as many"
    if ratio < 0.01:
        how = f"{format_percent(ratio)} of the"
    return PairReading(ratio, f"{w1}×{h1} became {w2}×{h2}: {how} pixels.")


@_instrument("aspect", unit="share", better="lower")
def _read_aspect(pair: ImagePair) -> PairReading:
    """By how much the ratio of width to height changed, 1 − smaller ÷ larger ratio: 0 is the same shape."""
    (w1, h1), (w2, h2) = pair.sizes
    change = 1 - math.exp(-abs(math.log((w2 * h1) / (h2 * w1))))
    if has_same_aspect(*pair.sizes):
        return PairReading(change, f"The shape is kept ({w1 / h1:.2f} : 1).")
    wider = "wider" if w2 * h1 > h2 * w1 else "narrower"
    stretched = "; what it shows was stretched with it" if pair.alignment.stretched else ""
    how = f", {_describe_reframing(pair)} to it" if _describe_reframing(pair) else stretched
    return PairReading(change, f"The image became {wider} in shape: {w1 / h1:.2f} : 1 to {w2 / h2:.2f} : 1{how}.")


@_instrument("confidence", unit="share", better="higher")
def _read_confidence(pair: ImagePair) -> PairReading:
    """Share of the image before's detail that is found where the alignment says: windows of 11 px at ≤ 192 px that
    correlate by 0.75, or whose outlines do by 0.5; under 0.2 (0.3 where something moved) nothing is registered.
    """
    alignment = pair.alignment
    if pair.identical:
        return PairReading(1.0, "The images are identical, pixel by pixel.")
    if not alignment.registered:
        compared = "" if pair.incomparable_reason else "; they are compared as they lie"
        return PairReading(alignment.confidence, f"The images could not be registered: {alignment.reason}{compared}.")
    how = "after they were laid over each other" if alignment.moved else "in its place"
    return PairReading(
        alignment.confidence,
        f"{format_percent(alignment.confidence)} of the detail of the image before is found {how}.",
    )


@_instrument("shift", unit="px", better="lower")
def _read_shift(pair: ImagePair) -> PairReading:
    """How far the middle of the image moved, in pixels of the file before; moves under 0.75 px are not looked for."""
    if (refusal := _refuse_unregistered(pair)) is not None:
        return refusal
    if word := _describe_reframing(pair):
        return PairReading(0.0, f"The image was {word}, not shifted.")
    # Pixels of the file, not of the smaller image that was measured.
    x, y = (
        moved * size / measured
        for moved, size, measured in zip(pair.alignment.shift, pair.sizes[0], pair.before.shape[1::-1], strict=True)
    )
    distance = math.hypot(x, y)
    if not pair.alignment.moved or distance < 0.5:
        return PairReading(0.0 if not pair.alignment.moved else distance, "The image was not shifted.")
    across = f"{abs(x):.1f} px to the {'right' if x > 0 else 'left'}" if abs(x) >= 0.5 else ""
    along = f"{abs(y):.1f} px {'down' if y > 0 else 'up'}" if abs(y) >= 0.5 else ""
    parts = " and ".join(part.replace(".0 ", " ") for part in (across, along) if part)
    return PairReading(distance, f"The whole image was shifted by {parts or f'{distance:.1f} px'}.")


@_instrument("scale", unit="×")
def _read_scale(pair: ImagePair) -> PairReading:
    """How large details are against a plain resize to the size before: 1.03 is a zoom by 3 %."""
    if (refusal := _refuse_unregistered(pair)) is not None:
        return refusal
    if word := _describe_reframing(pair):
        return PairReading(1.0, f"The image was {word}, not zoomed.")
    scale = pair.alignment.scale
    if abs(scale - 1) < 0.002 and pair.alignment.stretched:
        return PairReading(scale, "What is shown was stretched with the image, not zoomed.")
    if abs(scale - 1) < 0.002:
        return PairReading(scale, "What is shown is as large as it was.")
    larger, smaller = (
        f"{format_percent(scale - 1)} larger: zoomed in",
        f"{format_percent(1 - scale)} smaller: zoomed out",
    )
    return PairReading(scale, f"What is shown is {larger if scale > 1 else smaller}.")


@_instrument("turn", unit="°")
def _read_turn(pair: ImagePair) -> PairReading:
    """By how many degrees the image was turned, clockwise positive; at most 10 are looked for."""
    if (refusal := _refuse_unregistered(pair)) is not None:
        return refusal
    angle = pair.alignment.rotation
    if abs(angle) < 0.1:
        return PairReading(angle, "The image was not turned.")
    return PairReading(angle, f"The image was turned by {abs(angle):.1f}° {'' if angle > 0 else 'counter'}clockwise.")


@_instrument("kept", unit="share", better="higher")
def _read_kept(pair: ImagePair) -> PairReading:
    """Share of the area of the image before that is still in view after."""
    if (refusal := _refuse_unregistered(pair)) is not None:
        return refusal
    share = _compute_overlap(pair)
    if share > 0.999:
        return PairReading(share, "Nothing was cropped away.")
    lost = {
        "left": 1 - pair.valid[:, : pair.valid.shape[1] // 8 or 1].mean(),
        "right": 1 - pair.valid[:, -(pair.valid.shape[1] // 8 or 1) :].mean(),
        "top": 1 - pair.valid[: pair.valid.shape[0] // 8 or 1].mean(),
        "bottom": 1 - pair.valid[-(pair.valid.shape[0] // 8 or 1) :].mean(),
    }
    worst = max(lost.values())
    sides = [side for side, share in lost.items() if share > 0.6 * worst]
    where = "on all sides" if len(sides) == 4 else f"at the {' and '.join(sides)}"
    return PairReading(
        share, f"{format_percent(share)} of the image before is still in view; what is missing was cut off {where}."
    )


def _describe_reframing(pair: ImagePair) -> str:
    """Return what was done to the frame alone: "cropped", "extended", or both ("reframed"); empty where the content
    moved.

    Against a plain resize a crop looks zoomed and shifted. It is neither where the aspect ratio changed, or where
    details have as many pixels as they had.
    """
    alignment = pair.alignment
    if (
        not alignment.moved
        or alignment.stretched
        or abs(alignment.rotation) >= _MIN_ROTATION
        or pair.sizes[0] == pair.sizes[1]
    ):
        return ""
    # The scale in pixels of the files, not of the smaller images that were measured.
    (before, after), (w1, w2) = pair.sizes, (pair.before.shape[1], pair.after.shape[1])
    scale = math.sqrt(abs(np.linalg.det(alignment.matrix[:, :2]))) * (after[0] / w2) / (before[0] / w1)
    if has_same_aspect(*pair.sizes) and abs(scale - 1) > 0.01:
        return ""
    frame, other = _compute_frames(pair)
    slack = 1 + 0.005 * max(w1, pair.before.shape[0])
    low, high = other.min(axis=0) - frame.min(axis=0), other.max(axis=0) - frame.max(axis=0)
    if low.min() > -slack and high.max() < slack:
        return "cropped"
    return "extended" if low.max() < slack and high.min() > -slack else "reframed"


def _compute_overlap(pair: ImagePair) -> float:
    """Return the share of before's area that lies inside after: exact to fractions of a pixel, which `pair.valid` is
    not.
    """
    frame, other = _compute_frames(pair)
    area, _ = cv2.intersectConvexConvex(frame, other)
    return float(min(1.0, area / (pair.before.shape[0] * pair.before.shape[1])))


def _compute_frames(pair: ImagePair) -> tuple[Floats, Floats]:
    """Return the corners of before's frame and of after's, both in the coordinates of before."""
    frame, other = (
        np.array([(-0.5, -0.5), (w - 0.5, -0.5), (w - 0.5, h - 0.5), (-0.5, h - 0.5)], np.float32)
        for h, w in (pair.before.shape[:2], pair.after.shape[:2])
    )
    linear, offset = pair.alignment.matrix[:, :2], pair.alignment.matrix[:, 2]
    return frame, np.asarray((other - offset) @ np.linalg.inv(linear).T, np.float32)


def _refuse_unregistered(pair: ImagePair) -> PairReading | None:
    if pair.alignment.registered:
        return None
    return PairReading(None, f"Not measured: the images could not be registered ({pair.alignment.reason}).")
