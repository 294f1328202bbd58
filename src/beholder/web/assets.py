"""Style sheets and scripts. They are read once, when the app starts; a request only chooses among them by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response

from beholder.web.answering import NotThere

router = APIRouter()

_PLACES = ("beholder.reports.assets", "beholder.web.static")
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    data: bytes
    kind: str
    tag: str


@router.get("/assets/{name}", include_in_schema=False)
def asset(request: Request, name: str) -> Response:
    found = assets().get(name)
    if found is None:
        raise NotThere(f"There is no asset {name!r}.")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.kind, headers=headers)


@cache
def assets() -> dict[str, Asset]:
    found: dict[str, Asset] = {}
    for place in _PLACES:
        for file in files(place).iterdir():
            kind = _KINDS.get("." + file.name.rpartition(".")[2])
            if kind is not None:
                data = file.read_bytes()
                found[file.name] = Asset(data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
    return found
