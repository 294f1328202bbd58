"""Text on a picture, drawn with OpenCV's own letters.

OpenCV 5 has a typeface built in that knows every letter we use. OpenCV 4 only has strokes for ASCII: there a sign
such as Δ is written as the letters next to it.
"""

from __future__ import annotations

from functools import cache

import cv2

from beholder.instruments.model import Bytes

_REGULAR, _BOLD = 400, 600
_STROKES = cv2.FONT_HERSHEY_SIMPLEX
_STROKE_HEIGHT = 30.0  # pixels of a line of the strokes at scale 1
_ASCII = {"Δ": "d", "×": "x", "–": "-", "−": "-", "—": "-", "≥": ">=", "≤": "<=", "…": "...", "·": ".", "°": " deg"}

Colour = tuple[int, int, int]


def write(picture: Bytes, text: str, at: tuple[int, int], size: int, colour: Colour, *, bold: bool = False) -> None:
    """Draws one line of text into the picture; `at` is the left end of its baseline, `size` the height in pixels."""
    if (face := _face()) is not None:
        cv2.putText(picture, text, at, colour, face, size, _BOLD if bold else _REGULAR)
    else:
        scale, thickness = size / _STROKE_HEIGHT, 2 if bold else 1
        cv2.putText(picture, ascii_of(text), at, _STROKES, scale, colour, thickness, cv2.LINE_AA)


def width_of(text: str, size: int) -> int:
    """How wide a line of regular text is, in pixels."""
    if (face := _face()) is not None:
        # A box ends where the ink ends; the mark keeps blanks at the end from being lost.
        (_, _, marked, _), (_, _, mark, _) = (
            cv2.getTextSize((0, 0), one, (0, 0), face, size, _REGULAR) for one in (f"{text}|", "|")
        )
        return marked - mark
    return cv2.getTextSize(ascii_of(text), _STROKES, size / _STROKE_HEIGHT, 1)[0][0]


def wrapped(text: str, size: int, room: int) -> list[str]:
    """The text in lines of at most `room` pixels, broken between words; a longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and width_of(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def ascii_of(text: str) -> str:
    """The text in ASCII, for letters that have nothing else; what has no counterpart becomes a question mark."""
    return "".join(_ASCII.get(letter, letter) for letter in text).encode("ascii", "replace").decode("ascii")


@cache
def _face() -> cv2.FontFace | None:
    return cv2.FontFace("sans") if hasattr(cv2, "FontFace") else None
