"""Names that tests of the app share."""

from __future__ import annotations

from collections.abc import Callable

import httpx

RUN = "r1"

Started = Callable[..., str]


def worked_out(client: httpx.Client, path: str, **asked: str) -> str:
    """A page about numbers, once they are there."""
    while "being worked out" in (text := client.get(path, params=asked or None).raise_for_status().text):
        pass
    return text
