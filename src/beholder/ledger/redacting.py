"""No key is kept: what looks like one, or stands under a name that says so, is taken out before it is written.

Suites name variables, never keys; this is for the person who wrote one into a parameter, a header or a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "[redacted]"

# With a digit in it, which every key has: `sk-learn-photos` is a name.
_SHAPES = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|pplx|nvapi|hf|r8|ghp|glpat|fw|tgp)[-_](?=[\w.-]*\d)[\w.-]{16,}"
    r"|\bAIza[\w-]{20,}|\bAQ\.[\w-]{20,}|\bya29\.[\w.-]{20,}|\bAKIA[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}|(?<=\bBearer )[\w.~+/=-]{12,}",
)
_NAMES = re.compile(r"(api[-_]?key|authorization|password|passwd|secret|credential|(access|auth)[-_]?token)s?$", re.I)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def redacted(value: object) -> object:
    """JSON values without anything that looks like a key."""
    if isinstance(value, str):
        return _USERINFO.sub(REDACTED, _SHAPES.sub(REDACTED, value))
    if isinstance(value, Mapping):
        return {
            str(name): REDACTED if isinstance(inner, str) and inner and _NAMES.search(str(name)) else redacted(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(inner) for inner in value]
    return value
