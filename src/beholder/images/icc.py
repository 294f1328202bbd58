"""Colour profiles: is this one sRGB, and the profile that a PNG's gAMA and cHRM chunks stand for.

Whether a profile is sRGB is judged by what it does (primaries and tone curve), not by its name: cameras, phones and
web services each write their own, named `sRGB IEC61966-2.1`, `sRGB built-in`, `c2` or not at all.
"""

from __future__ import annotations

import struct

# x and y of white, red, green and blue, in the order of a cHRM chunk.
SRGB_PRIMARIES = (0.3127, 0.3290, 0.64, 0.33, 0.30, 0.60, 0.15, 0.06)

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


def matrix_profile(primaries: tuple[float, ...], gamma: float | None) -> bytes | None:
    """An ICC profile (version 4, matrix and curve) for these chromaticities, in the order of `SRGB_PRIMARIES`.

    `gamma` is the exponent from stored to linear values; `None` stands for the curve of sRGB. Returns `None` for
    chromaticities that span no colours.
    """
    columns = _columns_under_d50(primaries)
    if columns is None:
        return None
    if gamma is None:
        curve = struct.pack(">4s4xHH5i", b"para", 3, 0, *(round(value * 65536) for value in _SRGB_CURVE))
    elif 0 < gamma < 100:
        curve = struct.pack(">4s4xHHi", b"para", 0, 0, round(gamma * 65536))
    else:
        return None
    tags = [
        (name, struct.pack(">4s4x3i", b"XYZ ", *(round(value * 65536) for value in column)))
        for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), columns, strict=True)
    ]
    tags += [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    tags.append((b"wtpt", struct.pack(">4s4x3i", b"XYZ ", *_D50_FIXED)))
    table, body = b"", b""
    for name, content in tags:
        table += struct.pack(">4sII", name, 132 + 12 * len(tags) + len(body), len(content))
        body += content
    head = struct.pack(">I4xI4s4s4s12x4s", 132 + len(table) + len(body), 0x04200000, b"mntr", b"RGB ", b"XYZ ", b"acsp")
    head = head.ljust(68, b"\0") + struct.pack(">3i", *_D50_FIXED)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


_D50_FIXED = (0xF6D6, 0x10000, 0xD32D)
_D50 = tuple(value / 65536 for value in _D50_FIXED)
_BRADFORD = ((0.8951, 0.2664, -0.1614), (-0.7502, 1.7135, 0.0367), (0.0389, -0.0685, 1.0296))


def _columns_under_d50(primaries: tuple[float, ...]) -> list[list[float]] | None:
    import numpy as np

    if any(not 0 < value < 1 for value in primaries):
        return None
    xyz = np.array([(x / y, 1.0, (1 - x - y) / y) for x, y in zip(primaries[::2], primaries[1::2], strict=True)]).T
    white, mixing = xyz[:, 0], xyz[:, 1:]
    bradford = np.array(_BRADFORD)
    try:
        scaled = mixing * np.linalg.solve(mixing, white)
        adapt = np.linalg.solve(bradford, np.diag((bradford @ _D50) / (bradford @ white)) @ bradford)
    except np.linalg.LinAlgError:
        return None
    columns = (adapt @ scaled).T
    if not np.isfinite(columns).all() or abs(columns).max() > 4:
        return None
    return [[float(value) for value in column] for column in columns]
