"""Colour profiles: is this one sRGB?

That is judged by what it does (primaries and tone curve), not by its name: cameras, phones and
web services each write their own, named `sRGB IEC61966-2.1`, `sRGB built-in`, `c2` or not at all.
"""

from __future__ import annotations

import struct

# The primaries as XYZ under D50, as every sRGB profile states them up to rounding.
_SRGB_COLUMNS = {
    b"rXYZ": (0.4360, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7141),
}
_TOLERANCE = 0.002  # under half a step of 8 bits over nearly the whole curve
_SAMPLES = tuple(step / 16 for step in range(1, 16))
_TABLE_TAGS = {b"A2B0", b"A2B1", b"A2B2", b"D2B0", b"D2B1"}  # a profile that has these is more than its matrix
_SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
_MOST_TAGS = 100


def is_srgb(profile: bytes) -> bool:
    """Whether pixels under this profile are sRGB pixels; a grey profile counts when its curve is that of sRGB.

    A profile that cannot be parsed is not sRGB: the converter then says what is wrong with it.
    """
    try:
        tags = _tags(profile)
        if profile[20:24] != b"XYZ " or tags.keys() & _TABLE_TAGS:
            return False
        if profile[16:20] == b"GRAY":
            return _has_srgb_curve(tags[b"kTRC"])
        if profile[16:20] != b"RGB ":
            return False
        return all(_near(_xyz(tags[tag]), column) for tag, column in _SRGB_COLUMNS.items()) and all(
            _has_srgb_curve(tags[tag]) for tag in (b"rTRC", b"gTRC", b"bTRC")
        )
    except (KeyError, IndexError, ArithmeticError, ValueError, struct.error):
        return False


def _tags(profile: bytes) -> dict[bytes, bytes]:
    (count,) = struct.unpack_from(">I", profile, 128)
    entries = (struct.unpack_from(">4sII", profile, 132 + 12 * index) for index in range(min(count, _MOST_TAGS)))
    return {name: profile[offset : offset + size] for name, offset, size in entries}


def _xyz(tag: bytes) -> tuple[float, ...]:
    return tuple(value / 65536 for value in struct.unpack_from(">3i", tag, 8))


def _near(found: tuple[float, ...], wanted: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= _TOLERANCE for a, b in zip(found, wanted, strict=True))


def _has_srgb_curve(tag: bytes) -> bool:
    return all(abs(_curve(tag, x) - _parametric(3, _SRGB_CURVE, x)) <= _TOLERANCE for x in _SAMPLES)


def _curve(tag: bytes, x: float) -> float:
    if tag[:4] == b"para":
        (kind,) = struct.unpack_from(">H", tag, 8)
        count = (1, 3, 4, 5, 7)[kind]
        return _parametric(kind, tuple(value / 65536 for value in struct.unpack_from(f">{count}i", tag, 12)), x)
    if tag[:4] != b"curv":
        raise ValueError("not a tone curve")
    (count,) = struct.unpack_from(">I", tag, 8)
    if count == 0:
        return x
    if count == 1:
        (gamma,) = struct.unpack_from(">H", tag, 12)
        return float(x ** (gamma / 256))
    below = min(int(x * (count - 1)), count - 2)
    low, high = struct.unpack_from(">2H", tag, 12 + 2 * below)
    share = x * (count - 1) - below
    return float((low + (high - low) * share) / 65535)


def _parametric(kind: int, p: tuple[float, ...], x: float) -> float:
    """The five function types of ICC.1:2010, 10.16; real results only."""
    if kind == 0:
        return float(x ** p[0])
    g, a, b = p[:3]
    base = float(max(a * x + b, 0.0) ** g)
    if kind == 1:
        return base if x >= -b / a else 0.0
    if kind == 2:
        return (base if x >= -b / a else 0.0) + p[3]
    c, d = p[3:5]
    if kind == 3:
        return base if x >= d else c * x
    return base + p[5] if x >= d else c * x + p[6]
