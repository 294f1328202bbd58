"""Taking a provider's JSON apart without trusting its shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from beholder.judges.wires import Malformed


def document(payload: bytes) -> Mapping[str, object]:
    """The body as an object; raises `Malformed` for anything else."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Malformed("the reply is no JSON") from None
    if not isinstance(value, Mapping):
        raise Malformed("the reply is no JSON object")
    return value


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Mapping[str, object]]:
    """The objects of a list; anything else in it is left out."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """A token count: a whole number, not below zero."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def total(*counts: int | None) -> int | None:
    """The sum of the counts that were given; `None` when the first, the main one, was not."""
    return None if counts[0] is None else sum(number or 0 for number in counts)
