"""The neutral answer schema, narrowed to what a provider's dialect can say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, floor

SMALL_RANGE = 32


def narrow(schema: Mapping[str, object], keywords: frozenset[str]) -> dict[str, object]:
    """The schema with only `keywords`; what it drops is told in the description, so that the model still knows.

    Property order is kept: models write in that order, and evidence has to come before the score. A short range of
    integers becomes an enum where the dialect has no `minimum`.
    """
    kept: dict[str, object] = {}
    dropped: dict[str, object] = {}
    for word, value in schema.items():
        if word == "properties" and isinstance(value, Mapping):
            kept[word] = {name: narrow(part, keywords) for name, part in value.items()}
        elif word == "items" and isinstance(value, Mapping):
            kept[word] = narrow(value, keywords)
        elif word in keywords:
            kept[word] = list(value) if isinstance(value, tuple) else value
        elif word != "additionalProperties":
            dropped[word] = value
    if dropped and (choices := _small_range(schema)) is not None and "enum" in keywords:
        kept["enum"] = choices
        dropped = {word: value for word, value in dropped.items() if word not in ("minimum", "maximum")}
    if dropped:
        kept["description"] = described(schema, (f"{word}: {value}" for word, value in dropped.items()))
    return kept


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def described(schema: Mapping[str, object], notes: Iterable[str]) -> str:
    """The schema's description with notes behind it, in brackets."""
    return f"{schema.get('description', '')} ({', '.join(notes)})".strip()


def _small_range(schema: Mapping[str, object]) -> list[int] | None:
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") != "integer" or "enum" in schema:
        return None
    if not isinstance(low, int | float) or not isinstance(high, int | float) or high - low >= SMALL_RANGE:
        return None
    return list(range(ceil(low), floor(high) + 1))
