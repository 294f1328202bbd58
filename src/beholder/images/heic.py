"""HEIC, where the extra is installed. Imported late: loads Pillow."""

from __future__ import annotations

from PIL import Image

from beholder.errors import ImageError
from beholder.images.headers import Header

_MISSING = "is a HEIC image; to read those: pip install 'beholder[heic]'"


def header(data: bytes) -> Header:
    """Decodes nothing. The size is the upright one: libheif turns the picture itself."""
    try:
        import pillow_heif
    except ImportError:
        raise ImageError(_MISSING) from None
    file = pillow_heif.open_heif(data)
    return Header(
        format="heic",
        width=file.size[0],
        height=file.size[1],
        bits=16 if file.info["bit_depth"] > 8 else 8,  # grey of 10 or 12 bits arrives scaled to 16
        animated=len(file) > 1,
        profile=file.info.get("icc_profile") or None,
    )


def image(data: bytes) -> Image.Image:
    """The primary picture, decoded."""
    import pillow_heif

    return pillow_heif.open_heif(data).to_pillow()
