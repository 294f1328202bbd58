"""Which of our functions a coroutine waits in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import beholder

SOURCE = Path(beholder.__file__).parent


def our_frames(waiting: object) -> Iterator[str]:
    """The functions of ours on the await chain of a coroutine, outermost first."""
    while waiting is not None:
        code = getattr(waiting, "cr_code", None)
        if code is not None and Path(code.co_filename).is_relative_to(SOURCE):
            yield code.co_qualname
        waiting = getattr(waiting, "cr_await", None)
