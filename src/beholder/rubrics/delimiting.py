"""Texts of a case are data. A fence around them that no text can forge or close."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

TOKEN_LENGTH = 16


def fence(texts: Iterable[str]) -> str:
    """A token that stands in none of `texts`. It follows from them, so the same case always gives the same brief."""
    joined = "\0".join(texts)
    salt = 0
    while True:
        seed = f"{salt}\0{joined}".encode("utf-8", "surrogatepass")
        token = hashlib.sha256(seed).hexdigest()[:TOKEN_LENGTH]
        if token not in joined:
            return token
        salt += 1


def delimited(name: str, text: str, token: str) -> str:
    """`text` between marks that carry the token."""
    return f'<data-{token} name="{name}">\n{clean(text)}\n</data-{token}>'


def clean(text: str) -> str:
    """Text that every wire can carry: half a surrogate pair becomes `?`, a NUL the replacement character."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
