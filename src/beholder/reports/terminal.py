"""Text from models, cases and files, made safe for a terminal."""

from __future__ import annotations

import sys
import unicodedata


def printable(text: str, *, lines: bool = False) -> str:
    """`text` without control characters: no escape sequence, and no line break unless `lines`.

    Direction overrides go too: they make a terminal show another text than the one that is there.
    """
    return "".join(
        letter if (letter == "\n" and lines) or not unicodedata.category(letter).startswith("C") else " "
        for letter in text
    )


def say(text: str, *, error: bool = False) -> None:
    """Prints `text`, made safe, with its line breaks; to standard error if `error`."""
    print(printable(text, lines=True), file=sys.stderr if error else sys.stdout, flush=True)
