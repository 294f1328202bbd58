"""Images that a program holds in memory: file objects, PIL images, arrays and tensors, and the dict of Hugging Face.

They are recognized by their methods, so that nothing is imported for images that are given as files. PIL images and
arrays become PNG files of 8 bits a channel, losslessly: the same pixels give the same bytes, and so the same digest,
whichever library they come from.

- PIL: turned upright by the EXIF orientation, converted to sRGB from an ICC profile; 16 bits are reduced to 8.
- Arrays: height × width (gray) or three dimensions with 1, 3 or 4 channels, taken as sRGB; `uint8`, or floats from 0 to
  1. Channels come last or first. Where both are possible (an image at most 4 pixels wide or high), an array has them
  last, as NumPy, Pillow and OpenCV do, and a tensor first, as torch does.
- An alpha channel is kept where any pixel is transparent, else dropped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, ImageSource, printable_name

if TYPE_CHECKING:
    from beholder.images.codec import Pixels

_CHANNELS = (1, 3, 4)
_ALLOWED = "a path, an address, bytes, a file object, a PIL image or an array"
_VALUES = "give uint8 from 0 to 255, or floats from 0 to 1"


def normalize_image(image: object, limits: ImageLimits = DEFAULT_IMAGE_LIMITS) -> ImageSource:
    """Return an image as a path, an address or the bytes of an image file.

    Args:
        image: Whatever `ImageInput` allows. Paths, addresses and bytes are returned as they are; a file object is read
            to its end, from its start where it can seek.
        limits: The largest image that is taken; checked before pixels are copied or encoded.

    Raises:
        ImageError: The image cannot be used; the message is a predicate, such as "is an array of …".
    """
    if isinstance(image, str | os.PathLike | bytes):
        return image
    if isinstance(image, bytearray | memoryview):
        return bytes(image)
    if isinstance(image, Mapping):
        return _choose_entry(image, limits)
    if isinstance(getattr(image, "mode", None), str) and hasattr(image, "size") and hasattr(image, "tobytes"):
        return _encode_pillow(image, limits)
    if _is_tensor(image) or hasattr(image, "__array_interface__") or hasattr(image, "__array__"):
        return _encode_array(image, limits)
    if hasattr(image, "read"):
        return _read_file_object(image, limits)
    raise ImageError(f"should be {_ALLOWED}: {printable_name(repr(image))[:60]}")


def _is_tensor(image: object) -> bool:
    return hasattr(image, "detach") and hasattr(image, "cpu")  # buffered files have a `detach` too


def _choose_entry(image: Mapping[object, object], limits: ImageLimits) -> ImageSource:
    """Return the image of a dict as Hugging Face `datasets` has it, where the bytes count before the path."""
    if not image or not set(image) <= {"bytes", "path"}:
        names = ", ".join(map(repr, list(image)[:5]))
        raise ImageError(f"is a dict with {names or 'no keys'}; one of Hugging Face has 'bytes' and 'path'")
    data, path = image.get("bytes"), image.get("path")
    if data is not None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ImageError(f"is a dict whose 'bytes' are of type {type(data).__name__}")
        return normalize_image(data, limits)
    if path is None:
        raise ImageError("is a dict with neither 'bytes' nor 'path'")
    if not isinstance(path, str | os.PathLike):
        raise ImageError(f"is a dict whose 'path' is of type {type(path).__name__}")
    return path


def _read_file_object(file: Any, limits: ImageLimits) -> bytes:
    try:
        if file.seekable() if hasattr(file, "seekable") else False:
            file.seek(0)
        data = file.read(limits.max_bytes + 1)
        while isinstance(data, bytes) and len(data) <= limits.max_bytes:  # a pipe or socket returns what it has
            more = file.read(limits.max_bytes + 1 - len(data))
            if not more:
                break
            data += more
    except Exception as error:  # a file object may be of any class, and raise anything
        reason = printable_name(str(error).rstrip(".")) or type(error).__name__
        raise ImageError(f"is a file object that cannot be read ({reason})") from None
    if not isinstance(data, bytes):
        raise ImageError(f"is a file object that returns {type(data).__name__}; open the file with mode 'rb'")
    if not data:
        raise ImageError("is a file object without any bytes left to read")
    headers.check_bytes(len(data), limits)
    return data


def _encode_pillow(image: Any, limits: ImageLimits) -> bytes:
    from beholder.images import codec

    width, height = image.size
    _check_pixel_count(width, height, "a PIL image", limits)
    return codec.encode_png(codec.read_pillow_pixels(image))


def _encode_array(array: Any, limits: ImageLimits) -> bytes:
    from beholder.images import codec

    return codec.encode_png(_read_array_pixels(array, limits))


def _read_array_pixels(array: Any, limits: ImageLimits) -> Pixels:
    import numpy as np

    kind = "a tensor" if _is_tensor(array) else "an array"
    try:
        # The shape before the values: these may be many, and in the memory of another device.
        shape = tuple(array.shape) if hasattr(array, "shape") else np.asarray(array).shape
        channels_first = _find_channels(shape, kind)
        height, width = shape[1:] if channels_first else shape[:2]
        _check_pixel_count(width, height, f"{kind} of shape {shape}", limits)
        values = _to_numpy(array)
    except ImageError:
        raise
    except Exception as error:  # whatever a library raises that is not NumPy's
        reason = printable_name(str(error).partition("\n")[0].rstrip(".")) or type(error).__name__
        raise ImageError(f"is {kind} that NumPy cannot read ({reason})") from None
    if channels_first:
        values = np.moveaxis(values, 0, 2)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    pixels = _to_8_bits(values, kind)
    if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels[:, :, 3].min() == 255:
        pixels = pixels[:, :, :3]
    return np.ascontiguousarray(pixels)


def _to_numpy(array: Any) -> Any:
    import numpy as np

    if not _is_tensor(array):
        return np.asarray(array)
    tensor = array.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16, which NumPy does not know
        return tensor.float().numpy()


def _find_channels(shape: tuple[int, ...], kind: str) -> bool:
    """Return whether the channels come first. Raises `ImageError` for a shape that is not one image."""
    allowed = "height × width, height × width × channels or channels × height × width, with 1, 3 or 4 channels"
    if len(shape) == 4:
        raise ImageError(f"is {kind} of shape {shape}, a batch; give its images one by one: {allowed}")
    if len(shape) == 2:
        return False
    if len(shape) != 3 or (shape[0] not in _CHANNELS and shape[2] not in _CHANNELS):
        raise ImageError(f"is {kind} of shape {shape}; one image is {allowed}")
    if shape[0] in _CHANNELS and shape[2] in _CHANNELS:
        return kind == "a tensor"
    return shape[0] in _CHANNELS


def _check_pixel_count(width: int, height: int, what: str, limits: ImageLimits) -> None:
    if width < 1 or height < 1:
        raise ImageError(f"is {what} without pixels ({width}×{height})")
    headers.check_size(width, height, limits)


def _to_8_bits(values: Any, kind: str) -> Pixels:
    import numpy as np

    if values.dtype == np.uint8:
        return cast("Pixels", values)
    if values.dtype.kind != "f":
        hint = ""
        if values.dtype.kind == "b":
            hint = "; of a mask: mask.astype('uint8') * 255"
        raise ImageError(f"is {kind} of {values.dtype}; {_VALUES}{hint}")
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ImageError(f"is {kind} of {values.dtype} with values that are not finite (NaN or infinite)")
    # Half a step of 8 bits beyond either end still rounds to black or white, such as what resampling leaves behind.
    if low < -0.5 / 255 or high > 255.5 / 255:
        hint = ""
        if 1.5 < high <= 255.5 and low >= -0.5:
            hint = "; where 255 is white: array / 255"
        elif low >= -1.1 and high <= 1.1:
            hint = "; where it runs from -1 to 1: (array + 1) / 2"
        raise ImageError(f"is {kind} of {values.dtype} with values from {low:g} to {high:g}; {_VALUES}{hint}")
    scaled = np.multiply(values, np.float32(255), dtype=np.float32, casting="same_kind")
    np.rint(scaled, out=scaled)  # in place: one copy of a large image is enough
    return cast("Pixels", scaled.clip(0, 255, out=scaled).astype(np.uint8))
