"""Colours to sRGB, through LittleCMS. Imported late: loads Pillow."""

from __future__ import annotations

import io

from PIL import Image, ImageCms

IGNORED = "colour_profile_ignored"
CONVERTED = "converted_to_srgb"

_MODE_OF_SPACE = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}


def to_srgb(image: Image.Image, profile: bytes) -> tuple[Image.Image, tuple[str, ...]]:
    """The picture (mode L, RGB or CMYK) in sRGB, and the note that says so.

    A profile that is broken, or made for another kind of pixels, is ignored with a note, as viewers do.
    """
    mode = _MODE_OF_SPACE.get(profile[16:20])
    if mode == "RGB" and image.mode == "L":
        image = image.convert("RGB")
    if mode != image.mode:
        return image, (IGNORED,)
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return image, (IGNORED,)
    return (image, (IGNORED,)) if converted is None else (converted, (CONVERTED,))
