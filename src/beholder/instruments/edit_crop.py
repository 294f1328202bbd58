"""Crops of the region where an edit was made, from both images, as a judge gets them.

The region is inferred from the change itself (`regions.infer_edit_region`), on copies of `REGION_SIDE` pixels that are
registered with each other; the crops are cut from the files at full size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder.errors import ImageError
from beholder.images import codec
from beholder.images.image import DEFAULT_IMAGE_LIMITS, PreparedImage, Sizing, printable_name
from beholder.images.prepare import digest, fit_size, upright_size
from beholder.images.source import read_header
from beholder.instruments.instrument import format_percent
from beholder.instruments.pair import ImagePair
from beholder.instruments.regions import MAX_INFERRED_SHARE, Box, name_place, round_box

REGION_SIDE = 512  # longer side at which the region is inferred
MARGIN = 0.15  # of the longer side of the region: how much of its surroundings a crop shows on each side
MIN_SIDE = 256  # pixels of the file that a crop has at least, where the image has as many
MAX_SHARE = 0.75  # of the image: a larger crop shows no more than the image itself


@dataclass(frozen=True, slots=True)
class EditCrop:
    """The region of an edit in both images, or why there is none to show.

    Attributes:
        before: The crop of the image before the edit; `None` without a region.
        after: The crop of the same region after the edit.
        share: The share of the image before that its crop shows.
        sentence: Where that is.
        why_not: Why there are no crops; empty where there are.
        boxes: Of the crops in the images before and after; none without crops.
    """

    before: PreparedImage | None = None
    after: PreparedImage | None = None
    share: float = 0.0
    sentence: str = ""
    why_not: str = ""
    boxes: tuple[Box, ...] = ()


def crop_edit_region(before: bytes, after: bytes, sizing: Sizing) -> EditCrop:
    """Return crops of the region where an edit was made. The same arguments give the same bytes.

    Args:
        before: The file of the image before the edit.
        after: The file of the image after it.
        sizing: How the judge wants its images; a crop is scaled down to it, and never up.

    Raises:
        ImageError: A file cannot be used.
    """
    pair = ImagePair.load(before, after, side=REGION_SIDE, names=("input", "edited", ""))
    if why_not := _explain_no_region(pair):
        return EditCrop(why_not=why_not)
    box = _pad_box(_find_box(pair), pair.sizes[0])
    share = (box[2] - box[0]) * (box[3] - box[1])
    if share > MAX_SHARE:
        return EditCrop(why_not=f"the change spans {format_percent(share)} of the image, which a crop would show again")
    box_after = pair.map_box(box)
    if not _has_pixels(box_after, pair.sizes[1]):
        return EditCrop(why_not="the region of the change lies outside of the edited image")
    where = name_place(pair.region)
    return EditCrop(
        before=_cut(before, box, sizing, "input"),
        after=_cut(after, box_after, sizing, "edited"),
        share=share,
        sentence=f"The probe showed {format_percent(share)} of the image, around what changed: {where}.",
        boxes=(round_box(box), round_box(box_after)),
    )


def _explain_no_region(pair: ImagePair) -> str:
    if pair.identical:
        return "the two images are identical"
    if pair.incomparable_reason:
        return pair.incomparable_reason
    if not pair.region.any():
        return "nothing that can be seen has changed"
    if pair.region_share > MAX_INFERRED_SHARE:
        return f"{format_percent(pair.region_share)} of the image changed, so that nothing tells where the edit was"
    return ""


def _find_box(pair: ImagePair) -> Box:
    height, width = pair.region.shape
    columns, rows = np.flatnonzero(pair.region.any(axis=0)), np.flatnonzero(pair.region.any(axis=1))
    return (
        float(columns[0] / width),
        float(rows[0] / height),
        float((columns[-1] + 1) / width),
        float((rows[-1] + 1) / height),
    )


def _pad_box(box: Box, size: tuple[int, int]) -> Box:
    """Return the box with its margin, at least `MIN_SIDE` pixels wide and high where the image is, inside the image."""
    sides = [(box[axis + 2] - box[axis]) * size[axis] for axis in (0, 1)]
    margin = MARGIN * max(sides)
    ends: list[tuple[float, float]] = []
    for axis in (0, 1):
        length = min(1.0, max(sides[axis] + 2 * margin, MIN_SIDE) / size[axis])
        start = (box[axis] + box[axis + 2] - length) / 2
        # Moved back inside where it reaches over an edge, so that it keeps its length, and with it some context.
        start = min(max(start, 0.0), 1.0 - length)
        ends.append((start, start + length))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def _has_pixels(box: Box, size: tuple[int, int]) -> bool:
    return all(round(box[axis] * size[axis]) < round(box[axis + 2] * size[axis]) for axis in (0, 1))


def _cut(data: bytes, box: Box, sizing: Sizing, name: str) -> PreparedImage:
    """Return the part of an image in a box, encoded for a judge as `prepare_image` encodes a whole one."""
    try:
        header = read_header(data, DEFAULT_IMAGE_LIMITS)
        width, height = upright_size(header)
        raster = codec.decode(data, header, (width, height), sizing.background)
        left, right = round(box[0] * width), round(box[2] * width)
        top, bottom = round(box[1] * height), round(box[3] * height)
        pixels = raster.pixels[top:bottom, left:right]
        target = fit_size(pixels.shape[1], pixels.shape[0], sizing)
        encoded = codec.encode(
            codec.resize(pixels, *target), lossless=header.lossless, formats=sizing.formats, max_bytes=sizing.max_bytes
        )
    except ImageError as error:
        raise ImageError(f"{printable_name(name)} {error}") from None
    return PreparedImage(
        data=encoded.data,
        media_type=encoded.media_type,
        width=encoded.width,
        height=encoded.height,
        digest=digest(encoded.data),
        source_digest=digest(data),
        source_width=header.width,
        source_height=header.height,
        source_format=header.format,
        notes=tuple(dict.fromkeys(header.notes + raster.notes + encoded.notes)),
    )
