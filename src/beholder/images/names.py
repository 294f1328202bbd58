"""How a picture is called in a sentence: a hostile name must not move the cursor of the person who reads it."""

from __future__ import annotations

_LONGEST = 160


def shown(name: str) -> str:
    """The name with everything unprintable escaped (newlines, escape codes, bidi overrides) and the middle of a
    very long one left out."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[: _LONGEST // 2]}…{safe[-_LONGEST // 2 :]}"
